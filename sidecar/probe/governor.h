// SPDX-License-Identifier: GPL-2.0-or-later
// Whether the probe may go on: time, bytes written, free space, rate, and what others say (a signal, the databases'
// commits). Asked before every operation, so looking is one atomic load and one reading of the clock.
//
// Any thread may ask, count and stop. begin_slice() and pace() are the measuring thread's alone.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "sidecar/base/clock.h"

namespace flushlight::probe {

struct Limits {
  uint64_t total_ns = 60'000'000'000;
  uint64_t written_bytes_max = 4ull << 30;
  double per_second_max = 0;  // operations of the pattern under test; 0: as fast as they go
};

enum class Stop : uint8_t { kNone, kTime, kWritten, kSpace, kSignal, kCommits, kDevice };
std::string_view stop_name(Stop stop);

class Governor {
 public:
  Governor(const Clock &clock, Limits limits);

  // Time for one pattern, when `left` of them, this one included, share what remains.
  void begin_slice(size_t left);
  [[nodiscard]] bool may_go_on() const {
    return stop_.load(std::memory_order_relaxed) == Stop::kNone && clock_.now_ns() < slice_end_ns_;
  }
  // The same for work that belongs to no slice (preparing files).
  [[nodiscard]] bool may_prepare() const {
    return stop_.load(std::memory_order_relaxed) == Stop::kNone && clock_.now_ns() < deadline_ns_;
  }
  // Waits until the rate allows one more operation; false: the slice is over.
  bool pace();
  [[nodiscard]] uint64_t wait_needed_ns() const;  // what pace() would wait now

  void wrote(uint64_t bytes);
  // The first cause stays.
  void stop(Stop cause, std::string detail);
  void check_time();  // notes that the time is up, if it is

  [[nodiscard]] Stop stopped() const { return stop_.load(); }
  [[nodiscard]] std::string detail() const;
  [[nodiscard]] uint64_t written_bytes() const { return written_bytes_.load(); }
  [[nodiscard]] uint64_t deadline_ns() const { return deadline_ns_; }
  [[nodiscard]] uint64_t slice_end_ns() const { return slice_end_ns_.load(); }
  [[nodiscard]] const Limits &limits() const { return limits_; }
  [[nodiscard]] const Clock &clock() const { return clock_; }

 private:
  const Clock &clock_;
  const Limits limits_;
  const uint64_t deadline_ns_;
  std::atomic<uint64_t> slice_end_ns_;
  uint64_t due_ns_ = 0;  // when the next operation may begin
  std::atomic<uint64_t> written_bytes_ = 0;
  std::atomic<Stop> stop_ = Stop::kNone;
  mutable std::mutex lock_;  // detail_
  std::string detail_;
};

}  // namespace flushlight::probe
