// SPDX-License-Identifier: GPL-2.0-or-later
// Commits over the threshold, newest last. In a storm (more than kStormPerSecond of one instance in one
// second) the ones that led a sync and each query's worst stay; the rest is counted as suppressed.
// Owner: main thread.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "sidecar/join/events.h"

namespace flushlight {

struct SlowCommit {
  StatementKey key;  // queryid: of the statement that wrote most, where the commit was explicit
  fl_record_commit record{};
  Role role = Role::kUnknown;
  uint64_t backend_start_unix_ns = 0;
  std::string application, address;

  [[nodiscard]] uint64_t end_ns() const { return record.begin_ns + record.duration_ns; }
  [[nodiscard]] bool accounted() const { return (record.flags & FL_COMMIT_ACCOUNTED) != 0; }
};

class SlowCommits {
 public:
  static constexpr size_t kStormPerSecond = 50;
  static constexpr size_t kLeadersPerSecond = 200;
  static constexpr size_t kSecondMax = 2000;  // kept until the second is over; more are thinned at once

  SlowCommits(uint64_t threshold_ns, size_t capacity) : threshold_ns_(threshold_ns), capacity_(capacity) {}
  void set_limits(uint64_t threshold_ns, size_t capacity);
  void add(const JoinedCommit &event);
  void reset(uint32_t instance);  // 0: all

  // Calls visit(SlowCommit) for every one, those of the current second included.
  template <typename Visit>
  void for_each(const Visit &visit) const {
    for (const SlowCommit &commit : kept_) visit(commit);
    for (const auto &[instance, second] : seconds_)
      for (const SlowCommit &commit : second.commits) visit(commit);
  }
  [[nodiscard]] uint64_t suppressed(uint32_t instance) const;
  [[nodiscard]] uint64_t suppressed() const;

 private:
  struct Second {
    uint64_t number = 0;
    std::vector<SlowCommit> commits;
  };
  void close(uint32_t instance, Second *second);
  size_t thin(std::vector<SlowCommit> *commits) const;  // how many went

  uint64_t threshold_ns_;
  size_t capacity_;
  std::deque<SlowCommit> kept_;
  std::map<uint32_t, Second> seconds_;  // by instance: the one in progress
  std::map<uint32_t, uint64_t> suppressed_;
};

}  // namespace flushlight
