// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stats/slow_commits.h"

#include <algorithm>
#include <unordered_map>

namespace flushlight {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

SlowCommit make(const JoinedCommit &event) {
  SlowCommit commit;
  commit.key = event.key;
  if (event.has_cause) commit.key.queryid = event.cause.queryid;
  commit.record = event.record;
  commit.role = event.role;
  commit.backend_start_unix_ns = event.session.backend_start_unix_ns;
  commit.application = event.session.application;
  commit.address = event.session.address;
  return commit;
}

}  // namespace

void SlowCommits::set_limits(uint64_t threshold_ns, size_t capacity) {
  threshold_ns_ = threshold_ns;
  capacity_ = capacity;
  while (kept_.size() > capacity_) kept_.pop_front();
}

void SlowCommits::add(const JoinedCommit &event) {
  if (event.record.duration_ns < threshold_ns_) return;
  Second &second = seconds_[event.instance.id];
  const uint64_t number = (event.record.begin_ns + event.record.duration_ns) / kSecondNs;
  // Rings are read one after another: a commit may be a little older than the newest.
  if (number > second.number) {
    close(event.instance.id, &second);
    second.number = number;
  }
  second.commits.push_back(make(event));
  if (second.commits.size() >= kSecondMax) suppressed_[event.instance.id] += thin(&second.commits);
}

void SlowCommits::close(uint32_t instance, Second *second) {
  if (second->commits.size() > kStormPerSecond) suppressed_[instance] += thin(&second->commits);
  std::sort(second->commits.begin(), second->commits.end(),
            [](const SlowCommit &a, const SlowCommit &b) { return a.end_ns() < b.end_ns(); });
  for (SlowCommit &commit : second->commits) kept_.push_back(std::move(commit));
  second->commits.clear();
  while (kept_.size() > capacity_) kept_.pop_front();
}

size_t SlowCommits::thin(std::vector<SlowCommit> *commits) const {
  std::unordered_map<StatementKey, size_t, StatementKeyHash> worst;
  for (size_t i = 0; i < commits->size(); i++) {
    const auto [found, is_new] = worst.try_emplace((*commits)[i].key, i);
    if (!is_new && (*commits)[i].record.duration_ns > (*commits)[found->second].record.duration_ns) found->second = i;
  }
  std::vector<SlowCommit> kept;
  size_t leaders = 0;
  for (size_t i = 0; i < commits->size(); i++) {
    SlowCommit &commit = (*commits)[i];
    const bool is_worst = worst[commit.key] == i;
    const bool leads = commit.role == Role::kLed && leaders < kLeadersPerSecond;
    leaders += leads;
    if (is_worst || leads) kept.push_back(std::move(commit));
  }
  if (kept.size() > kSecondMax / 2) {  // thousands of different queries in one second: the worst of them
    std::nth_element(
        kept.begin(), kept.begin() + kSecondMax / 2, kept.end(),
        [](const SlowCommit &a, const SlowCommit &b) { return a.record.duration_ns > b.record.duration_ns; });
    kept.resize(kSecondMax / 2);
  }
  const size_t gone = commits->size() - kept.size();
  *commits = std::move(kept);
  return gone;
}

void SlowCommits::reset(uint32_t instance) {
  const auto concerned = [instance](uint32_t id) { return instance == 0 || id == instance; };
  std::erase_if(kept_, [&](const SlowCommit &commit) { return concerned(commit.key.instance); });
  std::erase_if(seconds_, [&](const auto &entry) { return concerned(entry.first); });
  std::erase_if(suppressed_, [&](const auto &entry) { return concerned(entry.first); });
}

uint64_t SlowCommits::suppressed(uint32_t instance) const {
  const auto found = suppressed_.find(instance);
  return found == suppressed_.end() ? 0 : found->second;
}

uint64_t SlowCommits::suppressed() const {
  uint64_t total = 0;
  for (const auto &[instance, count] : suppressed_) total += count;
  return total;
}

}  // namespace flushlight
