// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/history.h"

#include <algorithm>
#include <numeric>

namespace flushlight::stalls {

void History::add(const std::array<kernel::Octaves, kernel::kStallOperations> &completed) {
  for (size_t operation = 0; operation < completed.size(); operation++)
    for (size_t i = 0; i < kernel::kOctaves; i++) seen_[operation][i] += static_cast<double>(completed[operation][i]);
}

void History::add_pace(double requests_per_second, std::optional<double> bytes_per_second) {
  best_requests_ = std::max(best_requests_, requests_per_second);
  best_bytes_ = std::max(best_bytes_, bytes_per_second.value_or(0));
}

void History::fade(uint64_t now_ns) {
  if (faded_ns_ == 0) faded_ns_ = now_ns;
  while (now_ns >= faded_ns_ + kFadeNs) {
    faded_ns_ += kFadeNs;
    for (auto &octaves : seen_)
      for (double &count : octaves) count *= kFade;
    best_requests_ *= kFade;
    best_bytes_ *= kFade;
  }
}

std::optional<uint64_t> History::usual_ns(size_t operation, double tail) const {
  const auto &octaves = seen_[operation];
  const double total = std::accumulate(octaves.begin(), octaves.end(), 0.0);
  if (total < kEnough) return std::nullopt;
  double above = 0;
  for (size_t i = kernel::kOctaves; i-- > 0;) {
    above += octaves[i];
    if (above > tail * total) return kernel::octave_high_ns(i);
  }
  return std::nullopt;
}

std::optional<uint64_t> History::usual_ns() const {
  std::optional<uint64_t> largest;
  for (size_t operation = 0; operation < seen_.size(); operation++)
    if (const auto usual = usual_ns(operation)) largest = std::max(largest.value_or(0), *usual);
  return largest;
}

std::optional<double> History::pace(double requests_per_second, std::optional<double> bytes_per_second) const {
  std::optional<double> best;
  if (best_requests_ > 0) best = requests_per_second / best_requests_;
  if (best_bytes_ > 0 && bytes_per_second) best = std::max(best.value_or(0), *bytes_per_second / best_bytes_);
  return best;
}

}  // namespace flushlight::stalls
