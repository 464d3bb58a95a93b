// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/log_histogram.h"

#include <numeric>

namespace flushlight {

uint64_t &LogHistogram::slot(uint32_t bucket) {
  auto &block = blocks_[bucket / FL_HISTOGRAM_SUB];
  if (!block) block = std::make_unique<Block>();
  return (*block)[bucket % FL_HISTOGRAM_SUB];
}

uint64_t LogHistogram::count(uint32_t bucket) const {
  const auto &block = blocks_[bucket / FL_HISTOGRAM_SUB];
  return block ? (*block)[bucket % FL_HISTOGRAM_SUB] : 0;
}

void LogHistogram::merge(const LogHistogram &other) {
  for (uint32_t i = 0; i < kBlocks; i++) {
    if (!other.blocks_[i]) continue;
    if (!blocks_[i]) blocks_[i] = std::make_unique<Block>();
    for (uint32_t j = 0; j < FL_HISTOGRAM_SUB; j++) (*blocks_[i])[j] += (*other.blocks_[i])[j];
  }
  total_ += other.total_;
  sum_ns_ += other.sum_ns_;
}

std::optional<uint64_t> bucket_high_ns(uint32_t bucket) {
  if (bucket + 1 >= FL_HISTOGRAM_BUCKETS) return std::nullopt;
  return fl_histogram_low(bucket + 1);
}

std::optional<double> percentile_ns(const LogHistogram &histogram, double q) {
  return percentile_ns(histogram.total(), q, [&](uint32_t bucket) { return histogram.count(bucket); });
}

std::optional<double> percentile_ns(std::span<const uint64_t> buckets, double q) {
  const uint64_t total = std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
  return percentile_ns(total, q, [&](uint32_t bucket) { return bucket < buckets.size() ? buckets[bucket] : 0; });
}

}  // namespace flushlight
