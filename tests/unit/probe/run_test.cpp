// SPDX-License-Identifier: GPL-2.0-or-later
// Real runs, short ones, on the file system of the build folder; reports and progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "make_outcome.h"
#include "sidecar/cli/probe_progress.h"
#include "sidecar/cli/probe_text.h"
#include "sidecar/probe/report.h"

namespace flushlight::probe::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Recorded final : public Progress {
 public:
  void begins(size_t index, size_t count, const Pattern &pattern) override {
    EXPECT_LT(index, count);
    names.push_back(pattern.name);
  }
  void ended(const Outcome &) override {}
  std::vector<std::string> names;
};

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::string(SCRATCH_FOLDER) + "/run-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    request.target.directory = name;
    request.target.data_bytes = 8 << 20;
    request.target.log_bytes = 1 << 20;
    request.target.reserve_share = 0;
  }
  void TearDown() override {
    EXPECT_TRUE(fs::is_empty(folder));
    fs::remove_all(folder);
  }
  // What this file system cannot do is said, never made up.
  static void expect_sound(const Outcome &outcome) {
    SCOPED_TRACE(outcome.pattern.name + ": " + outcome.reason);
    ASSERT_TRUE(outcome.state == State::kMeasured || outcome.state == State::kUnavailable ||
                outcome.state == State::kNotRun);
    if (outcome.state != State::kMeasured) {
      EXPECT_FALSE(outcome.reason.empty());
      return;
    }
    EXPECT_TRUE(outcome.reason.empty());
    EXPECT_GT(outcome.total.count(), 0u);
    EXPECT_GT(outcome.ended_ns, outcome.began_ns);
    const bool two_calls = is_log(outcome.pattern) &&
                           (outcome.pattern.log == LogMethod::kFdatasync || outcome.pattern.log == LogMethod::kFsync);
    EXPECT_EQ(outcome.sync.count(), two_calls ? outcome.total.count() : 0);
    EXPECT_EQ(outcome.write.histogram().sum_ns() + outcome.sync.histogram().sum_ns(),
              two_calls ? outcome.total.histogram().sum_ns() : 0);
    // One after the other: their times fit into the time that passed. In flight together: depth times that.
    EXPECT_LE(outcome.total.histogram().sum_ns(), (outcome.ended_ns - outcome.began_ns) * outcome.pattern.depth);
  }
  fs::path folder;
  Request request;
  SystemClock clock;
  Recorded progress;
};

TEST_F(RunTest, EveryPatternRuns) {
  request.patterns = all_patterns();
  Governor governor(clock, {3'000'000'000, 1ull << 30, 0});
  const auto result = run(request, &governor, &progress);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->outcomes.size(), request.patterns.size());
  for (const Outcome &outcome : result->outcomes) expect_sound(outcome);
  for (const Outcome &outcome : result->outcomes)
    if (outcome.pattern.group == Group::kLogBulk && outcome.state == State::kMeasured) {
      EXPECT_GT(outcome.bulk_bytes, 0u) << outcome.pattern.name;
    }
  EXPECT_EQ(progress.names.size(), request.patterns.size());
  EXPECT_LT(result->took_ns, 60'000'000'000u);
}

TEST_F(RunTest, WritesNoMoreThanAllowed) {
  request.patterns = select_patterns("log-64k-fdatasync,log-64k-fsync", false);
  Governor governor(clock, {30'000'000'000, 3 << 20, 0});
  const auto result = run(request, &governor, &progress);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->stopped, Stop::kWritten);
  EXPECT_LE(governor.written_bytes(), uint64_t{(3 << 20) + (1 << 16)});
  EXPECT_EQ(result->outcomes[1].state, State::kNotRun);
  EXPECT_THAT(result->outcomes[1].reason, HasSubstr("--written-mb-max"));
}

TEST_F(RunTest, KeepsToTheRate) {
  request.patterns = select_patterns("log-4k-fdatasync", false);
  Governor governor(clock, {400'000'000, 1 << 30, 50});
  const auto result = run(request, &governor, &progress);
  ASSERT_TRUE(result);
  EXPECT_LE(result->outcomes[0].total.count(), 21u);
}

TEST_F(RunTest, AStopKeepsWhatWasMeasured) {
  request.patterns = select_patterns("log-4k-fdatasync,log-4k-fsync", false);
  Governor governor(clock, {3'000'000'000, 1 << 30, 0});
  class Stopper final : public Progress {
   public:
    explicit Stopper(Governor *governor) : governor_(governor) {}
    void begins(size_t, size_t, const Pattern &) override {}
    void ended(const Outcome &) override { governor_->stop(Stop::kCommits, "commits suffer"); }

   private:
    Governor *governor_;
  } stopper(&governor);
  const auto result = run(request, &governor, &stopper);
  ASSERT_TRUE(result);
  if (result->outcomes[0].state == State::kNotRun) GTEST_SKIP() << "this process stood still for its whole time";
  EXPECT_EQ(result->outcomes[0].state, State::kMeasured);
  EXPECT_EQ(result->outcomes[1].state, State::kNotRun);
  EXPECT_EQ(result->outcomes[1].reason, "commits suffer");
}

TEST_F(RunTest, OnlyWhatThePatternsNeedIsWritten) {
  EXPECT_EQ(trimmed(request.target, select_patterns("log-8k-*", false)).data_bytes, 0u);
  EXPECT_EQ(trimmed(request.target, select_patterns("read-*", false)).log_bytes, 0u);
  EXPECT_EQ(trimmed(request.target, select_patterns("log-bulk-*", false)).data_bytes, request.target.data_bytes);
}

Report sample_report() {
  Report report;
  report.started_at = "2026-01-31T12:00:00.123Z";
  report.workers = 3;
  auto &outcomes = report.run.outcomes;
  outcomes.push_back(outcome_of("log-8k-fdatasync", 0.05, 20000));
  outcomes.push_back(outcome_of("log-8k-open_datasync", 1));
  outcomes.push_back(outcome_of("log-bulk-8k-fdatasync", 4));
  outcomes.back().bulk_bytes = 40'000'000;
  outcomes.push_back(outcome_of("read-8k-depth4-io_uring", 1, 0));
  outcomes.back().state = State::kUnavailable;
  outcomes.back().reason = "seccomp";
  report.flush = judge_flush(outcomes, report.run.place, false);
  report.ranking = rank_wal_sync_methods(outcomes);
  report.run.stopped = Stop::kCommits;
  report.run.stop_detail = "the commits suffered";
  return report;
}

TEST(ReportTest, JsonHasFiguresWhereThereAreAndNullElsewhere) {
  const auto json = to_json(sample_report());
  EXPECT_EQ(json["schema"], kSchema);
  const auto &first = json["patterns"][0];
  EXPECT_EQ(first["operations"], 20000);
  EXPECT_NEAR(first["p9999_ms"].get<double>(), 0.05, 0.002);
  EXPECT_EQ(first["postgresql"], "fdatasync");
  EXPECT_TRUE(first["write"].is_null());
  uint64_t counted = 0;
  for (const auto &bucket : first["histogram"]) counted += bucket[2].get<uint64_t>();
  EXPECT_EQ(counted, 20000u);
  EXPECT_TRUE(json["patterns"][1]["p999_ms"].is_null());
  EXPECT_NEAR(json["patterns"][2]["bulk_mb_per_second"].get<double>(), 100, 1);
  const auto &last = json["patterns"][3];
  EXPECT_EQ(last["state"], "unavailable");
  EXPECT_EQ(last["reason"], "seccomp");
  for (const char *field : {"p50_ms", "mean_ms", "max_ms", "per_second", "mb_per_second"})
    EXPECT_TRUE(last[field].is_null()) << field;
  EXPECT_EQ(json["stopped"]["cause"], "commits");
  EXPECT_EQ(json["flush"]["state"], "implausible");
}

TEST(ReportTest, TextSaysTheSame) {
  const std::string text = cli::probe_text(sample_report(), false);
  for (const char *part :
       {"log-8k-fdatasync", "20000", "seccomp", "Flush: implausible", "Ended early (commits): the commits suffered",
        "100.0 MB/s beside it", "low_ms", "as good as the best"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(ReportTest, HistogramCanBePlotted) {
  Times times;
  for (int i = 0; i < 90; i++) times.add(1'500'000);
  for (int i = 0; i < 10; i++) times.add(5'000'000);
  const std::string text = cli::histogram_text(times);
  // head, 1 to 2 ms, 2 to 4 (none), 4 to 8; powers of two of nanoseconds
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_THAT(text, HasSubstr("  1.048576      2.097152      90         90.000"));
  EXPECT_THAT(text, HasSubstr("  2.097152      4.194304      0           0.000\n"));
  EXPECT_EQ(cli::histogram_text(Times{}), "");
}

TEST(ProgressTest, LineSaysWhereItIsAndHowLongYet) {
  constexpr uint64_t kS = 1'000'000'000;
  cli::ProgressState state;
  EXPECT_THAT(cli::progress_line(state, 10 * kS, 0, 70 * kS), HasSubstr("60 s"));
  state = {false, 2, 9, "log-8k-fsync", 1.5, 0};
  const std::string line = cli::progress_line(state, 10 * kS, 11 * kS, 70 * kS);
  EXPECT_THAT(line, HasSubstr("3/9 log-8k-fsync"));
  EXPECT_THAT(line, HasSubstr("1.500 ms"));
  EXPECT_THAT(line, HasSubstr("60 s left"));
  const std::string late = cli::progress_line(state, 25 * kS, 11 * kS, 70 * kS);
  EXPECT_THAT(late, HasSubstr("waits for the device since 14 s"));
  EXPECT_THAT(cli::progress_line(state, 80 * kS, 79 * kS + kS / 2, 70 * kS), HasSubstr("0 s left"));
}

}  // namespace
}  // namespace flushlight::probe::test
