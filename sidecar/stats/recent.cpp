// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/recent.h"

#include <algorithm>

namespace flushlight {
namespace {

void merge_row(const StatementRow &from, bool is_new, StatementRow *into) {
  into->since_ns = is_new ? from.since_ns : std::min(into->since_ns, from.since_ns);
  into->minmax_since_ns = is_new ? from.minmax_since_ns : std::max(into->minmax_since_ns, from.minmax_since_ns);
  into->figures.merge(from.figures);
}

}  // namespace

void Recent::drop_old(uint64_t now_ns) {
  while (!slices_.empty() && now_ns >= slices_.front().begin_ns + kSliceNs * kSlices) slices_.pop_front();
}

StatementTable &Recent::current(uint64_t now_ns) {
  const uint64_t begin_ns = now_ns / kSliceNs * kSliceNs;
  if (slices_.empty() || slices_.back().begin_ns < begin_ns) {
    drop_old(now_ns);
    slices_.push_back({begin_ns, StatementTable(rows_max_)});
  }
  return slices_.back().table;
}

StatementTable Recent::merged(uint64_t now_ns) {
  drop_old(now_ns);
  StatementTable all(rows_max_);
  for (const Slice &slice : slices_) {
    for (const auto &[key, row] : slice.table.rows()) {
      const bool is_new = !all.rows().contains(key);
      merge_row(row, is_new, &all.row(key, row.since_ns));
    }
    all.merge_evicted(slice.table);
  }
  return all;
}

void Recent::reset(const ResetFilter &filter, uint64_t now_ns) {
  for (Slice &slice : slices_) slice.table.reset(filter, now_ns);
}

}  // namespace flushlight
