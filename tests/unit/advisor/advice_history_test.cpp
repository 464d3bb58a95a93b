// SPDX-License-Identifier: GPL-2.0-or-later
// The file that keeps what became of changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "sidecar/advise/history.h"

namespace flushlight::advise::test {
namespace {

class HistoryFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/flushlight-history-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<Outcomes> kept() {
    History history;
    auto all = history.open(folder_ + "/advice.db");
    EXPECT_TRUE(all) << all.error().text;
    return all ? *all : std::vector<Outcomes>{};
  }
  std::string folder_;
};

TEST_F(HistoryFile, KeepsWhatBecameOfChanges) {
  EXPECT_TRUE(kept().empty());
  {
    History history;
    ASSERT_TRUE(history.open(folder_ + "/advice.db"));
    Outcomes outcomes;
    outcomes.instance = "m'1";
    outcomes.rule = "r";
    outcomes.state = "verified";
    outcomes.changed_unix_ns = 1'700'000'000'000'000'001;
    outcomes.predicted_p50_ms = 0.5;
    history.add(outcomes);
  }
  const auto all = kept();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].instance, "m'1");
  EXPECT_EQ(all[0].state, "verified");
  EXPECT_EQ(all[0].changed_unix_ns, 1'700'000'000'000'000'001);
  EXPECT_EQ(all[0].predicted_p50_ms, 0.5);
  EXPECT_FALSE(all[0].measured_p99_ms) << "NULL stays NULL";
}

TEST_F(HistoryFile, IsBounded) {
  {
    History history;
    ASSERT_TRUE(history.open(folder_ + "/advice.db"));
    for (int i = 0; i < 900; i++) history.add({.rule = "old"});
  }
  {
    History history;
    ASSERT_TRUE(history.open(folder_ + "/advice.db"));
    for (int i = 0; i < 150; i++) history.add({.rule = "new"});
  }
  const auto all = kept();
  ASSERT_EQ(all.size(), static_cast<size_t>(History::kRowsMax));
  EXPECT_EQ(all.back().rule, "new");
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto &one) { return one.rule == "new"; }), 150);
}

TEST_F(HistoryFile, AFileThatCannotBeOpenedIsAnError) {
  History history;
  EXPECT_FALSE(history.open(folder_ + "/no/such/folder/advice.db"));
  history.add({});  // forgotten, not kept for ever
}

}  // namespace
}  // namespace flushlight::advise::test
