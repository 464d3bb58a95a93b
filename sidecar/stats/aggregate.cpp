// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/aggregate.h"

#include <algorithm>
#include <cmath>

namespace flushlight {

void Aggregate::add(const fl_record_statement &record) {
  calls++;
  exec_ns += record.duration_ns;
  work += record.work;
}

void Aggregate::add(const JoinedCommit &event) {
  const fl_record_commit &record = event.record;
  commits++;
  commit_ns += record.duration_ns;
  const auto value = static_cast<double>(record.duration_ns);
  const double delta = value - mean_ns;
  mean_ns += delta / static_cast<double>(commits);
  m2 += delta * (value - mean_ns);
  minmax_commits++;
  min_ns = std::min(min_ns, record.duration_ns);
  max_ns = std::max(max_ns, record.duration_ns);
  histogram.add(record.duration_ns);

  led += event.role == Role::kLed;
  followed += event.role == Role::kFollowed;
  if (record.flags & FL_COMMIT_ATTRIBUTED) {
    attributed_commits++;
    attributed_ns += std::min(record.attributed_ns, record.duration_ns);
  }
  if (record.flags & FL_COMMIT_BINLOG) (record.flags & FL_COMMIT_BINLOG_LED ? binlog_led : binlog_followed)++;
  if (!event.accounted()) return;
  accounted++;
  syncs += record.syncs;
  for (int i = 0; i < FL_VECTOR_COUNT; i++) vector_ns[i] += record.vector_ns[i];
}

void Aggregate::add_caused(const fl_record_commit &record) {
  caused_commits++;
  caused_commit_ns += record.duration_ns;
}

void Aggregate::merge(const Aggregate &other) {
  if (other.commits > 0) {
    const auto mine = static_cast<double>(commits), theirs = static_cast<double>(other.commits);
    const double delta = other.mean_ns - mean_ns;
    mean_ns += delta * theirs / (mine + theirs);
    m2 += other.m2 + delta * delta * mine * theirs / (mine + theirs);
  }
  min_ns = std::min(min_ns, other.min_ns);
  max_ns = std::max(max_ns, other.max_ns);
  histogram.merge(other.histogram);
  for (int i = 0; i < FL_VECTOR_COUNT; i++) vector_ns[i] += other.vector_ns[i];
  static constexpr uint64_t Aggregate::*kSums[] = {&Aggregate::calls,
                                                   &Aggregate::exec_ns,
                                                   &Aggregate::work,
                                                   &Aggregate::caused_commits,
                                                   &Aggregate::caused_commit_ns,
                                                   &Aggregate::commits,
                                                   &Aggregate::commit_ns,
                                                   &Aggregate::minmax_commits,
                                                   &Aggregate::accounted,
                                                   &Aggregate::syncs,
                                                   &Aggregate::led,
                                                   &Aggregate::followed,
                                                   &Aggregate::attributed_commits,
                                                   &Aggregate::attributed_ns,
                                                   &Aggregate::binlog_led,
                                                   &Aggregate::binlog_followed};
  for (const auto sum : kSums) this->*sum += other.*sum;
}

void Aggregate::reset_minmax() {
  minmax_commits = 0;
  min_ns = std::numeric_limits<uint64_t>::max();
  max_ns = 0;
}

double Aggregate::stddev_ns() const {
  return commits == 0 ? 0 : std::sqrt(std::max(m2, 0.0) / static_cast<double>(commits));
}

}  // namespace flushlight
