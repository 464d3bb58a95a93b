// SPDX-License-Identifier: GPL-2.0-or-later
// Time behind an interface: the tests drive it by hand and never sleep. Everything inside the daemon is
// CLOCK_MONOTONIC; wall-clock time is made once, at the edge (views).
#pragma once
#include <atomic>
#include <cstdint>
#include <ctime>

namespace flushlight {

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual uint64_t now_ns() const = 0;  // CLOCK_MONOTONIC
  [[nodiscard]] virtual int64_t unix_ns() const = 0;  // CLOCK_REALTIME

  // The wall-clock time of a point on the monotonic clock.
  [[nodiscard]] int64_t to_unix_ns(uint64_t monotonic_ns) const {
    return unix_ns() - static_cast<int64_t>(now_ns()) + static_cast<int64_t>(monotonic_ns);
  }
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const override { return static_cast<uint64_t>(read(CLOCK_MONOTONIC)); }
  [[nodiscard]] int64_t unix_ns() const override { return read(CLOCK_REALTIME); }

 private:
  static int64_t read(clockid_t id) {
    timespec time{};
    clock_gettime(id, &time);
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }
};

class ManualClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const override { return now_ns_; }
  [[nodiscard]] int64_t unix_ns() const override { return static_cast<int64_t>(now_ns()) + unix_offset_ns_; }
  void advance_ns(uint64_t ns) { now_ns_ += ns; }
  void advance_ms(uint64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  std::atomic<uint64_t> now_ns_ = 1'000'000'000'000;  // other threads may look
  int64_t unix_offset_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace flushlight
