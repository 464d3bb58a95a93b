// SPDX-License-Identifier: GPL-2.0-or-later
// What a pattern gave. Written by the measuring thread, read after it has ended.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sidecar/probe/pattern.h"
#include "sidecar/stats/log_histogram.h"

namespace flushlight::probe {

// Times of one kind of operation.
class Times {
 public:
  void add(uint64_t ns) {
    histogram_.add(ns);
    min_ns_ = std::min(min_ns_, ns);
    max_ns_ = std::max(max_ns_, ns);
  }
  void merge(const Times &other) {
    histogram_.merge(other.histogram_);
    min_ns_ = std::min(min_ns_, other.min_ns_);
    max_ns_ = std::max(max_ns_, other.max_ns_);
  }
  [[nodiscard]] const LogHistogram &histogram() const { return histogram_; }
  [[nodiscard]] uint64_t count() const { return histogram_.total(); }
  [[nodiscard]] std::optional<double> min_ms() const;
  [[nodiscard]] std::optional<double> max_ms() const;
  [[nodiscard]] std::optional<double> mean_ms() const;
  // Nothing where too few were observed for one of them to lie beyond it: p99.9 of 100 observations is a guess.
  [[nodiscard]] std::optional<double> percentile_ms(double q) const;

 private:
  LogHistogram histogram_;
  uint64_t min_ns_ = UINT64_MAX, max_ns_ = 0;
};

struct NamedPercentile {
  std::string_view name;
  double q;
};
inline constexpr NamedPercentile kPercentiles[] = {{"p50", 0.5},  {"p90", 0.9},    {"p95", 0.95},
                                                   {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};

enum class State : uint8_t {
  kMeasured,
  kUnavailable,  // this host or file system does not allow it: the reason says why
  kNotRun,       // the probe ended before
  kFailed,       // an operation failed
};
std::string_view state_name(State state);

struct Outcome {
  Pattern pattern;
  State state = State::kNotRun;
  std::string reason;
  Times total;                          // of an operation
  Times write, sync;                    // its parts, where they are system calls of their own
  uint64_t began_ns = 0, ended_ns = 0;  // CLOCK_MONOTONIC
  // How long the measuring thread was ready to run and had no CPU meanwhile: part of its times, but not the device's.
  std::optional<uint64_t> cpu_wait_ns;
  uint64_t bulk_bytes = 0;   // written beside it meanwhile
  bool bulk_direct = false;  // past the page cache

  [[nodiscard]] std::optional<double> per_second() const;
  [[nodiscard]] std::optional<double> cpu_wait_percent() const;  // of the time that passed
};

}  // namespace flushlight::probe
