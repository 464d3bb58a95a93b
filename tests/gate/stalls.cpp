// SPDX-License-Identifier: GPL-2.0-or-later
// What the kernel side tells of stalls: who wrote how much, requests that took long, blocked tasks, what is outstanding.
#include "sidecar/kernel/stalls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/gate/slow_device.h"
#include "tests/gate/traced.h"

namespace gate {
namespace {

using flushlight::kernel::BlockedTask;
using flushlight::kernel::DeviceActivity;
using flushlight::kernel::SlowRequest;
using flushlight::kernel::Tracer;
using flushlight::kernel::Writer;

constexpr uint64_t kMs = 1'000'000;
constexpr uint8_t kWrite = 1, kFlush = 2;

class Stalls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = Tracer::load({});
    ASSERT_TRUE(loaded) << loaded.error().text;
    tracer = std::move(*loaded);
  }
  static void TearDownTestSuite() { tracer.reset(); }
  void SetUp() override {
    struct stat status {};
    ASSERT_EQ(stat(device.folder().c_str(), &status), 0);
    disk = major(status.st_dev) << 20 | minor(status.st_dev);
    uint64_t lost = 0;
    tracer->stalls().take_slow_requests(&lost);
  }
  void TearDown() override { device.release(); }

  int file(const char *name, int flags = 0) const {
    return open((device.folder() + "/" + name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC | flags, 0600);
  }
  Writer writer_of(const std::string &name) const {
    for (const Writer &writer : tracer->stalls().writers())
      if (writer.file.path == name && writer.tgid == static_cast<uint32_t>(getpid())) return writer;
    ADD_FAILURE() << "no writer of " << name;
    return {};
  }
  std::vector<SlowRequest> slow(uint8_t operation) const {
    uint64_t lost = 0;
    auto found = tracer->stalls().take_slow_requests(&lost);
    EXPECT_EQ(lost, 0u);
    std::erase_if(found, [&](const SlowRequest &r) { return r.device != disk || r.operation != operation; });
    return found;
  }

  static std::unique_ptr<Tracer> tracer;
  SlowDevice device;
  uint32_t disk = 0;
};
std::unique_ptr<Tracer> Stalls::tracer;

TEST_F(Stalls, WritersAreCounted) {
  const int fd = file("counted");
  const std::vector<char> block(64 << 10, 'x');
  for (int i = 0; i < 48; i++) ASSERT_EQ(write(fd, block.data(), block.size()), static_cast<ssize_t>(block.size()));
  device.hold(rig::Kind::flush, 30);
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(write(fd, "y", 1), 1);
  ASSERT_EQ(fdatasync(fd), 0);
  close(fd);
  const Writer writer = writer_of("counted");
  EXPECT_EQ(writer.process, "ledger-gate");
  EXPECT_EQ(writer.bytes, 48 * block.size() + 1);
  EXPECT_GE(writer.writes, 49u);
  EXPECT_EQ(writer.syncs, 2u);
  EXPECT_GE(writer.recent_bytes, 1u);
  EXPECT_EQ(writer.file.device, disk);
  EXPECT_TRUE(writer.file.is_whole);
  EXPECT_EQ(writer.sync_ns.has_value(), !device.is_xfs());
  if (writer.sync_ns) {
    EXPECT_GE(*writer.sync_ns, 2 * 30 * kMs);  // the journal flushes twice at most in each
    EXPECT_LE(*writer.sync_ns, 5 * 30 * kMs);
  }
}

TEST_F(Stalls, DirectWritesAreCounted) {
  const int fd = file("direct", O_DIRECT);
  void *memory = nullptr;
  ASSERT_EQ(posix_memalign(&memory, 4096, 128 << 10), 0);
  for (int i = 0; i < 8; i++) ASSERT_EQ(pwrite(fd, memory, 128 << 10, i * (128 << 10)), 128 << 10);
  free(memory);
  close(fd);
  EXPECT_EQ(writer_of("direct").bytes, 8u * (128 << 10));
}

TEST_F(Stalls, LongRequestsAreWrittenDown) {
  const int fd = file("long");
  const std::vector<char> block(64 << 10, 'x');
  ASSERT_EQ(pwrite(fd, block.data(), block.size(), 0), static_cast<ssize_t>(block.size()));
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(pwrite(fd, block.data(), block.size(), 0), static_cast<ssize_t>(block.size()));
  device.hold(rig::Kind::write, 150);
  ASSERT_EQ(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER),
            0);
  device.release();
  const auto writes = slow(kWrite);
  const auto mine =
      std::find_if(writes.begin(), writes.end(), [](const SlowRequest &r) { return r.file.path == "long"; });
  ASSERT_NE(mine, writes.end());
  EXPECT_EQ(mine->tid, static_cast<uint32_t>(gettid()));
  EXPECT_EQ(mine->bytes, block.size());
  EXPECT_NEAR(static_cast<double>(mine->complete_ns - mine->issue_ns), 150e6, 20e6);
  EXPECT_LE(mine->start_ns, mine->issue_ns);

  device.hold(rig::Kind::flush, 150);
  ASSERT_EQ(pwrite(fd, block.data(), block.size(), 0), static_cast<ssize_t>(block.size()));
  ASSERT_EQ(fdatasync(fd), 0);
  device.release();
  const auto flushes = slow(kFlush);
  ASSERT_FALSE(flushes.empty());
  EXPECT_NEAR(static_cast<double>(flushes[0].complete_ns - flushes[0].issue_ns), 150e6, 20e6);
  close(fd);
}

TEST_F(Stalls, WhatIsBlockedAndOutstandingIsSeen) {
  const int fd = file("blocked");
  ASSERT_EQ(pwrite(fd, "x", 1, 0), 1);
  ASSERT_EQ(fsync(fd), 0);
  device.hold(rig::Kind::flush, 500);
  std::atomic<int> tid = 0;
  std::thread syncing([&] {
    tid = gettid();
    EXPECT_EQ(pwrite(fd, "y", 1, 0), 1);
    EXPECT_EQ(fdatasync(fd), 0);
  });
  const uint64_t begin_ns = now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto tasks = tracer->stalls().blocked_tasks();
  const auto activity = tracer->stalls().activity();
  const uint64_t asked_ns = now_ns();
  syncing.join();
  close(fd);
  const auto task = std::find_if(tasks.begin(), tasks.end(),
                                 [&](const BlockedTask &t) { return t.tid == static_cast<uint32_t>(tid); });
  ASSERT_NE(task, tasks.end());
  EXPECT_EQ(task->tgid, static_cast<uint32_t>(getpid()));
  EXPECT_FALSE(task->is_kernel);
  EXPECT_EQ(task->name, "ledger-gate");
  EXPECT_NEAR(static_cast<double>(task->blocked_ns), static_cast<double>(asked_ns - begin_ns), 60e6);
  EXPECT_GE(task->stack.size(), 4u);
  EXPECT_TRUE(std::any_of(task->stack.begin(), task->stack.end(),
                          [](const std::string &f) { return f.find("fdatasync") != std::string::npos; }));
  const auto at =
      std::find_if(activity.begin(), activity.end(), [&](const DeviceActivity &a) { return a.device == disk; });
  ASSERT_NE(at, activity.end());
  EXPECT_GE(at->at_device, 1u);
  EXPECT_GE(at->flushing, 1u);
  EXPECT_NEAR(static_cast<double>(asked_ns - at->oldest_issue_ns), static_cast<double>(asked_ns - begin_ns), 60e6);
  EXPECT_EQ(at->oldest_operation, kFlush);
}

}  // namespace
}  // namespace gate
