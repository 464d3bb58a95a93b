// SPDX-License-Identifier: GPL-2.0-or-later
// The views over the socket.
#include <set>

#include "fixture.h"
#include "sidecar/serve/view.h"

namespace flushlight::test {
namespace {

using Views = DaemonTest;

TEST(Catalog, EveryColumnHasAProducerAndEveryProducerAColumn) {
  std::set<std::string> wanted, made;
  for (const CatalogColumn &column : catalog_columns())
    wanted.insert(std::string(column.view) + "." + std::string(column.name));
  for (const auto &view : all_views())
    for (const auto &column : view->columns())
      EXPECT_TRUE(made.insert(std::string(view->name()) + "." + std::string(column)).second) << "twice: " << column;
  EXPECT_EQ(wanted, made);
}

TEST(Catalog, AccountColumnsFollowTheLedger) {
  for (const std::string_view view : {"statements", "statements_recent", "slow_commits", "threads"}) {
    std::vector<std::string_view> names;
    for (const CatalogColumn &column : catalog_columns())
      if (column.view == view) names.push_back(column.name);
    const auto first = std::find(names.begin(), names.end(), account_column_name(0));
    ASSERT_LE(FL_VECTOR_COUNT, names.end() - first) << view;
    for (int i = 0; i < FL_VECTOR_COUNT; i++) EXPECT_EQ(first[i], account_column_name(i));
  }
}

TEST(Catalog, UnitsAreInTheNames) {
  for (const CatalogColumn &column : catalog_columns())
    EXPECT_EQ(column.unit == "MS", column.name.ends_with("_ms")) << column.view << "." << column.name;
}

// Fills everything, then checks the type of each cell against views.def.
TEST_F(Views, CellsHaveTheTypesOfTheDefinition) {
  config_.advice_interval_ms = 100;
  start(true);
  RawClient client = attached("pg", 2);
  client.ring(0).write(session_record(1, "alice", "shop", 16, 5));
  client.ring(0).write(text_record(5, "INSERT INTO t VALUES ($1)", true));
  for (int i = 0; i < 120; i++) client.ring(0).write(bytes(commit(1, 5, 50)));  // enough for advice
  client.ring(0).write(bytes(statement(1, 5, 51)));
  auto record = commit(1, 5, 50);
  record.xid = 700;
  record.position = 0x100000028;
  client.ring(0).write(bytes(record));
  client.ring(0).head()->commits_seen = 1;
  client.ring(0).head()->session_id = 1;
  client.ring(0).head()->queryid = 5;
  client.ring(0).head()->window_begin_ns = clock_.now_ns() - 1'000'000;
  kernel::ThreadState thread{};
  thread.slot = client.welcome().first_slot;
  thread.host_tid = static_cast<uint32_t>(getpid());
  thread.host_tgid = thread.host_tid;
  thread.kind = 1;
  thread.blocked_since_ns = clock_.now_ns() - 500'000;
  thread.own_flushes = 1;
  thread.device = device_number(7, 0);
  kernel_->thread_list = {thread};
  std::vector<uint64_t> buckets(FL_HISTOGRAM_BUCKETS);
  buckets[300] = 10;
  for (const auto operation : {kernel::Operation::kRead, kernel::Operation::kWrite, kernel::Operation::kFlush})
    for (const auto stage : {kernel::Stage::kQueue, kernel::Stage::kDevice})
      kernel_->histogram_list.push_back({device_number(7, 0), operation, stage, buckets});
  BlockDevice disk;
  disk.name = "loop0";
  disk.mount_point = "/mnt";
  disk.nr_requests = 128;
  daemon_->facts().set(BlockDevices{{device_number(7, 0), disk}});
  daemon_->facts().set(Journals{{.device = device_number(7, 0), .name = "loop0", .file_system = "ext4"}});
  daemon_->facts().set(Pressures{{.io_some = {12.5, 7'000'000}, .dirty_bytes = 4096, .load_1m = 0.5}});
  kernel::Writer writer{.tgid = 9, .process = "dd", .file = {device_number(7, 0), 5, "big", true}, .bytes = 4096};
  kernel_->stall_source.writer_list = {writer};
  kernel_->ring_list = {{.owner = 9, .owner_name = "dd", .punts = 4, .timed = 0}};
  kernel_->stall_source.request_list = {
      {.device = device_number(7, 0), .start_ns = 1, .issue_ns = 2, .complete_ns = 100'000'001}};
  kernel_->stall_source.task_list = {{.tid = 9, .tgid = 9, .name = "dd", .stack = {"schedule", "submit_bio_wait"}}};
  kernel::DeviceActivity frozen{.device = device_number(7, 0), .at_device = 2};
  for (int i = 0; i < 20; i++) {
    kernel_->stall_source.activity_list = {frozen};
    if (frozen.oldest_issue_ns == 0) frozen.oldest_issue_ns = clock_.now_ns();
    daemon_->step(0);
    clock_.advance_ms(100);
  }
  daemon_->step(0);
  for (const CatalogView &view : catalog_views()) {
    const Table rows = rows_of(view.name);
    EXPECT_FALSE(rows.empty()) << view.name;
    for (const auto &row : rows)
      for (const CatalogColumn &column : catalog_columns()) {
        if (column.view != view.name) continue;
        const Cell &cell = row.at(std::string(column.name));
        EXPECT_TRUE(cell.type == FL_CELL_NULL || cell.type == column.type) << column.view << "." << column.name;
      }
  }
}

TEST_F(Views, AutocommitOwnsItsCommit) {
  start();
  RawClient client = attached("pg");
  RawRing ring = client.ring(0);
  ring.write(session_record(1, "alice", "shop", 16, 5));
  ring.write(text_record(5, "INSERT INTO t VALUES ($1)"));
  for (int i = 1; i <= 100; i++) {
    auto record = commit(1, 5, i, FL_CAUSE_FLUSH, i % 4 == 0 ? FL_PATH_SELF : FL_PATH_PEER);
    ring.write(bytes(record));
    ring.write(bytes(statement(1, 5, i + 1)));
    if (i % 20 == 0) rows_of("health");
  }
  for (const char *view : {"statements", "statements_recent"}) {
    const Table rows = rows_of(view, "pg");
    ASSERT_EQ(rows.size(), 1u);
    const auto &row = rows[0];
    EXPECT_EQ(row.at("instance").text, "pg");
    EXPECT_EQ(row.at("userid").integer, 16);
    EXPECT_EQ(row.at("dbid").integer, 5);
    EXPECT_EQ(row.at("user_name").text, "alice");
    EXPECT_EQ(row.at("db_name").text, "shop");
    EXPECT_EQ(row.at("kind").text, "statement");
    EXPECT_EQ(row.at("toplevel").integer, 1);
    EXPECT_EQ(row.at("query").text, "INSERT INTO t VALUES ($1)");
    EXPECT_EQ(row.at("query_truncated").integer, 0);
    EXPECT_EQ(row.at("calls").integer, 100);
    EXPECT_EQ(row.at("commits").integer, 100);
    EXPECT_EQ(row.at("caused_commits").integer, 0);
    EXPECT_NEAR(row.at("total_commit_ms").real, 5050, 1e-6);
    EXPECT_NEAR(row.at("total_exec_ms").real, 5150, 1e-6);
    EXPECT_NEAR(row.at("mean_commit_ms").real, 50.5, 1e-6);
    EXPECT_NEAR(row.at("stddev_commit_ms").real, 28.866, 1e-3);
    EXPECT_DOUBLE_EQ(row.at("min_commit_ms").real, 1);
    EXPECT_DOUBLE_EQ(row.at("max_commit_ms").real, 100);
    EXPECT_NEAR(row.at("p50_commit_ms").real, 50, 2);
    EXPECT_NEAR(row.at("p99_commit_ms").real, 99, 3);
    EXPECT_LE(row.at("p999_commit_ms").real, 100);
    EXPECT_NEAR(row.at("flush_ms").real, 5050, 1e-6);
    EXPECT_NEAR(row.at("self_ms").real + row.at("peer_ms").real, 5050, 1e-6);
    EXPECT_EQ(row.at("journal_ms").real, 0);
    EXPECT_EQ(row.at("led").integer, 25);
    EXPECT_EQ(row.at("followed").integer, 75);
    EXPECT_EQ(row.at("unsynced").integer, 0);
    EXPECT_EQ(row.at("syncs").integer, 25);
    EXPECT_EQ(row.at("wal_bytes").integer, 10000);
    EXPECT_EQ(row.at("rows_changed").type, FL_CELL_NULL);
    EXPECT_EQ(row.at("binlog_led").type, FL_CELL_NULL);
    EXPECT_EQ(row.at("coverage").real, 1);
  }
}

TEST_F(Views, ExplicitCommitIsItsOwnRowAndTheWriterCausedIt) {
  start();
  RawClient client = attached("pg");
  RawRing ring = client.ring(0);
  ring.write(session_record(1, "alice", "shop", 16, 5));
  ring.write(bytes(statement(1, 5, 1)));
  auto record = commit(1, 9, 30);
  record.kind = FL_KIND_COMMIT;
  record.cause_queryid = 5;
  ring.write(bytes(record));
  ring.write(bytes(statement(1, 9, 31, FL_KIND_COMMIT)));
  const Table rows = rows_of("statements", "pg");
  ASSERT_EQ(rows.size(), 2u);
  int64_t commits = 0;
  for (const auto &row : rows) {
    commits += row.at("commits").integer;
    const bool is_commit = row.at("kind").text == "commit";
    EXPECT_EQ(row.at("queryid").integer, is_commit ? 9 : 5);
    EXPECT_EQ(row.at("calls").integer, 1);
    EXPECT_EQ(row.at("caused_commits").integer, is_commit ? 0 : 1);
    EXPECT_NEAR(row.at("caused_commit_ms").real, is_commit ? 0 : 30, 1e-9);
    EXPECT_EQ(row.at("min_commit_ms").type, is_commit ? FL_CELL_DOUBLE : FL_CELL_NULL);
    EXPECT_EQ(row.at("flush_ms").type, is_commit ? FL_CELL_DOUBLE : FL_CELL_NULL);
  }
  EXPECT_EQ(commits, 1) << "SUM() over the view counts each commit once";
  const Table slow = rows_of("slow_commits", "pg");
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].at("queryid").integer, 5) << "the statement that wrote most";
  EXPECT_EQ(slow[0].at("kind").text, "commit");
}

TEST_F(Views, WithoutAccountsCausesAreNull) {
  start();
  RawClient client = attached("pg");
  for (int i = 0; i < 3; i++) {
    auto record = commit(1, 5, 20);
    record.flags = 0;
    record.syncs = 0;
    record.inherited_sync_ns = 0;
    client.ring(0).write(bytes(record));
  }
  const Table rows = rows_of("statements", "pg");
  ASSERT_EQ(rows.size(), 1u);
  for (int i = 0; i < FL_VECTOR_COUNT; i++)
    EXPECT_EQ(rows[0].at(std::string(account_column_name(i))).type, FL_CELL_NULL);
  for (const char *column : {"led", "followed", "unsynced", "syncs"}) EXPECT_EQ(rows[0].at(column).type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("coverage").real, 0);
  EXPECT_NEAR(rows[0].at("total_commit_ms").real, 60, 1e-9);
  const Table slow = rows_of("slow_commits", "pg");
  ASSERT_EQ(slow.size(), 3u);
  EXPECT_EQ(slow[0].at("cause").type, FL_CELL_NULL);
  EXPECT_EQ(slow[0].at("role").type, FL_CELL_NULL);
  // One with an account: the three add up to commits again, coverage says how many are not known.
  client.ring(0).write(bytes(commit(1, 5, 20)));
  const Table after = rows_of("statements", "pg");
  EXPECT_EQ(after[0].at("led").integer + after[0].at("followed").integer + after[0].at("unsynced").integer, 4);
  EXPECT_DOUBLE_EQ(after[0].at("coverage").real, 0.25);
}

TEST_F(Views, MariadbFigures) {
  start();
  RawClient client = attached("maria", 1, FL_ENGINE_MARIADB);
  RawRing ring = client.ring(0);
  ring.write(session_record(1, "bob", "shop"));
  auto record = commit(1, 5, 20);
  record.flags |= FL_COMMIT_BINLOG | FL_COMMIT_BINLOG_LED | FL_COMMIT_ATTRIBUTED;
  record.attributed_ns = 4'000'000;
  record.position = 12345;
  ring.write(bytes(record));
  record = commit(1, 5, 20);
  record.flags |= FL_COMMIT_BINLOG;
  ring.write(bytes(record));
  ring.write(bytes(statement(1, 5, 20)));
  const Table rows = rows_of("statements", "maria");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("userid").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("binlog_led").integer, 1);
  EXPECT_EQ(rows[0].at("binlog_followed").integer, 1);
  EXPECT_NEAR(rows[0].at("attributed_ms").real, 4, 1e-9);
  EXPECT_EQ(rows[0].at("rows_changed").integer, 100);
  EXPECT_EQ(rows[0].at("wal_bytes").type, FL_CELL_NULL);
  EXPECT_EQ(rows_of("slow_commits", "maria")[0].at("log_position").text, "12345");
}

TEST_F(Views, SlowCommitTellsItsStory) {
  start();
  RawClient client = attached("pg");
  client.ring(0).write(session_record(77, "alice", "shop", 16, 5));
  auto record = commit(77, 5, 51, FL_CAUSE_FLUSH, FL_PATH_JOURNAL);
  record.position = (uint64_t{3} << 32) | 0x1A2B;
  record.xid = 900;
  client.ring(0).write(bytes(record));
  client.ring(0).write(bytes(commit(77, 5, 9)));
  const Table rows = rows_of("slow_commits", "pg");
  ASSERT_EQ(rows.size(), 1u);
  const auto &row = rows[0];
  EXPECT_EQ(row.at("ended_at").integer, clock_.unix_ns());
  EXPECT_NEAR(row.at("duration_ms").real, 51, 1e-9);
  EXPECT_EQ(row.at("session_id").integer, 77);
  EXPECT_EQ(row.at("backend_start").integer, 1'600'000'000'000'000'000);
  EXPECT_EQ(row.at("application_name").text, "app");
  EXPECT_EQ(row.at("client_addr").text, "127.0.0.1");
  EXPECT_EQ(row.at("log_position").text, "3/1A2B");
  EXPECT_EQ(row.at("xid").integer, 900);
  EXPECT_EQ(row.at("role").text, "followed");
  EXPECT_EQ(row.at("cause").text, "flush");
  EXPECT_EQ(row.at("path").text, "journal");
  EXPECT_EQ(row.at("verdict").text,
            "51.0 of 51.0 ms: waited for the device's cache flush; the file system's journal did the work");
}

TEST_F(Views, RightsHideTheTextsOfOthers) {
  start();
  RawClient client = attached("pg");
  RawRing ring = client.ring(0);
  ring.write(session_record(1, "alice", "shop", 16, 5));
  ring.write(session_record(2, "bob", "shop", 17, 5));
  ring.write(text_record(5, "SELECT secret"));
  ring.write(bytes(commit(1, 5, 20)));
  ring.write(bytes(commit(2, 5, 20)));
  ring.head()->session_id = 2;
  ring.head()->queryid = 5;
  for (const char *view : {"statements", "statements_recent", "slow_commits"}) {
    const Table rows = rows_of(view, "pg", "alice", false);
    ASSERT_EQ(rows.size(), 2u) << view << ": all rows are there";
    for (const auto &row : rows) {
      const bool own = row.at("user_name").text == "alice";
      EXPECT_EQ(row.at("query").text, own ? "SELECT secret" : "<insufficient privilege>") << view;
      EXPECT_EQ(row.at("queryid").type, own ? FL_CELL_INT : FL_CELL_NULL) << view;
    }
  }
  const Table threads = rows_of("threads", "pg", "alice", false);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads[0].at("query").text, "<insufficient privilege>");
  EXPECT_EQ(threads[0].at("queryid").type, FL_CELL_NULL);
  EXPECT_EQ(threads[0].at("client_addr").type, FL_CELL_NULL);
  for (const auto &row : rows_of("statements", "pg", "", false))
    EXPECT_EQ(row.at("query").text, "<insufficient privilege>") << "nobody is nobody";
}

TEST_F(Views, InstancesDoNotSeeEachOther) {
  start();
  RawClient one = attached("one"), two = attached("two");
  one.ring(0).write(bytes(commit(1, 5, 20)));
  two.ring(0).write(bytes(commit(1, 6, 20)));
  two.ring(0).head()->session_id = 1;
  for (const char *view :
       {"statements", "statements_recent", "slow_commits", "statements_info", "threads", "latency"}) {
    for (const auto &row : rows_of(view, "one")) EXPECT_EQ(row.at("instance").text, "one") << view;
    EXPECT_TRUE(rows_of(view, "three").empty()) << view;
  }
  EXPECT_EQ(rows_of("statements").size(), 2u) << "root may ask for all";
}

TEST_F(Views, DigestOnlyKeepsNoTexts) {
  config_.full_query_text = false;
  start();
  RawClient client = attached("pg");
  EXPECT_EQ(client.control()->query_text, 0u);
  client.ring(0).write(text_record(5, "SELECT secret"));
  client.ring(0).write(bytes(commit(1, 5, 20)));
  const Table rows = rows_of("statements", "pg");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("query").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("queryid").integer, 5);
}

TEST_F(Views, EvictedRowKeepsTheSums) {
  config_.statements_max = 100;
  start();
  RawClient client = attached("pg");
  for (uint64_t i = 1; i <= 300; i++) {
    client.ring(0).write(bytes(commit(1, i, 1)));
    if (i % 50 == 0) rows_of("health");
  }
  int64_t commits = 0, evicted = 0;
  for (const auto &row : rows_of("statements", "pg")) {
    commits += row.at("commits").integer;
    evicted += row.at("query").text == "<evicted>";
  }
  EXPECT_EQ(commits, 300);
  EXPECT_EQ(evicted, 1);
  EXPECT_GT(rows_of("statements_info", "pg")[0].at("dealloc").integer, 0);
}

TEST_F(Views, ResetByFilterAndWhole) {
  start();
  RawClient client = attached("pg");
  for (const uint64_t query : {5u, 6u}) client.ring(0).write(bytes(commit(1, query, 20)));
  EXPECT_EQ(run_command(FL_COMMAND_RESET, "pg", 5, FL_RESET_MINMAX_ONLY).status, 0u);
  for (const auto &row : rows_of("statements", "pg"))
    EXPECT_EQ(row.at("min_commit_ms").type, row.at("queryid").integer == 5 ? FL_CELL_NULL : FL_CELL_DOUBLE);
  run_command(FL_COMMAND_RESET, "pg", 5);
  EXPECT_EQ(rows_of("statements", "pg").size(), 1u);
  EXPECT_EQ(rows_of("slow_commits", "pg").size(), 2u) << "a part of the statements only";
  clock_.advance_ms(5000);
  run_command(FL_COMMAND_RESET, "pg");
  EXPECT_TRUE(rows_of("statements", "pg").empty());
  EXPECT_TRUE(rows_of("statements_recent", "pg").empty());
  EXPECT_TRUE(rows_of("slow_commits", "pg").empty());
  EXPECT_EQ(rows_of("statements_info", "pg")[0].at("stats_reset").integer, clock_.unix_ns());
}

TEST_F(Views, ColumnsInAnyOrderAndUnknownOnesAreNull) {
  start();
  RawClient client = attached("pg");
  client.ring(0).write(bytes(commit(1, 5, 20)));
  RawClient asker = connected();
  const std::vector<std::string> columns = {"commits", "from_the_future", "queryid"};
  ASSERT_TRUE(asker.query("statements", columns, "pg"));
  const Answer answer = read_answer(asker, columns);
  ASSERT_EQ(answer.rows.size(), 1u);
  EXPECT_EQ(answer.rows[0].at("commits").integer, 1);
  EXPECT_EQ(answer.rows[0].at("from_the_future").type, FL_CELL_NULL);
  EXPECT_EQ(answer.rows[0].at("queryid").integer, 5);
}

TEST_F(Views, ThreadsWithTracing) {
  start(true);
  RawClient client = attached("pg", 2);
  client.ring(1).write(session_record(42, "alice", "shop", 16, 5));
  client.ring(1).head()->session_id = 42;
  client.ring(1).head()->window_begin_ns = clock_.now_ns() - 7'000'000;
  kernel::ThreadState waiting{}, journal{}, running{};
  waiting.slot = client.welcome().first_slot + 1;
  waiting.kind = 1;
  waiting.blocked_since_ns = clock_.now_ns() - 6'000'000;
  waiting.own_flushes = 1;
  waiting.device = device_number(7, 3);
  journal.slot = 200;
  journal.kind = 2;
  journal.blocked_since_ns = clock_.now_ns() - 1;
  running.slot = client.welcome().first_slot;
  running.kind = 1;
  running.vector_ns[FL_CAUSE_ONCPU] = 1000;
  kernel::ThreadState unseen{};
  unseen.kind = 3;
  unseen.slot = 201;
  kernel_->thread_list = {waiting, journal, running, unseen};
  const Table rows = rows_of("threads");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].at("wait_cause").type, FL_CELL_NULL) << "enrolled asleep, never switched";
  EXPECT_EQ(rows[0].at("session_id").integer, 42);
  EXPECT_EQ(rows[0].at("user_name").text, "alice");
  EXPECT_EQ(rows[0].at("wait_cause").text, "flush");
  EXPECT_NEAR(rows[0].at("wait_ms").real, 6, 1e-9);
  EXPECT_NEAR(rows[0].at("commit_age_ms").real, 7, 1e-9);
  EXPECT_EQ(rows[0].at("device").text, "7:3");
  EXPECT_EQ(rows[1].at("role").text, "journal");
  EXPECT_EQ(rows[1].at("wait_cause").type, FL_CELL_NULL) << "not known before the wake-up";
  EXPECT_EQ(rows[2].at("wait_cause").text, "oncpu");
}

TEST_F(Views, WhomACommitWaitsForIsInferredOnlyWithOneExplanation) {
  start(true);
  RawClient client = attached("pg", 3);
  kernel::ThreadState leader{}, follower{}, bystander{}, journal{};
  for (uint32_t i = 0; i < 3; i++) {
    client.ring(i).head()->session_id = 40 + i;
    (i == 0 ? leader : i == 1 ? follower : bystander).slot = client.welcome().first_slot + i;
  }
  for (kernel::ThreadState *thread : {&leader, &follower, &bystander}) {
    thread->kind = 1;
    thread->blocked_since_ns = clock_.now_ns() - 5'000'000;
  }
  client.ring(0).head()->window_begin_ns = client.ring(1).head()->window_begin_ns = clock_.now_ns() - 6'000'000;
  leader.own_flushes = 1;
  leader.device = device_number(7, 3);
  journal.kind = 2;
  journal.slot = 200;
  journal.name = "jbd2/loop3-8";
  journal.blocked_since_ns = clock_.now_ns() - 1'000'000;
  kernel_->thread_list = {leader, follower, bystander, journal};
  Table rows = rows_of("threads", "pg");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1].at("wait_cause").text, "flush");
  EXPECT_EQ(rows[1].at("wait_path").text, "peer");
  EXPECT_EQ(rows[1].at("waits_on_session").integer, 40);
  EXPECT_EQ(rows[1].at("device").text, "7:3");
  EXPECT_EQ(rows[2].at("wait_cause").type, FL_CELL_NULL) << "not in a commit";

  leader.own_flushes = 0;
  journal.own_writes = 1;
  kernel_->thread_list = {leader, follower, bystander, journal};
  rows = rows_of("threads", "pg");
  EXPECT_EQ(rows[0].at("wait_cause").text, "write");
  EXPECT_EQ(rows[0].at("wait_path").text, "journal");
  EXPECT_EQ(rows[0].at("root_thread").text, "jbd2/loop3-8");
  EXPECT_EQ(rows[0].at("waits_on_session").type, FL_CELL_NULL);

  kernel::ThreadState other_journal = journal;
  other_journal.slot = 201;
  kernel_->thread_list = {leader, follower, bystander, journal, other_journal};
  rows = rows_of("threads", "pg");
  EXPECT_EQ(rows[0].at("wait_cause").type, FL_CELL_NULL) << "two explanations: none";
}

TEST_F(Views, LatencyAddsUp) {
  start();
  RawClient client = attached("pg");
  for (int i = 1; i <= 50; i++) client.ring(0).write(bytes(commit(1, 5, i)));
  int64_t observations = 0;
  for (const auto &row : rows_of("latency", "pg")) {
    observations += row.at("observations").integer;
    EXPECT_LT(row.at("bucket_low_ms").real, row.at("bucket_high_ms").real);
    EXPECT_EQ(row.at("object").text, "commit");
  }
  EXPECT_EQ(observations, 50);
}

}  // namespace
}  // namespace flushlight::test
