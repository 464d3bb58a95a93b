// SPDX-License-Identifier: GPL-2.0-or-later
// Group commit: a leader that waits a little takes more commits along. Only where commits come at the same time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

constexpr double kConcurrent = 2;  // commits under way at one time
constexpr double kGain = 0.9;      // predicted median over measured: worth it
constexpr double kMicrosMax = 100'000;

struct Delay {
  fl_engine engine;
  const char *rule, *setting, *needs_on;  // needs_on: this setting must be on, or there is nothing to group
  const char *sql, *file, *file_line, *undo, *authority;
};
constexpr Delay kDelays[] = {
    {FL_ENGINE_POSTGRESQL, "postgresql.commit_delay", "commit_delay", nullptr,
     "ALTER SYSTEM SET commit_delay = {0}; SELECT pg_reload_conf();", "postgresql.conf", "commit_delay = {0}",
     "ALTER SYSTEM RESET commit_delay; SELECT pg_reload_conf();", "PostgreSQL manual, commit_delay"},
    {FL_ENGINE_MARIADB, "mariadb.binlog_commit_wait", "binlog_commit_wait_usec", "log_bin",
     "SET GLOBAL binlog_commit_wait_count = {1}, binlog_commit_wait_usec = {0};", "my.cnf",
     "binlog_commit_wait_count = {1}  binlog_commit_wait_usec = {0}",
     "SET GLOBAL binlog_commit_wait_count = 0, binlog_commit_wait_usec = 100000;",
     "MariaDB KB, Group commit for the binary log"},
};

bool is_set(const Facts &facts, const Delay &delay) {
  if (facts.is(FL_ENGINE_MARIADB)) return facts.server.number("binlog_commit_wait_count").value_or(0) > 0;
  return facts.server.number(delay.setting).value_or(0) > 0;
}

void no_delay(const Facts &facts, const Delay &delay, std::string why, std::vector<Advice> *out) {
  Advice advice;
  advice.rule = std::string("no.") + delay.rule;
  advice.kind = Kind::kNo;
  advice.scope = "server";
  advice.setting = delay.setting;
  advice.now = facts.server.text(delay.setting);
  advice.evidence = fmt::format("{} will not help: {} ({})", delay.setting, why, seen(facts.commits));
  advice.confidence = Confidence::kHigh;
  advice.authority = delay.authority;
  out->push_back(std::move(advice));
}

void group_delay(const Facts &facts, std::vector<Advice> *out) {
  for (const Delay &delay : kDelays) {
    const Commits &commits = facts.commits;
    if (!facts.is(delay.engine) || facts.server.setting(delay.setting) == nullptr || is_set(facts, delay)) continue;
    if (delay.needs_on != nullptr && facts.server.is_on(delay.needs_on) != true) continue;
    if (!commits_wait_for_storage(commits) || !facts.device || !facts.device->flush_p50_ms) continue;
    if (commits.concurrency() < kConcurrent) {
      no_delay(facts, delay,
               fmt::format("commits do not come at the same time ({:.1f} under way on average)", commits.concurrency()),
               out);
      continue;
    }
    // Half of what one sync takes is where to begin.
    const double micros = std::min(kMicrosMax, std::round(*facts.device->flush_p50_ms * 1000 / 2));
    const Outcome then = with_group_delay(commits, micros / 1000);
    if (!then.p50_ms) continue;
    if (*then.p50_ms > kGain * commits.p50_ms.value_or(0)) {
      no_delay(
          facts, delay,
          fmt::format("sessions that wait share syncs already; with {:.0f} µs the median would be {} instead of {}",
                      micros, ms_text(*then.p50_ms), ms_text(commits.p50_ms.value_or(0))),
          out);
      continue;
    }
    Advice advice;
    advice.rule = delay.rule;
    advice.kind = Kind::kGrouping;
    advice.scope = "server";
    advice.setting = delay.setting;
    advice.now = facts.server.text(delay.setting);
    advice.suggested = number_text(micros);
    advice.evidence = fmt::format(
        "{}: {:.1f} commits under way at one time, a flush takes {}, the group commit shares too few of them",
        seen(commits), commits.concurrency(), ms_text(*facts.device->flush_p50_ms));
    predict(then, &advice);
    advice.confidence = Confidence::kLow;
    advice.risk = "each commit waits that much longer when it is alone; nothing is lost";
    const auto count = static_cast<int>(std::max(2.0, std::floor(commits.concurrency())));
    advice.apply = {{"sql", fmt::format(fmt::runtime(delay.sql), micros, count)},
                    {delay.file, fmt::format(fmt::runtime(delay.file_line), micros, count)}};
    advice.undo = delay.undo;
    advice.authority = delay.authority;
    out->push_back(std::move(advice));
  }
}

constexpr RuleEntry kRules[] = {{"grouping", group_delay}};

}  // namespace

std::span<const RuleEntry> grouping_rules() { return kRules; }

}  // namespace flushlight::advise
