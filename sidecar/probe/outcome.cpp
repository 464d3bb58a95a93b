// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/outcome.h"

namespace flushlight::probe {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr std::string_view kStateNames[] = {"measured", "unavailable", "not_run", "failed"};

std::optional<double> to_ms(bool known, double ns) { return known ? std::optional(ns / kNsPerMs) : std::nullopt; }

}  // namespace

std::string_view state_name(State state) { return kStateNames[static_cast<size_t>(state)]; }

std::optional<double> Times::min_ms() const { return to_ms(count() > 0, static_cast<double>(min_ns_)); }
std::optional<double> Times::max_ms() const { return to_ms(count() > 0, static_cast<double>(max_ns_)); }

std::optional<double> Times::mean_ms() const {
  return to_ms(count() > 0,
               static_cast<double>(histogram_.sum_ns()) / static_cast<double>(std::max<uint64_t>(count(), 1)));
}

std::optional<double> Times::percentile_ms(double q) const {
  // 1 - q is not exact: without the allowance the p99 of 100 observations would be one too few.
  constexpr double kRounding = 1e-6;
  if ((1 - q) * static_cast<double>(count()) < 1 - kRounding && q > 0.5) return std::nullopt;
  const auto ns = percentile_ns(histogram_, q);
  if (!ns) return std::nullopt;
  return std::clamp(*ns, static_cast<double>(min_ns_), static_cast<double>(max_ns_)) / kNsPerMs;
}

std::optional<double> Outcome::per_second() const {
  if (total.count() == 0 || ended_ns <= began_ns) return std::nullopt;
  return static_cast<double>(total.count()) * 1e9 / static_cast<double>(ended_ns - began_ns);
}

std::optional<double> Outcome::cpu_wait_percent() const {
  if (!cpu_wait_ns || total.count() == 0 || ended_ns <= began_ns) return std::nullopt;
  return std::min(100.0, 100 * static_cast<double>(*cpu_wait_ns) / static_cast<double>(ended_ns - began_ns));
}

}  // namespace flushlight::probe
