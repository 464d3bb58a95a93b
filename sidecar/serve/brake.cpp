// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/brake.h"

#include <algorithm>

namespace flushlight {
namespace {

double percent(uint64_t part_ns, uint64_t whole_ns) {
  return whole_ns == 0 ? 0 : 100.0 * static_cast<double>(part_ns) / static_cast<double>(whole_ns);
}

}  // namespace

bool Brake::sample(uint64_t now_ns, uint64_t own_cpu_ns, const std::vector<kernel::ProgramCost> &costs,
                   double max_percent) {
  if (!samples_.empty() && now_ns > samples_.back().at_ns) {
    last_second_percent_ = percent(own_cpu_ns - samples_.back().own_ns, now_ns - samples_.back().at_ns);
    own_percent_ = percent(own_cpu_ns - samples_.front().own_ns, now_ns - samples_.front().at_ns);
  }
  samples_.push_back({now_ns, own_cpu_ns});
  while (samples_.size() > 1 && samples_.front().at_ns + kPatienceNs < now_ns) samples_.pop_front();

  // Programs count their run time during the same sampled time: sums of times, one span.
  uint64_t run_ns = 0, sampled_ns = 0;
  for (const auto &cost : costs) {
    run_ns += cost.run_time_ns;
    sampled_ns = std::max(sampled_ns, cost.sampled_ns);
  }
  if (sampled_ns > last_sampled_ns_ && run_ns >= last_run_ns_)
    kernel_percent_ = percent(run_ns - last_run_ns_, sampled_ns - last_sampled_ns_);
  if (costs.empty()) kernel_percent_.reset();
  last_run_ns_ = run_ns;
  last_sampled_ns_ = sampled_ns;

  const double total = last_second_percent_.value_or(0) + kernel_percent_.value_or(0);
  if (total <= max_percent) {
    above_since_ns_ = 0;
    return false;
  }
  if (above_since_ns_ == 0) above_since_ns_ = now_ns;
  return now_ns - above_since_ns_ >= kPatienceNs;
}

void Brake::forget() {
  samples_.clear();
  last_second_percent_.reset();
  kernel_percent_.reset();
  above_since_ns_ = 0;
}

bool Brake::wants_measuring(double max_percent) const {
  return last_second_percent_.value_or(0) + kernel_percent_.value_or(0) > max_percent / 2;
}

}  // namespace flushlight
