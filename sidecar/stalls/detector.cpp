// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/detector.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace flushlight::stalls {
namespace {

using kernel::DeviceActivity;
using kernel::kOctaves;
using kernel::octave_high_ns;
using kernel::octave_low_ns;

constexpr uint64_t kSuspiciousNs = 50'000'000;

constexpr std::string_view kKindNames[] = {"freeze", "queue", "slow read", "slow write", "slow flush", "journal"};

constexpr Kind slow_kind(size_t operation) {
  return static_cast<Kind>(static_cast<size_t>(Kind::kSlowRead) + operation);
}
constexpr size_t operation_of(Kind kind) { return static_cast<size_t>(kind) - static_cast<size_t>(Kind::kSlowRead); }

uint64_t since(uint64_t now_ns, uint64_t then_ns) { return now_ns > then_ns ? now_ns - then_ns : 0; }

uint32_t outstanding(const DeviceActivity &activity) { return activity.at_device + activity.queued; }

// What waits for longest where nothing moves: at the device, or before it if nothing is there.
uint64_t oldest_ns(const DeviceActivity &activity) {
  return activity.at_device > 0 ? activity.oldest_issue_ns : activity.oldest_start_ns;
}

// The table of requests may hold one whose end was not seen, and does not know those of before our time. The kernel's
// own count settles it; flushes of the flush machinery are not in that.
DeviceActivity corrected(DeviceActivity activity, bool kernel_counts) {
  if (!activity.kernel_inflight || !kernel_counts) return activity;
  const uint32_t own = outstanding(activity) - activity.flushing;
  if (*activity.kernel_inflight == 0 && own > 0) {
    activity.at_device = activity.flushing;
    activity.queued = 0;
    if (activity.at_device == 0) activity.oldest_issue_ns = activity.oldest_start_ns = 0;
  } else if (own == 0 && activity.flushing == 0 && *activity.kernel_inflight > 0) {
    activity.at_device = static_cast<uint32_t>(*activity.kernel_inflight);
  }
  return activity;
}

uint64_t slow_requests(const kernel::Octaves &octaves, uint64_t limit_ns) {
  uint64_t slow = 0;
  for (size_t i = 0; i < kOctaves; i++)
    if (octave_low_ns(i) >= limit_ns) slow += octaves[i];
  return slow;
}

uint64_t all_requests(const kernel::Octaves &octaves) {
  uint64_t all = 0;
  for (const uint64_t count : octaves) all += count;
  return all;
}

}  // namespace

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }
bool is_slow(Kind kind) { return kind >= Kind::kSlowRead; }

uint64_t Detector::freeze_after_ns(const Device &device) {
  const auto usual = device.history.usual_ns();
  return usual ? std::max(kFreezeFloorNs, kFreezeFactor * *usual) : kFreezeUnknownNs;
}

// What completed since the last look. What may have been sent before the last recovery says nothing about now.
Detector::Interval Detector::interval_of(const Device &device, const DeviceActivity &now, uint64_t now_ns) {
  Interval interval;
  interval.from_ns = device.looked_ns;
  interval.to_ns = now_ns;
  interval.inflight = std::max(outstanding(now), outstanding(device.last));
  for (size_t operation = 0; operation < now.completed.size(); operation++)
    for (size_t i = 0; i < kOctaves; i++) {
      const uint64_t before = device.last.completed[operation][i], after = now.completed[operation][i];
      const uint64_t count = after > before ? after - before : 0;
      interval.requests += count;
      if (device.recovered_ns == 0 || octave_high_ns(i) <= since(now_ns, device.recovered_ns))
        interval.completed[operation][i] = count;
    }
  if (now.kernel_bytes && device.kernel_bytes) interval.bytes = since(*now.kernel_bytes, *device.kernel_bytes);
  return interval;
}

void Detector::open_episode(Kind kind, uint64_t begin_ns, Device *device, Changes *changes) {
  Episode episode;
  episode.id = new_id();
  episode.device = device->last.device;
  episode.kind = kind;
  episode.begin_ns = begin_ns;
  episode.usual_ns = is_slow(kind) ? device->history.usual_ns(operation_of(kind)) : device->history.usual_ns();
  device->open = episode;
  device->recovering_ns = device->progress_ns = 0;
  device->window.clear();  // what led to it is not usual
  changes->opened.push_back(episode);
}

void Detector::close_episode(uint64_t end_ns, Device *device, Changes *changes) {
  device->open->end_ns = std::max(end_ns, device->open->begin_ns + 1);
  changes->closed.push_back(*device->open);
  device->recovered_ns = end_ns;
  device->open.reset();
  device->window.clear();
}

void Detector::look_for_freeze(const Look &look, const DeviceActivity &now, Device *device, Changes *changes) {
  if (outstanding(now) == 0) return;
  // A long one may have completed after what completed was read.
  const uint64_t still_since_ns = std::max({device->idle_ns, device->long_completion_ns, oldest_ns(now)});
  const uint64_t still_ns = since(look.now_ns, still_since_ns);
  suspicious_ |= still_ns >= kSuspiciousNs;
  if (still_ns < freeze_after_ns(*device)) return;
  open_episode(now.at_device > 0 ? Kind::kFreeze : Kind::kQueue,
               std::max({device->idle_from_ns, device->long_completion_ns, oldest_ns(now)}), device, changes);
  const uint64_t known = outstanding(now) - now.flushing;
  const bool more_than_known = now.kernel_inflight && device->kernel_counts && *now.kernel_inflight > known;
  if (device->ever_idle || (oldest_ns(now) != 0 && !more_than_known)) return;
  device->open->began_unseen = changes->opened.back().began_unseen = true;
  device->open->begin_ns = changes->opened.back().begin_ns = device->idle_from_ns;
}

void Detector::look_for_recovery(const Look &look, const DeviceActivity &now, const Interval &interval, Device *device,
                                 Changes *changes) {
  const bool progress = interval.requests > 0 || outstanding(now) == 0;
  if (progress) {
    device->progress_ns = look.now_ns;
    if (device->recovering_ns == 0) device->recovering_ns = look.now_ns;
  }
  for (const auto &[number, complete_ns] : look.long_completions)
    if (number == now.device && device->recovering_ns != 0 && complete_ns > device->open->begin_ns)
      device->recovering_ns = std::min(device->recovering_ns, complete_ns);
  if (device->recovering_ns == 0) return;
  if (!progress && since(look.now_ns, std::max(device->progress_ns, oldest_ns(now))) >= kFreezeFloorNs) {
    device->recovering_ns = 0;  // it has stopped again: the same stall
    return;
  }
  if (outstanding(now) == 0 || (progress && since(look.now_ns, device->recovering_ns) >= kRecoveryNs))
    close_episode(device->recovering_ns, device, changes);
}

void Detector::look_for_slow(const Look &look, const DeviceActivity &now, Device *device, Changes *changes) {
  kernel::Octaves sums;
  uint32_t inflight = 1;
  uint64_t requests = 0;
  std::optional<uint64_t> bytes;
  for (const Interval &interval : device->window) {
    inflight = std::max(inflight, interval.inflight);
    requests += interval.requests;
    if (interval.bytes) bytes = bytes.value_or(0) + *interval.bytes;
  }
  const double seconds = static_cast<double>(since(look.now_ns, device->window.front().from_ns)) / 1e9;
  const double rate = static_cast<double>(requests) / seconds;
  std::optional<double> byte_rate;
  if (bytes) byte_rate = static_cast<double>(*bytes) / seconds;
  const bool full = seconds >= 0.9 * static_cast<double>(kWindowNs) / 1e9;
  const bool at_pace = device->history.pace(rate, byte_rate).value_or(1) >= kPaceHealthy;
  for (size_t operation = 0; operation < kernel::kStallOperations && full && !at_pace; operation++) {
    const auto usual = device->history.usual_ns(operation);
    if (!usual) continue;
    const uint64_t limit = std::max({kSlowFloorNs, kSlowFactor * *usual, 2 * *usual * inflight});
    sums = {};
    uint64_t begin_ns = 0;
    for (const Interval &interval : device->window) {
      for (size_t i = 0; i < kOctaves; i++) sums[i] += interval.completed[operation][i];
      if (begin_ns == 0 && slow_requests(interval.completed[operation], limit) > 0)
        begin_ns = std::max(since(interval.from_ns, limit), device->recovered_ns);
    }
    const uint64_t slow = slow_requests(sums, limit);
    if (slow < kSlowMin || static_cast<double>(slow) < kSlowShare * static_cast<double>(all_requests(sums))) continue;
    open_episode(slow_kind(operation), begin_ns, device, changes);
    device->open->inflight = changes->opened.back().inflight = std::max(inflight, outstanding(now));
    device->slow_seen_ns = look.now_ns;
    return;
  }
  if (full) device->history.add_pace(rate, byte_rate);
}

void Detector::look_for_end_of_slow(const Look &look, const DeviceActivity &now, Device *device, Changes *changes) {
  const size_t operation = operation_of(device->open->kind);
  const uint64_t limit = std::max(kSlowFloorNs, kSlowFactor * device->open->usual_ns.value_or(0));
  const bool waits = outstanding(now) > 0 && since(look.now_ns, std::max(oldest_ns(now), uint64_t{1})) >= limit;
  const bool slow = !device->window.empty() && slow_requests(device->window.back().completed[operation], limit) > 0;
  if (waits || slow) device->slow_seen_ns = look.now_ns;
  if (since(look.now_ns, device->slow_seen_ns) >= kWindowNs) {
    close_episode(device->slow_seen_ns, device, changes);
  } else if (since(look.now_ns, device->open->begin_ns) >= kUsualAfterNs) {
    device->open->became_usual = true;
    close_episode(look.now_ns, device, changes);
    device->history.forget();
  }
}

void Detector::look_at(const Look &look, const DeviceActivity &shown, Device *device, Changes *changes) {
  const uint64_t now_ns = look.now_ns;
  if (!device->seen) {
    device->seen = true;
    device->last = shown;
    device->looked_ns = device->idle_ns = device->idle_from_ns = now_ns;
    device->kernel_bytes = shown.kernel_bytes;
    // Only what both counted can be compared: until then the kernel is believed only in what it alone can know.
    device->kernel_counts = shown.kernel_completed.value_or(0) > 0;
    const DeviceActivity now = corrected(shown, device->kernel_counts);
    device->ever_idle = outstanding(now) == 0;
    return;
  }
  const DeviceActivity now = corrected(shown, device->kernel_counts);
  Interval interval = interval_of(*device, now, now_ns);
  if (now.kernel_completed && device->last.kernel_completed) {  // between the same two looks
    const bool moved = *now.kernel_completed > *device->last.kernel_completed;
    if (interval.requests > 0) device->kernel_counts = moved || device->kernel_counts;
    if (moved && interval.requests == 0) interval.requests = 1;  // of those that we never saw begin
  }
  if (outstanding(now) == 0 || interval.requests > 0) {
    device->idle_from_ns = outstanding(now) == 0 ? now_ns : device->looked_ns;
    device->idle_ns = now_ns;
    device->ever_idle = true;
  }
  for (const auto &[number, complete_ns] : look.long_completions)
    if (number == now.device) device->long_completion_ns = std::max(device->long_completion_ns, complete_ns);
  device->window.push_back(interval);
  while (device->window.front().to_ns + kWindowNs < now_ns) {
    if (!device->open) device->history.add(device->window.front().completed);
    device->window.pop_front();
  }
  const bool was_open = device->open.has_value();
  if (!device->open) {
    device->history.fade(now_ns);
    device->last.device = now.device;
    look_for_freeze(look, now, device, changes);
    if (!device->open) look_for_slow(look, now, device, changes);
  }
  if (device->open) {
    suspicious_ = true;
    Episode &open = *device->open;
    open.inflight = std::max(open.inflight, outstanding(now));
    const uint64_t begun_ns = oldest_ns(now) != 0 ? oldest_ns(now) : open.begin_ns;
    if (outstanding(now) > 0) open.oldest_request_ns = std::max(open.oldest_request_ns, since(now_ns, begun_ns));
    if (!was_open) {
      changes->opened.back() = open;
    } else if (is_slow(open.kind)) {
      look_for_end_of_slow(look, now, device, changes);
    } else {
      look_for_recovery(look, now, interval, device, changes);
    }
  }
  device->last = now;
  device->looked_ns = now_ns;
  if (now.kernel_bytes) device->kernel_bytes = now.kernel_bytes;
}

Detector::Changes Detector::look(const Look &look) {
  Changes changes;
  suspicious_ = false;
  std::set<uint32_t> shown;
  for (const DeviceActivity &activity : look.devices) {
    shown.insert(activity.device);
    look_at(look, activity, &devices_[activity.device], &changes);
  }
  for (auto &[number, device] : devices_)  // unplugged
    if (device.open && !shown.contains(number)) close_episode(look.now_ns, &device, &changes);
  return changes;
}

std::vector<Episode> Detector::forget(uint64_t now_ns) {
  Changes changes;
  for (auto &[number, device] : devices_)
    if (device.open) close_episode(now_ns, &device, &changes);
  devices_.clear();
  return std::move(changes.closed);
}

Detector::Service Detector::service(uint32_t device, uint64_t now_ns) const {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return {};
  return {!found->second.open && since(now_ns, found->second.idle_ns) <= kServesNs, found->second.recovered_ns};
}

std::vector<Episode> Detector::open() const {
  std::vector<Episode> result;
  for (const auto &[number, device] : devices_)
    if (device.open) result.push_back(*device.open);
  return result;
}

}  // namespace flushlight::stalls
