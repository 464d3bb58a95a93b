// SPDX-License-Identifier: GPL-2.0-or-later
// What the databases' commits suffer, asked of the daemon again and again.
// Owner: whoever calls observe(), one thread.
#pragma once
#include <map>
#include <optional>

#include "sidecar/cli/client.h"
#include "sidecar/stats/log_histogram.h"

namespace flushlight::cli {

// Observations by lower bound of the bucket, of all servers together.
using CommitCounts = std::map<int64_t, uint64_t>;
CommitCounts commit_counts(const ViewTable &latency);

struct CommitWindow {
  uint64_t commits = 0;
  std::optional<double> p99_ms;          // of the commits that ended in the window; nothing below kCommitsMin
  std::optional<double> oldest_open_ms;  // of those that had not ended when it did
};

// Counts that fell (a reset, another daemon) count from nothing.
CommitWindow window_between(const CommitCounts &before, const CommitCounts &after);

class CommitWatch {
 public:
  // Fewer commits have no p99 to speak of: their window goes on.
  static constexpr uint64_t kCommitsMin = 20;
  // A commit that is open for this many times the limit: the p99 of those that end says nothing about it.
  static constexpr double kOpenFactor = 10;
  // Where nobody gave a limit: this many times the baseline, and so much more at least.
  static constexpr double kBaselineFactor = 3, kBaselineMoreMs = 10;

  explicit CommitWatch(Connection connection) : connection_(std::move(connection)) {}
  // The window since the last one that had enough commits; an error: no daemon answers.
  Result<CommitWindow> observe();

  static double default_limit_ms(const CommitWindow &baseline);
  // In words, if the commits suffer.
  static std::optional<std::string> suffering(const CommitWindow &window, double limit_ms);

 private:
  Connection connection_;
  std::optional<CommitCounts> since_;
};

}  // namespace flushlight::cli
