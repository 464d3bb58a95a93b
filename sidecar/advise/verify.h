// SPDX-License-Identifier: GPL-2.0-or-later
// After a change: was the prediction right? Only over a load that can be compared.
#pragma once
#include <optional>
#include <string>

#include "sidecar/advise/advice.h"

namespace flushlight::advise {

enum class Verdict : uint8_t { kVerified, kRefuted, kInconclusive };
std::string_view verdict_name(Verdict verdict);

// How much is needed on both sides.
struct Enough {
  double seconds = 600;
  uint64_t commits = 1000;
};

struct Judgement {
  Verdict verdict = Verdict::kInconclusive;
  std::string why;
  std::optional<double> measured_p50_ms, measured_p99_ms;
};

// What differs too much for a comparison; empty: nothing. A rate may grow where commits became faster, but not by more
// than that explains. What a commit writes is not compared where the change itself is about that: fewer checkpoints, fewer
// images of whole pages in its log.
enum class Work : uint8_t { kSame, kMayChange };
std::string load_difference(const Commits &before, const Commits &after, Work work = Work::kSame);

// Within 20 % or 1 ms, whichever is more.
bool is_near(double measured_ms, double predicted_ms);

Judgement judge(const Commits &before, const Commits &after, std::optional<double> predicted_p50_ms,
                std::optional<double> predicted_p99_ms);

// By a statistic instead: near if it differs from the prediction by no more than a fifth of what it was.
Judgement judge_measure(const Measure &measure, const EngineStatistics &begin, const EngineStatistics &end);

}  // namespace flushlight::advise
