// SPDX-License-Identifier: GPL-2.0-or-later
// The view health, and the brake.
#include <map>

#include "fixture.h"

namespace flushlight::test {
namespace {

using Health = DaemonTest;

TEST_F(Health, HealthSaysWhatIsWrong) {
  start(true);
  kernel_->counter_list = {{"unmatched", "requests without a start", 3, true}, {"misc", "other things", 5, false}};
  kernel_->feature_list = {{"block_io_start", false, false, "not in BTF", "queue time is coarser", "kernel 6.5"}};
  RawClient client = attached("pg", 2);
  client.ring(0).head()->commits_seen = 200;
  client.ring(0).head()->dropped = 4;
  client.ring(0).head()->commits_missed = 7;
  for (int i = 0; i < 100; i++) client.ring(0).write(bytes(commit(1, 5, 1)));
  const Table rows = rows_of("health", "pg");
  std::map<std::string, std::map<std::string, Cell>> by;
  for (const auto &row : rows) by[row.at("component").text] = row;
  EXPECT_EQ(by["daemon"].at("state").text, "ok");
  EXPECT_EQ(by["tracing"].at("state").text, "degraded");
  EXPECT_EQ(by["tracing"].at("tier").text, "A");
  EXPECT_EQ(by["tracing"].at("lost").integer, 3);
  EXPECT_NE(by["tracing"].at("detail").text.find("queue time is coarser"), std::string::npos);
  EXPECT_EQ(by["postgresql"].at("state").text, "degraded");
  EXPECT_EQ(by["postgresql"].at("lost").integer, 4);
  EXPECT_DOUBLE_EQ(by["postgresql"].at("coverage").real, 0.5);
  EXPECT_EQ(by["postgresql"].at("missed").integer, 7);
  EXPECT_EQ(by["postgresql"].at("tier").text, "A");
}

TEST_F(Health, HealthOfACleanInstanceIsOk) {
  start(true);
  RawClient client = attached("pg", 2);
  client.ring(0).write(session_record(1, "alice", "shop", 16, 5));
  client.ring(0).head()->commits_seen = 100;
  for (int i = 0; i < 100; i++) client.ring(0).write(bytes(commit(1, 5, 1)));
  for (const auto &row : rows_of("health", "pg"))
    EXPECT_EQ(row.at("state").text, "ok") << row.at("component").text << ": " << row.at("detail").text;
}

TEST_F(Health, WhatCausesConsistOfIsToldApart) {
  start(true);
  kernel_->counter_list = {{"queue_tag_ns", "queue: time without a free tag", 2'500'000, false},
                           {"cpu_quota_ns", "cpu: time over the quota", 0, false},
                           {"wake_own", "wakes", 7, false}};
  for (const auto &row : rows_of("health")) {
    const std::string &detail = row.at("detail").text;
    if (row.at("component").text == "causes") {
      EXPECT_EQ(detail, "queue: time without a free tag 2.500 ms");
    }
    if (row.at("component").text == "tracing") {
      EXPECT_EQ(detail.find("queue:"), std::string::npos);
      EXPECT_NE(detail.find("7 wakes"), std::string::npos);
    }
  }
}

TEST_F(Health, AFileSystemThatIsNotCoveredIsNamed) {
  constexpr uint32_t kBtrfs = 0x9123683E, kExt4 = 0xEF53, kXfs = 0x58465342, kOverlay = 0x794C7630;
  start(true);
  const std::pair<const char *, uint32_t> instances[] = {
      {"one", kBtrfs}, {"two", kExt4}, {"three", kXfs}, {"four", kOverlay}, {"five", 0}};
  std::vector<RawClient> clients;
  for (const auto &[name, file_system] : instances) {
    clients.push_back(connected());
    ASSERT_TRUE(clients.back().hello(name, 1, FL_ENGINE_MARIADB, file_system));
    settle();
    ASSERT_TRUE(clients.back().take_welcome());
  }
  int seen = 0;
  for (const auto &row : rows_of("health")) {
    if (row.at("component").text != "mariadb") continue;
    seen++;
    const bool covered = row.at("instance").text != "one";
    EXPECT_EQ(row.at("state").text, covered ? "ok" : "degraded") << row.at("instance").text;
    EXPECT_EQ(row.at("detail").text.find("not covered: its data lies on btrfs") == std::string::npos, covered);
  }
  EXPECT_EQ(seen, 5);
}

TEST_F(Health, HealthWithoutTracingIsTierB) {
  start();
  RawClient client = attached("pg", 2);
  for (const auto &row : rows_of("health", "pg")) {
    if (row.at("component").text == "tracing") {
      EXPECT_EQ(row.at("state").text, "failed");
      EXPECT_EQ(row.at("tier").text, "B");
    }
    if (row.at("component").text == "postgresql") {
      EXPECT_EQ(row.at("tier").text, "B");
      EXPECT_EQ(row.at("state").text, "degraded");
    }
  }
}

TEST_F(Health, TheBrakeSwitchesOffAndSaysSo) {
  start(true);
  RawClient client = attached("pg");
  for (uint64_t second = 1; second <= 13; second++) {
    kernel_->cost_list = {{"sched_switch", 1000, second * 900'000'000, second * 1'000'000'000, 0}};
    clock_.advance_ms(1001);
    daemon_->step(0);
    if (second == 5) {
      EXPECT_TRUE(kernel_->measuring);
      EXPECT_EQ(client.control()->off, 0u);
    }
  }
  EXPECT_EQ(client.control()->off, 1u);
  EXPECT_FALSE(kernel_->is_enabled);
  for (const auto &row : rows_of("health", "pg")) {
    if (row.at("component").text != "daemon") continue;
    EXPECT_EQ(row.at("state").text, "off");
    EXPECT_NE(row.at("detail").text.find("flushlight on"), std::string::npos);
  }
  EXPECT_EQ(run_command(FL_COMMAND_ON).status, 0u);
  EXPECT_EQ(client.control()->off, 0u);
}

}  // namespace
}  // namespace flushlight::test
