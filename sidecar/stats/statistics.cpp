// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/statistics.h"

#include <algorithm>

namespace flushlight {

Statistics::Statistics(const Clock &clock, const StatisticsLimits &limits)
    : clock_(clock),
      statements_(limits.statements_max),
      recent_(limits.statements_max),
      slow_commits_(limits.slow_commit_threshold_ns, limits.slow_commits_max),
      started_ns_(clock.now_ns()) {}

void Statistics::set_limits(const StatisticsLimits &limits) {
  statements_.set_rows_max(limits.statements_max);
  recent_.set_rows_max(limits.statements_max);
  slow_commits_.set_limits(limits.slow_commit_threshold_ns, limits.slow_commits_max);
}

void Statistics::on_statement(const JoinedStatement &event) {
  const uint64_t now_ns = clock_.now_ns();
  statements_.row(event.key, now_ns).figures.add(event.record);
  recent_.current(now_ns).row(event.key, now_ns).figures.add(event.record);
}

void Statistics::on_commit(const JoinedCommit &event) {
  const uint64_t now_ns = clock_.now_ns();
  for (StatementTable *table : {&statements_, &recent_.current(now_ns)}) {
    table->row(event.key, now_ns).figures.add(event);
    if (event.has_cause) table->cause_row(event.cause, now_ns).figures.add_caused(event.record);
  }
  commit_times_[event.instance.id].add(event.record.duration_ns);
  slow_commits_.add(event);
  const uint64_t waited_ns = event.accounted() ? event.record.vector_ns[FL_CAUSE_REPLICATION] : 0;
  if (waited_ns == 0) return;
  ReplicationWaits &waits = replication_waits_[event.instance.id];
  waits.commits++;
  waits.total_ns += waited_ns;
  waits.max_ns = std::max(waits.max_ns, waited_ns);
}

void Statistics::reset(const ResetFilter &filter) {
  const uint64_t now_ns = clock_.now_ns();
  statements_.reset(filter, now_ns);
  recent_.reset(filter, now_ns);
  if (filter.minmax_only || !filter.whole_instance()) return;
  slow_commits_.reset(filter.instance);
  if (filter.instance == 0) {
    commit_times_.clear();
    replication_waits_.clear();
    reset_at_ns_.clear();
    started_ns_ = now_ns;
  } else {
    commit_times_.erase(filter.instance);
    replication_waits_.erase(filter.instance);
    reset_at_ns_[filter.instance] = now_ns;
  }
}

ReplicationWaits Statistics::replication_waits(uint32_t instance) const {
  const auto found = replication_waits_.find(instance);
  return found == replication_waits_.end() ? ReplicationWaits{} : found->second;
}

uint64_t Statistics::reset_at_ns(uint32_t instance) const {
  const auto found = reset_at_ns_.find(instance);
  return found == reset_at_ns_.end() ? started_ns_ : found->second;
}

}  // namespace flushlight
