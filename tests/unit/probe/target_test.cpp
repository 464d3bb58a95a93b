// SPDX-License-Identifier: GPL-2.0-or-later
// Where the probe refuses to work, and that what it makes has no name.
#include "sidecar/probe/target.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace flushlight::probe::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TargetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::string(SCRATCH_FOLDER) + "/target-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
    return names;
  }
  fs::path folder;
};

TEST_F(TargetTest, EveryKindButADirectoryIsRefused) {
  struct Case {
    mode_t mode;
    const char *says;
  };
  for (const Case &c : {Case{S_IFBLK, "block device"}, Case{S_IFCHR, "character device"}, Case{S_IFREG, "is a file"},
                        Case{S_IFIFO, "pipe"}, Case{S_IFSOCK, "socket"}, Case{0, "not a directory"}}) {
    const auto result = check_kind("/x", c.mode);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().text, HasSubstr(c.says));
    EXPECT_THAT(result.error().text, HasSubstr("give a directory"));
  }
  EXPECT_TRUE(check_kind("/x", S_IFDIR));
  EXPECT_THAT(check_kind("/dev/sda", S_IFBLK).error().text, HasSubstr("destroy"));
}

TEST_F(TargetTest, FileSystemsWithoutADeviceAreRefused) {
  for (const int64_t magic :
       {int64_t{TMPFS_MAGIC}, int64_t{PROC_SUPER_MAGIC}, int64_t{SYSFS_MAGIC}, int64_t{CGROUP2_SUPER_MAGIC}})
    EXPECT_FALSE(check_file_system("/x", magic));
  EXPECT_THAT(check_file_system("/dev/shm", TMPFS_MAGIC).error().text, HasSubstr("tmpfs"));
  for (const int64_t magic :
       {int64_t{EXT4_SUPER_MAGIC}, int64_t{XFS_SUPER_MAGIC}, int64_t{BTRFS_SUPER_MAGIC}, int64_t{12345}})
    EXPECT_TRUE(check_file_system("/x", magic));
}

TEST_F(TargetTest, FullFileSystemsAreRefused) {
  constexpr uint64_t kMb = 1 << 20;
  const Space space{1000 * kMb, 350 * kMb, true};
  EXPECT_TRUE(check_space("/x", space, 300 * kMb, 0.05));
  const auto refused = check_space("/x", space, 301 * kMb, 0.05);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text, HasSubstr("350 MB free"));
  EXPECT_THAT(refused.error().text, HasSubstr("301 MB"));
  EXPECT_THAT(refused.error().text, HasSubstr("--size-mb"));
  EXPECT_FALSE(check_space("/x", {1000 * kMb, 0, true}, kMb, 0));
  EXPECT_FALSE(check_space("/x", {1000 * kMb, kMb, true}, 2 * kMb, 0));  // no wrap below zero
  EXPECT_THAT(check_space("/x", {1000 * kMb, 900 * kMb, false}, kMb, 0).error().text, HasSubstr("inode"));
}

TEST_F(TargetTest, ErrorsOfWritesNameCauseAndRemedy) {
  struct Case {
    int code;
    const char *cause, *remedy;
  };
  for (const Case &c : {Case{ENOSPC, "full", "--size-mb"}, Case{EDQUOT, "quota", "--size-mb"},
                        Case{EIO, "I/O error", "kernel's log"}, Case{EFBIG, "ulimit -f", "--size-mb"}}) {
    EXPECT_THAT(write_error(c.code, "/x").text, HasSubstr(c.cause));
    EXPECT_THAT(write_error(c.code, "/x").text, HasSubstr(c.remedy));
  }
}

TEST_F(TargetTest, InspectRefusesRealPaths) {
  std::ofstream(folder / "file") << "x";
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::none);
  struct Case {
    std::string path;
    const char *says;
  };
  std::vector<Case> cases = {{"", "empty"},
                             {folder / "nothing", "does not exist"},
                             {folder / "file", "is a file"},
                             {folder / "file/below", ""},
                             {"/dev/null", "character device"},
                             {"/proc", "proc"},
                             {std::string(5000, 'x'), ""}};
  if (geteuid() != 0) cases.push_back({folder / "closed", "cannot be written"});
  for (const Case &c : cases) {
    TargetOptions options;
    options.directory = c.path;
    const auto result = inspect(options);
    ASSERT_FALSE(result) << c.path;
    EXPECT_THAT(result.error().text, HasSubstr(c.says));
  }
  TargetOptions huge;
  huge.directory = folder;
  huge.data_bytes = uint64_t{1} << 60;
  EXPECT_THAT(inspect(huge).error().text, HasSubstr("MB free"));
}

TEST_F(TargetTest, TheFileHasNoName) {
  auto scratch = Scratch::create(folder);
  ASSERT_TRUE(scratch) << scratch.error().text;
  EXPECT_THAT(entries(), IsEmpty());
  const SystemClock clock;
  Governor governor(clock, {});
  const auto filled = scratch->fill((3 << 20) + 4096, &governor);
  ASSERT_TRUE(filled) << filled.error().text;
  EXPECT_THAT(entries(), IsEmpty());
  struct stat status {};
  ASSERT_EQ(fstat(scratch->fd(), &status), 0);
  EXPECT_EQ(status.st_size, (3 << 20) + 4096);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_GE(status.st_blocks * 512, status.st_size) << "holes would be read without the device";
  EXPECT_EQ(governor.written_bytes(), uint64_t{(3 << 20) + 4096});
  // The same file, with other flags.
  auto again = scratch->open_again(O_RDWR | O_DSYNC);
  ASSERT_TRUE(again);
  EXPECT_NE(fcntl(again->get(), F_GETFL) & O_DSYNC, 0);
  struct stat same {};
  ASSERT_EQ(fstat(again->get(), &same), 0);
  EXPECT_EQ(same.st_ino, status.st_ino);
}

TEST_F(TargetTest, FillingObeysTheLimits) {
  auto scratch = Scratch::create(folder);
  ASSERT_TRUE(scratch);
  const SystemClock clock;
  Governor governor(clock, {1'000'000'000'000, 2 << 20, 0});
  const auto filled = scratch->fill(uint64_t{64} << 20, &governor);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, ETIME);
  EXPECT_THAT(filled.error().text, HasSubstr("--written-mb-max"));
  EXPECT_LE(governor.written_bytes(), uint64_t{3} << 20);
}

TEST_F(TargetTest, PlaceFollowsPartitionsToTheirDisk) {
  struct stat status {};
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  const std::string number = std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  const fs::path sys = folder / "sys";
  const fs::path disk = sys / "devices/pci/sdx";
  fs::create_directories(disk / "sdx1");
  fs::create_directories(disk / "queue");
  fs::create_directories(sys / "dev/block");
  fs::create_directories(sys / "block");
  std::ofstream(disk / "sdx1/partition") << "1\n";
  std::ofstream(disk / "sdx1/dev") << number << "\n";
  std::ofstream(disk / "dev") << "8:240\n";
  std::ofstream(disk / "queue/scheduler") << "none [mq-deadline]\n";
  std::ofstream(disk / "queue/write_cache") << "write back\n";
  fs::create_symlink(disk / "sdx1", sys / "dev/block" / number);
  fs::create_symlink(disk, sys / "block/sdx");
  std::ofstream(folder / "mounts") << "21 1 " << number << " / / rw - ext4 /dev/root rw\n22 21 " << number << " / "
                                   << folder.string() << " rw,noatime - ext4 /dev/sdx1 rw,nobarrier\n23 21 0:9 / "
                                   << folder.string() << "x rw - tmpfs none rw\n";
  const Place place = describe_place(folder, sys, folder / "mounts");
  EXPECT_EQ(place.mount_point, folder);
  EXPECT_EQ(place.file_system, "ext4");
  EXPECT_EQ(place.mount_options, "rw,noatime,rw,nobarrier");
  EXPECT_EQ(place.disk, "sdx");
  ASSERT_EQ(place.devices.size(), 1u);
  EXPECT_EQ(place.devices[0].scheduler, "mq-deadline");
  EXPECT_EQ(place.devices[0].write_cache, "write back");
}

}  // namespace
}  // namespace flushlight::probe::test
