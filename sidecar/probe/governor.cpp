// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/governor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace flushlight::probe {
namespace {

constexpr uint64_t kNapNs = 20'000'000;  // a signal is noticed within this while the rate holds the probe back
constexpr std::string_view kStopNames[] = {"none", "time", "written", "space", "signal", "commits", "device"};

}  // namespace

std::string_view stop_name(Stop stop) { return kStopNames[static_cast<size_t>(stop)]; }

Governor::Governor(const Clock &clock, Limits limits)
    : clock_(clock), limits_(limits), deadline_ns_(clock.now_ns() + limits.total_ns), slice_end_ns_(deadline_ns_) {}

void Governor::begin_slice(size_t left) {
  const uint64_t now = clock_.now_ns();
  const uint64_t remaining = deadline_ns_ > now ? deadline_ns_ - now : 0;
  slice_end_ns_ = now + remaining / std::max<size_t>(left, 1);
  due_ns_ = now;
}

uint64_t Governor::wait_needed_ns() const {
  const uint64_t now = clock_.now_ns();
  return limits_.per_second_max > 0 && due_ns_ > now ? due_ns_ - now : 0;
}

bool Governor::pace() {
  if (limits_.per_second_max > 0) {
    while (may_go_on()) {
      const uint64_t wait = std::min(wait_needed_ns(), kNapNs);
      if (wait == 0) break;
      std::this_thread::sleep_for(std::chrono::nanoseconds(wait));
    }
    // An operation that took longer than its turn does not make the next ones come in a burst.
    const auto interval = static_cast<uint64_t>(1e9 / limits_.per_second_max);
    due_ns_ = std::max(due_ns_, clock_.now_ns()) + interval;
  }
  return may_go_on();
}

void Governor::wrote(uint64_t bytes) {
  if (written_bytes_.fetch_add(bytes) + bytes >= limits_.written_bytes_max)
    stop(Stop::kWritten, fmt::format("{} MB written, as many as allowed: --written-mb-max allows more",
                                     limits_.written_bytes_max >> 20));
}

void Governor::stop(Stop cause, std::string detail) {
  const std::lock_guard guard(lock_);
  if (stop_.load() != Stop::kNone) return;
  detail_ = std::move(detail);
  stop_.store(cause);
}

void Governor::check_time() {
  if (clock_.now_ns() >= deadline_ns_)
    stop(Stop::kTime, fmt::format("{:.0f} s are over: --seconds gives more, --only asks for less",
                                  static_cast<double>(limits_.total_ns) / 1e9));
}

std::string Governor::detail() const {
  const std::lock_guard guard(lock_);
  return detail_;
}

}  // namespace flushlight::probe
