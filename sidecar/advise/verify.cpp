// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace flushlight::advise {
namespace {

constexpr double kSame = 1.5;        // factor within which sessions and work of a commit are the same
constexpr double kSlower = 0.67;     // of the rate: less is another load
constexpr double kSharedMix = 0.75;  // of the commits, by the statements that made them

double mix_in_common(const Commits &before, const Commits &after) {
  std::map<int64_t, double> shares;
  for (const DigestCommits &digest : before.digests)
    shares[digest.queryid] = static_cast<double>(digest.commits) / static_cast<double>(before.commits);
  double common = 0;
  for (const DigestCommits &digest : after.digests)
    if (const auto found = shares.find(digest.queryid); found != shares.end())
      common += std::min(found->second, static_cast<double>(digest.commits) / static_cast<double>(after.commits));
  return common;
}

bool within(double a, double b, double factor) { return a <= b * factor && b <= a * factor; }

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"verified", "refuted", "inconclusive"};
  return kNames[static_cast<size_t>(verdict)];
}

std::string load_difference(const Commits &before, const Commits &after, Work work) {
  if (before.commits == 0 || after.commits == 0) return "there were no commits";
  const auto sessions_before = static_cast<double>(before.sessions),
             sessions_after = static_cast<double>(after.sessions);
  if (!within(sessions_before, sessions_after, kSame))
    return fmt::format("{} sessions committed before, {} after", before.sessions, after.sessions);
  if (work == Work::kSame && !within(before.work_per_commit() + 1, after.work_per_commit() + 1, kSame))
    return fmt::format("a commit wrote {:.3g} before, {:.3g} after", before.work_per_commit(), after.work_per_commit());
  if (const double common = mix_in_common(before, after); common < kSharedMix)
    return fmt::format("only {:.0f} % of the commits are of the same statements", 100 * common);
  // Sessions that wait for each commit come back sooner when it is shorter.
  const double faster = std::max(1.0, before.mean_ms() / std::max(1e-3, after.mean_ms()));
  if (after.rate() < kSlower * before.rate() * std::min(1.0, before.mean_ms() / std::max(1e-3, after.mean_ms())) ||
      after.rate() > kSame * faster * before.rate())
    return fmt::format("{:.1f} commits/s before, {:.1f} after", before.rate(), after.rate());
  return "";
}

bool is_near(double measured_ms, double predicted_ms) {
  return std::abs(measured_ms - predicted_ms) <= std::max(1.0, 0.2 * predicted_ms);
}

Judgement judge(const Commits &before, const Commits &after, std::optional<double> predicted_p50_ms,
                std::optional<double> predicted_p99_ms) {
  Judgement judgement;
  judgement.measured_p50_ms = after.p50_ms;
  judgement.measured_p99_ms = after.p99_ms;
  if (const std::string difference = load_difference(before, after); !difference.empty()) {
    judgement.why = "the load changed: " + difference;
    return judgement;
  }
  if (!predicted_p50_ms || !predicted_p99_ms || !after.p50_ms || !after.p99_ms) {
    judgement.why = "nothing was predicted of commit times";
    return judgement;
  }
  const bool near = is_near(*after.p50_ms, *predicted_p50_ms) && is_near(*after.p99_ms, *predicted_p99_ms);
  judgement.verdict = near ? Verdict::kVerified : Verdict::kRefuted;
  judgement.why = fmt::format(
      "p50 {:.2f} ms predicted, {:.2f} ms measured; p99 {:.2f} ms predicted, {:.2f} ms measured; {} commits in {:.0f} "
      "s",
      *predicted_p50_ms, *after.p50_ms, *predicted_p99_ms, *after.p99_ms, after.commits, after.window_s);
  return judgement;
}

Judgement judge_measure(const Measure &measure, const EngineStatistics &begin, const EngineStatistics &end) {
  constexpr double kNear = 0.2;
  Judgement judgement;
  const auto grown = [&](const std::string &name) -> std::optional<double> {
    const auto first = begin.find(name), last = end.find(name);
    if (first == begin.end() || last == end.end() || last->second < first->second) return std::nullopt;
    return last->second - first->second;
  };
  const auto amount = grown(measure.statistic), per = grown(measure.per);
  if (!amount || !per || *per <= 0) {
    judgement.why = fmt::format("{} was not counted", measure.statistic);
    return judgement;
  }
  const double measured = *amount / *per;
  judgement.verdict =
      std::abs(measured - measure.predicted) <= kNear * measure.now ? Verdict::kVerified : Verdict::kRefuted;
  judgement.why = fmt::format("{} for each of {}: {:.3g} before, {:.3g} predicted, {:.3g} measured", measure.statistic,
                              measure.per, measure.now, measure.predicted, measured);
  return judgement;
}

}  // namespace flushlight::advise
