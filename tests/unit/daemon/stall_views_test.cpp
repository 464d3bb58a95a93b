// SPDX-License-Identifier: GPL-2.0-or-later
// A stall from the first look to the rows of the views: visible while it lasts, whom it hit, which tasks, who is to blame.
#include "fixture.h"
#include "sidecar/kernel/blocked_text.h"

namespace flushlight::test {
namespace {

using stalls::find_culprit;

constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kNumber = 7 << 20;  // loop0

class StallViews : public DaemonTest {
 protected:
  void start_healthy() {
    start(true);
    BlockDevice disk;
    disk.name = "loop0";
    disk.mount_point = "/mnt";
    daemon_->facts().set(BlockDevices{{kNumber, disk}});
    kernel_->histogram_list = {
        {kNumber, kernel::Operation::kFlush, kernel::Stage::kDevice, std::vector<uint64_t>(FL_HISTOGRAM_BUCKETS, 1)}};
    activity_.device = kNumber;
    disk_stats_[kNumber] = {.completed = 1000};
    run_ms(5000, true);
  }
  // Looks every 100 ms; healthy: a thousand flushes a second.
  void run_ms(uint64_t ms, bool healthy) {
    for (uint64_t i = 0; i < ms / 100; i++) {
      clock_.advance_ms(100);
      if (healthy) {
        activity_.completed[2][10] += 100;
        disk_stats_[kNumber].completed += 100;
        disk_stats_[kNumber].bytes += 100 * 4096;
      }
      kernel_->stall_source.activity_list = {activity_};
      daemon_->step(0);
    }
  }
  void freeze() {
    activity_.at_device = 3;
    activity_.oldest_issue_ns = activity_.oldest_start_ns = clock_.now_ns() + kMs;
    disk_stats_[kNumber].inflight = 3;
  }
  void recover() {
    activity_.at_device = 0;
    activity_.oldest_issue_ns = activity_.oldest_start_ns = 0;
    activity_.completed[2][21] += 3;
    disk_stats_[kNumber].inflight = 0;
    disk_stats_[kNumber].completed += 3;
    kernel_->stall_source.request_list = {{.device = kNumber,
                                           .operation = 2,
                                           .start_ns = begun_ns_,
                                           .issue_ns = begun_ns_,
                                           .complete_ns = clock_.now_ns() + 50 * kMs}};
  }
  kernel::DeviceActivity activity_;
  uint64_t begun_ns_ = 0;
};

TEST_F(StallViews, VisibleWhileItLastsAndClosedAtRecovery) {
  start_healthy();
  RawClient client = attached("pg", 2);
  client.ring(0).write(session_record(1, "alice", "shop", 16, 5));
  client.ring(1).write(session_record(2, "bob", "shop", 17, 5));
  client.ring(0).write(text_record(5, "INSERT INTO t VALUES ($1)"));
  rows_of("health");
  EXPECT_TRUE(rows_of("stalls").empty());

  freeze();
  begun_ns_ = activity_.oldest_issue_ns;
  for (uint32_t ring = 0; ring < 2; ring++) {
    client.ring(ring).head()->session_id = ring + 1;
    client.ring(ring).head()->queryid = 5;
    client.ring(ring).head()->window_begin_ns = begun_ns_ + ring * kMs;
  }
  kernel_->stall_source.task_list = {{.tid = 4'000'001,
                                      .tgid = 4'000'001,
                                      .blocked_ns = 400 * kMs,
                                      .name = "php-fpm",
                                      .stack = {"__schedule", "schedule", "jbd2_log_wait_commit", "ext4_sync_file"}}};
  run_ms(600, false);
  Table rows = rows_of("stalls", "pg", "alice", false);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("ended_at").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("kind").text, "freeze");
  EXPECT_EQ(rows[0].at("device").text, "loop0");
  EXPECT_EQ(rows[0].at("mount_point").text, "/mnt");
  EXPECT_EQ(rows[0].at("inflight").integer, 3);
  EXPECT_NEAR(rows[0].at("age_ms").real, 599, 1);
  EXPECT_NEAR(rows[0].at("oldest_request_ms").real, 599, 1);
  EXPECT_EQ(rows[0].at("commits_waiting").integer, 2);
  EXPECT_EQ(rows[0].at("commits_hit").integer, 2);
  EXPECT_EQ(rows[0].at("sessions_hit").integer, 2);
  EXPECT_EQ(rows[0].at("worst_query").text, "INSERT INTO t VALUES ($1)");
  EXPECT_EQ(rows[0].at("culprit_process").text, "device");
  EXPECT_EQ(rows[0].at("culprit_file").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("other_tasks_waiting").integer, 1);
  EXPECT_NE(rows[0].at("verdict").text.find("so far"), std::string::npos);
  rows = rows_of("stalls", "pg", "bob", false);
  EXPECT_EQ(rows[0].at("worst_query").text, "<insufficient privilege>");
  rows = rows_of("stall_tasks");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("thread_name").text, "php-fpm");
  EXPECT_EQ(rows[0].at("wait_function").text, "jbd2_log_wait_commit");
  EXPECT_EQ(rows[0].at("stack").text, "__schedule < schedule < jbd2_log_wait_commit < ext4_sync_file");
  EXPECT_EQ(rows[0].at("role").text, "other");
  EXPECT_EQ(rows_of("stall_tasks", "pg", "alice", false)[0].at("stack").type, FL_CELL_NULL);
  EXPECT_EQ(rows_of("devices")[0].at("stalls").integer, 1);
  EXPECT_NEAR(rows_of("devices")[0].at("stall_ms").real, 599, 1);

  run_ms(400, false);
  recover();
  clock_.advance_ms(50);
  for (uint32_t ring = 0; ring < 2; ring++) {
    client.ring(ring).head()->window_begin_ns = 0;
    auto record = commit(ring + 1, 5, 0);
    record.begin_ns = begun_ns_ + ring * kMs;
    record.duration_ns = clock_.now_ns() + 10'000 - record.begin_ns;
    record.vector_ns[FL_CAUSE_FLUSH] = record.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] = record.duration_ns;
    client.ring(ring).write(bytes(record));
  }
  run_ms(1000, true);
  rows = rows_of("stalls", "pg");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("ended_at").type, FL_CELL_TIME);
  EXPECT_NEAR(rows[0].at("age_ms").real, 1049, 1);
  EXPECT_EQ(rows[0].at("commits_waiting").integer, 0);
  EXPECT_EQ(rows[0].at("commits_hit").integer, 2);
  EXPECT_EQ(rows[0].at("sessions_hit").integer, 2);
  EXPECT_NEAR(rows[0].at("worst_commit_ms").real, 1049, 1);
  const int64_t id = rows[0].at("stall_id").integer;
  EXPECT_EQ(rows_of("devices")[0].at("stalls").integer, 1);
  EXPECT_NEAR(rows_of("devices")[0].at("stall_ms").real, 1049, 1);
  rows = rows_of("slow_commits", "pg");
  ASSERT_EQ(rows.size(), 2u);
  for (const auto &row : rows) {
    EXPECT_EQ(row.at("stall_id").integer, id);
    EXPECT_NE(row.at("verdict").text.find("the device itself"), std::string::npos) << row.at("verdict").text;
  }
  rows = rows_of("slow_requests");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("operation").text, "flush");
  EXPECT_EQ(rows[0].at("stall_id").integer, id);
  EXPECT_NEAR(rows[0].at("device_ms").real, 1049, 1);
}

TEST_F(StallViews, CommitsOfOtherDevicesAreNotHit) {
  start_healthy();
  RawClient client = attached("pg");
  freeze();
  begun_ns_ = activity_.oldest_issue_ns;
  run_ms(300, false);
  auto record = commit(1, 5, 40);  // came back in the middle: it did not wait for this device
  client.ring(0).write(bytes(record));
  run_ms(500, false);
  recover();
  run_ms(1000, true);
  const Table rows = rows_of("stalls");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("commits_hit").integer, 0);
  EXPECT_EQ(rows[0].at("worst_query").type, FL_CELL_NULL);
  EXPECT_EQ(rows_of("slow_commits")[0].at("stall_id").type, FL_CELL_NULL);
}

TEST_F(StallViews, ProcessThatFloodedItIsTheCulprit) {
  start_healthy();
  run_ms(20000, true);  // what is usual is known
  kernel::Writer database{.tgid = 10, .process = "mariadbd", .file = {kNumber, 3, "ib_logfile0", true}};
  database.recent_bytes = 20 << 20;
  database.recent_syncs = 4000;
  kernel::Writer flood{.tgid = 11, .process = "backup", .file = {kNumber, 4, "dump/all.sql", true}};
  flood.recent_bytes = 700 << 20;
  flood.cgroup = "backup.service";
  kernel::Writer elsewhere{.tgid = 12, .process = "rsync", .file = {kNumber + 1, 4, "x", true}};
  elsewhere.recent_bytes = uint64_t{9} << 30;
  kernel_->stall_source.writer_list = {database, flood, elsewhere};
  freeze();
  run_ms(600, false);
  Table rows = rows_of("stalls");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("culprit_process").text, "backup");
  EXPECT_EQ(rows[0].at("culprit_file").text, "/mnt/dump/all.sql");
  EXPECT_EQ(rows[0].at("culprit_cgroup").text, "backup.service");
  EXPECT_NE(rows[0].at("verdict").text.find("backup wrote 700 MB to /mnt/dump/all.sql"), std::string::npos)
      << rows[0].at("verdict").text;
  rows = rows_of("stalls", "", "alice", true);
  rows = rows_of("writers");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].at("file").text, "/mnt/dump/all.sql");
  EXPECT_EQ(rows[2].at("file").text, "x");
}

TEST_F(StallViews, NeighbourInTheJournal) {
  start_healthy();
  RawClient client = attached("pg");
  client.ring(0).write(session_record(1, "alice", "shop", 16, 5));
  client.ring(0).write(text_record(5, "INSERT INTO t VALUES ($1)"));
  kernel::ThreadState session{};
  session.host_tgid = 50;
  session.kind = 1;
  kernel_->thread_list = {session};
  kernel::Writer own{.tgid = 50, .process = "postgres", .file = {kNumber, 3, "wal", true}};
  own.recent_bytes = 1 << 20;
  own.recent_syncs = 40;
  kernel::Writer neighbour{.tgid = 60, .process = "backup", .file = {kNumber, 4, "dump", true}};
  neighbour.recent_bytes = 180 << 20;
  neighbour.recent_syncs = 22;
  kernel_->stall_source.writer_list = {own, neighbour};
  kernel::JournalCommits journal;
  journal.device = kNumber + 1;
  journal.disk = kNumber;
  journal.buckets.resize(FL_HISTOGRAM_BUCKETS);
  const auto run = [&](int looks, uint64_t commit_ns) {
    for (int i = 0; i < looks; i++) {
      journal.buckets[fl_histogram_bucket(commit_ns)]++;
      journal.sum_ns += commit_ns;
      kernel_->journal_list = {journal};
      for (kernel::Writer &writer : kernel_->stall_source.writer_list) writer.last_ns = clock_.now_ns();
      run_ms(100, true);
    }
  };
  const auto commits = [&](int count, uint64_t took_ns, uint64_t journal_ns) {
    for (int i = 0; i < count; i++) {
      auto record = commit(1, 5, 0);
      record.duration_ns = took_ns;
      record.begin_ns = clock_.now_ns() - took_ns;
      record.vector_ns[FL_CAUSE_WRITE] = took_ns;
      record.vector_ns[FL_VECTOR_PATH(FL_PATH_JOURNAL)] = journal_ns;
      record.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] = took_ns - journal_ns;
      client.ring(0).write(bytes(record));
    }
  };
  run(30, kMs);
  // too short for a stall: the verdict says it all the same
  commits(1, 40 * kMs, 30 * kMs);
  run(5, kMs);
  EXPECT_TRUE(rows_of("stalls").empty());
  Table rows = rows_of("slow_commits", "pg");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NE(rows[0].at("verdict").text.find("kept busy by backup"), std::string::npos) << rows[0].at("verdict").text;
  run(20, 110 * kMs);
  commits(1, 300 * kMs, 250 * kMs);
  commits(1, 300 * kMs, 20 * kMs);  // hit by something else
  run(1, 110 * kMs);
  rows = rows_of("stalls", "pg");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("kind").text, "journal");
  EXPECT_EQ(rows[0].at("device").text, "loop0");
  EXPECT_EQ(rows[0].at("culprit_process").text, "backup");
  EXPECT_EQ(rows[0].at("culprit_file").text, "/mnt/dump");
  EXPECT_EQ(rows[0].at("ended_at").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("commits_hit").integer, 1);
  EXPECT_NE(rows[0].at("verdict").text.find("synced 22 times and wrote 180 MB, most of it to /mnt/dump (99 % of all)"),
            std::string::npos)
      << rows[0].at("verdict").text;
  EXPECT_EQ(rows_of("stalls", "pg", "alice", false)[0].at("culprit_file").type, FL_CELL_NULL);
  run(30, kMs);
  rows = rows_of("stalls");
  EXPECT_EQ(rows[0].at("ended_at").type, FL_CELL_TIME);
  EXPECT_NEAR(rows[0].at("age_ms").real, 2100, 250);
}

TEST_F(StallViews, SwitchedOffItEnds) {
  start_healthy();
  freeze();
  run_ms(600, false);
  EXPECT_EQ(run_command(FL_COMMAND_OFF).status, 0u);
  const Table rows = rows_of("stalls");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("ended_at").type, FL_CELL_TIME);
}

stalls::Episode frozen() {
  stalls::Episode stall;
  stall.device = kNumber;
  stall.kind = stalls::Kind::kFreeze;
  return stall;
}

TEST(StallCulprit, WhatIsUsualIsNoReason) {
  kernel::Writer writer{.tgid = 10, .process = "mariadbd", .file = {kNumber, 3, "x", true}};
  writer.recent_bytes = 400 << 20;
  EXPECT_TRUE(find_culprit({writer}, frozen(), 50e6, {10}).is_device) << "it does that all day";
  EXPECT_FALSE(find_culprit({writer}, frozen(), 5e6, {10}).is_device) << "its own bulk load";
  EXPECT_TRUE(find_culprit({writer}, frozen(), std::nullopt, {10}).is_device);
  EXPECT_FALSE(find_culprit({writer}, frozen(), std::nullopt, {}).is_device);
  writer.recent_bytes = 1 << 20;
  EXPECT_TRUE(find_culprit({writer}, frozen(), 0.0, {}).is_device) << "too little to matter";
}

TEST(StallCulprit, SyncStormIsOneForSlowFlushes) {
  kernel::Writer writer{.tgid = 10, .process = "maildrop", .file = {kNumber, 3, "x", true}};
  writer.recent_syncs = 900;
  EXPECT_TRUE(find_culprit({writer}, frozen(), 0.0, {}).is_device);
  stalls::Episode slow = frozen();
  slow.kind = stalls::Kind::kSlowFlush;
  EXPECT_EQ(find_culprit({writer}, slow, 0.0, {}).process, "maildrop");
  EXPECT_TRUE(find_culprit({writer}, slow, 0.0, {10}).is_device);
}

TEST(StallTexts, DiskStats) {
  const AllDiskStats stats = parse_disk_stats(
      "   7       0 loop0 10 0 80 5 20 3 400 9 4 10 20 0 0 0 0 6 3\n   8       1 sda1 1 2 3 4 5 6 7 8 9 10 "
      "11\nnonsense\n");
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats.at(kNumber).completed, 36u);
  EXPECT_EQ(stats.at(kNumber).bytes, 480u * 512);
  EXPECT_EQ(stats.at(kNumber).inflight, 4u);
  EXPECT_EQ(stats.at((8 << 20) | 1).completed, 6u) << "an old kernel, without flushes";
}

TEST(StallTexts, BlockedTasks) {
  const auto tasks = kernel::parse_blocked_tasks(
      "T 12 11 1 0 5000000 6264 0\nS folio_wait_bit_common+0x12f/0x320\nS xfs_log_force_seq+0x1/0x2 [xfs]\n"
      "nonsense\nT 13 13 0 1 0 6b 0\n");
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].tid, 12u);
  EXPECT_EQ(tasks[0].tgid, 11u);
  EXPECT_EQ(tasks[0].name, "db");
  EXPECT_EQ(tasks[0].blocked_ns, 5000000u);
  EXPECT_EQ(tasks[0].stack, (std::vector<std::string>{"folio_wait_bit_common", "xfs_log_force_seq"}));
  EXPECT_TRUE(tasks[1].is_kernel);
  EXPECT_TRUE(tasks[1].stack.empty());
  EXPECT_EQ(stalls::wait_function_of({"__schedule", "io_schedule", "bit_wait_io", "jbd2_x"}), "jbd2_x");
}

}  // namespace
}  // namespace flushlight::test
