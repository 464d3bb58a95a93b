// SPDX-License-Identifier: GPL-2.0-or-later
// Stacked block devices in a /sys of the test's own.
#include "sidecar/host/layers.h"

#include <cstdlib>
#include <filesystem>

#include "file_tree.h"

namespace flushlight::test {
namespace {

namespace fs = std::filesystem;

class Layers : public FileTree {
 protected:
  void disk(const std::string &name, const std::string &number) {
    put("block/" + name + "/dev", number);
    put("block/" + name + "/size", "1000");
  }
  void lies_on(const std::string &name, const std::string &part) {
    const fs::path folder = fs::path(root_) / "block" / name / "slaves";
    fs::create_directories(folder);
    fs::create_directory_symlink(fs::path(root_) / "block" / part, folder / fs::path(part).filename());
  }
  BlockDevices read(const std::string &mount_info, const std::string &disk_stats = "") {
    BlockDevices devices = read_block_devices(root_, mount_info);
    add_layers(root_, disk_stats, &devices);
    return devices;
  }
};

TEST_F(Layers, DeviceMapperOnAPartitionOnRaid) {
  disk("vdb", "254:16");
  put("block/vdb/mq/0/cpu_list", "0");
  put("block/vdb/vdb1/partition", "1");
  put("block/vdb/vdb1/dev", "254:17");
  disk("md0", "9:0");
  lies_on("md0", "vdb/vdb1");
  disk("dm-0", "252:0");
  lies_on("dm-0", "md0");
  const BlockDevices devices = read("36 35 252:0 / /data rw - xfs /dev/mapper/data rw\n");
  const uint32_t vdb = device_number(254, 16), md = device_number(9, 0), dm = device_number(252, 0);
  EXPECT_EQ(devices.at(dm).parts, std::vector<uint32_t>{md});
  EXPECT_EQ(devices.at(md).parts, std::vector<uint32_t>{vdb});
  EXPECT_TRUE(devices.at(dm).stacked);
  EXPECT_FALSE(devices.at(vdb).stacked);
  EXPECT_EQ(devices.at(vdb).mount_point, "/data");
  EXPECT_EQ(devices.at(vdb).file_system, "xfs");
  const std::string text = describe_layers(devices);
  EXPECT_NE(text.find("dm-0 (/data) lies on md0:"), std::string::npos) << text;
  EXPECT_NE(text.find("md0 (/data) lies on vdb:"), std::string::npos) << text;
  EXPECT_EQ(text.find("vdb (/data)"), std::string::npos) << text;
}

// The path is a hidden disk, without a number in sysfs; requests carry its number.
TEST_F(Layers, PathsOfNvmeMultipath) {
  disk("nvme0n1", "259:1");
  put("block/nvme0c1n1/hidden", "1");
  put("block/nvme0c1n1/mq/0/cpu_list", "0");
  put("block/nvme0c1n1/queue/scheduler", "[none] mq-deadline");
  put("block/nvme0c1n1/queue/nr_requests", "1023");
  const BlockDevices devices = read("37 35 259:1 / /more rw - ext4 /dev/nvme0n1 rw\n",
                                    " 259       0 nvme0c1n1 5 0 40 1\n 259       1 nvme0n1 5 0 40 1\n nonsense\n");
  const BlockDevice &path = devices.at(device_number(259, 0));
  EXPECT_EQ(path.name, "nvme0c1n1");
  EXPECT_EQ(path.mount_point, "/more");
  EXPECT_EQ(path.transport, "nvme");
  EXPECT_EQ(path.scheduler, "none");
  EXPECT_EQ(path.nr_requests, 1023);
  EXPECT_FALSE(path.stacked);
  EXPECT_NE(describe_layers(devices).find("nvme0n1 (/more) lies on nvme0c1n1:"), std::string::npos);
}

TEST_F(Layers, WhatLiesOnNothingIsNotCovered) {
  disk("zram0", "253:0");
  disk("vda", "254:0");
  put("block/vda/mq/0/cpu_list", "0");
  EXPECT_EQ(describe_layers(read("36 35 254:0 / / rw - ext4 /dev/vda rw\n")), "") << "zram0 is not mounted";
  const std::string text = describe_layers(read("38 35 253:0 / /fast rw - ext4 /dev/zram0 rw\n"));
  EXPECT_NE(text.find("zram0 (/fast) makes no requests"), std::string::npos) << text;
}

}  // namespace
}  // namespace flushlight::test
