// SPDX-License-Identifier: GPL-2.0-or-later
// All statistics, fed by joined events.
// Owner: main thread.
#pragma once
#include <map>

#include "sidecar/base/clock.h"
#include "sidecar/stats/recent.h"
#include "sidecar/stats/slow_commits.h"
#include "sidecar/stats/statement_table.h"

namespace flushlight {

struct StatisticsLimits {
  size_t statements_max = 5000;
  uint64_t slow_commit_threshold_ns = 10'000'000;
  size_t slow_commits_max = 10'000;
};

// Commits that waited for a replica, as far as they have an account.
struct ReplicationWaits {
  uint64_t commits = 0, total_ns = 0, max_ns = 0;
};

class Statistics final : public EventSink {
 public:
  Statistics(const Clock &clock, const StatisticsLimits &limits);
  void set_limits(const StatisticsLimits &limits);

  void on_statement(const JoinedStatement &event) override;
  void on_commit(const JoinedCommit &event) override;

  // Without further filters also the slow commits, the last five minutes and the commit histogram go.
  void reset(const ResetFilter &filter);

  [[nodiscard]] const StatementTable &statements() const { return statements_; }
  [[nodiscard]] StatementTable recent() { return recent_.merged(clock_.now_ns()); }
  [[nodiscard]] const SlowCommits &slow_commits() const { return slow_commits_; }
  [[nodiscard]] const std::map<uint32_t, LogHistogram> &commit_times() const { return commit_times_; }
  [[nodiscard]] uint64_t reset_at_ns(uint32_t instance) const;
  [[nodiscard]] ReplicationWaits replication_waits(uint32_t instance) const;

 private:
  const Clock &clock_;
  StatementTable statements_;
  Recent recent_;
  SlowCommits slow_commits_;
  std::map<uint32_t, LogHistogram> commit_times_;           // by instance
  std::map<uint32_t, ReplicationWaits> replication_waits_;  // by instance
  uint64_t started_ns_;
  std::map<uint32_t, uint64_t> reset_at_ns_;
};

}  // namespace flushlight
