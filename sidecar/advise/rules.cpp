// SPDX-License-Identifier: GPL-2.0-or-later
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

constexpr const char *kKindNames[] = {"application", "grouping", "server", "host", "durability", "no"};
constexpr const char *kConfidenceNames[] = {"high", "medium", "low"};

Advice nothing_to_change(const Facts &facts) {
  Advice advice;
  advice.rule = "nothing";
  advice.kind = Kind::kNo;
  advice.scope = "server";
  advice.evidence = fmt::format("nothing to change: {}, p50 {}, p99 {}", seen(facts.commits),
                                ms_text(facts.commits.p50_ms.value_or(0)), ms_text(facts.commits.p99_ms.value_or(0)));
  advice.confidence = facts.server.known() ? Confidence::kHigh : Confidence::kLow;
  if (!facts.server.known())
    advice.evidence +=
        "; the server's settings are not known ([engines] of the configuration), so they were not judged";
  return advice;
}

}  // namespace

std::optional<double> Commits::share(int vector_index) const {
  double total = 0;
  for (int cause = 0; cause < FL_CAUSE_COUNT; cause++) total += static_cast<double>(vector_ns[cause]);
  if (accounted == 0 || total <= 0) return std::nullopt;
  return static_cast<double>(vector_ns[vector_index]) / total;
}

std::optional<double> Commits::storage_share() const {
  std::optional<double> sum;
  for (const int cause : {FL_CAUSE_FLUSH, FL_CAUSE_WRITE, FL_CAUSE_QUEUE, FL_CAUSE_THROTTLE})
    if (const auto part = share(cause)) sum = sum.value_or(0) + *part;
  return sum;
}

const std::vector<RuleEntry> &rules() {
  static const std::vector<RuleEntry> all = [] {
    std::vector<RuleEntry> list;
    for (const auto family : {application_rules, grouping_rules, mariadb_rules, checkpoint_rules, postgresql_rules,
                              io_rules, block_rules, file_system_rules, memory_rules, limit_rules, durability_rules}) {
      const auto rules = family();
      list.insert(list.end(), rules.begin(), rules.end());
    }
    return list;
  }();
  return all;
}

std::vector<Advice> advise(const Facts &facts) {
  std::vector<Advice> advice;
  for (const RuleEntry &entry : rules()) entry.rule(facts, &advice);
  std::stable_sort(advice.begin(), advice.end(), [](const Advice &a, const Advice &b) { return a.kind < b.kind; });
  // Commits that wait for something else than storage are no healthy ones.
  const bool any = std::any_of(advice.begin(), advice.end(), [](const Advice &a) {
    return a.kind != Kind::kNo || a.rule == "no.replication" || a.rule == "no.cpu" || a.rule == "no.lock";
  });
  if (!any && facts.commits.commits >= kCommitsForEvidence) advice.insert(advice.begin(), nothing_to_change(facts));
  return advice;
}

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }
std::string_view confidence_name(Confidence confidence) { return kConfidenceNames[static_cast<size_t>(confidence)]; }

std::string apply_text(const Advice &advice) {
  std::string text;
  for (const Snippet &snippet : advice.apply)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", snippet.where, snippet.text);
  return text;
}

std::string seen(const Commits &commits) {
  return fmt::format("{} commits in {:.0f} s", commits.commits, commits.window_s);
}
std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }
std::string ms_text(double ms) { return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : 1); }

std::string number_text(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string bytes_text(double bytes) {
  static constexpr const char *kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    unit++;
  }
  return fmt::format(
      "{} {}", bytes < 10 && bytes != std::floor(bytes) ? fmt::format("{:.1f}", bytes) : fmt::format("{:.0f}", bytes),
      kUnits[unit]);
}

bool share_is(const Commits &commits, int vector_index, double at_least) {
  const auto share = commits.share(vector_index);
  return commits.accounted >= kCommitsForEvidence && share && *share >= at_least;
}

bool commits_wait_for_storage(const Commits &commits, double at_least) {
  const auto share = commits.storage_share();
  return commits.accounted >= kCommitsForEvidence && share && *share >= at_least &&
         commits.p50_ms.value_or(0) >= kSlowCommitMs;
}

void predict(const Outcome &outcome, Advice *advice) {
  advice->predicted_p50_ms = outcome.p50_ms;
  advice->predicted_p99_ms = outcome.p99_ms;
  if (!outcome.why_not.empty()) advice->evidence += "; not predicted: " + outcome.why_not;
}

}  // namespace flushlight::advise
