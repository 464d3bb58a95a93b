// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/top_statements.h"

#include <algorithm>

namespace flushlight {
namespace {

constexpr uint64_t kLoyalty = 2;

void fold(const StatementRow &row, StatementRow *into) {
  const bool is_new = into->since_ns == 0;
  into->since_ns = is_new ? row.since_ns : std::min(into->since_ns, row.since_ns);
  into->minmax_since_ns = is_new ? row.minmax_since_ns : std::min(into->minmax_since_ns, row.minmax_since_ns);
  into->figures.merge(row.figures);
}

}  // namespace

TopStatements::Chosen TopStatements::choose(const StatementTable &table) {
  struct Ranked {
    uint64_t weight, calls;
    const Entry *entry;
  };
  std::vector<Ranked> ranked;
  ranked.reserve(table.rows().size());
  for (const Entry &entry : table.rows()) {
    const Aggregate &figures = entry.second.figures;
    ranked.push_back({figures.commit_ns * (members_.contains(entry.first) ? kLoyalty : 1), figures.calls, &entry});
  }
  const auto kept = ranked.begin() + static_cast<ptrdiff_t>(std::min(max_, ranked.size()));
  std::partial_sort(ranked.begin(), kept, ranked.end(), [](const Ranked &a, const Ranked &b) {
    return a.weight != b.weight ? a.weight > b.weight : a.calls > b.calls;
  });
  Chosen chosen;
  members_.clear();
  for (auto one = ranked.begin(); one != kept; ++one) {
    chosen.top.push_back(one->entry);
    members_.insert(one->entry->first);
  }
  for (auto one = kept; one != ranked.end(); ++one) fold(one->entry->second, &chosen.rest[one->entry->first.instance]);
  for (const auto &[instance, row] : table.evicted()) fold(row, &chosen.rest[instance]);
  return chosen;
}

}  // namespace flushlight
