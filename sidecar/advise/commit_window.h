// SPDX-License-Identifier: GPL-2.0-or-later
// The commits of the last minutes, in slices that can be cut where something changed: figures, a fair choice of single
// accounts, and what made them.
// Owner: main thread.
#pragma once
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "sidecar/advise/facts.h"
#include "sidecar/base/clock.h"
#include "sidecar/join/events.h"
#include "sidecar/stats/log_histogram.h"

namespace flushlight::advise {

class CommitWindow final : public EventSink {
 public:
  static constexpr uint64_t kSlicesKept = 128;
  static constexpr size_t kSamplesPerSlice = 200;
  static constexpr size_t kSamplesMax = 4000;
  static constexpr size_t kNamesMax = 64;  // digests and roles of one slice; more are not told apart
  static constexpr size_t kSessionsMax = 4096;

  CommitWindow(const Clock &clock, uint64_t slice_ns) : clock_(clock), slice_ns_(slice_ns) {}
  void on_statement(const JoinedStatement & /*event*/) override {}
  void on_commit(const JoinedCommit &event) override;

  // What comes from now on is in another slice than what came.
  void cut(uint32_t instance);
  // All slices that lie within. Names of digests and roles stay symbols and numbers: gather.h finds their words.
  struct Found {
    Commits commits;
    std::vector<Symbol> role_users;  // beside commits.roles
  };
  [[nodiscard]] Found between(uint32_t instance, uint64_t begin_ns, uint64_t end_ns) const;
  void forget(uint32_t instance) { slices_.erase(instance); }

 private:
  struct Slice {
    uint64_t begin_ns = 0, end_ns = 0;  // end 0: the current one
    Commits sums;                       // all but percentiles, samples and names
    LogHistogram times;
    std::vector<CommitSample> samples;
    std::vector<DigestCommits> digests;
    std::vector<RoleCommits> roles;
    std::unordered_map<uint64_t, uint32_t> digest_places;
    std::unordered_map<Symbol, uint32_t> role_places;
    std::vector<Symbol> role_users;
    std::unordered_set<uint64_t> sessions;
  };
  using Slices = std::deque<Slice>;
  Slice &current(uint32_t instance);
  void add(const JoinedCommit &event, Slice *slice);
  uint64_t random();

  const Clock &clock_;
  uint64_t slice_ns_;
  std::map<uint32_t, Slices> slices_;
  uint64_t random_state_ = 0x9e3779b97f4a7c15ull;
};

}  // namespace flushlight::advise
