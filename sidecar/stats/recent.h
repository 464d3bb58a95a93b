// SPDX-License-Identifier: GPL-2.0-or-later
// The last five minutes: eleven slices of 30 s, the oldest dropped as a new one begins.
// Owner: main thread.
#pragma once
#include <deque>
#include <memory>

#include "sidecar/stats/statement_table.h"

namespace flushlight {

class Recent {
 public:
  static constexpr uint64_t kSliceNs = 30'000'000'000;
  static constexpr size_t kSlices = 11;  // ten full ones and the current one

  explicit Recent(size_t rows_max) : rows_max_(rows_max) {}
  void set_rows_max(size_t rows_max) { rows_max_ = rows_max; }

  StatementTable &current(uint64_t now_ns);
  // All slices of the last five minutes as one table. Rows say since when they count.
  StatementTable merged(uint64_t now_ns);
  void reset(const ResetFilter &filter, uint64_t now_ns);

 private:
  void drop_old(uint64_t now_ns);

  struct Slice {
    uint64_t begin_ns;
    StatementTable table;
  };
  size_t rows_max_;
  std::deque<Slice> slices_;  // oldest first
};

}  // namespace flushlight
