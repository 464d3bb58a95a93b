// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/statement_table.h"

#include <algorithm>
#include <vector>

namespace flushlight {
namespace {

constexpr double kEvictShare = 0.05;
constexpr double kUsageDecay = 0.9;   // per eviction: what was used long ago counts for less
constexpr uint64_t kCommitUsage = 4;  // a commit tells more than a call

}  // namespace

StatementRow &StatementTable::row(const StatementKey &key, uint64_t now_ns) {
  auto found = rows_.find(key);
  if (found == rows_.end()) {
    if (rows_.size() >= rows_max_) evict();
    found = rows_.try_emplace(key).first;
    found->second.since_ns = found->second.minmax_since_ns = now_ns;
  }
  return found->second;
}

StatementRow &StatementTable::cause_row(StatementKey key, uint64_t now_ns) {
  for (const uint8_t toplevel : {1, 0}) {
    key.toplevel = toplevel;
    if (const auto found = rows_.find(key); found != rows_.end()) return found->second;
  }
  key.toplevel = 1;
  return row(key, now_ns);
}

void StatementTable::fold(uint32_t instance, const StatementRow &row) {
  auto [folded, is_new] = evicted_.try_emplace(instance);
  StatementRow &into = folded->second;
  into.since_ns = is_new ? row.since_ns : std::min(into.since_ns, row.since_ns);
  into.minmax_since_ns = is_new ? row.minmax_since_ns : std::min(into.minmax_since_ns, row.minmax_since_ns);
  into.figures.merge(row.figures);
}

void StatementTable::merge_evicted(const StatementTable &other) {
  for (const auto &[instance, row] : other.evicted_) fold(instance, row);
  for (const auto &[instance, count] : other.dealloc_) dealloc_[instance] += count;
}

void StatementTable::evict() {
  std::vector<std::pair<double, StatementKey>> by_usage;
  by_usage.reserve(rows_.size());
  for (auto &[key, row] : rows_) {
    const uint64_t used = row.figures.calls + kCommitUsage * row.figures.commits;
    row.usage = row.usage * kUsageDecay + static_cast<double>(used - row.used_before);
    row.used_before = used;
    by_usage.emplace_back(row.usage, key);
  }
  const size_t over = rows_.size() >= rows_max_ ? rows_.size() - rows_max_ : 0;
  const size_t count = std::min(
      rows_.size(), over + std::max<size_t>(1, static_cast<size_t>(static_cast<double>(rows_max_) * kEvictShare)));
  const auto less = [](const auto &a, const auto &b) { return a.first < b.first; };
  std::nth_element(by_usage.begin(), by_usage.begin() + static_cast<ptrdiff_t>(count - 1), by_usage.end(), less);
  for (size_t i = 0; i < count; i++) {
    const auto found = rows_.find(by_usage[i].second);
    fold(found->first.instance, found->second);
    dealloc_[found->first.instance]++;
    rows_.erase(found);
  }
}

void StatementTable::reset(const ResetFilter &filter, uint64_t now_ns) {
  if (filter.minmax_only) {
    const auto forget = [now_ns](StatementRow &row) {
      row.figures.reset_minmax();
      row.minmax_since_ns = now_ns;
    };
    for (auto &[key, row] : rows_)
      if (filter.matches(key)) forget(row);
    for (auto &[instance, row] : evicted_)
      if (filter.whole_instance() && (filter.instance == 0 || filter.instance == instance)) forget(row);
    return;
  }
  std::erase_if(rows_, [&](const auto &entry) { return filter.matches(entry.first); });
  if (!filter.whole_instance()) return;
  const auto concerned = [&](const auto &entry) { return filter.instance == 0 || entry.first == filter.instance; };
  std::erase_if(evicted_, concerned);
  std::erase_if(dealloc_, concerned);
}

uint64_t StatementTable::dealloc(uint32_t instance) const {
  const auto found = dealloc_.find(instance);
  return found == dealloc_.end() ? 0 : found->second;
}

uint64_t StatementTable::dealloc() const {
  uint64_t total = 0;
  for (const auto &[instance, count] : dealloc_) total += count;
  return total;
}

}  // namespace flushlight
