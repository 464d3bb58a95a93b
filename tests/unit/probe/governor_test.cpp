// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/governor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flushlight::probe::test {
namespace {

using ::testing::HasSubstr;
constexpr uint64_t kMs = 1'000'000;

TEST(GovernorTest, TimeIsSharedAmongWhatIsLeft) {
  ManualClock clock;
  Governor governor(clock, {1000 * kMs, 1 << 30, 0});
  governor.begin_slice(4);
  clock.advance_ms(249);
  EXPECT_TRUE(governor.may_go_on());
  clock.advance_ms(1);
  EXPECT_FALSE(governor.may_go_on());
  EXPECT_TRUE(governor.may_prepare());
  clock.advance_ms(450);  // a slow one: those after it get less
  governor.begin_slice(3);
  clock.advance_ms(99);
  EXPECT_TRUE(governor.may_go_on());
  clock.advance_ms(1);
  EXPECT_FALSE(governor.may_go_on());
  governor.check_time();
  EXPECT_EQ(governor.stopped(), Stop::kNone);
  clock.advance_ms(200);
  governor.check_time();
  EXPECT_EQ(governor.stopped(), Stop::kTime);
  EXPECT_FALSE(governor.may_prepare());
  EXPECT_THAT(governor.detail(), HasSubstr("--seconds"));
}

TEST(GovernorTest, NothingLeftIsNoTime) {
  ManualClock clock;
  Governor governor(clock, {10 * kMs, 1 << 30, 0});
  clock.advance_ms(11);
  governor.begin_slice(1);
  EXPECT_FALSE(governor.may_go_on());
  governor.begin_slice(0);
  EXPECT_FALSE(governor.pace());
}

TEST(GovernorTest, RateHoldsBackAndDoesNotCatchUp) {
  ManualClock clock;
  Governor governor(clock, {10'000 * kMs, 1 << 30, 100});
  governor.begin_slice(1);
  EXPECT_TRUE(governor.pace());
  EXPECT_EQ(governor.wait_needed_ns(), 10 * kMs);
  clock.advance_ms(4);
  EXPECT_EQ(governor.wait_needed_ns(), 6 * kMs);
  clock.advance_ms(6);
  EXPECT_TRUE(governor.pace());
  clock.advance_ms(500);  // one operation took long
  EXPECT_EQ(governor.wait_needed_ns(), 0u);
  EXPECT_TRUE(governor.pace());
  EXPECT_EQ(governor.wait_needed_ns(), 10 * kMs) << "no burst";
}

TEST(GovernorTest, WithoutARateThereIsNoWait) {
  ManualClock clock;
  Governor governor(clock, {1000 * kMs, 1 << 30, 0});
  governor.begin_slice(1);
  for (int i = 0; i < 1000; i++) EXPECT_TRUE(governor.pace());
  EXPECT_EQ(governor.wait_needed_ns(), 0u);
}

TEST(GovernorTest, WrittenBytesEndIt) {
  ManualClock clock;
  Governor governor(clock, {1000 * kMs, 10 << 20, 0});
  governor.wrote((10 << 20) - 1);
  EXPECT_TRUE(governor.may_go_on());
  governor.wrote(1);
  EXPECT_FALSE(governor.may_go_on());
  EXPECT_EQ(governor.stopped(), Stop::kWritten);
  EXPECT_THAT(governor.detail(), HasSubstr("--written-mb-max"));
  EXPECT_EQ(governor.written_bytes(), uint64_t{10} << 20);
}

TEST(GovernorTest, TheFirstCauseStays) {
  ManualClock clock;
  Governor governor(clock, {10 * kMs, 1 << 30, 0});
  governor.stop(Stop::kCommits, "commits suffer");
  governor.stop(Stop::kSignal, "signal 2");
  clock.advance_ms(20);
  governor.check_time();
  EXPECT_EQ(governor.stopped(), Stop::kCommits);
  EXPECT_EQ(governor.detail(), "commits suffer");
}

}  // namespace
}  // namespace flushlight::probe::test
