// SPDX-License-Identifier: GPL-2.0-or-later
// A log-linear histogram (abi/histogram.h) that holds only the powers of two that were hit: commit times of
// one statement span few of them.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "abi/histogram.h"

namespace flushlight {

class LogHistogram {
 public:
  LogHistogram() = default;
  LogHistogram(LogHistogram &&) = default;
  LogHistogram &operator=(LogHistogram &&) = default;
  LogHistogram(const LogHistogram &other) { merge(other); }
  LogHistogram &operator=(const LogHistogram &) = delete;

  void add(uint64_t ns) {
    slot(fl_histogram_bucket(ns))++;
    total_++;
    sum_ns_ += ns;
  }
  void merge(const LogHistogram &other);
  [[nodiscard]] uint64_t count(uint32_t bucket) const;
  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] uint64_t sum_ns() const { return sum_ns_; }

 private:
  static constexpr uint32_t kBlocks = (FL_HISTOGRAM_BUCKETS + FL_HISTOGRAM_SUB - 1) / FL_HISTOGRAM_SUB;
  using Block = std::array<uint64_t, FL_HISTOGRAM_SUB>;
  uint64_t &slot(uint32_t bucket);

  std::array<std::unique_ptr<Block>, kBlocks> blocks_;
  uint64_t total_ = 0, sum_ns_ = 0;
};

// Upper bound of a bucket; nothing for the overflow bucket.
std::optional<uint64_t> bucket_high_ns(uint32_t bucket);

// The value below which the share `q` of the observations lies, interpolated inside its bucket.
// Nothing without observations. The overflow bucket yields its lower bound.
template <typename Count>
std::optional<double> percentile_ns(uint64_t total, double q, const Count &count_of) {
  if (total == 0) return std::nullopt;
  const double rank = q * static_cast<double>(total);
  double before = 0;
  for (uint32_t bucket = 0; bucket < FL_HISTOGRAM_BUCKETS; bucket++) {
    const auto count = static_cast<double>(count_of(bucket));
    if (count > 0 && before + count >= rank) {
      const auto low = static_cast<double>(fl_histogram_low(bucket));
      const auto high = bucket_high_ns(bucket);
      if (!high) return low;
      return low + (static_cast<double>(*high) - low) * (rank - before) / count;
    }
    before += count;
  }
  return std::nullopt;
}
std::optional<double> percentile_ns(const LogHistogram &histogram, double q);
std::optional<double> percentile_ns(std::span<const uint64_t> buckets, double q);

}  // namespace flushlight
