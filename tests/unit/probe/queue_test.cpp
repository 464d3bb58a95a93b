// SPDX-License-Identifier: GPL-2.0-or-later
// Queue settings and their state file, on a tree that looks like sysfs. The real thing: tests/rig/test_probe.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "make_outcome.h"
#include "sidecar/cli/probe_matrix.h"
#include "sidecar/host/text_files.h"
#include "sidecar/probe/queue_state.h"

namespace flushlight::probe::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Le;

class QueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::string(SCRATCH_FOLDER) + "/queue-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    paths.folder = folder / "state";
    paths.sys = folder / "sys";
    paths.boot_id = folder / "boot_id";
    write("boot_id", "11111111-2222\n");
    fs::create_directories(folder / "sys/block/sdx/queue");
    write("sys/block/sdx/dev", "8:240\n");
    set({"none", 128, 0});
  }
  void TearDown() override { fs::remove_all(folder); }
  void write(const std::string &file, const std::string &text) const { std::ofstream(folder / file) << text; }
  void set(const QueueSettings &settings) const {
    write("sys/block/sdx/queue/scheduler", settings.scheduler);
    write("sys/block/sdx/queue/nr_requests", std::to_string(settings.nr_requests));
    write("sys/block/sdx/queue/nomerges", std::to_string(settings.nomerges));
  }
  [[nodiscard]] Queue queue() const { return *Queue::open("sdx", paths.sys); }
  [[nodiscard]] QueueSettings now() const { return *queue().read(); }
  [[nodiscard]] std::string saved_text() const { return to_text({"sdx", "8:240", "11111111-2222", {"none", 128, 0}}); }
  void save_by_hand(const std::string &text) const {
    fs::create_directories(paths.folder);
    fs::permissions(paths.folder, fs::perms::owner_all);
    std::ofstream(fs::path(paths.folder) / "sdx.json") << text;
  }
  fs::path folder;
  StatePaths paths;
  const QueueSettings changed{"kyber", 32, 2};
};

TEST_F(QueueTest, NamesThatAreNone) {
  for (const char *name :
       {"", ".", "..", "../sda", "a/b", "sda\n", "sd a", "-\x1b[31m", "averyveryverylongnameofsomethingelse"}) {
    EXPECT_FALSE(is_device_name(name)) << name;
    EXPECT_FALSE(Queue::open(name, paths.sys)) << name;
  }
  for (const char *name : {"sda", "nvme0n1", "dm-0", "cciss!c0d0", "loop7"}) EXPECT_TRUE(is_device_name(name)) << name;
  EXPECT_THAT(Queue::open("sdy", paths.sys).error().text, HasSubstr("no disk sdy"));
  fs::create_directories(folder / "sys/block/dm-0/queue");
  EXPECT_THAT(Queue::open("dm-0", paths.sys).error().text, HasSubstr("stacked"));
}

TEST_F(QueueTest, AppliesAndReadsBack) {
  ASSERT_TRUE(queue().apply(changed));
  EXPECT_EQ(now(), changed);
  write("sys/block/sdx/queue/scheduler", "none [mq-deadline] kyber\n");
  EXPECT_EQ(now().scheduler, "mq-deadline");
  EXPECT_EQ(queue().schedulers(), (std::vector<std::string>{"none", "mq-deadline", "kyber"}));
}

TEST_F(QueueTest, CombinationsStayWithinTheTags) {
  const QueueSettings present{"none", 64, 0};
  const auto all = combinations(present, {"none", "kyber"}, 128);
  EXPECT_EQ(all.front(), present);
  EXPECT_EQ(all.size(), 2u * 3u * 3u);  // 32, 64, 128
  EXPECT_THAT(all, Each(Field(&QueueSettings::nr_requests, Le(128))));
  for (const auto &one : all) EXPECT_EQ(std::count(all.begin(), all.end(), one), 1) << text_of(one);
  // More than the tags: as it is only, never another one like it.
  const auto beyond = combinations({"none", 256, 0}, {"none"}, 128);
  EXPECT_EQ(std::count_if(beyond.begin(), beyond.end(), [](const auto &one) { return one.nr_requests > 128; }), 1);
  EXPECT_EQ(combinations(present, {"none"}, std::nullopt).size(), 3u);
}

TEST_F(QueueTest, PutsBackAtItsEnd) {
  {
    const auto keeper = QueueKeeper::begin(queue(), paths);
    ASSERT_TRUE(keeper) << keeper.error().text;
    ASSERT_TRUE(queue().apply(changed));
    ASSERT_TRUE(fs::exists(fs::path(paths.folder) / "sdx.json"));
  }
  EXPECT_EQ(now(), (QueueSettings{"none", 128, 0}));
  EXPECT_TRUE(fs::is_empty(paths.folder));
  ASSERT_TRUE(restore_all(paths));
  EXPECT_TRUE(restore_all(paths)->empty());
}

TEST_F(QueueTest, OneAtATime) {
  const auto keeper = QueueKeeper::begin(queue(), paths);
  ASSERT_TRUE(keeper);
  const auto second = QueueKeeper::begin(queue(), paths);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text, HasSubstr("another"));
}

TEST_F(QueueTest, WhatAKilledRunLeftIsRestoredAndNothingBegunBefore) {
  save_by_hand(saved_text());
  set(changed);
  const auto keeper = QueueKeeper::begin(queue(), paths);
  ASSERT_FALSE(keeper);
  EXPECT_THAT(keeper.error().text, HasSubstr("--restore"));
  EXPECT_EQ(now(), changed);
  const auto restored = restore_all(paths);
  ASSERT_TRUE(restored) << restored.error().text;
  ASSERT_EQ(restored->size(), 1u);
  EXPECT_THAT((*restored)[0].text, HasSubstr("put back: scheduler none, nr_requests 128, nomerges 0"));
  EXPECT_EQ(now(), (QueueSettings{"none", 128, 0}));
  EXPECT_TRUE(fs::is_empty(paths.folder));
}

TEST_F(QueueTest, AnotherBootOrDeviceHasNothingToPutBack) {
  struct Case {
    SavedQueue saved;
    const char *says;
  };
  for (const Case &c : {Case{{"sdx", "8:240", "other-boot", {"none", 128, 0}}, "booted"},
                        Case{{"sdx", "8:16", "11111111-2222", {"none", 128, 0}}, "another device"}}) {
    save_by_hand(to_text(c.saved));
    set(changed);
    const auto restored = restore_all(paths);
    ASSERT_TRUE(restored);
    EXPECT_THAT(restored->at(0).text, HasSubstr(c.says));
    EXPECT_EQ(now(), changed);
    EXPECT_TRUE(fs::is_empty(paths.folder));
  }
}

TEST_F(QueueTest, HostileStateFilesChangeNothing) {
  set(changed);
  const std::string good = saved_text();
  const auto with = [&good](const std::string &from, const std::string &to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string hostile[] = {
      "",
      "{",
      "null",
      "[]",
      "\"x\"",
      good.substr(0, good.size() / 2),
      std::string(100'000, ' ') + good,
      std::string(4000, '['),
      with("flushlight-probe-queue/1", "flushlight-probe-queue/2"),
      with("\"sdx\"", "\"../../etc\""),
      with("\"sdx\"", "\"sdy\""),
      with("\"none\"", "\"none; reboot\""),
      with("\"none\"", "\"\""),
      with("\"none\"", "7"),
      with("128", "-1"),
      with("128", "\"128\""),
      with("128", "1e9"),
      with("128", "99999999999999999999"),
      with("\"nomerges\": 0", "\"nomerges\": 3"),
  };
  for (const std::string &text : hostile) {
    save_by_hand(text);
    EXPECT_FALSE(restore_all(paths)) << text.substr(0, 200);
    EXPECT_EQ(now(), changed);
    EXPECT_TRUE(fs::exists(fs::path(paths.folder) / "sdx.json")) << "somebody should look at it";
  }
}

TEST_F(QueueTest, FilesOfOthersAreNotTrusted) {
  set(changed);
  save_by_hand(saved_text());
  const fs::path file = fs::path(paths.folder) / "sdx.json";
  chmod(file.c_str(), 0666);
  EXPECT_THAT(restore_all(paths).error().text, HasSubstr("written by others"));
  fs::rename(file, folder / "elsewhere");
  chmod((folder / "elsewhere").c_str(), 0600);
  fs::create_symlink(folder / "elsewhere", file);
  EXPECT_FALSE(restore_all(paths));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(restore_all(paths).error().text, HasSubstr("is not a file"));
  fs::remove(file);
  save_by_hand(saved_text());
  chmod(paths.folder.c_str(), 0777);
  EXPECT_THAT(restore_all(paths).error().text, HasSubstr("written by others"));
  EXPECT_EQ(now(), changed);
}

Matrix matrix_of(double present_first, double present_last, double other) {
  Matrix matrix;
  const auto add = [&matrix](const QueueSettings &settings, bool present, double ms) {
    MatrixRow &row = matrix.rows.emplace_back();
    row.settings = settings;
    row.present = present;
    row.outcomes.push_back(outcome_of("log-bulk-8k-fdatasync", ms));
  };
  add({"none", 128, 0}, true, present_first);
  add({"kyber", 128, 0}, false, other);
  add({"bfq", 128, 0}, false, other * 2);
  add({"none", 128, 0}, true, present_last);
  return matrix;
}

TEST(MatrixTest, OnlyWhatIsClearlyBetterIsNamed) {
  EXPECT_EQ(judge_matrix(matrix_of(10, 12, 5)).best, 1u);
  EXPECT_THAT(judge_matrix(matrix_of(10, 12, 5)).text, HasSubstr("kyber"));
  EXPECT_FALSE(judge_matrix(matrix_of(10, 12, 9.5)).best);
  EXPECT_THAT(judge_matrix(matrix_of(10, 12, 9.5)).text, HasSubstr("nothing to change"));
  EXPECT_FALSE(judge_matrix(matrix_of(10, 5, 5)).best) << "a repetition shows as much";
  Matrix cut = matrix_of(10, 10, 1);
  cut.rows.pop_back();
  EXPECT_FALSE(judge_matrix(cut).best);
  EXPECT_FALSE(judge_matrix(Matrix{}).best);
}

TEST(MatrixTest, JsonAndText) {
  Matrix matrix = matrix_of(10, 12, 5);
  matrix.device = "sdx";
  matrix.rows[2].outcomes.clear();
  matrix.rows[2].refusal = "refused";
  const auto json = to_json(matrix);
  EXPECT_EQ(json["best"], 1);
  EXPECT_EQ(json["combinations"].size(), 4u);
  EXPECT_TRUE(json["combinations"][2]["figure_ms"].is_null());
  EXPECT_EQ(json["combinations"][2]["refusal"], "refused");
  const std::string text = cli::matrix_text(matrix);
  EXPECT_THAT(text, HasSubstr("as it is"));
  EXPECT_LT(text.find("kyber"), text.find("none"));
  EXPECT_LT(text.find("none"), text.find("bfq")) << "what was not measured comes last";
}

TEST(MatrixTest, ConfirmationNamesTheDevice) {
  EXPECT_FALSE(*cli::confirmed("sda", {}));
  EXPECT_TRUE(*cli::confirmed("sda", {"--yes-change-sda"}));
  for (const char *word : {"--yes-change-sdb", "--yes-change-", "--yes-change-sda1", "--yes", "sda"})
    EXPECT_FALSE(cli::confirmed("sda", {word})) << word;
  EXPECT_FALSE(cli::confirmed("sda", {"--yes-change-sda", "--yes-change-sdb"}));
  Place place;
  place.directory = "/x";
  EXPECT_THAT(cli::check_device("sda", place).error().text, HasSubstr("no block device"));
  place.disk = "dm-0";
  place.disks = {"sda", "sdb"};
  EXPECT_TRUE(cli::check_device("sdb", place));
  EXPECT_THAT(cli::check_device("sdc", place).error().text, HasSubstr("it lies on sda, sdb"));
}

}  // namespace
}  // namespace flushlight::probe::test
