// SPDX-License-Identifier: GPL-2.0-or-later
// Journals in simulated time: slow because somebody crowds them, slow because their device is, held, healthy.
#include "sidecar/stalls/journal_watch.h"

#include <gtest/gtest.h>

#include "abi/histogram.h"
#include "sidecar/stalls/culprit.h"

namespace flushlight::test {
namespace {

using stalls::Detector;
using stalls::Episode;
using stalls::JournalWatch;
using stalls::Kind;

constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kDisk = 7 << 20;

class Journals : public ::testing::Test {
 protected:
  Journals() { journal_.commits.resize(FL_HISTOGRAM_BUCKETS); }

  // Looks every 100 ms; `commits` of the journal in each, and of a database that waited for them.
  void run_ms(uint64_t ms, uint64_t commits, uint64_t commit_ns, uint64_t waits = 0, uint64_t wait_ns = 0) {
    for (const uint64_t until = now_ns_ + ms * kMs; now_ns_ < until;) {
      now_ns_ += 100 * kMs;
      journal_.commits[fl_histogram_bucket(commit_ns)] += commits;
      journal_.busy_ns += commits * commit_ns;
      for (uint64_t i = 0; i < waits; i++) watch_.commit(now_ns_ - 10 * kMs - wait_ns, wait_ns);
      look();
    }
  }
  void look() {
    JournalWatch::Look look;
    look.now_ns = now_ns_;
    look.journals = {journal_};
    if (other_) look.journals.push_back(*other_);
    look.service = [this](uint32_t) { return service_; };
    look.crowded = [this](uint32_t) { return asked_++, crowded_; };
    look.new_id = [this] { return ++id_; };
    const auto changes = watch_.look(look);
    for (const Episode &episode : changes.opened) opened_.push_back(episode);
    for (const Episode &episode : changes.closed) closed_.push_back(episode);
  }
  void healthy() { run_ms(10'000, 20, kMs, 50, 2 * kMs); }
  static double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

  JournalWatch watch_;
  stalls::JournalActivity journal_{.number = kDisk + 1, .device = kDisk};
  std::optional<stalls::JournalActivity> other_;
  Detector::Service service_;
  bool crowded_ = false;
  int asked_ = 0;
  uint64_t now_ns_ = 5'000 * kMs, id_ = 0;
  std::vector<Episode> opened_, closed_;
};

TEST_F(Journals, SlowCommitsInACrowdAreOneStallOfThatLength) {
  healthy();
  crowded_ = true;
  const uint64_t begin = now_ns_;
  run_ms(4000, 1, 120 * kMs);
  ASSERT_EQ(opened_.size(), 1u);
  EXPECT_EQ(opened_[0].kind, Kind::kJournal);
  EXPECT_EQ(opened_[0].device, kDisk);
  EXPECT_NEAR(ms(opened_[0].begin_ns), ms(begin), 150);
  EXPECT_NEAR(ms(watch_.open().at(0).oldest_request_ns), 120, 4);
  healthy();
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_NEAR(ms(closed_[0].end_ns - closed_[0].begin_ns), 4000, 200);
  EXPECT_EQ(opened_.size(), 1u);
}

// What goes on without the crowd has another reason.
TEST_F(Journals, EndsWithTheCrowd) {
  healthy();
  crowded_ = true;
  run_ms(4000, 1, 120 * kMs);
  crowded_ = false;
  run_ms(6000, 1, 120 * kMs);
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_NEAR(ms(closed_[0].end_ns - closed_[0].begin_ns), 4000, 200);
  EXPECT_EQ(opened_.size(), 1u);
}

TEST_F(Journals, WaitsOfADatabaseCountAlthoughEachCommitIsShort) {
  healthy();
  crowded_ = true;
  run_ms(3000, 2, 40 * kMs, 2, 150 * kMs);
  EXPECT_EQ(opened_.size(), 1u);
  healthy();
  EXPECT_EQ(closed_.size(), 1u);
}

// A device that is slow is the detector's affair.
TEST_F(Journals, SlowWithoutACrowdIsNone) {
  healthy();
  run_ms(30'000, 1, 150 * kMs, 4, 300 * kMs);
  EXPECT_TRUE(opened_.empty());
  EXPECT_GT(asked_, 0);
}

TEST_F(Journals, WhatWasSoForLongIsUsual) {
  healthy();
  run_ms(200'000, 1, 110 * kMs);
  crowded_ = true;
  run_ms(20'000, 1, 120 * kMs);
  EXPECT_TRUE(opened_.empty());
}

TEST_F(Journals, HealthyInACrowdIsNoneAndNobodyIsAsked) {
  crowded_ = true;
  for (int i = 0; i < 20; i++) {
    run_ms(1000, 20, (1 + i % 7) * 10 * kMs, 100, (1 + i % 9) * 10 * kMs);
    run_ms(500, 0, kMs);
  }
  EXPECT_TRUE(opened_.empty());
  EXPECT_EQ(asked_, 0);
}

TEST_F(Journals, FewAmongManyAreNone) {
  healthy();
  crowded_ = true;
  for (int i = 0; i < 20; i++) {
    run_ms(100, 1, 120 * kMs, 1, 150 * kMs);
    run_ms(400, 20, kMs, 100, kMs);
  }
  EXPECT_TRUE(opened_.empty());
}

// The device's own stalls, and what had to wait for their end, are not the journal's.
TEST_F(Journals, DeviceThatStalledIsToBlame) {
  healthy();
  crowded_ = true;
  service_ = {.serves = false, .since_ns = 0};
  run_ms(2000, 0, kMs);
  service_ = {.serves = true, .since_ns = now_ns_};
  run_ms(100, 4, 2000 * kMs, 4, 2000 * kMs);
  healthy();
  EXPECT_TRUE(opened_.empty());
}

TEST_F(Journals, CommitThatDoesNotBeginToWriteIsHeld) {
  healthy();
  journal_.in_progress_ns = now_ns_;
  run_ms(400, 0, kMs);
  EXPECT_TRUE(opened_.empty());
  run_ms(1600, 0, kMs);
  ASSERT_EQ(opened_.size(), 1u);
  EXPECT_EQ(opened_[0].begin_ns, journal_.in_progress_ns);
  const uint64_t begin = std::exchange(journal_.in_progress_ns, 0);
  run_ms(3000, 1, kMs);
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_EQ(closed_[0].begin_ns, begin);
  EXPECT_NEAR(ms(closed_[0].end_ns - begin), 2000, 150);
}

TEST_F(Journals, CommitThatWritesIsNotHeld) {
  healthy();
  journal_.in_progress_ns = now_ns_;
  journal_.writes = true;
  run_ms(3000, 0, kMs);
  EXPECT_TRUE(opened_.empty());
}

// Which of two busy journals a commit waited for is not known: then neither.
TEST_F(Journals, WaitsAreNobodysWhereTwoAreAtWork) {
  healthy();
  crowded_ = true;
  other_ = journal_;
  other_->number = (8 << 20) + 1;
  other_->device = 8 << 20;
  look();
  for (int i = 0; i < 30; i++) {
    other_->busy_ns += 50 * kMs;
    run_ms(100, 1, 50 * kMs, 3, 300 * kMs);
  }
  EXPECT_TRUE(opened_.empty());
}

TEST(Crowd, IsAProcessThatSyncsAndWritesMostWhileOthersSync) {
  const auto writer = [](uint32_t tgid, const char *process, uint64_t inode, uint64_t bytes, uint64_t syncs) {
    return kernel::Writer{.tgid = tgid,
                          .process = process,
                          .file = {kDisk, inode, "f", true},
                          .recent_bytes = bytes,
                          .recent_syncs = syncs};
  };
  using stalls::find_crowd;
  const std::vector<kernel::Writer> both = {writer(1, "postgres", 1, 1 << 20, 60),
                                            writer(9, "backup", 2, 180 << 20, 22), writer(9, "backup", 3, 1, 1)};
  const auto culprit = find_crowd(both, kDisk, {1}, 5);
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->process, "backup");
  EXPECT_EQ(culprit->file.inode, 2u);
  EXPECT_EQ(culprit->syncs, 23u);
  EXPECT_FALSE(find_crowd(both, 8 << 20, {1}, 5)) << "of another device";
  EXPECT_FALSE(find_crowd(both, kDisk, {1, 9}, 5)) << "a database";
  EXPECT_FALSE(find_crowd(both, kDisk, {1}, 3'000'000'000)) << "it has ended";
  EXPECT_FALSE(find_crowd({both[1]}, kDisk, {}, 5)) << "nobody else syncs";
  EXPECT_FALSE(find_crowd({both[0], writer(9, "backup", 2, 180 << 20, 2)}, kDisk, {1}, 5)) << "it does not sync";
  EXPECT_FALSE(find_crowd({both[0], writer(9, "logger", 2, 4096, 5)}, kDisk, {1}, 5)) << "little of all";
  EXPECT_TRUE(find_crowd({both[0], writer(9, "logger", 2, 4096, 200)}, kDisk, {1}, 5)) << "many small syncs";
}

}  // namespace
}  // namespace flushlight::test
