// SPDX-License-Identifier: GPL-2.0-or-later
// Enrolment names are public: replay, guesses and names of other threads must get nowhere.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <thread>

#include "tests/gate/traced.h"

namespace gate {
namespace {

using flushlight::kernel::Tracer;

class Enrolment : public ::testing::Test {
 protected:
  // One for all: where the CPU is emulated (tests/vm), loading takes ten seconds.
  static void SetUpTestSuite() {
    flushlight::kernel::Options options;
    options.ledger_slots = 256;
    options.pool_slots = 128;
    auto loaded = Tracer::load(options);
    ASSERT_TRUE(loaded) << loaded.error().text;
    tracer = std::move(*loaded);
  }
  static void TearDownTestSuite() { tracer.reset(); }
  void SetUp() override {
    ASSERT_NE(tracer, nullptr);
    tracer->tick();  // ranges of the test before come back
    for (const auto &c : tracer->counters()) before_[c.name] = c.value;
  }
  // Since the test began.
  uint64_t counter(const std::string &name) const {
    for (const auto &c : tracer->counters())
      if (c.name == name) return c.value - before_.at(name);
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  static std::unique_ptr<Tracer> tracer;

 private:
  std::map<std::string, uint64_t> before_;
};
std::unique_ptr<Tracer> Enrolment::tracer;

TEST_F(Enrolment, ATokenWorksOnce) {
  TracedProcess process(*tracer, 4);
  EXPECT_EQ(counter("enrol_refused"), 0u);
  rename_thread(token_name(process.lease().token).c_str());
  EXPECT_EQ(counter("enrol_refused"), 1u);
  rename_thread(token_name(0x1234567890abcdef).c_str());
  EXPECT_EQ(counter("enrol_refused"), 2u);
}

TEST_F(Enrolment, ASlotOfOthersIsRefused) {
  TracedProcess process(*tracer, 4);
  uint32_t outside = process.lease().first_slot + 4;
  rename_thread(slot_name(outside, 77).c_str());
  EXPECT_EQ(counter("enrol_refused"), 1u);
  EXPECT_NE(process.slot(outside).nonce, 77u);
  rename_thread(slot_name(1, 77).c_str());  // one of the pool
  EXPECT_EQ(counter("enrol_refused"), 2u);
  rename_thread("\x7fS0");    // too short
  rename_thread("\x7fX123");  // no such kind
  rename_thread("\x7f");
  EXPECT_EQ(counter("enrol_refused"), 5u);
}

TEST_F(Enrolment, ALiveSlotIsNotTakenAway) {
  TracedProcess process(*tracer, 4);
  const fl_slot *mine = process.enrol(0);
  ASSERT_NE(mine, nullptr);
  uint32_t nonce = mine->nonce;
  std::thread thief([&] { EXPECT_EQ(process.enrol(0), nullptr); });
  thief.join();
  EXPECT_EQ(mine->nonce, nonce);
  EXPECT_EQ(counter("enrol_refused"), 1u);
}

TEST_F(Enrolment, AnotherProcessIsRefused) {
  TracedProcess process(*tracer, 4);
  pid_t child = fork();
  if (child == 0) {
    rename_thread(slot_name(process.lease().first_slot + 1, 99).c_str());
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_NE(process.slot(process.lease().first_slot + 1).nonce, 99u);
  EXPECT_EQ(counter("enrol_refused"), 1u);
}

TEST_F(Enrolment, AThreadCannotBeNamedByAnother) {
  TracedProcess process(*tracer, 4);
  std::atomic<bool> stop{false};
  std::atomic<pid_t> tid{0};
  std::thread victim([&] {
    tid = gettid();
    while (!stop) usleep(1000);
  });
  while (tid == 0) usleep(100);
  std::ofstream("/proc/self/task/" + std::to_string(tid) + "/comm") << slot_name(process.lease().first_slot + 2, 55);
  stop = true;
  victim.join();
  EXPECT_NE(process.slot(process.lease().first_slot + 2).nonce, 55u);
  EXPECT_EQ(counter("enrol_refused"), 1u);
}

TEST_F(Enrolment, AFileSoNamedIsNothing) {
  TracedProcess process(*tracer, 4);
  // exec gives the new program's file name to the thread: a fresh token must not be usable by it for others
  std::string path = testing::TempDir() + "/" + slot_name(process.lease().first_slot + 3, 44);
  pid_t child = fork();
  if (child == 0) {
    if (symlink("/bin/true", path.c_str()) == 0) execl(path.c_str(), "true", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  unlink(path.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NE(process.slot(process.lease().first_slot + 3).nonce, 44u);
}

TEST_F(Enrolment, TheLedgerCannotBeWritten) {
  void *at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, tracer->ledger_fd(), 0);
  EXPECT_EQ(at, MAP_FAILED);
  at = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, tracer->ledger_fd(), 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_NE(mprotect(at, 4096, PROT_READ | PROT_WRITE), 0);
  munmap(at, 4096);
}

TEST_F(Enrolment, RangesComeBack) {
  for (int round = 0; round < 200; round++) {
    TracedProcess process(*tracer, 100);
    ASSERT_EQ(process.lease().slot_count, 100u) << "round " << round;
    std::thread([&] { EXPECT_NE(process.enrol(5), nullptr); }).join();
    tracer->revoke(process.lease());
    for (int i = 0; i < 100; i++) {
      tracer->tick();
      if (process.slot(process.lease().first_slot + 5).state == FL_SLOT_FREE) break;
      usleep(1000);
    }
    tracer->tick();
  }
}

// The brake: nothing is charged while off, and what comes after on is right again.
TEST_F(Enrolment, OffAndOn) {
  TracedProcess process(*tracer, 4);
  std::thread([&] {
    const fl_slot *slot = process.enrol(0);
    ASSERT_NE(slot, nullptr);
    ASSERT_TRUE(tracer->set_enabled(false));
    uint64_t total = slot->vector_ns[FL_CAUSE_OTHER];
    usleep(50000);
    EXPECT_EQ(slot->vector_ns[FL_CAUSE_OTHER], total);
    ASSERT_TRUE(tracer->set_enabled(true));
    usleep(1000);
    Reading begin = read_slot(slot);
    usleep(30000);
    Account a = account(begin, read_slot(slot));
    EXPECT_NEAR(a.cause_sum(), 1, 0.01);
    EXPECT_NEAR(a.cause(FL_CAUSE_OTHER), 30, 3);
  }).join();
}

}  // namespace
}  // namespace gate
