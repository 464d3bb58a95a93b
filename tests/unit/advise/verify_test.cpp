// SPDX-License-Identifier: GPL-2.0-or-later
// Verdicts on changes: near enough is verified, another load proves nothing.
#include "sidecar/advise/verify.h"

#include "made_up.h"

namespace flushlight::advise::test {
namespace {

Commits commits_of(double ms, uint64_t n = 6000, size_t sessions = 8) {
  Facts facts;
  set_commits(&facts, ms, FL_CAUSE_FLUSH, FL_PATH_SELF, n);
  facts.commits.sessions = sessions;
  return facts.commits;
}

TEST(Verify, NearIsTwentyPercentOrAMillisecond) {
  EXPECT_TRUE(is_near(0.3, 1.2));
  EXPECT_FALSE(is_near(0.1, 1.2));
  EXPECT_TRUE(is_near(47, 40));
  EXPECT_FALSE(is_near(49, 40));
  EXPECT_FALSE(is_near(31, 40));
}

TEST(Verify, AsPredicted) {
  const Judgement judgement = judge(commits_of(40), commits_of(0.4, 100'000), 0.5, 1.0);
  EXPECT_EQ(judgement.verdict, Verdict::kVerified) << judgement.why;
  EXPECT_EQ(judgement.measured_p50_ms, 0.4);
}

TEST(Verify, NotAsPredicted) {
  EXPECT_EQ(judge(commits_of(40), commits_of(30), 0.5, 1.0).verdict, Verdict::kRefuted);
  EXPECT_EQ(judge(commits_of(40), commits_of(10), 10, 40).verdict, Verdict::kRefuted) << "the p99 counts as well";
}

TEST(Verify, AnotherLoadProvesNothing) {
  struct Case {
    Commits after;
    const char *words;
  };
  Commits other_work = commits_of(0.4, 100'000), other_statements = commits_of(0.4, 100'000);
  other_work.work *= 10;
  other_statements.digests[0].queryid = 99;
  for (const Case &c : {Case{commits_of(0.4, 100'000, 2), "8 sessions committed before, 2 after"},
                        Case{other_work, "a commit wrote 1 before, 10 after"},
                        Case{other_statements, "0 % of the commits are of the same statements"},
                        Case{commits_of(39, 1000), "commits/s"}, Case{commits_of(39, 60'000), "commits/s"},
                        Case{commits_of(0.4, 0), "no commits"}}) {
    const Judgement judgement = judge(commits_of(40), c.after, 0.5, 1.0);
    EXPECT_EQ(judgement.verdict, Verdict::kInconclusive) << c.words;
    EXPECT_NE(judgement.why.find(c.words), std::string::npos) << judgement.why;
  }
}

TEST(Verify, MoreCommitsBecauseTheyAreShorterIsTheSameLoad) {
  EXPECT_EQ(load_difference(commits_of(40, 6000), commits_of(0.4, 500'000)), "")
      << "sessions that wait for each commit";
  EXPECT_EQ(load_difference(commits_of(40, 6000), commits_of(0.4, 6000)), "") << "sessions that come at their own pace";
}

TEST(Verify, WhatACommitWritesIsNotComparedWhereTheChangeIsAboutThat) {
  Commits less_work = commits_of(40);
  less_work.work /= 5;  // fewer images of whole pages
  EXPECT_EQ(load_difference(commits_of(40), less_work, Work::kMayChange), "");
  EXPECT_NE(load_difference(commits_of(40, 6000, 8), commits_of(40, 6000, 2), Work::kMayChange), "");
}

TEST(Verify, WithoutAPredictionThereIsNoVerdict) {
  const Judgement judgement = judge(commits_of(40), commits_of(39), {}, {});
  EXPECT_EQ(judgement.verdict, Verdict::kInconclusive);
  EXPECT_EQ(judgement.measured_p50_ms, 39);
}

TEST(Verify, ByAStatisticWhereItIsNotCommitTimes) {
  const Measure measure{"wal.full_page_images", "server.commits", 0.8, 0.1};
  const EngineStatistics begin = {{"wal.full_page_images", 100}, {"server.commits", 1000}};
  const auto after = [&](double images, double commits) {
    return judge_measure(measure, begin, {{"wal.full_page_images", images}, {"server.commits", commits}});
  };
  EXPECT_EQ(after(250, 2000).verdict, Verdict::kVerified) << "0.15 for 0.1";
  EXPECT_EQ(after(800, 2000).verdict, Verdict::kRefuted) << "0.7 for 0.1";
  EXPECT_EQ(after(0, 2000).verdict, Verdict::kInconclusive) << "counted anew";
  EXPECT_EQ(after(100, 1000).verdict, Verdict::kInconclusive) << "no commits";
}

}  // namespace
}  // namespace flushlight::advise::test
