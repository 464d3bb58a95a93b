// SPDX-License-Identifier: GPL-2.0-or-later
// The brake: what flushlight costs is measured all the time; too much for too long, and it switches itself off.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sidecar/kernel/tracer.h"

namespace flushlight {

class Brake {
 public:
  static constexpr uint64_t kPatienceNs = 10'000'000'000;

  // About once a second. costs: empty without tracing. True: now, switch off.
  bool sample(uint64_t now_ns, uint64_t own_cpu_ns, const std::vector<kernel::ProgramCost> &costs, double max_percent);
  // After a switch: what was before counts no longer.
  void forget();

  // Of one CPU; nothing until measured.
  [[nodiscard]] std::optional<double> own_percent() const { return own_percent_; }        // over ten seconds
  [[nodiscard]] std::optional<double> kernel_percent() const { return kernel_percent_; }  // of the last sample
  // The kernel's run statistics should be on all the time: the limit is near.
  [[nodiscard]] bool wants_measuring(double max_percent) const;

 private:
  struct Sample {
    uint64_t at_ns, own_ns;
  };
  std::deque<Sample> samples_;
  uint64_t last_run_ns_ = 0, last_sampled_ns_ = 0;
  std::optional<double> own_percent_, last_second_percent_, kernel_percent_;
  uint64_t above_since_ns_ = 0;  // 0: not above
};

}  // namespace flushlight
