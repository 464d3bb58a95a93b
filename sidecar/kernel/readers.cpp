// SPDX-License-Identifier: GPL-2.0-or-later
// Reading what the kernel side counted. Nothing here waits or touches a disk.
#include <bpf/bpf.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "flushlight.skel.h"
#include "sidecar/kernel/tracer_impl.h"

namespace flushlight::kernel {
namespace {

struct CounterText {
  const char *name;
  const char *help;
  bool is_loss;
};
constexpr CounterText kCounterTexts[] = {
#define FL_X(ENUM, name, loss, help) {#name, help, loss != 0},
    FL_COUNTERS(FL_X)
#undef FL_X
};

// Every word is loaded with acquire order, which keeps the second look at the sequence behind them all.
bool read_slot(const fl_slot &slot, fl_slot &copy) {
  static_assert(sizeof(fl_slot) % sizeof(uint64_t) == 0);
  const auto *from = reinterpret_cast<const uint64_t *>(&slot);
  uint64_t words[sizeof(fl_slot) / sizeof(uint64_t)];
  for (int attempt = 0; attempt < 3; attempt++) {
    uint32_t before = __atomic_load_n(&slot.seq, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < std::size(words); i++) words[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
    if ((before & 1) == 0 && before == __atomic_load_n(&slot.seq, __ATOMIC_RELAXED)) {
      std::memcpy(&copy, words, sizeof copy);
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<ProgramCost> Tracer::costs() const {
  std::vector<ProgramCost> result;
  const RunStats &stats = impl_->run_stats;
  const uint64_t sampled = stats.sampled_ns(steady_ns());
  size_t number = 0;
  bpf_program *program;
  bpf_object__for_each_program(program, impl_->skeleton->obj) {
    if (!bpf_program__autoload(program)) continue;
    bpf_prog_info info{};
    uint32_t size = sizeof info;
    const size_t at = number++;
    if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) != 0) continue;
    result.push_back({bpf_program__name(program), info.run_cnt, stats.measured_ns(at, info.run_time_ns), sampled,
                      info.recursion_misses});
  }
  return result;
}

std::vector<Counter> Tracer::counters() const {
  std::vector<Counter> result;
  std::vector<uint64_t> per_cpu(static_cast<size_t>(libbpf_num_possible_cpus()));
  int fd = bpf_map__fd(impl_->skeleton->maps.counters);
  for (uint32_t i = 0; i < FL_COUNTER_COUNT; i++) {
    if (bpf_map_lookup_elem(fd, &i, per_cpu.data()) != 0) continue;
    uint64_t total = 0;
    for (uint64_t value : per_cpu) total += value;
    result.push_back({kCounterTexts[i].name, kCounterTexts[i].help, total, kCounterTexts[i].is_loss});
  }
  uint64_t missed = 0;
  for (const ProgramCost &cost : costs()) missed += cost.misses;
  result.push_back({"program_missed", "runs that the kernel's recursion guard refused", missed, true});
  return result;
}

std::vector<DeviceHistogram> Tracer::histograms() const {
  std::vector<DeviceHistogram> result;
  for (uint32_t d = 0; d < impl_->devices.count; d++) {
    uint32_t number = __atomic_load_n(&impl_->devices.data[d].number, __ATOMIC_RELAXED);
    if (number == 0) continue;
    for (uint32_t h = 0; h < FL_DEVICE_HISTOGRAMS; h++) {
      const fl_device_histogram &from = impl_->histograms.data[d * FL_DEVICE_HISTOGRAMS + h];
      DeviceHistogram out{number, static_cast<Operation>(h / 2), static_cast<Stage>(h % 2), {}, 0};
      out.buckets.assign(from.buckets, from.buckets + FL_HISTOGRAM_BUCKETS);
      out.sum_ns = from.sum_ns;
      uint64_t any = 0;
      for (uint64_t bucket : out.buckets) any |= bucket;
      if (any != 0) result.push_back(std::move(out));
    }
  }
  return result;
}

// An entry whose time has run out (FL_DRAIN_NS) has most likely ended unseen; the caller knows whether the device has
// anything in flight.
std::vector<InFlight> Tracer::in_flight() const {
  std::vector<InFlight> result(impl_->devices.count);
  const auto see = [&](const fl_request &request) {
    if (request.address == 0 || request.start_ns == 0 || request.end_ns != 0) return;
    if (request.device >= result.size()) return;
    InFlight &device = result[request.device];
    device.requests += request.issue_ns != 0;
    if (device.oldest_ns == 0 || request.start_ns < device.oldest_ns) device.oldest_ns = request.start_ns;
  };
  auto near = std::make_unique<fl_near_requests>();
  uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.near_requests), &zero, near.get()) == 0)
    for (const fl_request &request : near->places) see(request);
  for (size_t i = 0; i < impl_->requests.count; i++) see(impl_->requests.data[i]);
  for (size_t i = 0; i < result.size(); i++) result[i].device = impl_->devices.data[i].number;
  std::erase_if(result, [](const InFlight &device) { return device.device == 0; });
  return result;
}

std::vector<JournalCommits> Tracer::journals() const {
  static_assert(static_cast<int>(JournalCommits::kPhases) == static_cast<int>(FL_JOURNAL_PHASES));
  std::vector<JournalCommits> result;
  for (size_t i = 0; i < impl_->journals.count; i++) {
    const fl_journal &from = impl_->journals.data[i];
    if (__atomic_load_n(&from.number, __ATOMIC_RELAXED) == 0) continue;
    JournalCommits &journal = result.emplace_back();
    journal.device = from.number;
    journal.disk = from.disk;
    journal.in_progress_ns = from.began_ns;
    journal.phase = static_cast<JournalCommits::Phase>(std::min<uint32_t>(from.phase, JournalCommits::kPhases));
    std::copy(std::begin(from.phase_ns), std::end(from.phase_ns), journal.phase_ns);
    journal.log_bytes = from.log_bytes;
    journal.flushes = from.flushes;
    journal.checkpoints = from.checkpoints;
    journal.buckets.assign(from.commits.buckets, from.commits.buckets + FL_HISTOGRAM_BUCKETS);
    journal.sum_ns = from.commits.sum_ns;
  }
  return result;
}

std::vector<ThreadState> Tracer::threads() const {
  std::vector<ThreadState> result;
  for (uint32_t i = 1; i < impl_->ledger.count; i++) {
    fl_slot slot;
    if (__atomic_load_n(&impl_->ledger.data[i].state, __ATOMIC_RELAXED) != FL_SLOT_LIVE) continue;
    if (!read_slot(impl_->ledger.data[i], slot)) continue;
    const fl_scratch &x = impl_->states.data[i].x;
    ThreadState state;
    state.slot = i;
    state.generation = slot.generation;
    state.host_tid = x.tid;
    state.host_tgid = x.tgid;
    state.kind = x.kind;
    state.name.assign(x.comm, strnlen(x.comm, sizeof x.comm));
    uint64_t off = x.off_at_ns, woken = x.wake_at_ns, outstanding = x.outstanding;
    if (off != 0 && woken == 0) state.blocked_since_ns = off;
    if (off != 0 && woken != 0) state.runnable_since_ns = woken;
    state.own_queued = outstanding & 0xffff;
    state.own_reads = outstanding >> 16 & 0xffff;
    state.own_writes = outstanding >> 32 & 0xffff;
    state.own_flushes = outstanding >> 48;
    state.state_cause = off != 0 && woken == 0 ? x.state_cause : static_cast<uint32_t>(FL_CAUSE_COUNT);
    if (state.state_cause != FL_CAUSE_COUNT && (state.state_cause & FL_STATE_ONLY_REST) != 0)
      state.rest_cause = state.state_cause & ~FL_STATE_ONLY_REST;
    if (outstanding != 0 && x.device < impl_->devices.count) state.device = impl_->devices.data[x.device].number;
    for (int j = 0; j < FL_VECTOR_COUNT; j++) state.vector_ns[j] = slot.vector_ns[j];
    result.push_back(state);
  }
  return result;
}

}  // namespace flushlight::kernel
