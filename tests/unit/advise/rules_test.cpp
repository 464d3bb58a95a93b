// SPDX-License-Identifier: GPL-2.0-or-later
// Rules: what a healthy server hears, in which order a slow one is advised, what no advice may ever say.
#include <fmt/format.h>

#include <random>
#include <regex>

#include "made_up.h"

namespace flushlight::advise::test {
namespace {

TEST(Rules, AHealthyServerHasNothingToChange) {
  for (const Facts &facts : {mariadb(), postgresql(150018), postgresql()}) {
    const auto advice = advise(facts);
    ASSERT_FALSE(advice.empty());
    EXPECT_EQ(advice[0].rule, "nothing") << all_text(advice);
    EXPECT_TRUE(says(&advice[0], "nothing to change: 6000 commits in 600 s, p50 0.40 ms"));
    for (const Advice &one : advice) EXPECT_EQ(one.kind, Kind::kNo) << all_text(advice);
  }
}

TEST(Rules, ATooShortLookSaysNothing) {
  Facts facts = mariadb();
  set_commits(&facts, 40, FL_CAUSE_FLUSH, FL_PATH_SELF, 50);
  EXPECT_TRUE(advise(facts).empty()) << all_text(advise(facts));
}

TEST(Rules, WithoutAccountsNothingIsSaidOfCauses) {
  Facts facts = mariadb();
  set_commits(&facts, 40, FL_CAUSE_FLUSH);
  facts.commits.accounted = 0;
  facts.commits.samples.clear();
  std::fill(std::begin(facts.commits.vector_ns), std::end(facts.commits.vector_ns), 0);
  for (const Advice &one : advise(facts)) EXPECT_EQ(one.rule, "nothing") << one.evidence;
}

TEST(Rules, WithoutCredentialsTheRestGoesOn) {
  Facts facts = mariadb();
  facts.server = {};
  auto advice = advise(facts);
  ASSERT_FALSE(advice.empty());
  EXPECT_TRUE(says(&advice[0], "settings are not known"));
  EXPECT_EQ(advice[0].confidence, Confidence::kLow);
  set_commits(&facts, 40, FL_CAUSE_FLUSH, FL_PATH_JOURNAL);
  advice = advise(facts);
  EXPECT_NE(find(advice, "file_system.fast_commit"), nullptr) << "of the host much is known";
  EXPECT_EQ(find(advice, "mariadb.flush_log_at_trx_commit"), nullptr);
}

TEST(Rules, ApplicationThenGroupingThenHostThenDurability) {
  Facts facts = mariadb();
  facts.device->flush_p50_ms = 20;
  set_commits(&facts, 40, FL_CAUSE_FLUSH, FL_PATH_JOURNAL);
  facts.commits.digests[0].work = facts.commits.digests[0].commits;
  const auto advice = advise(facts);
  ASSERT_GE(advice.size(), 3u) << all_text(advice);
  EXPECT_EQ(advice[0].rule, "application.batch") << all_text(advice);
  EXPECT_TRUE(says(&advice[0], "makes 100 % of 6000 commits in 600 s, 1 row in each"));
  for (size_t i = 1; i < advice.size(); i++) EXPECT_LE(advice[i - 1].kind, advice[i].kind);
  const Advice *last = find(advice, "mariadb.flush_log_at_trx_commit");
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->kind, Kind::kDurability);
  EXPECT_NEAR(*last->predicted_p50_ms, 0.1, 0.01) << "what is left is the time on a CPU";
}

TEST(Rules, WaitsThatAreNoStorage) {
  struct Case {
    int cause;
    const char *rule, *words;
  };
  for (const Case &c : {Case{FL_CAUSE_REPLICATION, "no.replication", "not storage: replication"},
                        Case{FL_CAUSE_CPU, "no.cpu", "wait for a CPU"}, Case{FL_CAUSE_LOCK, "no.lock", "not storage"}})
    for (Facts facts : {mariadb(), postgresql()}) {
      set_commits(&facts, 40, c.cause);
      const auto advice = advise(facts);
      EXPECT_TRUE(says(find(advice, c.rule), c.words)) << all_text(advice);
      for (const Advice &one : advice) EXPECT_NE(one.kind, Kind::kDurability) << one.rule;
    }
}

TEST(Rules, SynchronousCommitOfOneRoleOnly) {
  Facts facts = postgresql();
  facts.device->flush_p50_ms = 20;
  set_commits(&facts, 40, FL_CAUSE_FLUSH);
  facts.commits.roles = {{"app", 5000, 1}, {"batch", 1000, 1}};
  const auto advice = advise(facts);
  const Advice *found = find(advice, "postgresql.synchronous_commit");
  ASSERT_NE(found, nullptr) << all_text(advice);
  EXPECT_EQ(found->scope, "role app");
  EXPECT_TRUE(says(found, "may lose"));
  EXPECT_TRUE(says(found, "600 ms")) << "three times wal_writer_delay";
  EXPECT_FALSE(writes(advice, "ALTER SYSTEM SET synchronous_commit"));
  set(&facts, "synchronous_commit", "off");
  EXPECT_EQ(find(advise(facts), "postgresql.synchronous_commit"), nullptr);
}

TEST(Rules, CheckpointsThatCameForWantOfRoom) {
  Facts facts = postgresql();
  set(&facts, "max_wal_size", "1073741824", "default", false, "B");
  count(&facts, "checkpoints.timed", 0);
  count(&facts, "checkpoints.requested", 20);
  count(&facts, "wal.bytes", 6e9);
  count(&facts, "wal.full_page_images", 600'000);
  auto advice = advise(facts);
  const Advice *found = find(advice, "postgresql.max_wal_size");
  ASSERT_NE(found, nullptr) << all_text(advice);
  EXPECT_TRUE(says(found, "20 of 20 checkpoints in 600 s"));
  EXPECT_TRUE(says(found, "one in 30 s"));
  EXPECT_TRUE(says(found, "recovery after a crash replays"));
  EXPECT_FALSE(found->predicted_p50_ms) << "accounts cannot tell";
  EXPECT_EQ(found->suggested, "20GB") << "10 MB/s for 900 s, 1.9 times, and a quarter";
  facts.free_bytes = int64_t{4} << 30;
  advice = advise(facts);
  EXPECT_EQ(find(advice, "postgresql.max_wal_size")->suggested, "3072MB");
  EXPECT_TRUE(says(find(advice, "postgresql.max_wal_size"), "for want of space"));
  count(&facts, "checkpoints.timed", 20);
  count(&facts, "checkpoints.requested", 1);
  EXPECT_EQ(find(advise(facts), "postgresql.max_wal_size"), nullptr);
}

TEST(Rules, ARedoLogThatIsTooSmall) {
  Facts facts = mariadb();
  facts.server.statistics["redo.checkpoint_age_max"] = 1e9;
  facts.server.statistics["redo.checkpoint_age"] = 5e8;
  count(&facts, "redo.bytes", 6e9);
  EXPECT_EQ(find(advise(facts), "mariadb.log_file_size"), nullptr);
  facts.server.statistics["redo.checkpoint_age"] = 9e8;
  const auto advice = advise(facts);
  const Advice *found = find(advice, "mariadb.log_file_size");
  ASSERT_NE(found, nullptr) << all_text(advice);
  EXPECT_TRUE(says(found, "90 % full"));
  EXPECT_NEAR(std::stod(found->suggested), 3.6e10, 1e9) << "an hour at 10 MB/s";
}

TEST(Rules, NativeAioIsJudgedAsEffective) {
  Facts facts = mariadb();
  set(&facts, "innodb_use_native_aio", "OFF", "COMPILE-TIME", true);
  struct Case {
    int64_t disabled;
    int error;
    int64_t memlock;
    const char *words;
  };
  for (const Case &c : {Case{2, EPERM, 1 << 30, "io_uring_disabled is 2"}, Case{0, ENOSYS, 1 << 30, "ENOSYS"},
                        Case{0, EPERM, 1 << 30, "seccomp"}, Case{0, 0, 65536, "LimitMEMLOCK"}}) {
    facts.host.io_uring_disabled = c.disabled;
    facts.host.io_uring_error = c.error;
    facts.limits.memlock_bytes = c.memlock;
    const auto advice = advise(facts);
    EXPECT_TRUE(says(find(advice, "mariadb.native_aio"), c.words)) << all_text(advice);
    EXPECT_TRUE(says(find(advice, "mariadb.native_aio"), "not about commits"));
  }
  facts.host.kernel = 5010;
  EXPECT_TRUE(says(find(advise(facts), "mariadb.native_aio"), "MDEV-26674"));
}

TEST(Rules, WithTheBinlogItsSyncStays) {
  Facts facts = mariadb();
  set(&facts, "log_bin", "ON");
  set(&facts, "sync_binlog", "1");
  set_commits(&facts, 160, FL_CAUSE_FLUSH);
  facts.files.redo = LogFile{100, 0, 3000};
  facts.files.binlog = LogFile{100, 0, 5000};
  const auto predicted = [&] { return find(advise(facts), "mariadb.flush_log_at_trx_commit")->predicted_p50_ms; };
  EXPECT_NEAR(*predicted(), 100, 1) << "50 of 80 ms of syncs are the binlog's";
  set_commits(&facts, 160, FL_CAUSE_FLUSH, FL_PATH_JOURNAL);
  facts.journal->commit_mean_ms = 40;
  EXPECT_NEAR(*predicted(), 80, 1) << "10 of these it waited for the journal's commit of the other log";
  facts.files.binlog->sync_ms.reset();
  EXPECT_FALSE(predicted()) << "a file system that does not say how long a sync took";
}

TEST(Rules, WhyIoUringWouldNotStart) {
  Facts facts = postgresql();
  facts.device->flush_p50_ms = 20;
  set_commits(&facts, 40, FL_CAUSE_FLUSH);
  set(&facts, "max_connections", "1000");
  facts.limits.memlock_bytes = 8 << 20;
  const auto advice = advise(facts);
  EXPECT_TRUE(says(find(advice, "no.io_method"), "may lock 8 MB of memory, and its rings may need 13 MB"))
      << all_text(advice);
}

// Any mixture of facts: what may never be said is not said.
TEST(Rules, NoDurabilityWeakenedWithoutTheWordLose) {
  static const std::regex weaker(
      "innodb_flush_log_at_trx_commit = [02]|sync_binlog = (0|[2-9]|1[0-9])|synchronous_commit = '?(off|local)|fsync = "
      "'?off|full_page_writes = '?off|"
      "innodb_doublewrite = (OFF|0)|nobarrier|barrier=0|write through|data=writeback|O_DIRECT_NO_FSYNC|data_sync_retry "
      "= '?on");
  std::mt19937 random(7);
  const auto one_of = [&](auto... values) {
    const std::vector<std::common_type_t<decltype(values)...>> list{values...};
    return list[random() % list.size()];
  };
  int weakened = 0;
  for (int i = 0; i < 3000; i++) {
    Facts facts = one_of(0, 1) == 0 ? mariadb() : postgresql(one_of(150000, 170000, 180000));
    facts.device->flush_p50_ms = one_of(0.02, 0.3, 5.0, 30.0);
    facts.device->device.nr_requests = one_of(4, 128, 2048);
    facts.device->device.nomerges = one_of(0, 1, 2);
    facts.device->device.scheduler = one_of(std::string("none"), std::string("bfq"));
    facts.power_loss_protected = one_of(0, 1) == 1;
    facts.journal->options =
        one_of(std::string("barrier,data=ordered"), std::string("nobarrier,data=writeback"), std::string("commit=60"));
    facts.host.kernel = one_of(5004, 5010, 6001, 6012);
    set_commits(&facts, one_of(0.3, 5.0, 60.0), static_cast<int>(random() % FL_CAUSE_COUNT),
                static_cast<int>(random() % FL_PATH_COUNT));
    for (const char *name : {"innodb_flush_log_at_trx_commit", "sync_binlog"})
      if (facts.is(FL_ENGINE_MARIADB))
        set(&facts, name, one_of(std::string("0"), std::string("1"), std::string("2"), std::string("3")));
    if (facts.is(FL_ENGINE_MARIADB)) set(&facts, "log_bin", one_of(std::string("ON"), std::string("OFF")));
    for (const Advice &advice : advise(facts)) {
      const std::string apply = apply_text(advice);
      EXPECT_LE(apply.size(), 1024u) << advice.rule;
      EXPECT_LE(advice.evidence.size(), 1024u) << advice.rule;
      EXPECT_FALSE(advice.evidence.empty()) << advice.rule;
      EXPECT_EQ(advice.suggested.empty(),
                advice.kind == Kind::kNo || advice.kind == Kind::kApplication || advice.rule == "nothing")
          << advice.rule;
      if (advice.kind != Kind::kNo) {
        EXPECT_FALSE(advice.risk.empty() || advice.undo.empty() || advice.authority.empty() || advice.apply.empty())
            << advice.rule;
      }
      std::smatch found;
      if (!std::regex_search(apply, found, weaker)) continue;
      // "X without nobarrier" takes it away
      if (advice.rule.starts_with("file_system.")) continue;
      weakened++;
      EXPECT_EQ(advice.kind, Kind::kDurability) << advice.rule << ": " << found.str();
      EXPECT_NE(advice.risk.find("lose"), std::string::npos) << advice.rule << ": " << advice.risk;
    }
  }
  EXPECT_GT(weakened, 100) << "the mixture must reach them";
}

}  // namespace
}  // namespace flushlight::advise::test
