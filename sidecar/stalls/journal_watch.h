// SPDX-License-Identifier: GPL-2.0-or-later
// Finds out when a file system's journal does not serve what it was asked, although its device does.
//
//   busy   a tenth of its commits, or of what a database's commits waited for it, took longer than they ever take, and
//          another process crowds the journal. Without such a process it is the device that is slow, and the detector's.
//   held   a commit of the journal stands still before it writes anything: somebody keeps it open
//
// "Long" is measured against the journal's own history, never less than kFloorNs.
// Pure: no clock, no files, no kernel. Owner: main thread.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sidecar/stalls/detector.h"

namespace flushlight::stalls {

struct JournalActivity {
  uint32_t number = 0;            // of the file system
  uint32_t device = 0;            // the disk that it lies on
  uint64_t in_progress_ns = 0;    // commit under way since; 0: none
  bool writes = false;            // that commit writes already
  uint64_t busy_ns = 0;           // ever-growing: time of commits
  std::vector<uint64_t> commits;  // ever-growing histogram of their times, buckets of abi/histogram.h
  uint32_t outstanding = 0;       // requests of the disk
};

class JournalWatch {
 public:
  static constexpr uint64_t kMs = 1'000'000;
  static constexpr uint64_t kFloorNs = 100 * kMs;
  static constexpr uint64_t kUnknownNs = 250 * kMs;  // without a history
  static constexpr uint64_t kGoneNs = 2000 * kMs;    // the crowd for so long, and it is over
  static constexpr uint64_t kHeldNs = 500 * kMs;
  static constexpr uint64_t kFactor = 8;
  static constexpr double kShare = 0.1;
  static constexpr double kTail = 0.05;  // few commits of a database are seen, and one slow one must not be the rule
  static constexpr size_t kMin = 3;
  static constexpr uint64_t kWindowNs = Detector::kWindowNs;
  static constexpr uint64_t kLearnAfterNs = 60'000 * kMs;  // slow for so long, and nobody to blame: that is usual then
  static constexpr double kAlone = 0.1;  // other journals' busy time, for a database's wait to be this one's

  struct Look {
    uint64_t now_ns = 0;
    std::vector<JournalActivity> journals;
    std::function<Detector::Service(uint32_t device)> service;
    std::function<bool(uint32_t device)> crowded;  // asked only when something is slow
    std::function<uint64_t()> new_id;
  };
  // A commit of a database ended that waited so long for a journal. Which one is not known.
  void commit(uint64_t begin_ns, uint64_t journal_ns);
  Detector::Changes look(const Look &look);
  std::vector<Episode> forget(uint64_t now_ns);
  [[nodiscard]] std::vector<Episode> open() const;

 private:
  enum Source { kCommits, kWaits, kSources };
  struct Wait {
    uint64_t begin_ns, ns;
  };
  struct Interval {
    uint64_t to_ns = 0;
    std::array<kernel::Octaves, kernel::kStallOperations> all{};  // the first two: by source
    std::array<std::vector<Wait>, kSources> long_ones;            // kFloorNs or more
  };
  struct Journal {
    History history;
    bool seen = false;
    JournalActivity last;
    uint64_t looked_ns = 0;
    std::deque<Interval> window;
    uint64_t slow_since_ns = 0;  // slow in each look since; 0: it is not
    uint64_t slow_seen_ns = 0;   // of the open episode: last look that was slow, with somebody to blame
    std::optional<Episode> open;
  };
  struct Slow {
    uint64_t begin_ns = 0, last_ns = 0;  // first wait's begin, look that saw the last one
    uint64_t longest_ns = 0;
    std::optional<uint64_t> usual_ns;
  };

  void look_at(const Look &look, const JournalActivity &now, std::vector<Wait> waits, Detector::Changes *changes);
  static void add_commits(const JournalActivity &now, Journal *journal, Interval *interval);
  static std::optional<Slow> slow(const Journal &journal);
  static std::optional<Slow> held(const Look &look, const JournalActivity &now, const Journal &journal);
  static void close(uint64_t end_ns, Journal *journal, Detector::Changes *changes);
  [[nodiscard]] uint32_t whose_waits(const Look &look) const;

  std::map<uint32_t, Journal> journals_;
  std::vector<Wait> waits_;  // of databases' commits since the last look; all of them, for the shares
};

}  // namespace flushlight::stalls
