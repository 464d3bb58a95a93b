// SPDX-License-Identifier: GPL-2.0-or-later
// MariaDB's pair innodb_flush_log_at_trx_commit and sync_binlog: judged together, weakened last, and never without
// saying what may be lost.
#include <fmt/format.h>

#include <algorithm>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

struct Pair {
  bool binlog = false, galera = false;
  int64_t flush = 1, sync = 0;
};

std::optional<Pair> pair_of(const EngineFacts &server) {
  const auto flush = server.number("innodb_flush_log_at_trx_commit"), sync = server.number("sync_binlog");
  const auto binlog = server.is_on("log_bin");
  if (!flush || !sync || !binlog) return std::nullopt;
  return Pair{*binlog, server.is_on("wsrep_on") == true, static_cast<int64_t>(*flush), static_cast<int64_t>(*sync)};
}

std::string pair_text(const Pair &pair) {
  return pair.binlog ? fmt::format("{} with sync_binlog={}", pair.flush, pair.sync)
                     : fmt::format("{} without a binlog", pair.flush);
}

Advice about(const char *rule, Kind kind, const char *setting, const Pair &pair) {
  Advice advice;
  advice.rule = rule;
  advice.kind = kind;
  advice.scope = "server";
  advice.setting = setting;
  advice.now = pair_text(pair);
  advice.confidence = Confidence::kHigh;
  advice.authority = "MariaDB KB, innodb_flush_log_at_trx_commit, sync_binlog, Group commit for the binary log";
  return advice;
}

// What commits would wait for with the binlog alone: that log's part of all sync time. On ext4 both logs' syncs commit
// the one journal and wait for each other there; alone, a sync takes one commit of it.
std::optional<double> binlog_share(const Facts &facts) {
  constexpr double kJournalMatters = 0.3;
  const LogFiles &files = facts.files;
  if (!files.redo || !files.binlog || !files.redo->sync_ms || !files.binlog->sync_ms) return std::nullopt;
  if (files.redo->syncs == 0 || files.binlog->syncs == 0) return std::nullopt;
  const double redo = *files.redo->sync_ms / static_cast<double>(files.redo->syncs);
  const double binlog = *files.binlog->sync_ms / static_cast<double>(files.binlog->syncs);
  if (redo + binlog <= 0) return std::nullopt;
  double alone = binlog;
  if (facts.journal && facts.journal->commit_mean_ms &&
      share_is(facts.commits, FL_VECTOR_PATH(FL_PATH_JOURNAL), kJournalMatters))
    alone = std::min(alone, *facts.journal->commit_mean_ms);
  return alone / (redo + binlog);
}

std::string os_crash_loss(const Facts &facts) {
  return fmt::format(
      "an OS crash or power loss may lose the commits of the last innodb_flush_log_at_timeout ({:.0f} s) that were "
      "acknowledged",
      facts.server.number("innodb_flush_log_at_timeout").value_or(1));
}

void weaken(const Facts &facts, std::vector<Advice> *out) {
  const auto pair = pair_of(facts.server);
  if (!facts.is(FL_ENGINE_MARIADB) || !pair || pair->flush != 1) return;
  if (!commits_wait_for_storage(facts.commits)) return;
  if (pair->galera) {
    Advice advice = about("no.flush_log_at_trx_commit", Kind::kNo, "innodb_flush_log_at_trx_commit", *pair);
    advice.evidence =
        "leave it at 1: nodes of a Galera cluster may lose power together, and then acknowledged commits are lost on "
        "all of them";
    out->push_back(std::move(advice));
    return;
  }
  Advice advice = about("mariadb.flush_log_at_trx_commit", Kind::kDurability, "innodb_flush_log_at_trx_commit", *pair);
  advice.suggested = "2";
  advice.confidence = Confidence::kMedium;
  advice.evidence = fmt::format("{}: p50 {}, p99 {}, of which {} waits for storage; the redo log was synced {} times",
                                seen(facts.commits), ms_text(facts.commits.p50_ms.value_or(0)),
                                ms_text(facts.commits.p99_ms.value_or(0)), percent(*facts.commits.storage_share()),
                                facts.files.redo ? fmt::to_string(facts.files.redo->syncs) : "an unknown number of");
  // The log's writes bypass the page cache unless it is buffered: they stay.
  WithoutSync how;
  if (facts.server.is_on("innodb_log_file_buffering") == false && facts.device)
    how.write_ms = facts.device->write_p50_ms;
  if (!pair->binlog || pair->sync == 0) {
    predict(without_sync(facts.commits.samples, how), &advice);
  } else if (const auto share = binlog_share(facts); share && pair->sync == 1) {
    advice.evidence += fmt::format("; the binlog's syncs ({} of the sync time) stay", percent(*share));
    predict(with_share_of_sync(facts.commits.samples, *share), &advice);
  } else {
    advice.evidence += "; not predicted: how long the two logs' syncs take cannot be told apart here";
  }
  advice.risk = os_crash_loss(facts);
  if (pair->binlog)
    advice.risk +=
        "; the binlog and replicas may then hold transactions that this server lost: it must be rebuilt from one of "
        "them, not just restarted";
  advice.risk += ". A crash of mariadbd alone loses nothing. Only where such a loss is acceptable";
  advice.apply = {
      {"sql", "SET GLOBAL innodb_flush_log_at_trx_commit = 2;"},
      {"my.cnf", "innodb_flush_log_at_trx_commit = 2"},
      {"replicas", "on a replica first: it can be rebuilt, and its commits need no durability of their own"}};
  advice.undo = "SET GLOBAL innodb_flush_log_at_trx_commit = 1;";
  out->push_back(std::move(advice));
}

// Settings in effect that lose more than they seem to.
void judge_pair(const Facts &facts, std::vector<Advice> *out) {
  const auto pair = pair_of(facts.server);
  if (!facts.is(FL_ENGINE_MARIADB) || !pair) return;
  if (pair->binlog && pair->flush == 1 && pair->sync != 1) {
    Advice advice = about("mariadb.sync_binlog", Kind::kServer, "sync_binlog", *pair);
    advice.suggested = "1";
    advice.evidence = fmt::format(
        "with the binlog on, commits leave one sync to it: with sync_binlog={} an OS crash may lose acknowledged "
        "commits, although "
        "innodb_flush_log_at_trx_commit is 1; recovery follows the binlog",
        pair->sync);
    advice.risk =
        "each group of commits waits for one more sync; or say openly that they may be lost "
        "(innodb_flush_log_at_trx_commit=2)";
    advice.apply = {{"sql", "SET GLOBAL sync_binlog = 1;"}, {"my.cnf", "sync_binlog = 1"}};
    advice.undo = fmt::format("SET GLOBAL sync_binlog = {};", pair->sync);
    out->push_back(std::move(advice));
  }
  if (pair->flush == 3) {
    Advice advice = about("no.flush_log_at_trx_commit", Kind::kNo, "innodb_flush_log_at_trx_commit", *pair);
    const auto syncs = facts.server.grown("redo.syncs");
    advice.evidence =
        fmt::format("3 is what the version makes of it: count syncs for each commit instead{}",
                    syncs && facts.commits.commits > 0
                        ? fmt::format(" ({:.1f} here)", *syncs / static_cast<double>(facts.commits.commits))
                        : "");
    out->push_back(std::move(advice));
  }
  if (pair->galera && (pair->flush == 0 || pair->flush == 2)) {
    Advice advice = about("mariadb.flush_log_at_trx_commit", Kind::kServer, "innodb_flush_log_at_trx_commit", *pair);
    advice.suggested = "1";
    advice.evidence = fmt::format(
        "{} in a Galera cluster: nodes that lose power together lose acknowledged commits on all of them", pair->flush);
    advice.risk = "commits wait for the redo log's sync";
    advice.apply = {{"sql", "SET GLOBAL innodb_flush_log_at_trx_commit = 1;"},
                    {"my.cnf", "innodb_flush_log_at_trx_commit = 1"}};
    advice.undo = fmt::format("SET GLOBAL innodb_flush_log_at_trx_commit = {};", pair->flush);
    out->push_back(std::move(advice));
  }
}

constexpr RuleEntry kRules[] = {{"durability", judge_pair}, {"durability", weaken}};

}  // namespace

std::span<const RuleEntry> durability_rules() { return kRules; }

}  // namespace flushlight::advise
