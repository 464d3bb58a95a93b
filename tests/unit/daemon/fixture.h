// SPDX-License-Identifier: GPL-2.0-or-later
// A daemon inside the test, driven step by step on a clock that the test moves.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "raw_client.h"
#include "sidecar/serve/catalog.h"
#include "sidecar/serve/daemon.h"

namespace flushlight::test {

class FakeStalls final : public kernel::StallSource {
 public:
  std::vector<kernel::DeviceActivity> activity() override { return activity_list; }
  std::vector<kernel::SlowRequest> take_slow_requests(uint64_t *) override { return std::exchange(request_list, {}); }
  std::vector<kernel::Writer> writers() override { return writer_list; }
  std::vector<kernel::BlockedTask> blocked_tasks() override { return task_list; }

  std::vector<kernel::DeviceActivity> activity_list;
  std::vector<kernel::SlowRequest> request_list;
  std::vector<kernel::Writer> writer_list;
  std::vector<kernel::BlockedTask> task_list;
};

class FakeKernel final : public KernelPort {
 public:
  [[nodiscard]] int ledger_fd() const override { return ledger.fd(); }
  [[nodiscard]] uint32_t ledger_slots() const override { return 256; }
  Result<kernel::Lease> grant(const fl_hello &hello) override {
    if (grant_fails) return Error{ENOSPC, "no free range"};
    const kernel::Lease lease{next_token++, next_slot, std::min(hello.slots_wanted, slots_max)};
    next_slot += lease.slot_count;
    granted.push_back(lease);
    return lease;
  }
  void revoke(const kernel::Lease &lease) override { revoked.push_back(lease); }
  void tick() override { ticks++; }
  void measure(bool always) override { measuring = always; }
  Result<> set_enabled(bool enabled) override {
    is_enabled = enabled;
    return Ok{};
  }
  [[nodiscard]] bool enabled() const override { return is_enabled; }
  [[nodiscard]] std::vector<kernel::Feature> features() const override { return feature_list; }
  [[nodiscard]] std::vector<kernel::ProgramCost> costs() const override { return cost_list; }
  [[nodiscard]] std::vector<kernel::Counter> counters() const override { return counter_list; }
  [[nodiscard]] std::vector<kernel::DeviceHistogram> histograms() const override { return histogram_list; }
  [[nodiscard]] std::vector<kernel::InFlight> in_flight() const override { return in_flight_list; }
  [[nodiscard]] std::vector<kernel::JournalCommits> journals() const override { return journal_list; }
  [[nodiscard]] std::vector<kernel::ThreadState> threads() const override { return thread_list; }
  [[nodiscard]] kernel::StallSource *stalls() override { return &stall_source; }
  [[nodiscard]] std::vector<kernel::Ring> rings() override { return ring_list; }

  FakeStalls stall_source;

  MemoryFile ledger =
      std::move(*MemoryFile::create("ledger", 256 * sizeof(fl_slot), MemoryFile::Access::kReadOnlyThere));
  uint64_t next_token = 77;
  uint32_t next_slot = 10, slots_max = 4;
  bool grant_fails = false, is_enabled = true, measuring = false;
  int ticks = 0;
  std::vector<kernel::Lease> granted, revoked;
  std::vector<kernel::Feature> feature_list;
  std::vector<kernel::ProgramCost> cost_list;
  std::vector<kernel::Counter> counter_list;
  std::vector<kernel::DeviceHistogram> histogram_list;
  std::vector<kernel::InFlight> in_flight_list;
  std::vector<kernel::JournalCommits> journal_list;
  std::vector<kernel::ThreadState> thread_list;
  std::vector<kernel::Ring> ring_list;
};

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/flushlight-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    config_ = default_config();
    config_.socket_path = folder_ + "/socket";
    config_.log_level = "off";
    config_.metrics_listen = "";
    spdlog::set_level(spdlog::level::off);
  }
  void TearDown() override {
    daemon_.reset();
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "the daemon left files behind";
    std::filesystem::remove_all(folder_);
  }

  void start(bool with_kernel = false) {
    std::unique_ptr<FakeKernel> kernel;
    if (with_kernel) {
      kernel = std::make_unique<FakeKernel>();
      kernel_ = kernel.get();
    }
    daemon_ = std::make_unique<Daemon>(config_, clock_, std::move(kernel), with_kernel ? "" : "not here",
                                       [this] { return disk_stats_; });
    const auto started = daemon_->start();
    ASSERT_TRUE(started) << started.error().text;
  }
  void settle() {
    for (int i = 0; i < 4; i++) daemon_->step(0);
  }

  RawClient connected() {
    RawClient client;
    EXPECT_TRUE(client.connect(config_.socket_path));
    settle();
    return client;
  }
  RawClient attached(std::string_view instance, uint32_t slots = 1, fl_engine engine = FL_ENGINE_POSTGRESQL) {
    RawClient client = connected();
    EXPECT_TRUE(client.hello(instance, slots, engine));
    settle();
    EXPECT_TRUE(client.take_welcome());
    return client;
  }

  struct Answer {
    Table rows;
    fl_end end{};
    bool complete = false;
  };
  Answer read_answer(RawClient &client, const std::vector<std::string> &columns) {
    Answer answer;
    for (int i = 0; i < 2000 && !answer.complete && !client.closed(); i++) {
      const std::string packet = client.receive();
      if (packet.empty()) {
        daemon_->step(0);
        continue;
      }
      fl_message head{};
      std::memcpy(&head, packet.data(), sizeof head);
      if (head.type == FL_MESSAGE_ROWS) {
        auto rows = decode_rows(packet, columns);
        EXPECT_TRUE(rows) << "damaged ROWS packet";
        if (rows) answer.rows.insert(answer.rows.end(), rows->begin(), rows->end());
      } else {
        EXPECT_EQ(packet.size(), sizeof answer.end);
        std::memcpy(&answer.end, packet.data(), std::min(packet.size(), sizeof answer.end));
        answer.complete = true;
      }
    }
    return answer;
  }

  static std::vector<std::string> columns_of(std::string_view view) {
    std::vector<std::string> names;
    for (const CatalogColumn &column : catalog_columns())
      if (column.view == view) names.emplace_back(column.name);
    return names;
  }
  // All columns of a view, over the socket.
  Table rows_of(std::string_view view, std::string_view instance = "", std::string_view user = "",
                bool see_all = true) {
    RawClient client = connected();
    const auto columns = columns_of(view);
    EXPECT_TRUE(client.query(view, columns, instance, user, see_all));
    Answer answer = read_answer(client, columns);
    EXPECT_TRUE(answer.complete);
    EXPECT_EQ(answer.end.status, 0u) << answer.end.text;
    EXPECT_EQ(answer.end.rows, answer.rows.size());
    return answer.rows;
  }
  fl_end run_command(uint32_t code, std::string_view instance = "", uint64_t queryid = 0, uint32_t flags = 0,
                     uint64_t userid = 0) {
    RawClient client = connected();
    EXPECT_TRUE(client.command(code, instance, queryid, flags, userid));
    return read_answer(client, {}).end;
  }

  fl_record_statement statement(uint64_t session, uint64_t queryid, double ms, fl_kind kind = FL_KIND_STATEMENT) {
    fl_record_statement record{};
    record.session_id = session;
    record.queryid = queryid;
    record.duration_ns = static_cast<uint64_t>(ms * 1e6);
    record.begin_ns = clock_.now_ns() - record.duration_ns;
    record.work = 100;
    record.kind = kind;
    return record;
  }
  // Accounted: all of it `cause` on `path`.
  fl_record_commit commit(uint64_t session, uint64_t queryid, double ms, int cause = FL_CAUSE_FLUSH,
                          int path = FL_PATH_SELF) {
    fl_record_commit record{};
    record.session_id = session;
    record.queryid = queryid;
    record.duration_ns = static_cast<uint64_t>(ms * 1e6);
    record.begin_ns = clock_.now_ns() - record.duration_ns;
    record.flags = FL_COMMIT_ACCOUNTED;
    record.vector_ns[cause] = record.duration_ns;
    record.vector_ns[FL_VECTOR_PATH(path)] = record.duration_ns;
    record.syncs = path == FL_PATH_SELF ? 1 : 0;
    record.inherited_sync_ns = path == FL_PATH_SELF ? 0 : record.duration_ns;
    return record;
  }
  static std::string bytes(const fl_record_statement &record) { return make_record(FL_RECORD_STATEMENT, record); }
  static std::string bytes(const fl_record_commit &record) { return make_record(FL_RECORD_COMMIT, record); }

  std::string folder_;
  Config config_;
  ManualClock clock_;
  FakeKernel *kernel_ = nullptr;
  AllDiskStats disk_stats_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace flushlight::test
