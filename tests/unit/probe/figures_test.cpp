// SPDX-License-Identifier: GPL-2.0-or-later
// Patterns, percentiles, judgement and ranking.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "make_outcome.h"
#include "sidecar/probe/io_uring_access.h"
#include "sidecar/probe/judge.h"

namespace flushlight::probe::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<Pattern> &patterns) {
  std::vector<std::string> names;
  for (const Pattern &pattern : patterns) names.push_back(pattern.name);
  return names;
}

TEST(Patterns, NamesAreUniqueAndSizesWithinWhatIsPromised) {
  std::set<std::string> names;
  for (const Pattern &pattern : all_patterns()) {
    EXPECT_TRUE(names.insert(pattern.name).second) << pattern.name;
    EXPECT_GE(pattern.block_bytes, is_log(pattern) ? 512u : 8192u) << pattern.name;
    EXPECT_LE(pattern.block_bytes, is_log(pattern) ? 65536u : 16384u) << pattern.name;
    EXPECT_LE(pattern.depth, 64u) << pattern.name;
  }
  for (const char *name :
       {"log-512-fdatasync", "log-64k-io_uring", "log-bulk-8k-open_datasync", "log-grows-4k-fsync",
        "read-8k-depth64-sqpoll", "read-16k-depth1-sync", "read-8k-depth16-worker", "log-8k-rwf_dsync"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_FALSE(names.count("read-8k-depth4-sync")) << "one thread that waits has one read in flight";
}

TEST(Patterns, AreSelectedByName) {
  EXPECT_EQ(select_patterns("", false).size(), all_patterns().size());
  EXPECT_EQ(names_of(select_patterns("log-8k-fsync,read-8k-depth1-sync", false)),
            (std::vector<std::string>{"log-8k-fsync", "read-8k-depth1-sync"}));
  EXPECT_EQ(select_patterns("log-8k-*", false).size(), log_methods().size());
  EXPECT_TRUE(select_patterns("nothing", false).empty());
  EXPECT_EQ(names_of(select_patterns(",,log-8k-fsync,", false)), std::vector<std::string>{"log-8k-fsync"});
  const auto quick = select_patterns("", true);
  EXPECT_GT(quick.size(), log_methods().size());
  EXPECT_LT(quick.size(), 20u);
}

TEST(TimesTest, APercentileNeedsObservationsBeyondIt) {
  Times times;
  EXPECT_FALSE(times.percentile_ms(0.5));
  EXPECT_FALSE(times.min_ms());
  EXPECT_FALSE(times.mean_ms());
  for (int i = 0; i < 99; i++) times.add(1'000'000);
  EXPECT_TRUE(times.percentile_ms(0.5));
  EXPECT_FALSE(times.percentile_ms(0.99));
  times.add(9'000'000);
  EXPECT_TRUE(times.percentile_ms(0.99));
  EXPECT_FALSE(times.percentile_ms(0.999));
  EXPECT_EQ(times.max_ms(), 9.0);
  EXPECT_EQ(times.min_ms(), 1.0);
  for (int i = 0; i < 9900; i++) times.add(1'000'000);
  EXPECT_TRUE(times.percentile_ms(0.9999));
}

TEST(TimesTest, PercentilesStayWithinABucketOfTheTruth) {
  Times times;
  for (uint64_t us = 1; us <= 10'000; us++) times.add(us * 1000);
  for (const auto &[name, q] : kPercentiles) EXPECT_NEAR(*times.percentile_ms(q), 10 * q, 10 * q * 0.032) << name;
  Times one;  // never beyond what was seen
  for (int i = 0; i < 1000; i++) one.add(1'000'001);
  EXPECT_EQ(one.percentile_ms(0.99), 1.000001);
}

TEST(TimesTest, Merge) {
  Times first, second;
  first.add(1'000'000);
  second.add(3'000'000);
  first.merge(second);
  EXPECT_EQ(first.count(), 2u);
  EXPECT_EQ(first.min_ms(), 1.0);
  EXPECT_EQ(first.max_ms(), 3.0);
  EXPECT_EQ(first.mean_ms(), 2.0);
}

Place place_with(const std::string &write_cache, int64_t rotational, const std::string &options = "rw") {
  Place place;
  place.mount_options = options;
  BlockDevice device;
  device.name = "sda";
  device.write_cache = write_cache;
  device.rotational = rotational;
  place.devices.push_back(device);
  return place;
}

TEST(Judge, EveryCaseOfAFlush) {
  struct Case {
    double ms;
    Place place;
    bool declared;
    FlushState expected;
    const char *says;
  };
  const Case cases[] = {
      {0.02, place_with("write back", 0), false, FlushState::kImplausible, "power loss"},
      {0.04, place_with("write back", 0), false, FlushState::kImplausible, "A cache answered"},
      {0.02, place_with("write back", 0), true, FlushState::kDeclared, "you declare"},
      {0.02, place_with("write through", 0), false, FlushState::kNotSent, "no flush is sent"},
      {0.02, place_with("write through", 0), true, FlushState::kDeclared, "you declare"},
      {0.02, place_with("write back", 0, "rw,nobarrier"), false, FlushState::kNotSent, "nobarrier"},
      {0.02, place_with("write back", 0, "rw,barrier=0,data=ordered"), false, FlushState::kNotSent, "nobarrier"},
      {0.02, Place{}, false, FlushState::kImplausible, "power loss"},
      {0.5, place_with("write back", 0), false, FlushState::kPlausible, "medium"},
      {0.5, place_with("write back", 1), false, FlushState::kImplausible, "rotational"},
      {5, place_with("write back", 1), false, FlushState::kPlausible, "medium"},
      {5, place_with("write through", 0), true, FlushState::kPlausible, "medium"},
  };
  for (const Case &c : cases) {
    std::vector<Outcome> outcomes;
    outcomes.push_back(outcome_of("log-4k-fdatasync", c.ms));
    outcomes.push_back(outcome_of("log-4k-fsync", 2 * c.ms));
    const FlushJudgement judgement = judge_flush(outcomes, c.place, c.declared);
    EXPECT_EQ(judgement.state, c.expected) << judgement.text;
    EXPECT_THAT(judgement.text, HasSubstr(c.says));
    EXPECT_EQ(judgement.pattern, "log-4k-fdatasync");
  }
}

TEST(Judge, NothingMeasuredIsUnknown) {
  EXPECT_EQ(judge_flush({}, place_with("write back", 0), true).state, FlushState::kUnknown);
  std::vector<Outcome> few;
  few.push_back(outcome_of("log-8k-fdatasync", 0.01, 9));
  few.push_back(outcome_of("read-8k-depth1-sync", 0.01, 1000));  // a read says nothing of flushes
  few.push_back(outcome_of("log-8k-fsync", 0.01, 1000));
  few.back().state = State::kFailed;
  const auto judgement = judge_flush(few, place_with("write back", 0), false);
  EXPECT_EQ(judgement.state, FlushState::kUnknown);
  EXPECT_FALSE(judgement.p50_ms);
}

TEST(RankingTest, BestFirstAndTheDefaultNamed) {
  std::vector<Outcome> outcomes;
  outcomes.push_back(outcome_of("log-8k-fdatasync", 1.6));
  outcomes.push_back(outcome_of("log-8k-fsync", 5.6));
  outcomes.push_back(outcome_of("log-8k-open_datasync", 4.0));
  outcomes.push_back(outcome_of("log-8k-open_sync", 1.62));
  outcomes.push_back(outcome_of("log-8k-io_uring", 0.1));  // PostgreSQL has no such method
  outcomes.push_back(outcome_of("log-4k-fsync", 0.1));     // another size
  outcomes.push_back(outcome_of("log-bulk-8k-fsync", 9.0));
  const Ranking ranking = rank_wal_sync_methods(outcomes);
  ASSERT_EQ(ranking.methods.size(), 4u);
  EXPECT_EQ(ranking.methods[0].method, "fdatasync");
  EXPECT_EQ(ranking.methods[1].method, "open_sync");
  EXPECT_TRUE(ranking.methods[1].as_good_as_best);
  EXPECT_EQ(ranking.methods[3].method, "fsync");
  EXPECT_FALSE(ranking.methods[3].as_good_as_best);
  EXPECT_NEAR(*ranking.methods[3].bulk_p50_ms, 9.0, 0.01);
  EXPECT_FALSE(ranking.methods[0].bulk_p50_ms);
  EXPECT_THAT(ranking.text, HasSubstr("nothing to change"));
}

TEST(RankingTest, SaysWhatToTryWhenTheDefaultIsSlower) {
  std::vector<Outcome> outcomes;
  outcomes.push_back(outcome_of("log-8k-fdatasync", 2.0));
  outcomes.push_back(outcome_of("log-8k-open_datasync", 1.0));
  EXPECT_THAT(rank_wal_sync_methods(outcomes).text, HasSubstr("try wal_sync_method = open_datasync"));
  outcomes.pop_back();
  EXPECT_THAT(rank_wal_sync_methods(outcomes).text, HasSubstr("not enough"));
  EXPECT_TRUE(rank_wal_sync_methods({}).methods.empty());
}

TEST(IoUring, ARefusalSaysWhichAndWhatToDo) {
  struct Case {
    int code, disabled;
    const char *says;
  };
  const Case cases[] = {
      {EPERM, 2, "kernel.io_uring_disabled=0"},
      {EPERM, 1, "kernel.io_uring_group"},
      {EPERM, 0, "seccomp"},
      {EPERM, -1, "seccomp"},
      {EACCES, 0, "security module"},
      {ENOSYS, -1, "no io_uring"},
      {ENOMEM, 0, "ulimit -l"},
      {EMFILE, 0, "Too many open files"},
  };
  for (const Case &c : cases) EXPECT_THAT(refusal_text(c.code, c.disabled), HasSubstr(c.says)) << c.code;
}

}  // namespace
}  // namespace flushlight::probe::test
