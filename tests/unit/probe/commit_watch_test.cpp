// SPDX-License-Identifier: GPL-2.0-or-later
// What the probe makes of the daemon's histogram of commits.
#include "sidecar/cli/commit_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flushlight::cli {
namespace {

using ::testing::HasSubstr;

int64_t low_of(double ms) {
  return static_cast<int64_t>(fl_histogram_low(fl_histogram_bucket(static_cast<uint64_t>(ms * 1e6))));
}

TEST(CommitWatchTest, CountsCommitsOnly) {
  ViewTable latency;
  latency.columns = {"object", "operation", "bucket_low_ms", "observations"};
  latency.rows = {
      {text_cell("commit"), text_cell("commit"), double_cell(1.048576), int_cell(5)},
      {text_cell("commit"), text_cell("commit"), double_cell(1.048576), int_cell(7)},  // another server
      {text_cell("sda"), text_cell("flush"), double_cell(1.048576), int_cell(100)},
  };
  EXPECT_EQ(commit_counts(latency), (CommitCounts{{1'048'576, 12}}));
}

TEST(CommitWatchTest, P99IsThatOfTheWindow) {
  const CommitCounts before = {{low_of(1), 1'000'000}};
  const CommitCounts after = {{low_of(1), 1'000'050}, {low_of(40), 50}};
  const CommitWindow window = window_between(before, after);
  EXPECT_EQ(window.commits, 100u);
  EXPECT_NEAR(*window.p99_ms, 40, 40 * 0.04);
}

TEST(CommitWatchTest, TooFewCommitsHaveNone) {
  EXPECT_FALSE(window_between({}, {{low_of(40), CommitWatch::kCommitsMin - 1}}).p99_ms);
  EXPECT_TRUE(window_between({}, {{low_of(40), CommitWatch::kCommitsMin}}).p99_ms);
  EXPECT_FALSE(window_between({{low_of(40), 20}}, {{low_of(40), 20}}).p99_ms);
}

TEST(CommitWatchTest, AResetCountsFromNothing) {
  const CommitWindow window = window_between({{low_of(1), 1000}, {low_of(2), 5}}, {{low_of(1), 30}});
  EXPECT_EQ(window.commits, 30u);
}

TEST(CommitWatchTest, Suffering) {
  struct Case {
    CommitWindow window;
    bool suffers;
  };
  const Case cases[] = {
      {{100, 20.0, std::nullopt}, false}, {{100, 20.1, std::nullopt}, true},        {{0, std::nullopt, 200.0}, false},
      {{0, std::nullopt, 200.1}, true},   {{0, std::nullopt, std::nullopt}, false},
  };
  for (const Case &c : cases) EXPECT_EQ(CommitWatch::suffering(c.window, 20).has_value(), c.suffers);
  EXPECT_THAT(*CommitWatch::suffering({100, 51.2, std::nullopt}, 20), HasSubstr("51.2 ms"));
}

TEST(CommitWatchTest, DefaultLimit) {
  EXPECT_EQ(CommitWatch::default_limit_ms({100, 1.0, std::nullopt}), 11.0);
  EXPECT_EQ(CommitWatch::default_limit_ms({100, 40.0, std::nullopt}), 120.0);
  EXPECT_EQ(CommitWatch::default_limit_ms({0, std::nullopt, std::nullopt}), 10.0);
}

TEST(CommitWatchTest, NoDaemonIsAnError) {
  Connection connection;
  connection.socket_path = std::string(SCRATCH_FOLDER) + "/no-such.sock";
  EXPECT_FALSE(CommitWatch(connection).observe());
}

}  // namespace
}  // namespace flushlight::cli
