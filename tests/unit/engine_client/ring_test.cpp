// SPDX-License-Identifier: GPL-2.0-or-later
// Rings: order, wrap-around, full rings, texts, threads that come and go; and reading a slot while it
// changes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

#include "fake_daemon.h"

namespace flushlight::test {
namespace {

fl_record_statement statement(uint64_t queryid) {
  fl_record_statement record{};
  record.header = {sizeof(record), FL_RECORD_STATEMENT, FL_RING_VERSION};
  record.queryid = queryid;
  return record;
}

class Ring : public ::testing::Test {
 protected:
  void attach(const Plan &plan, uint32_t wanted = 4) {
    daemon_ = std::make_unique<FakeDaemon>(plan);
    configure(daemon_->path(), wanted);
    ASSERT_TRUE(flc_attach_step(1000));
  }
  void TearDown() override { flc_detach(); }
  std::unique_ptr<FakeDaemon> daemon_;
};

TEST_F(Ring, RecordsArriveInOrderThroughManyWraps) {
  attach({});
  flc_thread *thread = flc_thread_self();
  ASSERT_NE(thread, nullptr);
  uint64_t next = 1;
  for (uint64_t i = 1; i <= 5000; i++) {
    fl_record_statement record = statement(i);
    const char *part = "0123456789012345678901234567890123456789";
    uint16_t length = static_cast<uint16_t>(i % 41);
    ASSERT_TRUE(flc_write_parts(thread, &record, sizeof(record), &part, &length, 1));
    if (i % 50 != 0) continue;
    for (const auto &got : daemon_->drain(flc_thread_slot_in_range(thread))) {
      fl_record_statement read;
      memcpy(&read, got.data(), sizeof(read));
      ASSERT_EQ(read.queryid, next);
      ASSERT_EQ(got.size(), (sizeof(read) + next % 41 + 7) / 8 * 8);
      ASSERT_EQ(memcmp(got.data() + sizeof(read), part, next % 41), 0);
      next++;
    }
  }
  EXPECT_EQ(next, 5001U);
}

TEST_F(Ring, AFullRingDropsAndCountsAndRecovers) {
  attach({});
  flc_thread *thread = flc_thread_self();
  uint32_t ring = flc_thread_slot_in_range(thread);
  uint64_t kept = 0;
  uint64_t dropped = 0;
  for (uint64_t i = 1; i <= 400; i++) {
    fl_record_statement record = statement(i);
    (flc_write(thread, &record) ? kept : dropped)++;
  }
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(daemon_->ring(ring)->dropped, dropped);
  EXPECT_EQ(daemon_->drain(ring).size(), kept);
  fl_record_statement record = statement(1);
  EXPECT_TRUE(flc_write(thread, &record));
  EXPECT_EQ(daemon_->drain(ring).size(), 1U);
}

TEST_F(Ring, AnImpossibleTailOrHeadFromTheDaemonOnlyDrops) {
  attach({});
  flc_thread *thread = flc_thread_self();
  fl_ring_head *head = daemon_->ring(flc_thread_slot_in_range(thread));
  fl_record_statement record = statement(1);
  head->tail = 1ULL << 60;
  EXPECT_FALSE(flc_write(thread, &record));
  head->tail = 0;
  head->head = 0xfffffffffffffff8ULL;  // the producer keeps its own
  EXPECT_TRUE(flc_write(thread, &record));
  EXPECT_EQ(head->head, sizeof(record));
}

TEST_F(Ring, RecordsOfImpossibleLengthAreNotWritten) {
  attach({});
  flc_thread *thread = flc_thread_self();
  std::vector<char> big(2 * FL_RECORD_BYTES_MAX);
  auto *header = reinterpret_cast<fl_record_header *>(big.data());
  for (uint32_t length : {0U, 4U, 12U, FL_RECORD_BYTES_MAX + 8, 0xfffffff8U}) {
    header->length = length;
    EXPECT_FALSE(flc_write(thread, big.data())) << length;
  }
}

TEST_F(Ring, ATextIsWantedOnceAndAgainWhenItWasDropped) {
  attach({});
  flc_thread *thread = flc_thread_self();
  uint32_t ring = flc_thread_slot_in_range(thread);
  EXPECT_TRUE(flc_text_lacking(thread, 42));
  EXPECT_TRUE(flc_text_wanted(thread, 42)) << "to ask whether it is lacking does not take it on";
  flc_write_text(thread, 42, "SELECT ?", 8, false);
  EXPECT_FALSE(flc_text_wanted(thread, 42));
  EXPECT_FALSE(flc_text_lacking(thread, 42));
  EXPECT_FALSE(flc_text_wanted(thread, 0));
  auto records = daemon_->drain(ring);
  ASSERT_EQ(records.size(), 1U);
  fl_record_text text;
  memcpy(&text, records[0].data(), sizeof(text));
  EXPECT_EQ(text.text_length, 8U);
  EXPECT_EQ(std::string(records[0].data() + sizeof(text), 8), "SELECT ?");

  fl_record_statement filler = statement(1);
  while (flc_write(thread, &filler)) {
  }
  EXPECT_TRUE(flc_text_wanted(thread, 43));
  std::string longer(500, 'x');
  flc_write_text(thread, 43, longer.data(), longer.size(), false);
  EXPECT_TRUE(flc_text_wanted(thread, 43)) << "it was dropped: ask again";
}

TEST_F(Ring, ALongTextIsCutAtACharacterBorder) {
  attach({});
  flc_thread *thread = flc_thread_self();
  std::string text(FL_TEXT_BYTES_MAX - 1, 'a');
  text += "\xe2\x82\xac and more";  // a euro sign across the limit
  flc_write_text(thread, 7, text.data(), text.size(), false);
  auto records = daemon_->drain(flc_thread_slot_in_range(thread));
  ASSERT_EQ(records.size(), 1U);
  fl_record_text head;
  memcpy(&head, records[0].data(), sizeof(head));
  EXPECT_EQ(head.text_length, FL_TEXT_BYTES_MAX - 1);
  EXPECT_EQ(head.flags, FL_TEXT_TRUNCATED);
}

TEST_F(Ring, DigestsOnlyMeansNoText) {
  attach({});
  daemon_->control()->query_text = 0;
  EXPECT_FALSE(flc_texts_wanted());
  EXPECT_FALSE(flc_text_wanted(flc_thread_self(), 42));
  EXPECT_FALSE(flc_text_lacking(flc_thread_self(), 42));
}

TEST_F(Ring, EveryTextIsSentEvenWhenTheTableOverflows) {
  attach({});
  flc_thread *thread = flc_thread_self();
  for (uint64_t id = 1; id <= 5000; id++) ASSERT_TRUE(flc_text_wanted(thread, id));
  EXPECT_TRUE(flc_text_wanted(thread, 1)) << "long evicted: asked for again";
  EXPECT_FALSE(flc_text_wanted(thread, 1));
}

TEST_F(Ring, LiveStateIsVisibleAndClearedAtThreadEnd) {
  attach({.slots = 1}, 1);
  std::thread([&] {
    flc_thread *thread = flc_thread_self();
    ASSERT_NE(thread, nullptr);
    flc_set_session(thread, 11);
    flc_set_query(thread, 12);
    flc_set_window(thread, 13);
    flc_count_commit(thread);
    EXPECT_EQ(daemon_->ring(0)->session_id, 11U);
    EXPECT_EQ(daemon_->ring(0)->queryid, 12U);
    EXPECT_EQ(daemon_->ring(0)->window_begin_ns, 13U);
    std::thread([] { EXPECT_EQ(flc_thread_self(), nullptr) << "one slot only, and it is taken"; }).join();
  }).join();
  EXPECT_EQ(daemon_->ring(0)->session_id, 0U);
  EXPECT_EQ(daemon_->ring(0)->window_begin_ns, 0U);
  EXPECT_EQ(daemon_->ring(0)->commits_seen, 1U);
  std::thread([] { EXPECT_NE(flc_thread_self(), nullptr) << "free again"; }).join();
}

TEST_F(Ring, CommitsThatNobodyObservedAreToldOnce) {
  flc_miss_commit();
  attach({.slots = 1}, 1);
  flc_miss_commit();
  std::thread([this] {
    flc_thread *thread = flc_thread_self();
    ASSERT_NE(thread, nullptr);
    EXPECT_EQ(daemon_->ring(0)->commits_missed, 0U);
    flc_count_commit(thread);
    EXPECT_EQ(daemon_->ring(0)->commits_missed, 2U);
    flc_count_commit(thread);
  }).join();
  EXPECT_EQ(daemon_->ring(0)->commits_missed, 2U);
  EXPECT_EQ(daemon_->ring(0)->commits_seen, 2U);
}

TEST_F(Ring, ASlotIsNotReusedBeforeTheLedgerSaysFree) {
  attach({.slots = 1, .ledger = true}, 1);
  std::thread([] { EXPECT_NE(flc_thread_self(), nullptr); }).join();
  daemon_->slot_in_range(0)->state = FL_SLOT_DRAINING;
  std::thread([] { EXPECT_EQ(flc_thread_self(), nullptr); }).join();
  daemon_->slot_in_range(0)->state = FL_SLOT_FREE;
  std::thread([] { EXPECT_NE(flc_thread_self(), nullptr); }).join();
}

TEST_F(Ring, TwoThousandThreadsComeAndGo) {
  constexpr uint32_t kSlots = 32;
  constexpr int kAtOnce = 20;
  attach({.slots = kSlots}, kSlots);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> sent{0};
  uint64_t received = 0;
  std::thread consumer([&] {
    do {
      for (uint32_t i = 0; i < kSlots; i++) received += daemon_->drain(i).size();
      daemon_->beat();
    } while (!done);
    for (uint32_t i = 0; i < kSlots; i++) received += daemon_->drain(i).size();
  });
  for (int round = 0; round < 2000 / kAtOnce; round++) {
    std::vector<std::thread> threads;
    for (int k = 0; k < kAtOnce; k++)
      threads.emplace_back([&] {
        flc_thread *thread = flc_thread_self();
        ASSERT_NE(thread, nullptr);
        for (uint64_t i = 0; i < 30; i++) {
          fl_record_statement record = statement(i);
          if (flc_write(thread, &record)) sent++;
        }
      });
    for (auto &thread : threads) thread.join();
  }
  done = true;
  consumer.join();
  uint64_t dropped = 0;
  for (uint32_t i = 0; i < kSlots; i++) dropped += daemon_->ring(i)->dropped;
  EXPECT_EQ(received, sent);
  EXPECT_EQ(sent + dropped, 2000U * 30);
}

TEST_F(Ring, ThreadsWriteWhileTheAttachmentComesAndGoes) {
  attach({});
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  std::atomic<uint64_t> written{0};
  for (int k = 0; k < 3; k++)
    writers.emplace_back([&] {
      while (!done) {
        flc_thread *thread = flc_thread_self();
        if (thread == nullptr || !flc_active(flc_now_ns())) continue;
        fl_record_statement record = statement(1);
        flc_set_window(thread, 1);
        if (flc_write(thread, &record)) written++;
        flc_text_wanted(thread, written);
      }
    });
  for (int round = 0; round < 50; round++) {
    uint64_t before = written;
    for (int i = 0; i < 1000 && written == before; i++) {
      for (uint32_t ring = 0; ring < 4; ring++) daemon_->drain(ring);
      std::this_thread::yield();
    }
    daemon_->beat_stale();
    EXPECT_FALSE(flc_attach_step(0));  // retires; threads are inside
    daemon_->beat();
    // the back-off is the attaching thread's own business: a new configuration is not needed to shorten it
    while (!flc_attach_step(5)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (round == 1) break;  // each round waits out the back-off of a second
  }
  done = true;
  for (auto &writer : writers) writer.join();
  EXPECT_GT(written, 0U);
}

TEST_F(Ring, ASlotThatChangesIsNeverReadTorn) {
  attach({.ledger = true});
  ASSERT_NE(flc_thread_self(), nullptr);
  fl_slot *slot = daemon_->slot_in_range(0);
  __atomic_store_n(&slot->generation, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->state, FL_SLOT_LIVE, __ATOMIC_RELEASE);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t n = 1; !done; n++) {
      __atomic_add_fetch(&slot->seq, 1, __ATOMIC_SEQ_CST);
      for (int i = 0; i < FL_VECTOR_COUNT; i++) __atomic_store_n(&slot->vector_ns[i], n, __ATOMIC_RELEASE);
      __atomic_store_n(&slot->syncs, n, __ATOMIC_RELEASE);
      __atomic_add_fetch(&slot->seq, 1, __ATOMIC_SEQ_CST);
      for (int pause = 0; pause < 200; pause++) __atomic_load_n(&slot->seq, __ATOMIC_SEQ_CST);
    }
  });
  int valid = 0;
  for (int i = 0; i < 200000; i++) {
    flc_account account;
    flc_read_account_of(0, &account);
    if (!account.valid) continue;
    valid++;
    for (int k = 0; k < FL_VECTOR_COUNT; k++) ASSERT_EQ(account.vector_ns[k], account.syncs);
  }
  done = true;
  writer.join();
  EXPECT_GT(valid, 1000);
}

TEST(Account, RunningTimeIsAddedAndDifferencesNeedOneGeneration) {
  flc_account begin{};
  flc_account end{};
  flc_account difference;
  begin.valid = end.valid = true;
  begin.generation = end.generation = 2;
  begin.clock_ns = 100;
  end.clock_ns = 350;
  end.vector_ns[FL_CAUSE_FLUSH] = 200;
  end.syncs = 1;
  flc_account_difference(&begin, &end, &difference);
  EXPECT_TRUE(difference.valid);
  EXPECT_EQ(difference.vector_ns[FL_CAUSE_FLUSH], 200U);
  EXPECT_EQ(difference.syncs, 1U);
  EXPECT_EQ(difference.clock_ns, 250U);
  end.generation = 3;
  flc_account_difference(&begin, &end, &difference);
  EXPECT_FALSE(difference.valid);
  end.generation = 2;
  begin.vector_ns[FL_CAUSE_FLUSH] = 201;
  flc_account_difference(&begin, &end, &difference);
  EXPECT_FALSE(difference.valid) << "totals never shrink";
  EXPECT_EQ(difference.vector_ns[FL_CAUSE_FLUSH], 0U);
}

// The thread had come onto its CPU unseen (100 ns asleep before), began at 1000, and that was noticed at 1200.
TEST(Account, ALaggingBeginIsPutRightByWhatWasNoticedLater) {
  flc_account begin{};
  flc_account end{};
  flc_account difference;
  begin.valid = end.valid = begin.lagging = true;
  begin.generation = end.generation = 2;
  begin.clock_ns = 1000;
  end.clock_ns = 1700;
  end.returned_at_ns = 1200;
  end.returned_vector_ns[FL_CAUSE_IDLE] = end.vector_ns[FL_CAUSE_IDLE] = 100;
  end.returned_vector_ns[FL_CAUSE_ONCPU] = end.vector_ns[FL_CAUSE_ONCPU] = 300;
  end.returned_inherited_sync_ns = 40;
  end.inherited_sync_ns = 90;
  end.vector_ns[FL_CAUSE_FLUSH] = 500;
  flc_account_difference(&begin, &end, &difference);
  ASSERT_TRUE(difference.valid);
  EXPECT_EQ(difference.vector_ns[FL_CAUSE_IDLE], 0U);
  EXPECT_EQ(difference.vector_ns[FL_CAUSE_ONCPU], 200U);
  EXPECT_EQ(difference.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)], 200U);
  EXPECT_EQ(difference.vector_ns[FL_CAUSE_FLUSH], 500U);
  EXPECT_EQ(difference.inherited_sync_ns, 50U);

  end.returned_at_ns = 900;  // noticed once, but before
  flc_account_difference(&begin, &end, &difference);
  EXPECT_FALSE(difference.valid);
  end.returned_at_ns = 1200;
  end.lagging = true;
  flc_account_difference(&begin, &end, &difference);
  EXPECT_FALSE(difference.valid) << "what happened since the last switch is not known";
}

TEST_F(Ring, TimeSinceTheSwitchInCountsAsOwnCpuTime) {
  attach({.ledger = true});
  ASSERT_NE(flc_thread_self(), nullptr);
  fl_slot *slot = daemon_->slot_in_range(0);
  slot->generation = 1;
  slot->state = FL_SLOT_LIVE;
  slot->on_at_ns = flc_now_ns() - 5000000;
  slot->vector_ns[FL_CAUSE_ONCPU] = 7;
  flc_account account;
  flc_read_account_of(0, &account);
  ASSERT_TRUE(account.valid);
  EXPECT_EQ(account.vector_ns[FL_CAUSE_ONCPU], 7 + account.clock_ns - slot->on_at_ns);
  EXPECT_EQ(account.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)], account.clock_ns - slot->on_at_ns);
  EXPECT_GE(account.vector_ns[FL_CAUSE_ONCPU], 5000000U);
}

}  // namespace
}  // namespace flushlight::test
