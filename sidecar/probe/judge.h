// SPDX-License-Identifier: GPL-2.0-or-later
// What the figures mean: is the flush believable, and which wal_sync_method is fastest here. Pure functions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sidecar/probe/outcome.h"
#include "sidecar/probe/target.h"

namespace flushlight::probe {

enum class FlushState : uint8_t {
  kUnknown,      // no log write was measured
  kPlausible,    // as slow as a medium that keeps what it was given
  kImplausible,  // faster than that, with a volatile cache to be flushed, as far as the kernel knows
  kNotSent,      // faster than that; the kernel sends no flushes there
  kDeclared,     // faster than that, and the operator says that the cache survives a power loss
};
std::string_view flush_state_name(FlushState state);

struct FlushJudgement {
  FlushState state = FlushState::kUnknown;
  std::string pattern;           // the fastest one
  std::optional<double> p50_ms;  // of it
  double limit_ms = 0;           // below this no medium can have kept it
  std::string text;
};
FlushJudgement judge_flush(const std::vector<Outcome> &outcomes, const Place &place, bool power_loss_protection);

struct RankedMethod {
  std::string method;  // PostgreSQL's name
  double p50_ms = 0;
  std::optional<double> p99_ms;
  std::optional<double> bulk_p50_ms, bulk_p99_ms;  // beside the bulk writer
  bool as_good_as_best = false;                    // the difference is within what a repetition would show
};
struct Ranking {
  std::vector<RankedMethod> methods;  // best first
  std::string text;
};
Ranking rank_wal_sync_methods(const std::vector<Outcome> &outcomes);

}  // namespace flushlight::probe
