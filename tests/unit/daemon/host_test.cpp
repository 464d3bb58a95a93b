// SPDX-License-Identifier: GPL-2.0-or-later
// What is read from procfs, sysfs and cgroupfs, from trees that the tests write.
#include <filesystem>

#include "file_tree.h"
#include "fixture.h"
#include "sidecar/host/interrupts.h"
#include "sidecar/host/journals.h"
#include "sidecar/host/pressure.h"
#include "sidecar/host/process.h"

namespace flushlight::test {
namespace {

using PressureFiles = FileTree;

TEST_F(PressureFiles, Host) {
  put("proc/pressure/io",
      "some avg10=1.23 avg60=1.50 avg300=2.05 total=23073476\nfull avg10=0.05 avg60=0.57 avg300=0.92 total=12873591");
  put("proc/pressure/cpu", "some avg10=40.00 avg60=1.50 avg300=2.05 total=5");
  put("proc/vmstat",
      "nr_dirty 100\nnr_writeback 3\nnr_dirty_threshold 1000\nallocstall_normal 4\nallocstall_movable 5\n"
      "pgsteal_direct 7\ncompact_stall 2\npswpin 1");
  put("proc/loadavg", "0.52 0.58 0.59 2/340 12345");
  put("proc/stat",
      "cpu 10 0 10 80 0 0 0 0 0 0\ncpu0 5 0 5 40 0 0 0 0 0 0\ncpu1 5 0 5 40 0 0 0 0 0 0\nprocs_running "
      "3\nprocs_blocked 2");
  PressureReader reader(root_);
  const int64_t page = sysconf(_SC_PAGESIZE);
  const Pressure first = reader.read({}).at(0);
  EXPECT_DOUBLE_EQ(*first.io_some.percent, 1.23);
  EXPECT_EQ(first.io_full.total_us, 12873591);
  EXPECT_DOUBLE_EQ(*first.cpu_some.percent, 40);
  EXPECT_FALSE(first.cpu_full.percent) << "older kernels do not say";
  EXPECT_FALSE(first.memory_some.percent) << "no file";
  EXPECT_EQ(first.dirty_bytes, 100 * page);
  EXPECT_EQ(first.dirty_limit_bytes, 1000 * page);
  EXPECT_FALSE(first.dirty_background_bytes);
  EXPECT_EQ(first.direct_reclaims, 9) << "of all zones";
  EXPECT_EQ(first.direct_reclaim_bytes, 7 * page);
  EXPECT_DOUBLE_EQ(*first.load_1m, 0.52);
  EXPECT_EQ(first.runnable_tasks, 3);
  EXPECT_EQ(first.blocked_tasks, 2);
  EXPECT_FALSE(first.steal_percent) << "one reading makes no share";
  // of 100 ticks: 20 stolen; CPU 1 spent 30 of its 50 in soft interrupts
  put("proc/stat", "cpu 20 0 20 110 0 0 30 20 0 0\ncpu0 10 0 10 70 0 0 0 10 0 0\ncpu1 10 0 10 40 0 0 30 10 0 0");
  const Pressure second = reader.read({}).at(0);
  EXPECT_DOUBLE_EQ(*second.steal_percent, 20);
  EXPECT_DOUBLE_EQ(*second.softirq_top_percent, 60);
  EXPECT_EQ(second.softirq_top_cpu, 1);
  EXPECT_FALSE(second.runnable_tasks);
}

TEST_F(PressureFiles, UnifiedCgroup) {
  put("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate");
  const std::string folder = "sys/fs/cgroup/system.slice/postgresql.service/";
  put(folder + "io.pressure", "some avg10=90.00 avg60=0 avg300=0 total=10\nfull avg10=80.00 avg60=0 avg300=0 total=9");
  put(folder + "memory.stat", "file_dirty 8192\nfile_writeback 4096\npgsteal_direct 2");
  put(folder + "cpu.stat", "usage_usec 5\nnr_throttled 6\nthrottled_usec 7000");
  put(folder + "io.max", "8:0 rbps=max wbps=1048576 riops=max wiops=max");
  PressureReader reader(root_);
  const Pressures rows = reader.read({{3, "0::/system.slice/postgresql.service"}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].instance, 3u);
  EXPECT_EQ(rows[1].name, "/system.slice/postgresql.service");
  EXPECT_DOUBLE_EQ(*rows[1].io_full.percent, 80);
  EXPECT_EQ(rows[1].dirty_bytes, 8192);
  EXPECT_EQ(rows[1].cpu_throttled, 6);
  EXPECT_EQ(rows[1].cpu_throttled_us, 7000);
  EXPECT_EQ(rows[1].io_limit, "8:0 rbps=max wbps=1048576 riops=max wiops=max");
  EXPECT_FALSE(rows[1].load_1m);
  EXPECT_EQ(reader.read({{3, "0::/elsewhere"}}).at(1).name, "/elsewhere") << "it came back in another one";
  EXPECT_EQ(reader.read({}).size(), 1u);
  EXPECT_EQ(reader.read({{3, ""}}).size(), 1u) << "never told";
}

TEST_F(PressureFiles, MixedHierarchies) {
  put("proc/self/mountinfo",
      "31 25 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu\n32 25 0:28 / /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n"
      "33 25 0:29 /db /cg/memory rw - cgroup cgroup rw,memory\n34 25 0:30 / /cg/blkio rw - cgroup cgroup rw,blkio\n"
      "35 25 0:31 / /cg/unified rw - cgroup2 cgroup2 rw");
  put("cg/unified/io.pressure", "some avg10=5.00 avg60=0 avg300=0 total=10");
  put("cg/memory/mem/memory.stat", "dirty 1\ntotal_dirty 12288\ntotal_writeback 0");
  put("cg/cpu/db/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 5000000");
  put("cg/blkio/db/blkio.throttle.write_iops_device", "7:0 20");
  PressureReader reader(root_);
  const Pressure row =
      reader.read({{3, "9:name=systemd:/\n7:blkio:/db\n4:memory:/db/mem\n2:cpuacct:/\n1:cpu:/db\n0::/"}}).at(1);
  EXPECT_EQ(row.name, "/db/mem");
  EXPECT_DOUBLE_EQ(*row.io_some.percent, 5);
  EXPECT_EQ(row.dirty_bytes, 12288);
  EXPECT_EQ(row.writeback_bytes, 0);
  EXPECT_EQ(row.cpu_throttled, 4);
  EXPECT_EQ(row.cpu_throttled_us, 5000);
  EXPECT_EQ(row.io_limit, "7:0 write_iops=20");
}

TEST_F(PressureFiles, CgroupOfAnotherContainerIsNotGuessed) {
  put("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw");
  put("sys/fs/cgroup/io.pressure", "some avg10=5.00 avg60=0 avg300=0 total=10");
  PressureReader reader(root_);
  const Pressure row = reader.read({{3, "0::/../database"}}).at(1);
  EXPECT_FALSE(row.io_some.percent);
  EXPECT_FALSE(row.dirty_bytes);
}

TEST(PressureHere, TheKernelsOwnFiles) {
  PressureReader reader;
  const Pressures rows = reader.read({{1, read_cgroup_text(static_cast<uint32_t>(getpid()))}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[1].name.starts_with("/")) << rows[1].name;
  EXPECT_TRUE(rows[0].dirty_bytes && rows[0].load_1m && rows[0].runnable_tasks);
  EXPECT_GE(*rows[0].runnable_tasks, 1) << "this one runs";
}

using DeviceFiles = FileTree;

TEST_F(DeviceFiles, RatesOfTheLastTenSeconds) {
  put("sys/block/vda/dev", "254:0");
  put("sys/block/vda/size", "1000");
  BlockDeviceReader reader(root_);
  const auto read = [&](uint64_t second, const std::string &stat) {
    put("sys/block/vda/stat", stat);
    return reader.read(second * 1'000'000'000).at(device_number(254, 0)).rates;
  };
  EXPECT_FALSE(read(1, "0 0 0 0 100 10 800 5 0 0 1000 0 0 0 0 5 0").writes) << "one reading makes no rate";
  const BlockRates rates = read(3, "0 0 0 0 150 14 1200 5 0 0 9000 0 0 0 0 25 0");
  EXPECT_DOUBLE_EQ(*rates.writes, 25);
  EXPECT_DOUBLE_EQ(*rates.merges, 2);
  EXPECT_DOUBLE_EQ(*rates.flushes, 10);
  EXPECT_DOUBLE_EQ(*rates.write_mean_bytes, 4096);
  EXPECT_DOUBLE_EQ(*rates.queue_mean, 4) << "8,000 ms of requests in 2 s";
  EXPECT_FALSE(rates.read_mean_bytes) << "no read";
  EXPECT_DOUBLE_EQ(*rates.reads, 0);
  for (uint64_t second = 4; second <= 30; second++)
    EXPECT_GE(*read(second, "0 0 0 0 150 14 1200 5 0 0 9000 0 0 0 0 25 0").writes, 0);
  EXPECT_DOUBLE_EQ(*read(31, "0 0 0 0 150 14 1200 5 0 0 9000 0 0 0 0 25 0").writes, 0) << "long ago";
  EXPECT_FALSE(read(32, "0 0 0 0 1 0 8 5 0 0 0 0 0 0 0 0 0").writes) << "another device under that name";
}

TEST_F(DeviceFiles, TagsThatTheDeviceReallyTakes) {
  const auto depth = [this] { return read_block_devices(root_, "").at(device_number(254, 0)).tag_depth; };
  put("block/vda/dev", "254:0");
  put("block/vda/size", "1000");
  EXPECT_FALSE(depth());
  put("block/vda/mq/0/nr_tags", "128");
  put("block/vda/mq/1/nr_tags", "128");
  put("block/vda/queue/nr_requests", "64");
  put("block/vda/queue/scheduler", "[none] mq-deadline");
  EXPECT_EQ(depth(), 64);
  EXPECT_EQ(read_block_devices(root_, "").at(device_number(254, 0)).hw_queues, 2);
  put("block/vda/queue/scheduler", "none [mq-deadline]");
  EXPECT_EQ(depth(), 128) << "nr_requests is the scheduler's then";
  put("block/vda/device/queue_depth", "32");
  EXPECT_EQ(depth(), 32);
  put("kernel/debug/block/vda/hctx0/tags", "nr_tags=128\nnr_reserved_tags=0\nbitmap_tags:\ndepth=4\nbusy=0");
  EXPECT_EQ(depth(), 4) << "what the kernel itself says";
}

TEST_F(DeviceFiles, StackedDevices) {
  int minor = 0;
  for (const char *name : {"sda", "sdb", "dm-0", "dm-1", "nvme0n1", "nvme0c0n1", "nvme0c1n1", "nvme1n1"}) {
    put("block/" + std::string(name) + "/dev", "8:" + std::to_string(minor++));
    put("block/" + std::string(name) + "/size", "1000");
    std::filesystem::create_directories(root_ + "/block/" + name + "/slaves");
  }
  put("block/sdb/sdb1/partition", "1");
  const auto link = [this](const std::string &from, const std::string &to) {
    std::filesystem::create_directory_symlink(root_ + "/block/" + to, root_ + "/block/" + from);
  };
  link("dm-0/slaves/sda", "sda");
  link("dm-0/slaves/sdb1", "sdb/sdb1");
  link("dm-1/slaves/dm-0", "dm-0");
  const BlockDevices devices = read_block_devices(root_, "");
  const auto leaves = [&](const std::string &name) {
    for (const auto &[number, device] : devices)
      if (device.name == name) return device.leaves;
    return std::string("?");
  };
  EXPECT_EQ(leaves("dm-0"), "sda,sdb");
  EXPECT_EQ(leaves("dm-1"), "sda,sdb");
  EXPECT_EQ(leaves("sda"), "");
  EXPECT_EQ(leaves("nvme0n1"), "nvme0c0n1,nvme0c1n1");
  EXPECT_EQ(leaves("nvme1n1"), "");
}

TEST_F(DeviceFiles, InterruptPlacement) {
  for (const char *node : {"0", "1"})
    put(std::string("sys/devices/system/node/node") + node + "/cpulist", node[0] == '0' ? "0-1" : "2,3");
  put("sys/devices/pci/0000:01/numa_node", "1");
  put("sys/devices/pci/0000:01/msi_irqs/40", "msix");
  put("sys/devices/pci/0000:01/msi_irqs/41", "msix");
  std::filesystem::create_directories(root_ + "/sys/devices/pci/0000:01/nvme/nvme0");
  const std::string device = root_ + "/sys/devices/pci/0000:01/nvme/nvme0";
  const std::string head = "           CPU0       CPU1       CPU2       CPU3\n";
  put("proc/interrupts", head +
                             " 40:  1000 0 0 0  PCI-MSI 1-edge nvme0q1\n 41: 0 0 0 500 PCI-MSI 2-edge nvme0q2\n"
                             "NMI:  9 9 9 9 Non-maskable interrupts\nERR: 0");
  Interrupts interrupts(root_);
  interrupts.read();
  EXPECT_FALSE(interrupts.shares(device).top) << "nothing since the first reading";
  put("proc/interrupts", head + " 40:  1300 0 0 0  PCI-MSI 1-edge nvme0q1\n 41: 0 0 0 600 PCI-MSI 2-edge nvme0q2\n");
  interrupts.read();
  EXPECT_DOUBLE_EQ(*interrupts.shares(device).top, 0.75);
  EXPECT_DOUBLE_EQ(*interrupts.shares(device).cross_node, 0.75) << "CPU 0 is of node 0, the device of node 1";
  EXPECT_FALSE(interrupts.shares(root_ + "/sys/devices/virtual/block/loop0").top);
}

using JournalFiles = FileTree;

TEST_F(JournalFiles, Ext4) {
  put("proc/self/mountinfo",
      "45 27 7:1 / /data rw,relatime - ext4 /dev/loop1 rw,data=journal\n"
      "46 27 7:1 /x /bind rw - ext4 /dev/loop1 rw\n47 27 0:5 / /proc rw - proc proc rw");
  std::filesystem::create_directories(root_ + "/sys/dev/block");
  std::filesystem::create_symlink("../../devices/virtual/block/loop1", root_ + "/sys/dev/block/7:1");
  std::filesystem::create_directories(root_ + "/data");
  put("proc/fs/ext4/loop1/options", "rw\nbarrier\ndata=journal\nresuid=0\ncommit=5");
  put("proc/fs/ext4/loop1/fc_info", "fc stats:\n7 commits\n3 ineligible\n9 numblks\n55us avg_commit_time");
  put("proc/fs/jbd2/loop1-8/info",
      "40 transactions (38 requested), each up to 4096 blocks\naverage: \n  0ms waiting for transaction\n"
      "  0ms request delay\n  8ms running transaction\n  1ms transaction was being locked\n"
      "  2ms flushing data (in ordered mode)\n  100ms logging transaction\n  103456us average transaction commit time\n"
      "  3 handles per transaction");
  const Journals journals = read_journals(root_);
  ASSERT_EQ(journals.size(), 1u);
  const JournalFacts &journal = journals[0];
  EXPECT_EQ(journal.name, "loop1");
  EXPECT_EQ(journal.mount_point, "/data,/bind");
  EXPECT_EQ(journal.journal_device, "loop1");
  EXPECT_EQ(journal.mode, "journal");
  EXPECT_EQ(journal.options, "barrier,data=journal,commit=5");
  EXPECT_EQ(journal.options_asked, "rw,data=journal");
  EXPECT_EQ(journal.commits, 40);
  EXPECT_EQ(journal.requested, 38);
  EXPECT_DOUBLE_EQ(*journal.commit_mean_ms, 103.456);
  EXPECT_DOUBLE_EQ(*journal.locking_ms, 1);
  EXPECT_DOUBLE_EQ(*journal.flushing_ms, 2);
  EXPECT_DOUBLE_EQ(*journal.logging_ms, 100);
  EXPECT_EQ(journal.fast_commits, 7);
  EXPECT_EQ(journal.fast_commits_ineligible, 3);
  EXPECT_FALSE(journal.log_forces);
}

TEST_F(JournalFiles, ExternalJournalAndNone) {
  put("proc/self/mountinfo", "45 27 7:1 / /a rw - ext4 /dev/loop1 rw\n46 27 7:2 / /b rw - ext4 /dev/loop2 rw");
  std::filesystem::create_directories(root_ + "/sys/dev/block");
  for (const char *number : {"1", "2"})
    std::filesystem::create_symlink(std::string("x/loop") + number, root_ + "/sys/dev/block/7:" + number);
  put("sys/fs/ext4/loop1/journal_task", "99");
  put("proc/99/comm", "jbd2/loop5");
  put("proc/fs/jbd2/loop5/info",
      "0 transactions (0 requested), each up to 1024 blocks\naverage: \n  0ms logging transaction");
  put("proc/fs/ext4/loop2/options", "rw\nbarrier");
  const Journals journals = read_journals(root_);
  ASSERT_EQ(journals.size(), 2u);
  EXPECT_EQ(journals[0].journal_device, "loop5");
  EXPECT_EQ(journals[0].commits, 0);
  EXPECT_FALSE(journals[0].logging_ms) << "an average of nothing";
  EXPECT_EQ(journals[1].mode, "none");
  EXPECT_EQ(journals[1].journal_device, "");
}

TEST_F(JournalFiles, Xfs) {
  put("proc/self/mountinfo", "45 27 7:0 / /x rw - xfs /dev/loop0 rw,logbufs=8,logdev=/dev/loop3,noquota");
  std::filesystem::create_directories(root_ + "/sys/dev/block");
  std::filesystem::create_symlink("x/loop0", root_ + "/sys/dev/block/7:0");
  put("sys/fs/xfs/loop0/stats/stats", "trans 1 2 3\nlog 37983 312896 2 38485 39517\nrw 1 2");
  const JournalFacts journal = read_journals(root_).at(0);
  EXPECT_EQ(journal.journal_device, "loop3");
  EXPECT_EQ(journal.log_writes, 37983);
  EXPECT_EQ(journal.log_write_bytes, 312896 * 512);
  EXPECT_EQ(journal.log_forces, 38485);
  EXPECT_EQ(journal.log_force_sleeps, 39517);
  EXPECT_FALSE(journal.log_bytes) << "no XFS answers here";
  EXPECT_FALSE(journal.commits);
}

using JournalView = DaemonTest;

TEST_F(JournalView, WhatTheKernelSideSawComesFirst) {
  start(true);
  RawClient client = attached("pg");
  client.ring(0).write(bytes(commit(1, 5, 30, FL_CAUSE_FLUSH, FL_PATH_JOURNAL)));
  client.ring(0).write(bytes(commit(1, 5, 10, FL_CAUSE_FLUSH, FL_PATH_SELF)));
  JournalFacts ext4{.device = device_number(7, 1), .name = "loop1", .file_system = "ext4", .mode = "ordered"};
  ext4.commits = 500;
  ext4.logging_ms = 4;
  JournalFacts quiet = ext4;
  quiet.device = device_number(7, 2);
  quiet.name = "loop2";
  daemon_->facts().set(Journals{ext4, quiet});
  kernel::JournalCommits seen;
  seen.device = device_number(7, 1);
  seen.in_progress_ns = clock_.now_ns() - 5'000'000;
  seen.phase_ns[kernel::JournalCommits::kLogging] = 200'000'000;
  seen.sum_ns = 204'000'000;
  seen.log_bytes = 33'554'432;
  seen.flushes = 4;
  seen.checkpoints = 1;
  seen.buckets.resize(FL_HISTOGRAM_BUCKETS);
  seen.buckets[fl_histogram_bucket(102'000'000)] = 2;
  kernel_->journal_list = {seen};
  const Table rows = rows_of("journals", "pg");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("commits").integer, 500);
  EXPECT_NEAR(rows[0].at("commit_p50_ms").real, 102, 3.2);
  EXPECT_DOUBLE_EQ(rows[0].at("commit_mean_ms").real, 102);
  EXPECT_DOUBLE_EQ(rows[0].at("logging_ms").real, 100);
  EXPECT_DOUBLE_EQ(rows[0].at("locking_ms").real, 0);
  EXPECT_DOUBLE_EQ(rows[0].at("commit_age_ms").real, 5);
  EXPECT_DOUBLE_EQ(rows[0].at("flushes_per_commit").real, 2);
  EXPECT_EQ(rows[0].at("checkpoints").integer, 1);
  EXPECT_EQ(rows[0].at("log_bytes").integer, 33'554'432);
  EXPECT_DOUBLE_EQ(rows[0].at("commit_share").real, 0.75);
  EXPECT_DOUBLE_EQ(rows[1].at("logging_ms").real, 4) << "the file system's own figure";
  for (const char *column : {"commit_p50_ms", "commit_age_ms", "flushes_per_commit", "checkpoints", "commit_share"})
    EXPECT_EQ(rows[1].at(column).type, FL_CELL_NULL) << column;
  seen.device = device_number(7, 2);
  kernel_->journal_list.push_back(seen);
  EXPECT_EQ(rows_of("journals", "pg")[0].at("commit_share").type, FL_CELL_NULL) << "two at work: nobody can tell";
}

using DeviceView = DaemonTest;

TEST_F(DeviceView, OldestRequestAndStackedDevices) {
  start(true);
  std::vector<uint64_t> buckets(FL_HISTOGRAM_BUCKETS);
  buckets[300] = 10;
  kernel_->histogram_list = {{device_number(8, 0), kernel::Operation::kWrite, kernel::Stage::kDevice, buckets}};
  BlockDevice disk, mapper, other;
  disk.name = "sda";
  disk.inflight = 0;
  mapper.name = "dm-0";
  mapper.mount_point = "/data";
  mapper.leaves = "sda";
  other.name = "dm-1";
  other.mount_point = "/other";
  other.leaves = "sdz";
  daemon_->facts().set(
      BlockDevices{{device_number(8, 0), disk}, {device_number(253, 0), mapper}, {device_number(253, 1), other}});
  kernel_->in_flight_list = {{device_number(8, 0), 3, clock_.now_ns() - 7'000'000}};
  Table rows = rows_of("devices");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("name").text, "sda");
  EXPECT_EQ(rows[0].at("inflight").integer, 3) << "the kernel side knows it now, sysfs a second ago";
  EXPECT_DOUBLE_EQ(rows[0].at("oldest_request_ms").real, 7);
  EXPECT_EQ(rows[1].at("name").text, "dm-0");
  EXPECT_EQ(rows[1].at("leaf_devices").text, "sda");
  EXPECT_EQ(rows[1].at("writes").type, FL_CELL_NULL);
  EXPECT_EQ(rows[1].at("oldest_request_ms").type, FL_CELL_NULL);
  clock_.advance_ms(60'000);
  EXPECT_EQ(rows_of("devices")[0].at("oldest_request_ms").type, FL_CELL_NULL) << "the device has none: ended unseen";
  disk.inflight = 1;
  daemon_->facts().set(BlockDevices{{device_number(8, 0), disk}});
  EXPECT_DOUBLE_EQ(rows_of("devices")[0].at("oldest_request_ms").real, 60'007);
}

using PressureView = DaemonTest;

TEST_F(PressureView, EachServerSeesTheHostAndItsOwn) {
  start();
  RawClient one = attached("one"), two = attached("two");
  Pressure host, first, second;
  first.instance = 1;
  first.name = "/a";
  second.instance = 2;
  second.name = "/b";
  second.io_full = {25.0, 1500};
  daemon_->facts().set(Pressures{host, first, second});
  const Table rows = rows_of("pressure", "two");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("scope").text, "host");
  EXPECT_EQ(rows[0].at("instance").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("io_full_percent").type, FL_CELL_NULL);
  EXPECT_EQ(rows[1].at("scope").text, "cgroup");
  EXPECT_EQ(rows[1].at("instance").text, "two");
  EXPECT_EQ(rows[1].at("name").text, "/b");
  EXPECT_EQ(rows[1].at("io_full_percent").real, 25);
  EXPECT_EQ(rows[1].at("io_full_ms").real, 1.5);
  EXPECT_EQ(rows_of("pressure").size(), 3u);
}

}  // namespace
}  // namespace flushlight::test
