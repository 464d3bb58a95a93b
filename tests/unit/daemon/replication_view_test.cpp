// SPDX-License-Identifier: GPL-2.0-or-later
// replication: what commits waited for replicas, and who waits now; which replicas there are, the engine's half adds.
#include "fixture.h"

namespace flushlight::test {
namespace {

constexpr uint64_t kMs = 1'000'000;

class ReplicationView : public DaemonTest {};

TEST_F(ReplicationView, SumsWaitsOfEachServer) {
  start(true);
  RawClient one = attached("pg"), other = attached("maria");
  for (const double ms : {4.0, 8.0}) one.ring(0).write(bytes(commit(1, 5, ms, FL_CAUSE_REPLICATION)));
  one.ring(0).write(bytes(commit(1, 5, 100, FL_CAUSE_FLUSH)));
  other.ring(0).write(bytes(commit(1, 5, 3)));
  const Table rows = rows_of("replication", "pg");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("instance").text, "pg");
  EXPECT_EQ(rows[0].at("commits_waited").integer, 2);
  EXPECT_DOUBLE_EQ(rows[0].at("commit_wait_ms").real, 12);
  EXPECT_DOUBLE_EQ(rows[0].at("mean_commit_wait_ms").real, 6);
  EXPECT_DOUBLE_EQ(rows[0].at("max_commit_wait_ms").real, 8);
  for (const char *name :
       {"name", "client_addr", "session_id", "state", "sync_mode", "remote_flush_ms", "unflushed_bytes"})
    EXPECT_EQ(rows[0].at(name).type, FL_CELL_NULL) << name << ": only the engine knows";
  EXPECT_EQ(rows_of("replication").size(), 2u);
  EXPECT_EQ(run_command(FL_COMMAND_RESET, "pg").status, 0u);
  kernel::ThreadState thread;
  thread.slot = one.welcome().first_slot;
  kernel_->thread_list = {thread};
  EXPECT_EQ(rows_of("replication", "pg")[0].at("commits_waited").integer, 0);
}

TEST_F(ReplicationView, CountsWhoWaitsNow) {
  start(true);
  RawClient client = attached("pg", 4);
  std::vector<kernel::ThreadState> threads(4);
  for (uint32_t i = 0; i < 4; i++) {
    threads[i].slot = client.welcome().first_slot + i;
    threads[i].blocked_since_ns = clock_.now_ns() - (i + 1) * kMs;
  }
  threads[0].state_cause = FL_CAUSE_REPLICATION;
  threads[1].rest_cause = FL_CAUSE_REPLICATION;
  threads[2].rest_cause = FL_CAUSE_REPLICATION;
  threads[2].own_flushes = 1;  // that is what it waits for
  kernel_->thread_list = threads;
  const Table rows = rows_of("replication", "pg");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("commits_waiting").integer, 2);
  EXPECT_DOUBLE_EQ(rows[0].at("oldest_wait_ms").real, 2);
  EXPECT_EQ(rows[0].at("max_commit_wait_ms").type, FL_CELL_NULL);
}

TEST_F(ReplicationView, UntracedNothingIsKnown) {
  start();
  RawClient client = attached("pg");
  const Table rows = rows_of("replication", "pg");
  ASSERT_EQ(rows.size(), 1u);
  for (const char *name : {"commits_waited", "commit_wait_ms", "commits_waiting", "oldest_wait_ms"})
    EXPECT_EQ(rows[0].at(name).type, FL_CELL_NULL) << name;
}

}  // namespace
}  // namespace flushlight::test
