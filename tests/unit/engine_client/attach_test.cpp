// SPDX-License-Identifier: GPL-2.0-or-later
// Attaching, being refused, and every way in which a daemon can be wrong, absent, hung or gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fake_daemon.h"

namespace flushlight::test {
namespace {

class Attach : public ::testing::Test {
 protected:
  void SetUp() override {
    configure("/nonexistent/socket");
    descriptors_ = open_descriptors();
  }
  void TearDown() override {
    flc_detach();
    EXPECT_EQ(open_descriptors(), descriptors_) << "descriptors leaked";
  }
  static std::string error() {
    char text[256];
    flc_attach_error(text, sizeof(text));
    return text;
  }
  int descriptors_ = 0;
};

TEST_F(Attach, NoDaemonSaysNoAndWhy) {
  EXPECT_FALSE(flc_attach_step(10));
  EXPECT_FALSE(flc_active(flc_now_ns()));
  EXPECT_EQ(flc_thread_self(), nullptr);
  EXPECT_NE(error().find("No such file"), std::string::npos) << error();
}

TEST_F(Attach, FirstStepAttaches) {
  FakeDaemon daemon({});
  configure(daemon.path());
  ASSERT_TRUE(flc_attach_step(1000)) << error();
  EXPECT_TRUE(flc_active(flc_now_ns()));
  flc_thread *thread = flc_thread_self();
  ASSERT_NE(thread, nullptr);
  EXPECT_EQ(thread, flc_thread_self());
  EXPECT_FALSE(flc_thread_traced(thread));
  flc_account account;
  flc_read_account(thread, &account);
  EXPECT_FALSE(account.valid);
  EXPECT_NE(account.clock_ns, 0U);
  flc_detach();
}

TEST_F(Attach, TheOffSwitchStopsAll) {
  FakeDaemon daemon({});
  configure(daemon.path());
  ASSERT_TRUE(flc_attach_step(1000)) << error();
  daemon.control()->off = 1;
  EXPECT_FALSE(flc_active(flc_now_ns()));
  EXPECT_EQ(flc_thread_self(), nullptr);
  daemon.control()->off = 0;
  EXPECT_TRUE(flc_active(flc_now_ns()));
  EXPECT_NE(flc_thread_self(), nullptr);
  flc_detach();
}

TEST_F(Attach, StaleHeartbeatDetachesAndALaterDaemonIsFound) {
  uint64_t first_epoch = 0;
  {
    FakeDaemon daemon({});
    configure(daemon.path());
    ASSERT_TRUE(flc_attach_step(1000)) << error();
    flc_thread *thread = flc_thread_self();
    ASSERT_NE(thread, nullptr);
    first_epoch = flc_thread_epoch(thread);
    daemon.beat_stale();
    EXPECT_FALSE(flc_active(flc_now_ns()));
    EXPECT_FALSE(flc_attach_step(0)) << "must back off";
    EXPECT_EQ(flc_thread_self(), nullptr);
    flc_set_window(thread, 5);  // an old pointer is harmless
    EXPECT_FALSE(flc_text_wanted(thread, 5));
    EXPECT_EQ(daemon.greetings(), 1);
  }
  FakeDaemon next({});
  configure(next.path());
  ASSERT_TRUE(flc_attach_step(1000)) << error();
  ASSERT_NE(flc_thread_self(), nullptr);
  EXPECT_NE(flc_thread_epoch(flc_thread_self()), first_epoch);
  flc_detach();
}

TEST_F(Attach, ADaemonThatClosesIsNoticedByTheAttachStep) {
  {
    FakeDaemon daemon({});
    configure(daemon.path());
    ASSERT_TRUE(flc_attach_step(1000)) << error();
  }
  EXPECT_FALSE(flc_attach_step(0));
  EXPECT_FALSE(flc_active(flc_now_ns()));
  flc_detach();
}

TEST_F(Attach, RefusalCarriesTheDaemonsText) {
  FakeDaemon daemon({.answer = Plan::Answer::kRefuse});
  configure(daemon.path());
  EXPECT_FALSE(flc_attach_step(1000));
  EXPECT_NE(error().find("not on the list"), std::string::npos) << error();
  flc_detach();
}

TEST_F(Attach, AHungDaemonCostsOnlyTheWait) {
  FakeDaemon daemon({.answer = Plan::Answer::kHang});
  configure(daemon.path());
  uint64_t begin_ns = flc_now_ns();
  EXPECT_FALSE(flc_attach_step(20));
  EXPECT_FALSE(flc_attach_step(0));
  EXPECT_LT(flc_now_ns() - begin_ns, 500000000U);
  flc_detach();
}

struct Wrong {
  const char *name;
  const char *says;
  Plan plan;
};

class WrongDaemon : public Attach, public ::testing::WithParamInterface<int> {
 public:
  static const std::vector<Wrong> &all() {
    using W = fl_welcome;
    static const std::vector<Wrong> list = {
        {"closes", "closed", {.answer = Plan::Answer::kClose}},
        {"short packet", "too short", {.answer = Plan::Answer::kShort}},
        {"wrong magic", "another protocol", {.answer = Plan::Answer::kWrongMagic}},
        {"wrong version", "another protocol", {.answer = Plan::Answer::kWrongVersion}},
        {"no seals", "sealed", {.seals = 0}},
        {"growable", "sealed", {.seals = 0x2}},
        {"not allocated", "allocated", {.allocate = false}},
        {"missing descriptor", "lacks", {.send_descriptors = 1}},
        {"surplus descriptor", "lacks", {.send_descriptors = 3}},
        {"length lies", "another protocol", {.spoil = [](W &w) { w.message.length += 8; }}},
        {"no slots", "number of slots", {.spoil = [](W &w) { w.slot_count = 0; }}},
        {"more slots than wanted", "number of slots", {.spoil = [](W &w) { w.slot_count = 5; }}},
        {"slots beyond the file", "smaller", {.slots = 2, .spoil = [](W &w) { w.slot_count = 4; }}},
        {"ring not a power of two", "ring size", {.spoil = [](W &w) { w.ring_data_bytes = 12288; }}},
        {"ring too small", "ring size", {.spoil = [](W &w) { w.ring_data_bytes = 4096; }}},
        {"ring beyond the file", "smaller", {.spoil = [](W &w) { w.ring_data_bytes *= 2; }}},
        {"ring huge", "ring size", {.spoil = [](W &w) { w.ring_data_bytes = 0x80000000U; }}},
        {"other epoch", "epoch", {.spoil = [](W &w) { w.epoch++; }}},
        {"range beyond the ledger", "slot range", {.ledger = true, .spoil = [](W &w) { w.first_slot = 61; }}},
        {"range wraps", "slot range", {.ledger = true, .spoil = [](W &w) { w.first_slot = 0xffffffffU; }}},
        {"slot 0", "slot range", {.ledger = true, .spoil = [](W &w) { w.first_slot = 0; }}},
        {"ledger too large for names", "slot range", {.ledger = true, .spoil = [](W &w) { w.ledger_slots = 262145; }}},
        {"ledger beyond the file",
         "ledger",
         {.ledger = true,
          .spoil =
              [](W &w) {
                w.ledger_slots = 4096;
                w.first_slot = 4000;
              }}},
        {"ledger version", "ledger version", {.ledger = true, .spoil = [](W &w) { w.ledger_version++; }}},
        {"no token", "slot range or token", {.ledger = true, .spoil = [](W &w) { w.token = 0; }}},
        {"ledger promised, not sent", "lacks", {.ledger = true, .send_descriptors = 2}},
    };
    return list;
  }
};

TEST_P(WrongDaemon, IsRefusedWithoutALeak) {
  const Wrong &wrong = all()[static_cast<size_t>(GetParam())];
  SCOPED_TRACE(wrong.name);
  FakeDaemon daemon(wrong.plan);
  configure(daemon.path());
  EXPECT_FALSE(flc_attach_step(1000));
  EXPECT_FALSE(flc_active(flc_now_ns()));
  EXPECT_EQ(flc_thread_self(), nullptr);
  EXPECT_NE(error().find(wrong.says), std::string::npos) << error();
  flc_detach();
}
INSTANTIATE_TEST_SUITE_P(Every, WrongDaemon, ::testing::Range(0, static_cast<int>(WrongDaemon::all().size())));

TEST_F(Attach, LedgerIsMappedAndTheThreadsNameIsKept) {
  FakeDaemon daemon({.ledger = true});
  configure(daemon.path());
  char before[16];
  char after[16];
  prctl(PR_GET_NAME, before);
  ASSERT_TRUE(flc_attach_step(1000)) << error();
  flc_thread *thread = flc_thread_self();
  ASSERT_NE(thread, nullptr);
  prctl(PR_GET_NAME, after);
  EXPECT_STREQ(before, after);
  EXPECT_FALSE(flc_thread_traced(thread)) << "no kernel side here: nobody confirmed the slot";

  fl_slot *slot = daemon.slot_in_range(flc_thread_slot_in_range(thread));
  slot->state = FL_SLOT_LIVE;
  slot->generation = 3;
  slot->vector_ns[FL_CAUSE_FLUSH] = 1234;
  flc_account account;
  flc_read_account_of(flc_thread_slot_in_range(thread), &account);
  EXPECT_TRUE(account.valid);
  EXPECT_EQ(account.vector_ns[FL_CAUSE_FLUSH], 1234U);
  flc_read_account_of(99, &account);
  EXPECT_FALSE(account.valid);
  flc_detach();
}

TEST_F(Attach, StandardDescriptorsThatAreClosedStayClosed) {
  FakeDaemon daemon({});
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int fd = 0; fd <= 2; fd++) close(fd);
    configure(daemon.path());
    int result = flc_attach_step(1000) ? 0 : 1;
    for (int fd = 0; fd <= 2; fd++)
      if (fcntl(fd, F_GETFD) >= 0) result |= 2;
    _exit(result);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  flc_detach();
}

}  // namespace
}  // namespace flushlight::test
