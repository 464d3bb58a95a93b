// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/kernel/ring_reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flushlight.skel.h"
#include "sidecar/kernel/tracer_impl.h"

namespace flushlight::kernel {
namespace {

constexpr uint64_t kTickNs = 10'000'000'000;
constexpr uint64_t kCreatedMany = FL_URINGS / 8;
constexpr uint32_t kAffineSqThread = 4;  // IORING_SETUP_SQ_AFF

std::string text_of(const char *field, size_t bytes) { return std::string(field, strnlen(field, bytes)); }

// One link for good, as the one that enrols threads.
bool run_iterator(const bpf_program *program, int *link) {
  if (*link < 0) *link = bpf_link_create(bpf_program__fd(program), 0, BPF_TRACE_ITER, nullptr);
  const int iterator = *link < 0 ? -1 : bpf_iter_create(*link);
  if (iterator < 0) return false;
  char nothing[64];
  while (read(iterator, nothing, sizeof nothing) > 0) {
  }
  close(iterator);
  return true;
}

bool loaded(const bpf_program *program) { return bpf_program__autoload(program); }

}  // namespace

RingReader::RingReader(flushlight_bpf *skeleton) : skeleton_(skeleton) { sweep(); }

RingReader::~RingReader() {
  if (files_link_ >= 0) close(files_link_);
  if (registered_link_ >= 0) close(registered_link_);
}

bool RingReader::sweep() {
  created_before_ = created();
  __atomic_add_fetch(&skeleton_->data->fl_ring_sweep, 1, __ATOMIC_RELEASE);
  const bool files = run_iterator(skeleton_->progs.fl_ring_files, &files_link_);
  return run_iterator(skeleton_->progs.fl_ring_registered, &registered_link_) && files;
}

uint64_t RingReader::created() const {
  std::vector<uint64_t> per_cpu(static_cast<size_t>(libbpf_num_possible_cpus()));
  const uint32_t which = FL_COUNTER_RING_CREATED;
  uint64_t total = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counters), &which, per_cpu.data()) == 0)
    for (uint64_t value : per_cpu) total += value;
  return total;
}

std::vector<RingReader::Known> RingReader::read() {
  std::vector<Known> result;
  const int fd = bpf_map__fd(skeleton_->maps.urings);
  constexpr uint32_t kBatch = 64;
  std::vector<uint64_t> keys(kBatch);
  std::vector<fl_uring> values(kBatch);
  uint32_t cursor = 0, next = 0, size = kBatch;
  void *from = nullptr;
  for (bool more = true; more;) {
    uint32_t count = size;
    const int code = bpf_map_lookup_batch(fd, from, &next, keys.data(), values.data(), &count, nullptr);
    if (code != 0 && errno == ENOSPC && size < FL_URINGS) {  // more in one bucket of the table
      size *= 2;
      keys.resize(size);
      values.resize(size);
      continue;
    }
    if (code != 0 && errno != ENOENT) break;
    more = code == 0;
    cursor = next;
    from = &cursor;
    for (uint32_t i = 0; i < count; i++) result.push_back({keys[i], values[i]});
  }
  return result;
}

// Unless another ring took its address meanwhile.
void RingReader::remove(const Known &known) {
  const int fd = bpf_map__fd(skeleton_->maps.urings);
  fl_uring now;
  if (bpf_map_lookup_elem(fd, &known.address, &now) == 0 && now.counted_ns == known.ring.counted_ns)
    bpf_map_delete_elem(fd, &known.address);
}

std::vector<Ring> RingReader::look() {
  std::vector<Ring> result;
  const uint64_t began_ns = steady_ns();
  if (!sweep()) return result;
  const auto &programs = skeleton_->progs;
  const bool times =
      (loaded(programs.fl_ring_submit) || loaded(programs.fl_ring_submit_sqe)) && loaded(programs.fl_ring_complete);
  const auto counted = [](const bpf_program *program, uint64_t count) {
    return loaded(program) ? std::optional(count) : std::nullopt;
  };
  for (const Known &known : read()) {
    const fl_uring &from = known.ring;
    if (from.sweep != skeleton_->data->fl_ring_sweep) {
      if (from.counted_ns < began_ns) remove(known);
      continue;
    }
    Ring &ring = result.emplace_back();
    ring.owner = from.owner_tgid;
    ring.owner_name = text_of(from.owner_comm, sizeof from.owner_comm);
    ring.user = from.user_tgid;
    ring.user_name = text_of(from.user_comm, sizeof from.user_comm);
    if (from.descriptor != UINT32_MAX) ring.descriptor = from.descriptor;
    ring.created = from.created != 0;
    ring.counted_ns = from.counted_ns;
    ring.flags = from.flags;
    ring.sq_entries = from.sq_entries;
    ring.cq_entries = from.cq_entries;
    ring.submitted = from.submitted;
    ring.posted = from.posted;
    ring.sq_pending = from.sq_pending;
    ring.cq_pending = from.cq_pending;
    ring.sq_dropped = from.sq_dropped;
    ring.cq_dropped = from.cq_dropped;
    ring.punts = counted(programs.fl_ring_punt, from.punts);
    ring.failed = counted(programs.fl_ring_failed, from.failed);
    ring.overflows = counted(programs.fl_ring_overflow, from.overflows);
    if (times) {
      ring.timed = from.timed;
      ring.time_ns = from.time_ns;
      ring.buckets.assign(FL_HISTOGRAM_BUCKETS, 0);
      for (size_t i = 0; i < FL_URING_BUCKETS; i++)  // in the middle of what each stands for
        ring.buckets[std::min<size_t>(i * FL_URING_COARSE + FL_URING_COARSE / 2, FL_HISTOGRAM_BUCKETS - 1)] +=
            from.buckets[i];
    }
    ring.poller = static_cast<Ring::Poller>(from.sq_state);
    ring.poller_tid = from.sq_tid;
    if ((from.flags & kAffineSqThread) != 0) ring.poller_cpu = from.sq_cpu;
    ring.poller_run_ns = from.sq_run_ns;
    if (from.sq_wait_known != 0) ring.poller_wait_ns = from.sq_wait_ns;
  }
  return result;
}

void RingReader::tick(uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kTickNs;
  if (created() - created_before_ >= kCreatedMany) look();
}

void RingReader::forget() {
  for (const Known &known : read()) bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.urings), &known.address);
  sweep();
}

}  // namespace flushlight::kernel
