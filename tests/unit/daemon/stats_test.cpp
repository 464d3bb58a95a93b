// SPDX-License-Identifier: GPL-2.0-or-later
// Figures: histograms, aggregates, the bounded table, the last five minutes, slow commits.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sidecar/kernel/run_stats.h"
#include "sidecar/stats/statistics.h"

namespace flushlight::test {
namespace {

constexpr uint64_t kMs = 1'000'000;

StatementKey key_of(uint64_t queryid, uint32_t instance = 1) {
  StatementKey key;
  key.queryid = queryid;
  key.instance = instance;
  return key;
}

// Owns what an event refers to.
struct CommitSource {
  Instance instance;
  SessionInfo session;
  fl_record_commit record{};
  JoinedCommit event(const StatementKey &key, Role role = Role::kLed) {
    instance.id = key.instance;
    return JoinedCommit{key, {}, false, role, instance, session, record};
  }
};

CommitSource commit_of(uint64_t ns, bool accounted = true, uint64_t end_ns = 0) {
  CommitSource source;
  source.record.duration_ns = ns;
  source.record.begin_ns = end_ns > ns ? end_ns - ns : 0;
  source.record.flags = accounted ? FL_COMMIT_ACCOUNTED : 0;
  source.record.vector_ns[FL_CAUSE_FLUSH] = ns;
  source.record.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] = ns;
  source.record.syncs = 2;
  return source;
}

TEST(Histogram, BucketsAreContiguousAndNarrow) {
  for (uint32_t bucket = 0; bucket + 1 < FL_HISTOGRAM_BUCKETS; bucket++) {
    const uint64_t low = fl_histogram_low(bucket), high = fl_histogram_low(bucket + 1);
    ASSERT_LT(low, high);
    ASSERT_EQ(fl_histogram_bucket(low), bucket);
    ASSERT_EQ(fl_histogram_bucket(high - 1), bucket);
    if (low >= 1024) {
      ASSERT_LE(static_cast<double>(high - low) / static_cast<double>(low), 1.0 / 32);
    }
  }
  EXPECT_EQ(fl_histogram_bucket(UINT64_MAX), FL_HISTOGRAM_BUCKETS - 1);
}

TEST(Histogram, PercentilesOfAKnownDistribution) {
  LogHistogram histogram;
  for (uint64_t i = 1; i <= 10'000; i++) histogram.add(i * 1000);  // 1 µs to 10 ms, uniform
  for (const double q : {0.5, 0.95, 0.99, 0.999}) EXPECT_NEAR(*percentile_ns(histogram, q), q * 1e7, q * 1e7 / 32) << q;
  EXPECT_FALSE(percentile_ns(LogHistogram{}, 0.5));
}

TEST(Histogram, PercentileOfOneValueStaysInItsBucket) {
  LogHistogram histogram;
  histogram.add(50'300'000);
  EXPECT_NEAR(*percentile_ns(histogram, 0.5), 50.3e6, 50.3e6 / 32);
}

TEST(Histogram, OverflowYieldsItsLowerBound) {
  LogHistogram histogram;
  histogram.add(UINT64_MAX);
  EXPECT_DOUBLE_EQ(*percentile_ns(histogram, 0.99), std::ldexp(1.0, 40));
}

TEST(Aggregate, MeanAndDeviationAreExactAlsoWhenMerged) {
  std::mt19937_64 random(3);
  std::vector<double> values;
  Aggregate whole, parts[3];
  for (int i = 0; i < 3000; i++) {
    const uint64_t ns = 1'000'000'000'000 + random() % 1000;  // large mean, small spread: the hard case
    values.push_back(static_cast<double>(ns));
    auto source = commit_of(ns);
    whole.add(source.event(key_of(1)));
    parts[i % 3].add(source.event(key_of(1)));
  }
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double variance = 0;
  for (const double value : values) variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
  Aggregate merged;
  for (const Aggregate &part : parts) merged.merge(part);
  EXPECT_NEAR(whole.stddev_ns(), std::sqrt(variance), 0.1);
  EXPECT_NEAR(merged.stddev_ns(), std::sqrt(variance), 0.1);
  EXPECT_NEAR(merged.mean_ns, mean, 1);
  EXPECT_EQ(merged.commits, 3000u);
  EXPECT_EQ(merged.min_ns, whole.min_ns);
  EXPECT_EQ(merged.max_ns, whole.max_ns);
  EXPECT_EQ(merged.histogram.total(), 3000u);
}

TEST(Aggregate, OnlyAccountedCommitsEnterTheCauses) {
  Aggregate figures;
  auto with = commit_of(5 * kMs), without = commit_of(7 * kMs, false);
  figures.add(with.event(key_of(1)));
  figures.add(without.event(key_of(1), Role::kUnknown));
  EXPECT_EQ(figures.commits, 2u);
  EXPECT_EQ(figures.accounted, 1u);
  EXPECT_EQ(figures.commit_ns, 12 * kMs);
  EXPECT_EQ(figures.vector_ns[FL_CAUSE_FLUSH], 5 * kMs);
  EXPECT_EQ(figures.syncs, 2u);
}

TEST(StatementTable, EvictionKeepsSums) {
  StatementTable table(100);
  auto source = commit_of(kMs);
  for (uint64_t query = 1; query <= 1000; query++)
    for (uint64_t n = 0; n < (query % 10 == 0 ? 5u : 1u); n++) {
      table.row(key_of(query), 10).figures.add(source.event(key_of(query)));
    }
  EXPECT_LE(table.rows().size(), 100u);
  uint64_t commits = table.evicted().at(1).figures.commits;
  for (const auto &[key, row] : table.rows()) commits += row.figures.commits;
  EXPECT_EQ(commits, 900u + 5 * 100);
  EXPECT_EQ(table.dealloc(1) + table.rows().size(), 1000u);
}

TEST(StatementTable, TheUsedOnesStay) {
  StatementTable table(100);
  auto source = commit_of(kMs);
  for (uint64_t query = 1; query <= 2000; query++) {
    for (uint64_t hot = 1'000'001; hot <= 1'000'010; hot++)
      table.row(key_of(hot), 10).figures.add(source.event(key_of(hot)));
    table.row(key_of(query), 10).figures.add(source.event(key_of(query)));
  }
  for (uint64_t hot = 1'000'001; hot <= 1'000'010; hot++) {
    ASSERT_TRUE(table.rows().contains(key_of(hot)));
    EXPECT_EQ(table.rows().at(key_of(hot)).figures.commits, 2000u);
  }
}

TEST(StatementTable, ShrinkingTheLimitTakesEffect) {
  StatementTable table(1000);
  for (uint64_t query = 1; query <= 1000; query++) table.row(key_of(query), 1).figures.calls++;
  table.set_rows_max(100);
  table.row(key_of(5000), 1).figures.calls++;
  EXPECT_LE(table.rows().size(), 100u);
}

TEST(StatementTable, ResetFilters) {
  StatementTable table(100);
  for (const uint64_t user : {1u, 2u})
    for (const uint64_t query : {10u, 20u}) {
      auto key = key_of(query);
      key.userid = user;
      table.row(key, 1).figures.calls++;
    }
  table.row(key_of(10, 2), 1).figures.calls++;
  table.reset({.instance = 1, .userid = 1, .queryid = 10}, 5);
  EXPECT_EQ(table.rows().size(), 4u);
  table.reset({.instance = 1, .queryid = 20}, 5);
  EXPECT_EQ(table.rows().size(), 2u);
  table.reset({.instance = 1}, 5);
  EXPECT_EQ(table.rows().size(), 1u);
  table.reset({}, 5);
  EXPECT_TRUE(table.rows().empty());
}

TEST(StatementTable, MinMaxOnlyKeepsTheRest) {
  StatementTable table(100);
  auto source = commit_of(9 * kMs);
  table.row(key_of(1), 1).figures.add(source.event(key_of(1)));
  table.reset({.minmax_only = true}, 50);
  const StatementRow &row = table.rows().at(key_of(1));
  EXPECT_EQ(row.figures.commits, 1u);
  EXPECT_EQ(row.figures.minmax_commits, 0u);
  EXPECT_EQ(row.minmax_since_ns, 50u);
  EXPECT_EQ(row.since_ns, 1u);
}

TEST(Recent, ForgetsAfterFiveMinutes) {
  ManualClock clock;
  Recent recent(100);
  auto source = commit_of(kMs);
  for (int minute = 0; minute < 10; minute++) {
    const uint64_t now_ns = clock.now_ns();
    recent.current(now_ns).row(key_of(1), now_ns).figures.add(source.event(key_of(1)));
    clock.advance_ns(60'000'000'000);
  }
  const StatementTable table = recent.merged(clock.now_ns());
  const StatementRow &row = table.rows().at(key_of(1));
  EXPECT_GE(row.figures.commits, 5u);
  EXPECT_LE(row.figures.commits, 6u);
  EXPECT_GE(row.since_ns + 330'000'000'000, clock.now_ns());
  clock.advance_ns(600'000'000'000);
  EXPECT_TRUE(recent.merged(clock.now_ns()).rows().empty());
}

TEST(SlowCommits, StormKeepsLeadersAndEachQuerysWorst) {
  SlowCommits slow(10 * kMs, 10'000);
  const uint64_t second_ns = 5'000'000'000'000;
  uint64_t worst = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    const uint64_t ns = (20 + i % 37) * kMs;
    if (i % 2 == 0) worst = std::max(worst, ns);
    auto source = commit_of(ns, true, second_ns + i);
    slow.add(source.event(key_of(i % 2), i % 100 == 0 ? Role::kLed : Role::kFollowed));
  }
  auto next = commit_of(20 * kMs, true, second_ns + 2'000'000'000);
  slow.add(next.event(key_of(3)));
  size_t kept = 0, leaders = 0;
  uint64_t kept_worst = 0;
  slow.for_each([&](const SlowCommit &commit) {
    kept++;
    leaders += commit.role == Role::kLed && commit.key.queryid != 3;
    if (commit.key.queryid == 0) kept_worst = std::max(kept_worst, commit.record.duration_ns);
  });
  EXPECT_EQ(leaders, 10u);
  EXPECT_LE(kept, 13u);
  EXPECT_EQ(kept_worst, worst);
  EXPECT_EQ(slow.suppressed(1) + kept, 1001u);
}

TEST(SlowCommits, QuietTimesKeepAllAndOldOnesGo) {
  SlowCommits slow(10 * kMs, 100);
  for (uint64_t i = 0; i < 500; i++) {
    auto source = commit_of(20 * kMs, true, 1'000'000'000'000 + i * 100 * kMs);
    slow.add(source.event(key_of(i), Role::kFollowed));
    auto fast = commit_of(9 * kMs, true, 1'000'000'000'000 + i * 100 * kMs);
    slow.add(fast.event(key_of(i), Role::kFollowed));
  }
  size_t kept = 0;
  slow.for_each([&](const SlowCommit &commit) {
    kept++;
    EXPECT_GE(commit.record.duration_ns, 10 * kMs);
  });
  EXPECT_GE(kept, 100u);
  EXPECT_LE(kept, 110u);
  EXPECT_EQ(slow.suppressed(), 0u);
}

TEST(SlowCommits, AStormOfThousandsStaysBounded) {
  SlowCommits slow(0, 1000);
  for (uint64_t i = 0; i < 50'000; i++) {
    auto source = commit_of(20 * kMs, true, 1'000'000'000'000 + i);
    slow.add(source.event(key_of(i), Role::kLed));
  }
  size_t kept = 0;
  slow.for_each([&](const SlowCommit &) { kept++; });
  EXPECT_LE(kept, SlowCommits::kSecondMax);
  EXPECT_EQ(slow.suppressed() + kept, 50'000u);
}

// Somebody else's statistics (or kernel.bpf_stats_enabled) run between our windows: 20 times the cost was shown.
TEST(RunStats, OnlyWindowsOfItsOwnCount) {
  kernel::RunStats stats;
  EXPECT_EQ(stats.sampled_ns(50), 0u);
  EXPECT_EQ(stats.measured_ns(0, 1000), 0u) << "no window yet";
  stats.begin(100, {1000, 5});
  EXPECT_EQ(stats.sampled_ns(150), 50u);
  EXPECT_EQ(stats.measured_ns(0, 1007), 7u);
  stats.end(200, {1010, 6});
  EXPECT_EQ(stats.measured_ns(0, 999'999), 10u) << "counted between windows";
  EXPECT_EQ(stats.sampled_ns(5000), 100u);
  stats.begin(5000, {1'000'000, 6});
  stats.drop();
  EXPECT_EQ(stats.sampled_ns(6000), 100u);
  stats.begin(7000, {2'000'000, 6});
  stats.end(7100, {2'000'003, 8});
  EXPECT_EQ(stats.sampled_ns(9000), 200u);
  EXPECT_EQ(stats.measured_ns(0, 0), 13u);
  EXPECT_EQ(stats.measured_ns(1, 0), 3u);
}

}  // namespace
}  // namespace flushlight::test
