// SPDX-License-Identifier: GPL-2.0-or-later
// Advice in a daemon: from records and settings to the rows of the view, through a change and to its verdict.
#include "fixture.h"

namespace flushlight::test {
namespace {

constexpr uint64_t kQuery = 77;

class AdvisorTest : public DaemonTest {
 protected:
  void start_mariadb() {
    config_.advice_window_s = 100;
    config_.advice_commits_min = 200;
    config_.advice_interval_ms = 1000;
    start(true);
    client_ = attached("m1", 2, FL_ENGINE_MARIADB);
    for (uint64_t session = 1; session <= 8; session++) client_.ring(0).write(session_record(session, "app", "shop"));
    server_.engine = FL_ENGINE_MARIADB;
    server_.target = "socket=/s";
    server_.server_process = static_cast<uint32_t>(getpid());
    server_.version = 101118;
    for (const auto &[name, value] :
         {std::pair("innodb_flush_log_at_trx_commit", "1"), std::pair("innodb_flush_log_at_timeout", "1"),
          std::pair("sync_binlog", "0"), std::pair("log_bin", "OFF"), std::pair("wsrep_on", "OFF")})
      server_.settings[name] = {value, "", "COMPILE-TIME"};
    read_settings();
  }
  void read_settings() {
    server_.read_ns = clock_.now_ns();
    daemon_->engines().set(server_);
  }
  // Seconds of a load: each of `sessions` sessions commits `rate` times in one, of so many ms; 0.2 ms of it on a CPU.
  void load(int seconds, double ms, uint64_t sessions = 8, int rate = 2, bool synced = true) {
    for (int second = 0; second < seconds; second++) {
      for (int i = 0; i < rate; i++) {
        for (uint64_t session = 1; session <= sessions; session++) {
          fl_record_commit record = commit(session, kQuery, ms, synced ? FL_CAUSE_FLUSH : FL_CAUSE_ONCPU);
          if (synced) {
            record.vector_ns[FL_CAUSE_FLUSH] -= 200'000;
            record.vector_ns[FL_CAUSE_ONCPU] = 200'000;
          }
          record.work = 50;
          client_.ring(0).write(bytes(record));
        }
      }
      clock_.advance_ms(1000);
      if (second % 5 == 4) read_settings();
      settle();
    }
  }
  Table advice(const std::string &rule) {
    Table rows = rows_of("advice");
    std::erase_if(rows, [&](const auto &row) { return row.at("rule").text != rule; });
    return rows;
  }
  void set(const std::string &name, const std::string &value) {
    clock_.advance_ms(1);  // another reading
    server_.settings[name].value = value;
    read_settings();
    settle();
  }

  RawClient client_;
  EngineFacts server_;
  static constexpr const char *kRule = "mariadb.flush_log_at_trx_commit";
};

TEST_F(AdvisorTest, PredictedChangedVerified) {
  start_mariadb();
  load(120, 40);
  Table rows = advice(kRule);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("instance").text, "m1");
  EXPECT_EQ(rows[0].at("state").text, "open");
  EXPECT_EQ(rows[0].at("kind").text, "durability");
  EXPECT_EQ(rows[0].at("value_suggested").text, "2");
  EXPECT_NEAR(rows[0].at("predicted_p50_ms").real, 0.2, 0.01);
  EXPECT_EQ(rows[0].at("measured_p50_ms").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("changed_at").type, FL_CELL_NULL);
  EXPECT_NE(rows[0].at("risk").text.find("lose"), std::string::npos);
  EXPECT_NE(rows[0].at("apply").text.find("sql: SET GLOBAL innodb_flush_log_at_trx_commit = 2;"), std::string::npos);
  const int64_t id = rows[0].at("id").integer;
  set("innodb_flush_log_at_trx_commit", "2");
  load(10, 0.25, 8, 20, false);
  rows = advice(kRule);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("state").text, "measuring");
  EXPECT_EQ(rows[0].at("id").integer, id) << "the same recommendation";
  load(110, 0.25, 8, 20, false);
  rows = advice(kRule);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("state").text, "verified") << rows[0].at("evidence").text;
  EXPECT_NEAR(rows[0].at("predicted_p50_ms").real, 0.2, 0.01) << "what was said before";
  EXPECT_NEAR(rows[0].at("measured_p50_ms").real, 0.25, 0.01);
  EXPECT_NE(rows[0].at("evidence").text.find("predicted"), std::string::npos);
  EXPECT_EQ(rows[0].at("changed_at").type, FL_CELL_TIME);
  EXPECT_EQ(advice("nothing").size(), 1u);
}

TEST_F(AdvisorTest, WhatDoesNotComeTrueIsRefuted) {
  start_mariadb();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "2");
  load(120, 30);
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "refuted");
  EXPECT_NEAR(advice(kRule)[0].at("measured_p50_ms").real, 30, 1);
}

TEST_F(AdvisorTest, AnotherLoadIsInconclusive) {
  start_mariadb();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "2");
  load(120, 0.25, 2, 20, false);
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "inconclusive");
  EXPECT_NE(advice(kRule)[0].at("evidence").text.find("8 sessions committed before, 2 after"), std::string::npos)
      << advice(kRule)[0].at("evidence").text;
}

TEST_F(AdvisorTest, ALoadThatChangesHalfWayIsInconclusive) {
  start_mariadb();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "2");
  load(50, 0.25, 8, 20, false);
  load(70, 0.25, 3, 20, false);
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "inconclusive") << advice(kRule)[0].at("evidence").text;
}

TEST_F(AdvisorTest, AnotherChangeMeanwhileIsInconclusive) {
  start_mariadb();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "2");
  load(20, 0.25, 8, 20, false);
  set("innodb_flush_log_at_timeout", "5");
  load(5, 0.25, 8, 20, false);
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "inconclusive");
  EXPECT_NE(advice(kRule)[0].at("evidence").text.find("innodb_flush_log_at_timeout was changed too"),
            std::string::npos);
}

TEST_F(AdvisorTest, AnotherValueThanSuggestedIsInconclusive) {
  start_mariadb();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "0");
  load(5, 0.25, 8, 20, false);
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "inconclusive");
  EXPECT_NE(advice(kRule)[0].at("evidence").text.find("set to 0, not to 2"), std::string::npos);
}

TEST_F(AdvisorTest, TooFewCommitsAreInconclusive) {
  start_mariadb();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "2");
  for (int i = 0; i < 1200; i++) {
    clock_.advance_ms(1000);
    settle();
  }
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "inconclusive");
}

TEST_F(AdvisorTest, ATrustedHealthyServerHearsNothingToChange) {
  start_mariadb();
  load(120, 0.4);
  ASSERT_EQ(advice("nothing").size(), 1u);
  EXPECT_NE(advice("nothing")[0].at("evidence").text.find("nothing to change"), std::string::npos);
  EXPECT_EQ(advice(kRule).size(), 0u);
}

TEST_F(AdvisorTest, DismissedStaysVisible) {
  config_.advice_dismissed = {kRule};
  start_mariadb();
  load(120, 40);
  ASSERT_EQ(advice(kRule).size(), 1u);
  EXPECT_EQ(advice(kRule)[0].at("state").text, "dismissed");
}

TEST_F(AdvisorTest, AStatementsTextIsForThoseWhoMaySeeAll) {
  start_mariadb();
  client_.ring(0).write(text_record(kQuery, "UPDATE secret SET v = ?"));
  for (int second = 0; second < 120; second++) {
    for (uint64_t session = 1; session <= 8; session++) {
      fl_record_commit record = commit(session, kQuery, 40);
      record.work = 1;
      client_.ring(0).write(bytes(record));
    }
    clock_.advance_ms(1000);
    if (second % 5 == 4) read_settings();
    settle();
  }
  Table rows = rows_of("advice", "m1", "someone", false);
  std::erase_if(rows, [](const auto &row) { return row.at("rule").text != "application.batch"; });
  ASSERT_EQ(rows.size(), 1u);
  for (const auto &[column, cell] : rows[0]) EXPECT_EQ(cell.text.find("secret"), std::string::npos) << column;
  ASSERT_EQ(advice("application.batch").size(), 1u);
  EXPECT_NE(advice("application.batch")[0].at("scope").text.find("UPDATE secret"), std::string::npos);
}

TEST_F(AdvisorTest, VerdictsSurviveTheDaemon) {
  char folder[] = "/tmp/flushlight-advisor-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  config_.advice_history = std::string(folder) + "/advice.db";
  start_mariadb();
  daemon_->advisor().open_history();
  load(120, 40);
  set("innodb_flush_log_at_trx_commit", "2");
  load(120, 0.25, 8, 20, false);
  ASSERT_EQ(advice(kRule)[0].at("state").text, "verified");
  client_ = RawClient();
  daemon_.reset();
  start(true);
  daemon_->advisor().open_history();
  const Table rows = advice(kRule);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("state").text, "verified");
  EXPECT_EQ(rows[0].at("instance").text, "m1");
  EXPECT_NEAR(rows[0].at("measured_p50_ms").real, 0.25, 0.01);
  daemon_.reset();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace flushlight::test
