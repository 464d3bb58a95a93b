// SPDX-License-Identifier: GPL-2.0-or-later
// Outcomes as a run would leave them.
#pragma once
#include <algorithm>

#include "sidecar/probe/outcome.h"

namespace flushlight::probe::test {

inline Pattern pattern_named(std::string_view name) {
  const auto &all = all_patterns();
  const auto found =
      std::find_if(all.begin(), all.end(), [name](const Pattern &pattern) { return pattern.name == name; });
  return found == all.end() ? Pattern{} : *found;
}

// `count` operations of about `ms` each.
inline Outcome outcome_of(std::string_view name, double ms, int count = 100) {
  Outcome outcome;
  outcome.pattern = pattern_named(name);
  outcome.state = State::kMeasured;
  outcome.began_ns = 1'000'000;
  for (int i = 0; i < count; i++) outcome.total.add(static_cast<uint64_t>(ms * 1e6));
  outcome.ended_ns = outcome.began_ns + static_cast<uint64_t>(ms * 1e6 * count);
  return outcome;
}

}  // namespace flushlight::probe::test
