// SPDX-License-Identifier: GPL-2.0-or-later
// Claims of tuning guides that are wrong, unsafe, or right only under a condition. For each: the situation that the guide
// has in mind, and what the advisor says instead.
#include <fmt/format.h>

#include "made_up.h"

namespace flushlight::advise::test {
namespace {

Facts slow_flushes(Facts facts, int path = FL_PATH_SELF) {
  facts.device->flush_p50_ms = 20;
  set_commits(&facts, 40, FL_CAUSE_FLUSH, path);
  return facts;
}

#define EXPECT_SAYS(advice, rule, words) EXPECT_TRUE(says(find(advice, rule), words)) << all_text(advice)

TEST(Myths, JournalChecksumGivesAsynchronousCommits) {
  Facts facts = slow_flushes(mariadb(), FL_PATH_JOURNAL);
  facts.journal->options += ",journal_async_commit";
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "file_system.async_commit", "not allowed with data=ordered");
  EXPECT_FALSE(writes(advise(slow_flushes(mariadb(), FL_PATH_JOURNAL)), "journal_checksum"));
}

TEST(Myths, NobarrierIsSafe) {
  Facts facts = slow_flushes(mariadb());
  EXPECT_FALSE(writes(advise(facts), "nobarrier"));
  facts.journal->options = "nobarrier,commit=5,data=ordered";
  EXPECT_SAYS(advise(facts), "file_system.barrier", "lose acknowledged commits");
  facts.power_loss_protected = true;
  EXPECT_EQ(find(advise(facts), "file_system.barrier"), nullptr) << "over a cache that keeps its content it is";
}

TEST(Myths, DataWritebackIsSafeForADatabase) {
  Facts facts = mariadb();
  facts.journal->options = "barrier,data=writeback";
  EXPECT_SAYS(advise(facts), "file_system.data", "stale data");
  EXPECT_FALSE(writes(advise(slow_flushes(mariadb())), "data=writeback"));
}

TEST(Myths, WriteThroughInSysfsIsTuning) {
  const auto advice = advise(slow_flushes(mariadb()));
  EXPECT_SAYS(advice, "no.write_cache", "is no tuning");
  EXPECT_FALSE(writes(advice, "write_cache"));
}

TEST(Myths, NoFlushSeenMeansSomethingLies) {
  Facts facts = mariadb();
  facts.device->device.write_cache = "write through";
  facts.device->flush_p50_ms.reset();
  facts.device->flushes = 0;
  EXPECT_EQ(find(advise(facts), "no.implausible_flush"), nullptr);
}

TEST(Myths, CommitIntervalDelaysFsync) {
  Facts facts = slow_flushes(mariadb());
  EXPECT_FALSE(writes(advise(facts), "commit="));
  facts.journal->options = "barrier,commit=60,data=ordered";
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "no.commit_interval", "a sync does not wait for it");
  EXPECT_FALSE(writes(advice, "jbd2_commit_timeout"));
}

TEST(Myths, OvercommitOneForPostgresql) {
  Facts facts = postgresql();
  EXPECT_EQ(find(advise(facts), "memory.overcommit"), nullptr);
  facts.host.overcommit_memory = 1;
  const auto advice = advise(facts);
  ASSERT_NE(find(advice, "memory.overcommit"), nullptr);
  EXPECT_EQ(find(advice, "memory.overcommit")->suggested, "2");
}

TEST(Myths, NomergesTwoAndNoReadAheadAlways) {
  Facts facts = slow_flushes(mariadb(), FL_PATH_JOURNAL);
  EXPECT_EQ(find(advise(facts), "block.nomerges"), nullptr);
  facts.device->device.nomerges = 2;
  facts.device->device.read_ahead_kb = 0;
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "block.nomerges", "journal's own writes merge");
  EXPECT_EQ(find(advice, "block.nomerges")->suggested, "0");
  EXPECT_SAYS(advice, "block.read_ahead_kb", "scans");
}

TEST(Myths, OneNumberOfRequestsIsRight) {
  Facts facts = mariadb();
  set_commits(&facts, 20, FL_CAUSE_QUEUE);
  for (const int64_t requests : {256, 2048, 128}) {
    facts.device->device.nr_requests = requests;
    facts.device->device.tag_depth = std::max<int64_t>(requests, 1023);
    EXPECT_FALSE(writes(advise(facts), "nr_requests")) << requests << " is not the trouble";
  }
  facts.device->device.nr_requests = 4;
  facts.device->device.tag_depth = 4;
  EXPECT_SAYS(advise(facts), "block.nr_requests", "which holds 4 requests");
}

TEST(Myths, OneSchedulerIsBest) {
  Facts facts = mariadb();
  set_commits(&facts, 20, FL_CAUSE_QUEUE);
  for (const char *scheduler : {"none", "kyber", "mq-deadline", "bfq"}) {
    facts.device->device.scheduler = scheduler;
    const auto advice = advise(facts);
    EXPECT_SAYS(advice, "no.scheduler", "no scheduler is best on every device");
    EXPECT_FALSE(writes(advice, "/queue/scheduler"));
  }
}

TEST(Myths, TurnWriteBackThrottlingOffAlways) {
  Facts facts = mariadb();
  facts.device->device.wbt_lat_us = 2000;
  set_commits(&facts, 20, FL_CAUSE_QUEUE);
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "no.scheduler", "protects reads");
  EXPECT_FALSE(writes(advice, "wbt"));
}

TEST(Myths, UtilizationAndIowaitMeasureSaturation) {
  // Neither is among the facts; nothing can be said from them.
  for (const Facts &facts : {slow_flushes(mariadb()), slow_flushes(postgresql())})
    for (const char *word : {"svctm", "%util", "iowait"})
      EXPECT_EQ(all_text(advise(facts)).find(word), std::string::npos) << word;
}

TEST(Myths, SafetyOffForSpeed) {
  for (const Facts &facts : {slow_flushes(mariadb()), slow_flushes(postgresql())})
    for (const char *word : {"fsync = off", "fsync = 'off'", "full_page_writes = 'off'", "innodb_doublewrite = OFF",
                             "innodb_doublewrite = 0"})
      EXPECT_FALSE(writes(advise(facts), word)) << word;
  Facts facts = postgresql();
  set(&facts, "fsync", "off");
  set(&facts, "full_page_writes", "off");
  const auto advice = advise(facts);
  EXPECT_EQ(find(advice, "postgresql.fsync")->suggested, "on");
  EXPECT_EQ(find(advice, "postgresql.full_page_writes")->suggested, "on");
  Facts maria = mariadb();
  set(&maria, "innodb_doublewrite", "OFF");
  EXPECT_EQ(find(advise(maria), "mariadb.doublewrite")->suggested, "ON");
}

TEST(Myths, WalBuffersOf64Megabytes) {
  Facts facts = slow_flushes(postgresql());
  count(&facts, "wal.buffers_full", 0);
  EXPECT_FALSE(writes(advise(facts), "wal_buffers"));
  set(&facts, "wal_buffers", "67108864", "configuration file", true, "B");
  EXPECT_SAYS(advise(facts), "no.wal_buffers", "more of them change nothing");
  set(&facts, "wal_buffers", "16777216", "default", true, "B");
  count(&facts, "wal.buffers_full", 6000);
  EXPECT_EQ(find(advise(facts), "postgresql.wal_buffers")->suggested, "32MB") << "ten a second are a reason";
}

TEST(Myths, SyncBinlogOfManyKeepsDurability) {
  Facts facts = mariadb();
  set(&facts, "log_bin", "ON");
  for (const char *sync : {"0", "25", "1000"}) {
    set(&facts, "sync_binlog", sync);
    const auto advice = advise(facts);
    EXPECT_SAYS(advice, "mariadb.sync_binlog", "lose acknowledged commits, although");
    EXPECT_EQ(find(advice, "mariadb.sync_binlog")->suggested, "1");
  }
  set(&facts, "sync_binlog", "1");
  EXPECT_EQ(find(advise(facts), "mariadb.sync_binlog"), nullptr);
}

TEST(Myths, TwoIsFineInGalera) {
  Facts facts = slow_flushes(mariadb());
  set(&facts, "wsrep_on", "ON");
  EXPECT_SAYS(advise(facts), "no.flush_log_at_trx_commit", "lose power together");
  EXPECT_FALSE(writes(advise(facts), "innodb_flush_log_at_trx_commit = 2"));
  for (const char *value : {"0", "2"}) {
    set(&facts, "innodb_flush_log_at_trx_commit", value);
    EXPECT_EQ(find(advise(facts), "mariadb.flush_log_at_trx_commit")->suggested, "1");
  }
}

TEST(Myths, ThreeMakesMoreSyncs) {
  Facts facts = mariadb();
  set(&facts, "innodb_flush_log_at_trx_commit", "3");
  count(&facts, "redo.syncs", 9000);
  EXPECT_SAYS(advise(facts), "no.flush_log_at_trx_commit", "1.5 here");
}

TEST(Myths, IoUringMakesCommitsFaster) {
  Facts facts = slow_flushes(postgresql());
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "no.io_method",
              "io_method will not change your commits: it is for reads; your commits wait on flush");
  EXPECT_FALSE(writes(advice, "io_method"));
  set(&facts, "io_method", "io_uring", "configuration file", true);
  set(&facts, "io_workers", "8", "configuration file");
  EXPECT_SAYS(advise(facts), "no.io_workers", "no effect");
}

TEST(Myths, WorkerIsAlwaysBetterThanSync) {
  Facts facts = postgresql();
  set(&facts, "io_method", "sync", "configuration file", true);
  set_commits(&facts, 10, FL_CAUSE_READ);
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "no.io_method", "30 % slower");
  EXPECT_FALSE(writes(advice, "io_method"));
}

TEST(Myths, OpenDatasyncIsFaster) {
  Facts facts = slow_flushes(postgresql());
  EXPECT_FALSE(writes(advise(facts), "wal_sync_method"));
  set(&facts, "wal_sync_method", "open_datasync");
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "no.wal_sync_method", "measure");
  EXPECT_FALSE(writes(advice, "wal_sync_method")) << "without a measurement nothing is named";
}

TEST(Myths, CommitDelayAlwaysHelps) {
  Facts facts = slow_flushes(postgresql());
  set_commits(&facts, 40, FL_CAUSE_FLUSH, FL_PATH_SELF, 600);  // 0.04 under way on average
  EXPECT_SAYS(advise(facts), "no.postgresql.commit_delay", "do not come at the same time");
  EXPECT_FALSE(writes(advise(facts), "commit_delay"));
}

TEST(Myths, RetryAFailedFsync) {
  Facts facts = postgresql();
  set(&facts, "data_sync_retry", "on");
  EXPECT_SAYS(advise(facts), "postgresql.data_sync_retry", "succeed falsely");
}

TEST(Myths, RaiseTheHungTaskTimeout) {
  EXPECT_FALSE(writes(advise(slow_flushes(mariadb(), FL_PATH_JOURNAL)), "hung_task"));
}

TEST(Myths, NvmeTimeoutToTheMaximum) { EXPECT_FALSE(writes(advise(slow_flushes(mariadb())), "io_timeout")); }

TEST(Myths, IoUringAvoidsFlushStalls) {
  const auto advice = advise(slow_flushes(postgresql()));
  EXPECT_SAYS(advice, "no.io_method", "will not change your commits");
}

TEST(Myths, ATailProvesCloudThrottling) {
  Facts facts = mariadb();
  set_commits(&facts, 2, FL_CAUSE_WRITE);
  facts.commits.p99_ms = 40;
  const std::string text = all_text(advise(facts));
  for (const char *word : {"quota", "provider", "I/O limit"}) EXPECT_EQ(text.find(word), std::string::npos) << word;
  facts.cgroup = Pressure{};
  facts.cgroup->io_limit = "8:0 write_iops=100";
  EXPECT_EQ(find(advise(facts), "limits.io"), nullptr) << "a limit that holds nobody";
  set_commits(&facts, 20, FL_CAUSE_THROTTLE);
  EXPECT_SAYS(advise(facts), "limits.io", "held by the cgroup's own I/O limit");
}

TEST(Myths, BgwriterShowsCheckpointsAndZeroIsATime) {
  // Without statistics of checkpoints (another view, by version) nothing is said of them.
  Facts facts = postgresql();
  set(&facts, "max_wal_size", "67108864", "configuration file", false, "B");
  EXPECT_EQ(find(advise(facts), "postgresql.max_wal_size"), nullptr);
}

TEST(Myths, FastCommitIsFree) {
  Facts facts = slow_flushes(mariadb());
  EXPECT_SAYS(advise(facts), "no.fast_commit", "the journal has 0 % of the commit time");
  facts = slow_flushes(mariadb(), FL_PATH_JOURNAL);
  facts.host.kernel = 5010;
  facts.host.kernel_release = "5.10.0";
  EXPECT_SAYS(advise(facts), "no.fast_commit", "could lose file operations");
  facts.journal->fast_commit = true;
  EXPECT_EQ(find(advise(facts), "file_system.fast_commit")->suggested, "off");
  facts.host.kernel = 6012;
  facts.journal->fast_commit = false;
  const auto advice = advise(facts);
  EXPECT_EQ(find(advice, "file_system.fast_commit")->suggested, "on");
  EXPECT_FALSE(find(advice, "file_system.fast_commit")->predicted_p50_ms) << "accounts cannot tell";
}

TEST(Myths, AnFsyncOfFortyMicrosecondsIsAFastDisk) {
  Facts facts = mariadb();
  facts.device->flush_p50_ms = 0.04;
  EXPECT_SAYS(advise(facts), "no.implausible_flush", "does not do what it is told");
  facts.power_loss_protected = true;
  EXPECT_EQ(find(advise(facts), "no.implausible_flush"), nullptr);
}

TEST(Myths, NvmeSetFeatureStopsFlushes) { EXPECT_FALSE(writes(advise(slow_flushes(mariadb())), "set-feature")); }

TEST(Myths, PinNvmeInterrupts) {
  Facts facts = slow_flushes(mariadb());
  facts.device->device.interrupts.top = 0.97;
  const auto advice = advise(facts);
  EXPECT_SAYS(advice, "no.interrupts", "is refused");
  EXPECT_FALSE(writes(advice, "smp_affinity"));
}

TEST(Myths, ManyRequestsWithoutAScheduler) {
  Facts facts = mariadb();
  facts.device->device.nr_requests = 2048;
  facts.device->device.tag_depth = 1023;
  EXPECT_SAYS(advise(facts), "no.nr_requests", "takes 1023 at once");
}

TEST(Myths, FullPressureProvesAQuota) {
  Facts facts = slow_flushes(mariadb());
  facts.host_pressure = Pressure{};
  facts.host_pressure->io_full.percent = 80;
  const std::string text = all_text(advise(facts));
  for (const char *word : {"quota", "provider"}) EXPECT_EQ(text.find(word), std::string::npos) << word;
}

TEST(Myths, TwoLosesOneSecond) {
  Facts facts = slow_flushes(mariadb());
  set(&facts, "innodb_flush_log_at_timeout", "5");
  EXPECT_SAYS(advise(facts), "mariadb.flush_log_at_trx_commit",
              "may lose the commits of the last innodb_flush_log_at_timeout (5 s)");
  set(&facts, "log_bin", "ON");
  set(&facts, "sync_binlog", "1");
  facts.files.binlog = LogFile{6000, 100 << 20, 1800};
  EXPECT_SAYS(advise(facts), "mariadb.flush_log_at_trx_commit",
              "the binlog and replicas may then hold transactions that this server lost");
}

TEST(Myths, FioOnTheBlockDevice) {
  for (const Facts &facts : {slow_flushes(mariadb()), slow_flushes(postgresql())}) {
    EXPECT_FALSE(writes(advise(facts), "fio"));
    EXPECT_FALSE(writes(advise(facts), "ionice")) << "an idle class protects nobody under none or kyber";
  }
}

TEST(Myths, AModelNameProvesPowerLossProtection) {
  Facts facts = slow_flushes(mariadb());
  facts.device->device.model = "ENTERPRISE PLP SSD";
  EXPECT_SAYS(advise(facts), "no.write_cache", "only you can declare it");
}

}  // namespace
}  // namespace flushlight::advise::test
