// SPDX-License-Identifier: GPL-2.0-or-later
// What servers say about themselves: how they are named, units, windows, errors, whose they are. The servers
// themselves: tests/scenarios/*_settings_test.py.
#include <deque>

#include "fixture.h"
#include "sidecar/base/config_settings.h"
#include "sidecar/join/servers.h"

namespace flushlight::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(EngineTarget, SaysHowToReachAServer) {
  const auto target = parse_postgresql_target("host=/run/postgresql  user=flushlight instance=main passfile=/etc/p");
  ASSERT_TRUE(target) << target.error().text;
  EXPECT_EQ(target->instance, "main");
  EXPECT_EQ(target->option("host"), "/run/postgresql");
  EXPECT_EQ(target->option("passfile"), "/etc/p");
  EXPECT_EQ(target->option("instance"), "");
  const auto maria = parse_mariadb_target("socket=/run/s user=u password_file=/etc/p");
  ASSERT_TRUE(maria) << maria.error().text;
  EXPECT_EQ(maria->password_file, "/etc/p");
  EXPECT_EQ(maria->option("password_file"), "");
}

TEST(EngineTarget, RefusesPasswordsAndDoesNotRepeatThem) {
  for (const auto parse : {parse_postgresql_target, parse_mariadb_target}) {
    const auto target = parse("user=u password=secret");
    ASSERT_FALSE(target);
    EXPECT_EQ(target.error().text.find("secret"), std::string::npos);
    EXPECT_NE(target.error().text.find("file"), std::string::npos);
  }
  Config config;
  const auto set = set_config("engines.mariadb", "socket=/run/s password=secret", &config);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().text.find("secret"), std::string::npos);
}

TEST(EngineTarget, RefusesWhatItDoesNotKnow) {
  for (const char *text : {"", "socket", "=x", "options=-cfoo", "instance=only"}) {
    EXPECT_FALSE(parse_postgresql_target(text)) << text;
    EXPECT_FALSE(parse_mariadb_target(text)) << text;
  }
  EXPECT_FALSE(parse_postgresql_target("host=x password_file=/etc/p"));
}

TEST(EngineTarget, SeveralInTheConfiguration) {
  Config config;
  const auto read = read_config_text("[engines]\npostgresql = [\"host=/a\", \"host=/b user=u\"]\ninterval_ms = 500\n",
                                     "here", &config);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(config.postgresql_targets, (std::vector<std::string>{"host=/a", "host=/b user=u"}));
  EXPECT_EQ(config.engines_interval_ms, 500u);
  EXPECT_EQ(find_setting("engines.postgresql")->get(config), "host=/a,host=/b user=u");
}

TEST(EngineSettings, AreInBaseUnits) {
  struct Case {
    const char *value, *unit, *want, *base;
  };
  for (const Case &c : {Case{"128", "8kB", "1048576", "B"}, Case{"5", "min", "300000", "ms"},
                        Case{"200", "ms", "200", "ms"}, Case{"16", "MB", "16777216", "B"}, Case{"-1", "8kB", "-1", "B"},
                        Case{"0", "us", "0", "ms"}, Case{"0.9", "", "0.9", ""}, Case{"on", "", "on", ""},
                        Case{"64", "B", "64", "B"}, Case{"900", "s", "900000", "ms"}}) {
    const EngineSetting setting = in_base_unit(c.value, c.unit);
    EXPECT_EQ(setting.value, c.want) << c.value << c.unit;
    EXPECT_EQ(setting.unit, c.base) << c.value << c.unit;
  }
}

TEST(EngineFacts, WhatWasNotToldIsNothing) {
  EngineFacts facts;
  facts.settings["a"] = {"on", "", ""};
  facts.settings["n"] = {"12.5", "", ""};
  EXPECT_EQ(facts.is_on("a"), true);
  EXPECT_EQ(facts.number("a"), std::nullopt);
  EXPECT_EQ(facts.number("n"), 12.5);
  EXPECT_EQ(facts.is_on("missing"), std::nullopt);
  EXPECT_EQ(facts.number("missing"), std::nullopt);
  EXPECT_EQ(facts.text("missing"), "");
  EXPECT_EQ(facts.statistic("missing"), std::nullopt);
  EXPECT_EQ(facts.grown("missing"), std::nullopt);
}

// A server that says what the test wants.
class Script final : public EngineReader {
 public:
  explicit Script(std::deque<Result<EngineFacts>> *answers) : answers_(answers) {}
  Result<EngineFacts> read() override {
    auto answer = answers_->front();
    answers_->pop_front();
    return answer;
  }

 private:
  std::deque<Result<EngineFacts>> *answers_;
};

EngineFacts counting(double uptime_s, double counter) {
  EngineFacts facts;
  facts.version = 150018;
  facts.statistics = {{"server.uptime_s", uptime_s}, {"x.count", counter}};
  return facts;
}

TEST(EngineHistory, CountsOverAWindowAndForgetsAcrossRestarts) {
  std::deque<Result<EngineFacts>> answers;
  EngineHistory history(std::make_unique<Script>(&answers), FL_ENGINE_POSTGRESQL, "host=/a", "");
  const auto read = [&](uint64_t at_s, double uptime_s, double counter) {
    answers.emplace_back(counting(uptime_s, counter));
    return history.read(at_s * kSecond);
  };
  EXPECT_EQ(read(1000, 1, 100).grown("x.count"), std::nullopt) << "nothing to compare with yet";
  EXPECT_EQ(read(1010, 11, 130).grown("x.count"), 30);
  EngineFacts last;
  for (uint64_t s = 1040; s <= 2800; s += 30) last = read(s, static_cast<double>(s - 999), static_cast<double>(s));
  EXPECT_NEAR(last.window_s(), 600, 60);
  EXPECT_EQ(last.grown("x.count"), last.window_s()) << "one a second";
  EXPECT_EQ(read(2830, 3, 7).grown("x.count"), std::nullopt) << "the server was started again";
  EXPECT_EQ(read(2840, 13, 9).grown("x.count"), 2);
  EXPECT_EQ(read(2850, 23, 1).grown("x.count"), std::nullopt) << "the counter was reset";
}

TEST(EngineHistory, CountsAnewUnderOtherSettings) {
  std::deque<Result<EngineFacts>> answers;
  EngineHistory history(std::make_unique<Script>(&answers), FL_ENGINE_POSTGRESQL, "host=/a", "");
  const auto read = [&](uint64_t at_s, double counter, const char *value) {
    EngineFacts facts = counting(static_cast<double>(at_s), counter);
    facts.settings["max_wal_size"] = {value, "B", ""};
    answers.emplace_back(facts);
    return history.read(at_s * kSecond);
  };
  read(1000, 0, "1");
  EXPECT_EQ(read(1060, 60, "1").grown("x.count"), 60);
  EXPECT_EQ(read(1070, 70, "2").grown("x.count"), std::nullopt);
  EXPECT_EQ(read(1080, 75, "2").grown("x.count"), 5);
}

TEST(EngineHistory, AnErrorKeepsWhatWasKnown) {
  std::deque<Result<EngineFacts>> answers;
  EngineHistory history(std::make_unique<Script>(&answers), FL_ENGINE_MARIADB, "socket=/s", "m");
  answers.emplace_back(Error{EIO, "refused"});
  EngineFacts facts = history.read(kSecond);
  EXPECT_EQ(facts.error, "refused");
  EXPECT_FALSE(facts.known());
  EXPECT_EQ(facts.instance, "m");
  answers.emplace_back(counting(1, 5));
  facts = history.read(2 * kSecond);
  EXPECT_EQ(facts.error, "");
  EXPECT_TRUE(facts.known());
  EXPECT_EQ(facts.engine, FL_ENGINE_MARIADB);
  answers.emplace_back(Error{EIO, "gone"});
  facts = history.read(3 * kSecond);
  EXPECT_EQ(facts.error, "gone");
  EXPECT_EQ(facts.statistic("x.count"), 5);
  EXPECT_EQ(facts.read_ns, 2 * kSecond);
}

class EngineHealth : public DaemonTest {};

TEST_F(EngineHealth, SaysWhichServerCannotBeAsked) {
  start();
  const RawClient client = attached("m1", 1, FL_ENGINE_MARIADB);
  EngineFacts good = counting(1, 1), bad;
  good.engine = bad.engine = FL_ENGINE_MARIADB;
  good.target = "socket=/a";
  good.read_ns = 1;
  good.server_process = static_cast<uint32_t>(getpid());
  good.refused = {"InnoDB's metrics (the user lacks PROCESS)"};
  bad.target = "socket=/b";
  bad.instance = "other";
  bad.error = "connecting: no such file";
  daemon_->engines().set(good);
  daemon_->engines().set(bad);
  Table rows = rows_of("health");
  std::erase_if(rows, [](const auto &row) { return row.at("component").text != "settings"; });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("instance").text, "m1") << "found by its process";
  EXPECT_EQ(rows[0].at("state").text, "degraded");
  EXPECT_NE(rows[0].at("detail").text.find("PROCESS"), std::string::npos);
  EXPECT_EQ(rows[1].at("instance").type, FL_CELL_NULL);
  EXPECT_EQ(rows[1].at("state").text, "failed");
  EXPECT_NE(rows[1].at("detail").text.find("no such file"), std::string::npos);
  Table own = rows_of("health", "m1");
  std::erase_if(own, [](const auto &row) { return row.at("component").text != "settings"; });
  EXPECT_EQ(own.size(), 1u) << "the other one is not the asker's";
}

TEST_F(EngineHealth, TwoServersOfOneEngineAreToldApart) {
  start();
  const RawClient first = attached("m1", 1, FL_ENGINE_MARIADB), second = attached("m2", 1, FL_ENGINE_MARIADB);
  EngineFacts facts = counting(1, 1);
  facts.engine = FL_ENGINE_MARIADB;
  EXPECT_EQ(find_server(daemon_->intake(), facts), nullptr) << "over TCP either could be meant";
  facts.instance = "m2";
  ASSERT_NE(find_server(daemon_->intake(), facts), nullptr);
  EXPECT_EQ(find_server(daemon_->intake(), facts)->name, "m2");
  facts.engine = FL_ENGINE_POSTGRESQL;
  facts.instance = "";
  EXPECT_EQ(find_server(daemon_->intake(), facts), nullptr);
}

}  // namespace
}  // namespace flushlight::test
