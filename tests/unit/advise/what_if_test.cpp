// SPDX-License-Identifier: GPL-2.0-or-later
// What-if: distribution in, distribution out. Real runs: tests/replay. Here: commits whose answer is known.
#include "sidecar/advise/what_if.h"

#include <cmath>
#include <random>

#include "made_up.h"

namespace flushlight::advise::test {
namespace {

CommitSample sample(double oncpu_ms, double flush_ms, double write_ms, double cpu_ms, double other_ms,
                    double journal_ms = 0, bool followed = false) {
  CommitSample one;
  const auto ns = [](double ms) { return static_cast<uint64_t>(ms * 1e6); };
  one.vector_ns[FL_CAUSE_ONCPU] = ns(oncpu_ms);
  one.vector_ns[FL_CAUSE_FLUSH] = ns(flush_ms);
  one.vector_ns[FL_CAUSE_WRITE] = ns(write_ms);
  one.vector_ns[FL_CAUSE_CPU] = ns(cpu_ms);
  one.vector_ns[FL_CAUSE_REPLICATION] = ns(other_ms);
  for (int i = 0; i < FL_CAUSE_COUNT; i++) one.duration_ns += one.vector_ns[i];
  one.vector_ns[FL_VECTOR_PATH(FL_PATH_JOURNAL)] = ns(journal_ms);
  one.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] = one.duration_ns - ns(journal_ms);
  one.syncs = followed ? 0 : 1;
  one.followed = followed;
  return one;
}

TEST(WhatIf, PercentilesByRank) {
  EXPECT_DOUBLE_EQ(percentile_of({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(percentile_of({1, 2}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(percentile_of({}, 0.5), 0);
}

TEST(WhatIf, WithoutSyncTheRestStays) {
  const std::vector<CommitSample> samples(100, sample(0.1, 20, 0.5, 0, 2));
  const Outcome outcome = without_sync(samples, {});
  ASSERT_TRUE(outcome.p50_ms) << outcome.why_not;
  EXPECT_NEAR(*outcome.p50_ms, 2.1, 1e-6);
  EXPECT_NEAR(*outcome.p99_ms, 2.1, 1e-6);
  EXPECT_NEAR(*without_sync(samples, {0.3}).p50_ms, 2.4, 1e-6)
      << "the write of the log stays, no longer than one takes";
  EXPECT_NEAR(*without_sync(samples, {5.0}).p50_ms, 2.6, 1e-6) << "and no longer than it did";
}

TEST(WhatIf, WaitsForACpuGoWithTheWaitsThatTheyFollowed) {
  // 30 of 40 ms asleep went to syncs: three quarters of the 4 ms of waiting for a CPU came of them.
  const std::vector<CommitSample> samples(100, sample(0.1, 30, 0, 4, 10));
  EXPECT_NEAR(*without_sync(samples, {}).p50_ms, 0.1 + 10 + 1, 1e-6);
}

TEST(WhatIf, DistributionInDistributionOut) {
  std::vector<CommitSample> samples;
  for (int i = 0; i < 1000; i++) samples.push_back(sample(0.1, 20, 0, 0, i < 980 ? 0 : 50));
  const Outcome outcome = without_sync(samples, {});
  EXPECT_NEAR(*outcome.p50_ms, 0.1, 1e-6);
  EXPECT_NEAR(*outcome.p99_ms, 50.1, 1e-6) << "what was no sync's is still there";
}

TEST(WhatIf, AShareOfTheSync) {
  const std::vector<CommitSample> samples(100, sample(0.1, 30, 0, 0, 1));
  EXPECT_NEAR(*with_share_of_sync(samples, 1.0 / 3).p50_ms, 11.1, 1e-6);
  EXPECT_NEAR(*with_share_of_sync(samples, 1).p50_ms, 31.1, 1e-6);
}

TEST(WhatIf, WithoutTheJournal) {
  const std::vector<CommitSample> samples(100, sample(0.1, 30, 0, 0, 0, 20));
  EXPECT_NEAR(*without_journal(samples).p50_ms, 10.1, 1e-6);
}

TEST(WhatIf, TooFewCommitsTellNothing) {
  const std::vector<CommitSample> samples(10, sample(0.1, 30, 0, 0, 0));
  const Outcome outcome = without_sync(samples, {});
  EXPECT_FALSE(outcome.p50_ms || outcome.p99_ms);
  EXPECT_FALSE(outcome.why_not.empty());
}

// Eight sessions without a pause at a sync of 20 ms: who comes during one waits for it and for its own, so nearly 40.
Commits closed_loop(double measured_p50_ms) {
  Facts facts;
  set_commits(&facts, 20, FL_CAUSE_FLUSH);
  Commits commits = facts.commits;
  commits.sessions = 8;
  commits.p50_ms = measured_p50_ms;
  commits.window_s = 60;
  commits.commits = static_cast<uint64_t>(60 * 8 * 1000 / (measured_p50_ms + 5));  // a pause of 5 ms
  commits.commit_ns = static_cast<uint64_t>(static_cast<double>(commits.commits) * measured_p50_ms * 1e6);
  return commits;
}

TEST(WhatIf, ADelayIsModelledOnlyIfTheModelFitsWhatIs) {
  const Outcome fits = with_group_delay(closed_loop(35), 10);
  ASSERT_TRUE(fits.p50_ms) << fits.why_not;
  EXPECT_GT(*fits.p50_ms, 20);
  EXPECT_LT(*fits.p50_ms, 60);
  const Outcome does_not = with_group_delay(closed_loop(200), 10);
  EXPECT_FALSE(does_not.p50_ms);
  EXPECT_NE(does_not.why_not.find("does not reproduce"), std::string::npos);
}

}  // namespace
}  // namespace flushlight::advise::test
