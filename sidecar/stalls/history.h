// SPDX-License-Identifier: GPL-2.0-or-later
// What is usual for one device: how long its requests take, and its best pace. Old observations fade.
// Owner: main thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "sidecar/kernel/stalls.h"

namespace flushlight::stalls {

class History {
 public:
  static constexpr uint64_t kFadeNs = 60'000'000'000;  // once in so long all that was seen loses a part of its weight
  static constexpr double kFade = 0.93;                // half of it in ten minutes
  static constexpr double kTail = 0.001;
  static constexpr double kEnough = 20;  // observations before anything is called usual

  void add(const std::array<kernel::Octaves, kernel::kStallOperations> &completed);
  void add_pace(double requests_per_second, std::optional<double> bytes_per_second);
  void fade(uint64_t now_ns);
  void forget() { *this = {}; }

  // The time that all but a part of the requests took at most; nothing: too few were seen.
  [[nodiscard]] std::optional<uint64_t> usual_ns(size_t operation, double tail = kTail) const;
  [[nodiscard]] std::optional<uint64_t> usual_ns() const;  // the largest of all operations
  // Against the best pace ever seen, in requests or in bytes, whichever is better: 1 is the best; nothing: not known.
  [[nodiscard]] std::optional<double> pace(double requests_per_second, std::optional<double> bytes_per_second) const;

 private:
  std::array<std::array<double, kernel::kOctaves>, kernel::kStallOperations> seen_{};
  double best_requests_ = 0, best_bytes_ = 0;
  uint64_t faded_ns_ = 0;
};

}  // namespace flushlight::stalls
