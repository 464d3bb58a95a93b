// SPDX-License-Identifier: GPL-2.0-or-later
// What the application does, and waits that are no storage problem at all.
#include <fmt/format.h>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

constexpr double kShareOfOne = 0.3;    // of the commits, from one statement
constexpr double kRowsOfSingle = 1.5;  // rows changed in one commit
constexpr double kWalOfSingle = 1024;  // bytes of WAL in one commit
constexpr double kRateThatMatters = 5;
constexpr double kMost = 0.5;
constexpr double kBatch = 100;

std::string words_of(const DigestCommits &digest) {
  constexpr size_t kQueryBytes = 120;
  if (digest.query.empty()) return fmt::format("digest {}", digest.queryid);
  return fmt::format("'{}{}'", digest.query.substr(0, kQueryBytes), digest.query.size() > kQueryBytes ? "…" : "");
}

// 'Digest X makes 78 % of the commits at one row each: batch them.'
void batch(const Facts &facts, std::vector<Advice> *out) {
  const Commits &commits = facts.commits;
  if (!commits_wait_for_storage(commits, 0.3) || commits.rate() < kRateThatMatters) return;
  for (const DigestCommits &digest : commits.digests) {
    const double share = static_cast<double>(digest.commits) / static_cast<double>(commits.commits);
    const double work = static_cast<double>(digest.work) / static_cast<double>(std::max<uint64_t>(1, digest.commits));
    const bool single = work > 0 && work <= (facts.is(FL_ENGINE_MARIADB) ? kRowsOfSingle : kWalOfSingle);
    if (share < kShareOfOne || !single) continue;
    Advice advice;
    advice.rule = "application.batch";
    advice.kind = Kind::kApplication;
    advice.scope = words_of(digest);
    advice.evidence = fmt::format(
        "{} makes {} of {}, {} in each; they wait {} of their time for storage: batch these single-row commits before "
        "touching durability",
        words_of(digest), percent(share), seen(commits),
        facts.is(FL_ENGINE_MARIADB) ? number_text(work) + " row" : number_text(work) + " bytes of WAL",
        percent(*commits.storage_share()));
    advice.effect =
        fmt::format("{:.0f} rows in one transaction: about {:.1f} commits/s instead of {:.0f}/s of this statement",
                    kBatch, share * commits.rate() / kBatch, share * commits.rate());
    advice.confidence = Confidence::kHigh;
    advice.risk = "a batch is committed or rolled back as one; nothing is lost that was acknowledged";
    advice.apply = {{"application", "BEGIN; … many rows …; COMMIT, or one INSERT with many rows"}};
    advice.undo = "commit each row again";
    advice.authority = "PostgreSQL manual 14.4.1; MariaDB KB, How to quickly insert data";
    out->push_back(std::move(advice));
    return;
  }
}

struct NotStorage {
  int cause;
  const char *rule, *what, *instead;
};
constexpr NotStorage kNotStorage[] = {
    {FL_CAUSE_REPLICATION, "no.replication", "not storage: replication",
     "no storage or durability setting of this server shortens it; look at the replica: its own log sync, its network, "
     "its "
     "replay (view replication)"},
    {FL_CAUSE_CPU, "no.cpu", "not storage: commits are ready to run and wait for a CPU",
     "look at CPU limits, the number of running sessions and neighbours (view pressure)"},
    {FL_CAUSE_LOCK, "no.lock",
     "not storage: commits wait for a thread that runs (a lock holder or a group's leader at work)",
     "look at large transactions that commit at the same time (MariaDB copies a large binlog cache under a lock)"},
};

void not_storage(const Facts &facts, std::vector<Advice> *out) {
  for (const NotStorage &known : kNotStorage) {
    if (!share_is(facts.commits, known.cause, kMost)) continue;
    Advice advice;
    advice.rule = known.rule;
    advice.kind = Kind::kNo;
    advice.scope = "server";
    advice.evidence = fmt::format("{}: {} of the commit time of {}; {}", known.what,
                                  percent(*facts.commits.cause_share(known.cause)), seen(facts.commits), known.instead);
    advice.confidence = Confidence::kHigh;
    out->push_back(std::move(advice));
  }
}

constexpr RuleEntry kRules[] = {{"application", batch}, {"application", not_storage}};

}  // namespace

std::span<const RuleEntry> application_rules() { return kRules; }

}  // namespace flushlight::advise
