// SPDX-License-Identifier: GPL-2.0-or-later
// Each record of records/ goes through a daemon again: rings, intake, join, statistics, views. What comes out must be
// the rows of golden/, and what the SQL views said while the run was recorded.
//
//   FLUSHLIGHT_REPLAY_UPDATE=1 replay     writes golden/ anew: read the difference before you believe it
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fixture.h"
#include "sidecar/advise/what_if.h"
#include "sidecar/intake/recorder.h"
#include "sidecar/stalls/look_record.h"

namespace flushlight::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> record_names() {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(REPLAY_FOLDER "/records"))
    if (entry.path().extension() == ".gz") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string cell_text(const Cell &cell) {
  if (cell.type == FL_CELL_NULL) return "-";
  if (cell.type == FL_CELL_DOUBLE) return fmt::format("{:.9g}", cell.real);
  return cell.type == FL_CELL_TEXT ? cell.text : fmt::to_string(cell.integer);
}

class Replay : public DaemonTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void play(const std::string &path) {
    const auto items = read_replay(path);
    ASSERT_TRUE(items) << items.error().text;
    for (const ReplayItem &item : *items) {
      if (kind_of(item) != ReplayKind::kPass) continue;
      set_clock(item);  // the daemon starts just before the first pass
      break;
    }
    config_.advice_interval_ms = 100;
    start(true);
    kernel_->slots_max = 4096;
    for (const ReplayItem &item : *items) play(item);
    clients_.clear();
    settle();
  }

  // The rows as text: a line for each column, so that a difference is easy to read.
  std::string table(std::string_view view) {
    std::vector<std::string> rows;
    for (const auto &row : rows_of(view)) {
      std::string text;
      for (const CatalogColumn &column : catalog_columns())
        if (column.view == view)
          if (const Cell &cell = row.at(std::string(column.name)); cell.type != FL_CELL_NULL)
            text += fmt::format("  {} {}\n", column.name, cell_text(cell));
      rows.push_back(std::move(text));
    }
    std::sort(rows.begin(), rows.end());
    std::string text = fmt::format("{}: {} rows\n", view, rows.size());
    for (size_t i = 0; i < std::min(rows.size(), kRowsMax); i++) text += fmt::format(" {}\n{}", i + 1, rows[i]);
    return text;
  }

 private:
  static constexpr size_t kRowsMax = 40;

  static ReplayKind kind_of(const ReplayItem &item) { return static_cast<ReplayKind>(item.chunk.kind); }
  template <typename T>
  static T as(const ReplayItem &item) {
    T value{};
    EXPECT_GE(item.bytes.size(), sizeof value);
    std::memcpy(&value, item.bytes.data(), std::min(sizeof value, item.bytes.size()));
    return value;
  }
  void set_clock(const ReplayItem &item) {
    const auto time = as<ReplayTime>(item);
    clock_.set(time.now_ns, time.unix_ns);
  }

  void play(const ReplayItem &item) {
    const uint32_t lease = item.chunk.lease;
    switch (kind_of(item)) {
      case ReplayKind::kAttach: {
        RawClient client = connected();
        ASSERT_TRUE(client.send(item.bytes));
        settle();
        ASSERT_TRUE(client.take_welcome());
        clients_.insert_or_assign(lease, std::move(client));
        break;
      }
      case ReplayKind::kDetach:
        clients_.erase(lease);
        settle();
        break;
      case ReplayKind::kRecords:
        write_records(clients_.at(lease).ring(item.chunk.ring), item.bytes);
        break;
      case ReplayKind::kCounters: {
        const auto counters = as<ReplayCounters>(item);
        fl_ring_head *head = clients_.at(lease).ring(0).head();
        head->dropped += counters.dropped;
        head->commits_seen += counters.commits_seen;
        head->commits_missed += counters.commits_missed;
        break;
      }
      case ReplayKind::kPass:
        set_clock(item);
        rows_of("statements_info");  // a query makes a pass
        break;
      case ReplayKind::kCommand: {
        RawClient client = connected();
        ASSERT_TRUE(client.send(item.bytes));
        read_answer(client, {});
        break;
      }
      case ReplayKind::kHistogram: {
        const auto head = as<ReplayHistogram>(item);
        kernel::DeviceHistogram histogram{head.device, static_cast<kernel::Operation>(head.operation),
                                          static_cast<kernel::Stage>(head.stage),
                                          std::vector<uint64_t>(FL_HISTOGRAM_BUCKETS), head.sum_ns};
        for (size_t at = sizeof head; at + 16 <= item.bytes.size(); at += 16) {
          uint64_t pair[2];
          std::memcpy(pair, item.bytes.data() + at, sizeof pair);
          histogram.buckets.at(pair[0]) = pair[1];
        }
        kernel_->histogram_list.push_back(std::move(histogram));
        break;
      }
      case ReplayKind::kLook:
        look(item.bytes);
        break;
      default:
        FAIL() << "a chunk of unknown kind " << item.chunk.kind;
    }
  }
  void look(const std::string &text) {
    auto look = stalls::parse_look(text);
    ASSERT_TRUE(look);
    clock_.set(look->now_ns, look->unix_ns);
    disk_stats_ = look->stats;
    kernel_->journal_list = look->journals;
    kernel_->stall_source.activity_list = look->devices;
    for (kernel::SlowRequest &request : look->requests)
      if (request.process.empty()) request.tid = 0;  // nobody of this machine
    kernel_->stall_source.request_list = look->requests;
    if (look->writers) {
      kernel_->stall_source.writer_list = *look->writers;
      kernel_->thread_list.clear();
      for (const uint32_t tgid : look->databases)
        kernel_->thread_list.push_back({.host_tid = tgid, .host_tgid = tgid, .kind = 1});
    }
    daemon_->replay_look();
  }
  static void write_records(RawRing ring, std::string_view bytes) {
    while (bytes.size() >= sizeof(fl_record_header)) {
      fl_record_header header{};
      std::memcpy(&header, bytes.data(), sizeof header);
      ASSERT_LE(header.length, bytes.size());
      ASSERT_GE(header.length, sizeof header);
      ASSERT_GE(ring.free_bytes(), header.length);
      ring.write(bytes.substr(0, header.length));
      bytes.remove_prefix(header.length);
    }
  }

  std::map<uint32_t, RawClient> clients_;
};

constexpr std::string_view kViews[] = {"statements", "statements_info", "slow_commits", "latency", "devices",
                                       "stalls",     "slow_requests",   "replication",  "advice"};

TEST_P(Replay, RowsAreTheGoldenOnes) {
  play(REPLAY_FOLDER "/records/" + GetParam() + ".gz");
  if (HasFatalFailure()) return;
  std::string text;
  for (const std::string_view view : kViews) text += table(view);
  const std::string path = REPLAY_FOLDER "/golden/" + GetParam() + ".txt";
  if (std::getenv("FLUSHLIGHT_REPLAY_UPDATE") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::istringstream have(text);
  std::string want, got;
  for (int line = 1, wrong = 0; wrong < 10; line++) {
    const bool more = static_cast<bool>(std::getline(file, want)), also = static_cast<bool>(std::getline(have, got));
    ASSERT_EQ(more, also) << "golden/" << GetParam() << ".txt ends in line " << line << ", or these rows do";
    if (!more) break;
    EXPECT_EQ(got, want) << "golden/" << GetParam() << ".txt:" << line;
    wrong += got != want;
  }
}

// The rig's own result while it was recorded: what the live SQL views said, and the client's clock.
TEST_P(Replay, RowsSayWhatTheLiveViewsSaid) {
  std::ifstream file(REPLAY_FOLDER "/records/" + GetParam() + ".json");
  const json live = json::parse(file);
  play(REPLAY_FOLDER "/records/" + GetParam() + ".gz");
  if (HasFatalFailure()) return;
  Table rows = rows_of("statements");
  std::erase_if(rows,
                [](const auto &row) { return row.at("db_name").text != "rig" || row.at("commits").integer == 0; });
  ASSERT_FALSE(rows.empty());
  const auto sum = [&](const std::string &column) {
    double total = 0;
    for (const auto &row : rows) {
      const Cell &cell = row.at(column);
      total += cell.type == FL_CELL_INT ? static_cast<double>(cell.integer) : cell.real;
    }
    return total;
  };
  double accounted = 0;
  for (const auto &row : rows) accounted += static_cast<double>(row.at("commits").integer) * row.at("coverage").real;
  ASSERT_GT(accounted, 0);
  EXPECT_EQ(sum("commits"), live.at("commits").get<double>());
  EXPECT_NEAR(sum("total_commit_ms") / sum("commits"), live.at("commit_mean_ms").get<double>(), 1e-3);
  const auto main = std::max_element(rows.begin(), rows.end(), [](const auto &a, const auto &b) {
    return a.at("commits").integer < b.at("commits").integer;
  });
  EXPECT_NEAR(main->at("p50_commit_ms").real, live.at("commit_p50_ms").get<double>(), 1e-3);
  EXPECT_NEAR(main->at("p99_commit_ms").real, live.at("commit_p99_ms").get<double>(), 1e-3);
  for (const char *kind : {"account", "paths"})
    for (const auto &[name, mean] : live.at(kind).items())
      EXPECT_NEAR(sum(name + "_ms") / accounted, mean.get<double>(), 1e-3) << name;
  if (live.at("wanted_cause").is_null()) return;
  // A held flush may hold a write behind it too, and the other way round (tests/rig/README.md).
  const std::string cause = live.at("wanted_cause");
  const bool at_device = cause == "flush" || cause == "write";
  const double seen_ms = (at_device ? sum("flush_ms") + sum("write_ms") : sum(cause + "_ms")) / accounted;
  const double held_ms = live.at("held_in_commit_ms");
  EXPECT_NEAR(seen_ms, held_ms, live.at("tolerance").get<double>() * held_ms) << "the client's own clock";
  EXPECT_GE(sum(cause + "_ms") / accounted, 0.8 * seen_ms);
}

TEST_P(Replay, StallsAreThoseOfTheLiveViews) {
  std::ifstream file(REPLAY_FOLDER "/records/" + GetParam() + ".json");
  const json live = json::parse(file);
  play(REPLAY_FOLDER "/records/" + GetParam() + ".gz");
  if (HasFatalFailure()) return;
  const Table rows = rows_of("stalls");
  const json stalls = live.value("stalls", json::array());  // older records have no looks
  ASSERT_EQ(rows.size(), stalls.size());
  for (const json &stall : stalls) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto &one) { return one.at("stall_id").integer == stall.at("id"); });
    ASSERT_NE(row, rows.end());
    EXPECT_EQ(row->at("kind").text, stall.at("kind"));
    EXPECT_EQ(row->at("culprit_process").text, stall.at("culprit"));
    EXPECT_EQ(row->at("commits_hit").integer, stall.at("commits_hit"));
    EXPECT_EQ(row->at("sessions_hit").integer, stall.at("sessions_hit"));
    if (stall.at("ended_at").is_null()) continue;
    EXPECT_NEAR(row->at("age_ms").real, stall.at("ms").get<double>(), 1e-3);
  }
}

// What-if on real accounts. Where the fault of the run was a sync's, what is left without the sync is what a commit takes
// on a disk without a fault and without a sync: well below a millisecond, and never less than its time on a CPU. Where it
// was none, the fault stays.
TEST_P(Replay, WithoutSyncWhatWasNoSyncStays) {
  std::ifstream file(REPLAY_FOLDER "/records/" + GetParam() + ".json");
  const json live = json::parse(file);
  play(REPLAY_FOLDER "/records/" + GetParam() + ".gz");
  if (HasFatalFailure()) return;
  const auto &instances = daemon_->intake().instances();
  ASSERT_FALSE(instances.empty());
  const advise::Commits commits =
      daemon_->advisor().window().between(instances.begin()->second->id, 0, clock_.now_ns()).commits;
  const advise::Outcome outcome = advise::without_sync(commits.samples, {});
  if (commits.samples.size() < 50) {
    EXPECT_FALSE(outcome.p50_ms) << "so few tell nothing";
    return;
  }
  ASSERT_TRUE(outcome.p50_ms && outcome.p99_ms) << outcome.why_not;
  std::vector<double> oncpu_ms, now_ms;
  for (const advise::CommitSample &sample : commits.samples) {
    oncpu_ms.push_back(static_cast<double>(sample.cause(FL_CAUSE_ONCPU)) / 1e6);
    now_ms.push_back(static_cast<double>(sample.duration_ns) / 1e6);
  }
  EXPECT_GE(*outcome.p50_ms, advise::percentile_of(oncpu_ms, 0.5));
  EXPECT_LE(*outcome.p50_ms, advise::percentile_of(now_ms, 0.5));
  EXPECT_LE(*outcome.p99_ms, advise::percentile_of(now_ms, 0.99) + 1e-6);
  const std::string cause = live.at("wanted_cause").is_null() ? "none" : live.at("wanted_cause");
  if (cause == "replication") {  // the record has commits from before the fault too
    std::vector<advise::CommitSample> held;
    std::vector<double> held_ms;
    for (const advise::CommitSample &sample : commits.samples) {
      if (sample.cause(FL_CAUSE_REPLICATION) < 5'000'000) continue;
      held.insert(held.end(), 2, sample);  // a what-if wants fifty; the distribution is the same
      held_ms.push_back(static_cast<double>(sample.cause(FL_CAUSE_REPLICATION)) / 1e6);
    }
    const advise::Outcome stays = advise::without_sync(held, {});
    ASSERT_TRUE(stays.p50_ms) << held.size();
    EXPECT_GE(*stays.p50_ms, 0.99 * advise::percentile_of(held_ms, 0.5));
  } else {
    EXPECT_LE(*outcome.p50_ms, 1.0) << cause;
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Replay, ::testing::ValuesIn(record_names()),
                         [](const auto &info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Replay);

}  // namespace
}  // namespace flushlight::test
