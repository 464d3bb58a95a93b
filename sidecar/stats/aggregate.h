// SPDX-License-Identifier: GPL-2.0-or-later
// The figures of one row: exact sums, minimum, maximum, mean and deviation, and a histogram.
#pragma once
#include <cstdint>
#include <limits>

#include "sidecar/join/events.h"
#include "sidecar/stats/log_histogram.h"

namespace flushlight {

struct Aggregate {
  uint64_t calls = 0;
  uint64_t exec_ns = 0;
  uint64_t work = 0;  // WAL bytes or rows changed, of the statements themselves

  uint64_t caused_commits = 0;
  uint64_t caused_commit_ns = 0;

  uint64_t commits = 0;
  uint64_t commit_ns = 0;
  double mean_ns = 0, m2 = 0;   // Welford
  uint64_t minmax_commits = 0;  // since minimum and maximum were last reset
  uint64_t min_ns = std::numeric_limits<uint64_t>::max();
  uint64_t max_ns = 0;
  LogHistogram histogram;

  uint64_t accounted = 0;  // the sums from here on are of these commits only
  uint64_t vector_ns[FL_VECTOR_COUNT] = {};
  uint64_t syncs = 0;
  uint64_t led = 0;  // also of unaccounted ones, where the record shows it
  uint64_t followed = 0;
  uint64_t attributed_commits = 0;
  uint64_t attributed_ns = 0;
  uint64_t binlog_led = 0, binlog_followed = 0;

  void add(const fl_record_statement &record);
  void add(const JoinedCommit &event);
  void add_caused(const fl_record_commit &record);
  void merge(const Aggregate &other);
  void reset_minmax();
  [[nodiscard]] double stddev_ns() const;  // of the population
};

}  // namespace flushlight
