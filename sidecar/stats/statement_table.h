// SPDX-License-Identifier: GPL-2.0-or-later
// Rows of statement statistics, bounded: when the table is full its least used rows fold into one
// <evicted> row per instance, so that sums stay right.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>

#include "sidecar/stats/aggregate.h"

namespace flushlight {

struct StatementRow {
  Aggregate figures;
  uint64_t since_ns = 0;  // CLOCK_MONOTONIC
  uint64_t minmax_since_ns = 0;
  double usage = 0;  // decaying count of calls and commits; brought up to date at evictions
  uint64_t used_before = 0;
};

// Which rows a reset is about; 0 (or an empty instance): all.
struct ResetFilter {
  uint32_t instance = 0;
  uint64_t userid = 0, dbid = 0, queryid = 0;
  bool minmax_only = false;
  [[nodiscard]] bool whole_instance() const { return userid == 0 && dbid == 0 && queryid == 0; }
  [[nodiscard]] bool matches(const StatementKey &key) const {
    return (instance == 0 || key.instance == instance) && (userid == 0 || key.userid == userid) &&
           (dbid == 0 || key.dbid == dbid) && (queryid == 0 || key.queryid == queryid);
  }
};

class StatementTable {
 public:
  using Rows = std::unordered_map<StatementKey, StatementRow, StatementKeyHash>;
  using Evicted = std::map<uint32_t, StatementRow>;  // by instance

  explicit StatementTable(size_t rows_max) : rows_max_(rows_max) {}
  void set_rows_max(size_t rows_max) { rows_max_ = rows_max; }

  StatementRow &row(const StatementKey &key, uint64_t now_ns);
  // The row of a statement that caused a commit: its toplevel row if there is one, else the nested one.
  StatementRow &cause_row(StatementKey key, uint64_t now_ns);
  void reset(const ResetFilter &filter, uint64_t now_ns);
  // Takes over the folded rows of another table and their count.
  void merge_evicted(const StatementTable &other);

  [[nodiscard]] const Rows &rows() const { return rows_; }
  [[nodiscard]] const Evicted &evicted() const { return evicted_; }
  [[nodiscard]] uint64_t dealloc(uint32_t instance) const;  // rows folded since the last reset
  [[nodiscard]] uint64_t dealloc() const;
  [[nodiscard]] size_t rows_max() const { return rows_max_; }

 private:
  void evict();
  void fold(uint32_t instance, const StatementRow &row);

  size_t rows_max_;
  Rows rows_;
  Evicted evicted_;
  std::map<uint32_t, uint64_t> dealloc_;
};

}  // namespace flushlight
