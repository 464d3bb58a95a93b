// SPDX-License-Identifier: GPL-2.0-or-later
// Stalls that were, and those that last: whom they hit, which tasks they blocked, who is to blame.
// Owner: main thread.
#pragma once
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sidecar/join/events.h"
#include "sidecar/stalls/culprit.h"
#include "sidecar/stalls/detector.h"

namespace flushlight::stalls {

// A commit that took a while, as far as stalls are concerned.
struct WaitedCommit {
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t storage_ns = 0;  // waited for storage; all of it where that was not observed
  uint64_t journal_ns = 0;  // waited for a file system's journal; all of it likewise
  StatementKey key;         // of the statement that wrote most, where the commit was explicit
  uint64_t session_id = 0;
};
WaitedCommit waited_commit(const JoinedCommit &event);
WaitedCommit waited_commit(const fl_record_commit &record, const StatementKey &key);

// The commits of one server that a stall made wait.
struct Hits {
  uint64_t commits = 0;
  std::set<uint64_t> sessions;
  uint64_t worst_ns = 0;  // longest of them
  StatementKey worst;
  void add(const WaitedCommit &commit);
};

struct StallTask {
  uint32_t tid = 0, tgid = 0;
  std::string process, name;
  std::vector<std::string> stack;
  std::string wait_function;  // empty: not known
  uint64_t waited_ns = 0;     // when last seen
  bool commits = false;       // session of a database
};

struct Stall {
  Episode episode;
  std::string device, mount_point;  // mount_point: empty: not known
  Culprit culprit;
  std::map<uint32_t, Hits> hits;        // by instance
  std::vector<WaitedCommit> undecided;  // ended lately: perhaps after the stall
  std::map<uint32_t, StallTask> tasks;  // by thread
  uint64_t other_tasks = 0;             // most at one time, without sessions

  [[nodiscard]] bool lasts() const { return episode.end_ns == 0; }
  // An end that is not known yet is taken as now.
  [[nodiscard]] bool hit(const WaitedCommit &commit, uint64_t now_ns) const;
  // Of one server, or (0) of all, the undecided included.
  [[nodiscard]] Hits hits_of(uint32_t instance, uint64_t now_ns) const;
};

// The innermost function that is not the scheduler's own.
std::string wait_function_of(const std::vector<std::string> &stack);

// All stalls of a device since the daemon began, the one that lasts included.
struct StallTotals {
  uint64_t count = 0;
  uint64_t ns = 0;  // of those that ended
  uint64_t lasts_since_ns = 0;
};

class StallLog {
 public:
  static constexpr size_t kStallsMax = 500;
  static constexpr size_t kTasksMax = 256;
  static constexpr size_t kCommitsMax = 20'000;
  static constexpr uint64_t kWaitMinNs = 5'000'000;  // a commit that waited less was not hit
  static constexpr uint64_t kCommitsKeptNs = 10'000'000'000;
  static constexpr uint64_t kDecidedNs = 2'000'000'000;

  Stall &open(const Episode &episode, uint64_t now_ns);
  void close(const Episode &episode, uint64_t now_ns);
  void commit(const WaitedCommit &commit, uint64_t now_ns);
  void keep_house(uint64_t now_ns);  // once a second

  [[nodiscard]] const std::deque<Stall> &stalls() const { return stalls_; }
  [[nodiscard]] Stall *find(uint64_t id);
  [[nodiscard]] StallTotals totals(uint32_t device) const;
  // The stall that made this commit wait; nullptr: none.
  [[nodiscard]] const Stall *stall_of(const WaitedCommit &commit, uint64_t now_ns) const;

 private:
  std::deque<Stall> stalls_;          // newest last
  std::deque<WaitedCommit> commits_;  // of the last seconds
  std::map<uint32_t, StallTotals> totals_;
};

}  // namespace flushlight::stalls
