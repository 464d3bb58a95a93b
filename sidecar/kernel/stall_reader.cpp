// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/kernel/stall_reader.h"

#include <bpf/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "flushlight.skel.h"
#include "sidecar/kernel/blocked_text.h"

namespace flushlight::kernel {
namespace {

constexpr uint32_t kFlush = 2;             // REQ_OP_FLUSH
constexpr uint32_t kOperationMask = 0xff;  // REQ_OP_MASK
constexpr size_t kNearCrowded = FL_NEAR_REQUESTS / 16;
constexpr uint64_t kFarEveryNs = 1'000'000'000;

std::string text_of(const char *field, size_t bytes) { return std::string(field, strnlen(field, bytes)); }

FileName file_name(const fl_file &file) {
  FileName name;
  if (file.inode == 0) return name;
  name.device = file.device;
  name.inode = file.inode;
  name.is_whole = file.whole != 0;
  for (const auto &part : file.names) {
    if (part[0] == 0) break;
    const std::string text = text_of(part, sizeof part);
    name.path = name.path.empty() ? text : text + "/" + name.path;
  }
  return name;
}

void add_request(const fl_request &request, uint32_t device, DeviceActivity *activity) {
  const uint32_t operation = request.flags & kOperationMask;
  if (operation >= kStallOperations || request.end_ns != 0) return;
  activity->device = device;
  const bool issued = request.issue_ns != 0;
  if (issued) {
    activity->at_device++;
    activity->flushing += operation == kFlush;
    if (activity->oldest_issue_ns == 0 || request.issue_ns < activity->oldest_issue_ns) {
      activity->oldest_issue_ns = request.issue_ns;
      activity->oldest_operation = static_cast<uint8_t>(operation);
    }
  } else {
    activity->queued++;
  }
  if (request.start_ns != 0 && (activity->oldest_start_ns == 0 || request.start_ns < activity->oldest_start_ns))
    activity->oldest_start_ns = request.start_ns;
}

}  // namespace

std::unique_ptr<StallSource> make_stall_reader(Tracer::Impl &tracer) { return std::make_unique<StallReader>(tracer); }

StallReader::~StallReader() {
  if (blocked_link_ >= 0) close(blocked_link_);
  if (slow_.data != nullptr)
    munmap(const_cast<void *>(static_cast<const void *>(slow_.data)), slow_.count * sizeof(fl_slow_request));
}

std::vector<DeviceActivity> StallReader::activity() {
  std::map<uint32_t, DeviceActivity> found;  // by index
  const auto number_of = [&](uint32_t index) {
    return index < tracer_.devices.count ? __atomic_load_n(&tracer_.devices.data[index].number, __ATOMIC_RELAXED) : 0;
  };
  const auto add = [&](const fl_request &request) {
    if (const uint32_t number = request.address != 0 ? number_of(request.device) : 0; number != 0)
      add_request(request, number, &found[request.device]);
  };
  static auto near = std::make_unique<fl_near_requests>();
  const uint32_t zero = 0;
  size_t taken = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(tracer_.skeleton->maps.near_requests), &zero, near.get()) == 0)
    for (const fl_request &request : near->places) {
      taken += request.address != 0;
      add(request);
    }
  // The big table holds what found its near place taken: a megabyte, looked through only when that is likely.
  const uint64_t now_ns = steady_ns();
  if (taken >= kNearCrowded || now_ns - far_looked_ns_ >= kFarEveryNs) {
    far_looked_ns_ = now_ns;
    for (size_t i = 0; i < tracer_.requests.count; i++)
      if (__atomic_load_n(&tracer_.requests.data[i].address, __ATOMIC_RELAXED) != 0) add(tracer_.requests.data[i]);
  }
  std::vector<DeviceActivity> result;
  for (uint32_t d = 0; d < tracer_.devices.count; d++) {
    const uint32_t number = number_of(d);
    if (number == 0) continue;
    DeviceActivity &activity = found[d];
    activity.device = number;
    for (size_t operation = 0; operation < kStallOperations; operation++) {
      const auto &histogram = tracer_.histograms.data[d * FL_DEVICE_HISTOGRAMS + operation * 2 + 1];
      for (size_t i = 0; i < FL_HISTOGRAM_BUCKETS; i++)
        activity.completed[operation][std::min(i / FL_HISTOGRAM_SUB, kOctaves - 1)] += histogram.buckets[i];
    }
    result.push_back(activity);
  }
  return result;
}

Result<> StallReader::map_slow_requests() {
  if (slow_.data != nullptr) return Ok{};
  const size_t bytes = FL_SLOW_REQUESTS * sizeof(fl_slow_request);
  void *at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(tracer_.skeleton->maps.slow_requests), 0);
  if (at == MAP_FAILED) return system_error(errno, "cannot map slow_requests");
  slow_.data = static_cast<const fl_slow_request *>(at);
  slow_.count = FL_SLOW_REQUESTS;
  return Ok{};
}

std::vector<SlowRequest> StallReader::take_slow_requests(uint64_t *lost) {
  std::vector<SlowRequest> result;
  const uint64_t end = __atomic_load_n(&tracer_.skeleton->data->fl_slow_request_count, __ATOMIC_ACQUIRE);
  if (end == slow_read_ || !map_slow_requests()) return result;
  if (end - slow_read_ > FL_SLOW_REQUESTS) {
    *lost += end - slow_read_ - FL_SLOW_REQUESTS;
    slow_read_ = end - FL_SLOW_REQUESTS;
  }
  for (; slow_read_ < end; slow_read_++) {
    const fl_slow_request &place = slow_.data[slow_read_ & (FL_SLOW_REQUESTS - 1)];
    const uint64_t before = __atomic_load_n(&place.sequence, __ATOMIC_ACQUIRE);
    if (before == 0 && slow_read_ + 1 == end) break;  // still being written: next time
    fl_slow_request copy;
    std::memcpy(&copy, &place, sizeof copy);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (before != slow_read_ + 1 || __atomic_load_n(&place.sequence, __ATOMIC_RELAXED) != before) {
      ++*lost;
      continue;
    }
    SlowRequest request;
    request.device = copy.device;
    request.operation = static_cast<uint8_t>(copy.flags & kOperationMask);
    request.start_ns = copy.start_ns;
    request.issue_ns = copy.issue_ns;
    request.complete_ns = copy.complete_ns;
    request.sector = copy.sector;
    request.bytes = copy.bytes;
    request.tid = copy.tid;
    request.process = text_of(copy.comm, sizeof copy.comm);
    request.file = file_name(copy.file);
    result.push_back(std::move(request));
  }
  return result;
}

std::vector<Writer> StallReader::writers() {
  std::vector<Writer> result;
  const int fd = bpf_map__fd(tracer_.skeleton->maps.writers);
  const auto window = static_cast<uint32_t>(steady_ns() >> FL_RECENT_SHIFT);
  constexpr uint32_t kBatch = 256;
  std::vector<fl_writer_key> keys(kBatch);
  std::vector<fl_writer> values(kBatch);
  uint32_t cursor = 0, next = 0;
  void *from = nullptr;
  for (bool more = true; more;) {
    uint32_t count = kBatch;
    const int code = bpf_map_lookup_batch(fd, from, &next, keys.data(), values.data(), &count, nullptr);
    if (code != 0 && errno != ENOENT) break;
    more = code == 0;
    cursor = next;
    from = &cursor;
    for (uint32_t i = 0; i < count; i++) {
      const fl_writer &value = values[i];
      Writer &writer = result.emplace_back();
      writer.tgid = keys[i].tgid;
      writer.process = text_of(value.comm, sizeof value.comm);
      writer.cgroup = text_of(value.cgroup, sizeof value.cgroup);
      writer.file = file_name(value.file);
      writer.writes = value.writes;
      writer.bytes = value.bytes;
      writer.syncs = value.syncs;
      if (value.sync_known != 0) writer.sync_ns = value.sync_ns;
      const bool now = value.window == window, before = value.window + 1 == window;
      writer.recent_bytes = now ? value.bytes_now + value.bytes_before : before ? value.bytes_now : 0;
      writer.recent_syncs = now ? value.syncs_now + value.syncs_before : before ? value.syncs_now : 0;
      writer.last_ns = value.last_ns;
    }
  }
  return result;
}

std::vector<BlockedTask> StallReader::blocked_tasks() {
  if (blocked_link_ < 0)
    blocked_link_ = bpf_link_create(bpf_program__fd(tracer_.skeleton->progs.fl_blocked), 0, BPF_TRACE_ITER, nullptr);
  const int iterator = blocked_link_ < 0 ? -1 : bpf_iter_create(blocked_link_);
  if (iterator < 0) return {};
  std::string text;
  char buffer[16384];
  for (ssize_t got; (got = read(iterator, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(iterator);
  return parse_blocked_tasks(text);
}

}  // namespace flushlight::kernel
