// SPDX-License-Identifier: GPL-2.0-or-later
// Settings of the host, from trees that the tests write.
#include "sidecar/host/tuning.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "sidecar/host/journals.h"

namespace flushlight::test {
namespace {

class Tuning : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/flushlight-tuning-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string &path, const std::string &text) {
    const auto file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  HostTuning read(const std::vector<Followed> &followed = {}) {
    return read_tuning(root_, followed, [] { return EPERM; });
  }
  std::string root_;
};

TEST_F(Tuning, NothingThereIsNothingKnown) {
  const HostTuning tuning = read();
  EXPECT_EQ(tuning.kernel, 0);
  EXPECT_FALSE(tuning.memory_bytes || tuning.dirty_ratio || tuning.swappiness || tuning.io_uring_disabled);
  EXPECT_FALSE(tuning.kernel_options_known);
  EXPECT_EQ(tuning.io_uring_error, EPERM);
}

TEST_F(Tuning, KernelAndMemory) {
  put("proc/sys/kernel/osrelease", "6.12.9-amd64\n");
  put("proc/sys/kernel/io_uring_disabled", "2\n");
  put("proc/sys/vm/dirty_ratio", "20\n");
  put("proc/sys/vm/dirty_background_bytes", "0\n");
  put("proc/sys/vm/swappiness", "60\n");
  put("proc/meminfo", "MemTotal:       65536 kB\nMemFree: 1 kB\nSwapTotal:       0 kB\n");
  put("proc/stat", "cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\nintr 5\n");
  put("sys/devices/system/node/node0/x", "");
  put("sys/devices/system/node/node1/x", "");
  put("sys/devices/system/node/possible", "0-1");
  const HostTuning tuning = read();
  EXPECT_EQ(tuning.kernel, 6012);
  EXPECT_EQ(tuning.io_uring_disabled, 2);
  EXPECT_EQ(tuning.dirty_ratio, 20);
  EXPECT_EQ(tuning.dirty_background_bytes, 0);
  EXPECT_FALSE(tuning.dirty_bytes);
  EXPECT_EQ(tuning.memory_bytes, 65536 * 1024);
  EXPECT_EQ(tuning.swap_bytes, 0);
  EXPECT_EQ(tuning.cpus, 2);
  EXPECT_EQ(tuning.memory_nodes, 2);
}

TEST_F(Tuning, CostlyKernelOptionsFromEitherPlace) {
  put("proc/sys/kernel/osrelease", "6.1.0\n");
  put("boot/config-6.1.0", "CONFIG_EXT4_DEBUG=y\n# CONFIG_JBD2_DEBUG is not set\nCONFIG_EXT4_FS=y\nCONFIG_KASAN=m\n");
  EXPECT_EQ(read().costly_options, std::vector<std::string>{"EXT4_DEBUG"});
  const std::string packed = root_ + "/proc/config.gz", text = "CONFIG_JBD2_DEBUG=y\nCONFIG_PROVE_LOCKING=y\n";
  gzFile file = gzopen(packed.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const HostTuning tuning = read();
  EXPECT_TRUE(tuning.kernel_options_known);
  EXPECT_EQ(tuning.costly_options, (std::vector<std::string>{"JBD2_DEBUG", "PROVE_LOCKING"}));
}

TEST_F(Tuning, LimitsOfAServerAreTheLeastOfItsCgroups) {
  put("proc/77/limits",
      "Limit                     Soft Limit           Hard Limit           Units\n"
      "Max locked memory         8388608              unlimited            bytes\n");
  put("proc/77/status", "Name:\tpostgres\nSeccomp:\t2\nSeccomp_filters:\t1\n");
  put("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
  put("sys/fs/cgroup/kube/pod/db/memory.max", "max\n");
  put("sys/fs/cgroup/kube/pod/db/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/kube/pod/memory.max", "1073741824\n");
  put("sys/fs/cgroup/kube/pod/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/kube/cpu.max", "max 100000\n");
  put("proc/78/limits", "Max locked memory         unlimited            unlimited            bytes\n");
  const HostTuning tuning = read({{3, "0::/kube/pod/db\n", 77}, {4, "", 78}});
  const ServerLimits &limits = tuning.servers.at(3);
  EXPECT_EQ(limits.memlock_bytes, 8388608);
  EXPECT_EQ(limits.seccomp, 2);
  EXPECT_EQ(limits.memory_bytes, 1073741824);
  ASSERT_TRUE(limits.cpus);
  EXPECT_DOUBLE_EQ(*limits.cpus, 1.5);
  EXPECT_EQ(tuning.servers.at(4).memlock_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(tuning.servers.at(4).memory_bytes || tuning.servers.at(4).cpus || tuning.servers.at(4).seccomp);
}

TEST_F(Tuning, OlderCgroupsHaveAQuotaAndAPeriod) {
  put("proc/self/mountinfo",
      "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  put("sys/fs/cgroup/cpu/db/cpu.cfs_quota_us", "50000\n");
  put("sys/fs/cgroup/cpu/db/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "9223372036854771712\n");
  const HostTuning tuning = read({{1, "4:cpu,cpuacct:/db\n5:memory:/db\n", 77}});
  ASSERT_TRUE(tuning.servers.at(1).cpus);
  EXPECT_DOUBLE_EQ(*tuning.servers.at(1).cpus, 0.5);
  EXPECT_FALSE(tuning.servers.at(1).memory_bytes) << "the kernel's way to say: none";
}

// A file system's superblock as mkfs wrote it.
TEST_F(Tuning, SuperblockTellsJournalSizeAndFastCommit) {
  const std::string image = root_ + "/dev/sdx";
  std::filesystem::create_directories(root_ + "/dev");
  for (const auto &[feature, fast] : {std::pair("^fast_commit", false), std::pair("fast_commit", true)}) {
    std::filesystem::remove(image);
    const std::string command =
        std::string("mke2fs -q -F -t ext4 -J size=8 -O ") + feature + " " + image + " 64M >/dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(cert-env33-c): e2fsprogs is a test package
    put("proc/self/mountinfo", "36 35 8:1 / /data rw - ext4 /dev/sdx rw\n");
    put("proc/fs/jbd2/sdx-8/info", "0 transactions\n");
    std::filesystem::create_directories(root_ + "/sys/dev/block");
    std::filesystem::remove(root_ + "/sys/dev/block/8:1");
    std::filesystem::create_symlink("../../block/sdx", root_ + "/sys/dev/block/8:1");
    const Journals journals = read_journals(root_);
    ASSERT_EQ(journals.size(), 1u);
    ASSERT_TRUE(journals[0].log_bytes);
    EXPECT_NEAR(static_cast<double>(*journals[0].log_bytes), 8 << 20, 1 << 17)
        << "fast commits have blocks of their own";
    EXPECT_EQ(journals[0].fast_commit, fast);
  }
  std::filesystem::resize_file(image, 100);
  EXPECT_FALSE(read_journals(root_).at(0).fast_commit) << "no superblock";
}

}  // namespace
}  // namespace flushlight::test
