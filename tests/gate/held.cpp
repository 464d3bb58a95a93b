// SPDX-License-Identifier: GPL-2.0-or-later
// Waits before a request exists: cgroup limit, dirty-page throttling, reclaim, tags, writeback throttling; and the quota of
// a cgroup. Each is made here and compared with the wall time of the thread that it held, or what the kernel's own files say.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "tests/gate/slow_device.h"
#include "tests/gate/traced.h"

namespace gate {
namespace {

using flushlight::kernel::Tracer;

bool put(const std::string &path, const std::string &value) {
  std::ofstream file(path);
  file << value << std::flush;
  return file.good();
}

std::string taken(const std::string &path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// A setting of the device, put back at the end. (A scheduler's list shows the active one in brackets.)
class Setting {
 public:
  Setting(std::string path, const std::string &value) : path_(std::move(path)), before_(taken(path_)) {
    if (auto open = before_.find('['); open != std::string::npos)
      before_ = before_.substr(open + 1, before_.find(']') - open - 1);
    good = put(path_, value);
  }
  ~Setting() { put(path_, before_); }
  Setting(const Setting &) = delete;
  Setting &operator=(const Setting &) = delete;
  bool good = false;

 private:
  std::string path_, before_;
};

class Held : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    tracer = load_tracer();
    ASSERT_TRUE(tracer);
    process = std::make_unique<TracedProcess>(*tracer);
  }
  static void TearDownTestSuite() {
    process.reset();
    tracer.reset();
  }
  void SetUp() override {
    struct stat folder {};
    ASSERT_EQ(stat(device.folder().c_str(), &folder), 0);
    number = std::to_string(major(folder.st_dev)) + ":" + std::to_string(minor(folder.st_dev));
    queue = "/sys/dev/block/" + number + "/queue/";
  }
  void TearDown() override { device.release(); }

  int file(const char *name, int flags, size_t bytes = 8 << 20) const {
    int fd = open((device.folder() + "/" + name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    std::vector<char> zeros(bytes);
    EXPECT_EQ(pwrite(fd, zeros.data(), bytes, 0), static_cast<ssize_t>(bytes));
    EXPECT_EQ(fsync(fd), 0);
    close(fd);
    return open((device.folder() + "/" + name).c_str(), O_RDWR | O_CLOEXEC | flags);
  }

  static uint64_t counter(const char *name) {
    for (const auto &c : tracer->counters())
      if (c.name == name) return c.value;
    return 0;
  }

  // Runs `work` in a traced thread; one account for all of it, and the growth of a detail's counter in ms.
  Account traced(const char *what, const char *detail, const std::function<void()> &work) {
    Account result;
    const uint64_t before = counter(detail);
    std::thread thread([&] {
      const fl_slot *slot = nullptr;
      for (int attempt = 0; attempt < 1000 && slot == nullptr; attempt++) {
        slot = process->enrol(0);
        if (slot == nullptr) usleep(500);
      }
      ASSERT_NE(slot, nullptr);
      Reading begin = read_slot(slot);
      work();
      result = account(begin, read_slot(slot));
    });
    thread.join();
    detail_ms = static_cast<double>(counter(detail) - before) / 1e6;
    result.print(what);
    std::printf("  %s: %.1f ms\n", detail, detail_ms);
    EXPECT_NEAR(result.cause_sum(), 1, 0.01);
    EXPECT_NEAR(result.path_sum(), 1, 0.01);
    EXPECT_GE(result.closure(), 0.97);
    return result;
  }

  // Wall time that was not the thread's own doing or want of a CPU.
  static double waited(const Account &a) { return a.wall_ms - a.cause(FL_CAUSE_ONCPU) - a.cause(FL_CAUSE_CPU); }

  // Processes that nobody traces and that keep the queue full while `work` runs.
  void among_writers(int count, const std::function<void(int fd, int i)> &write, int flags,
                     const std::function<void()> &work) {
    std::vector<pid_t> writers;
    for (int i = 0; i < count; i++) {
      int fd = file(("bulk" + std::to_string(i)).c_str(), flags, 1 << 20);
      writers.push_back(fork());
      if (writers.back() == 0)
        for (;;) write(fd, i);
      close(fd);
    }
    usleep(300'000);
    work();
    for (pid_t pid : writers) kill(pid, SIGKILL);
    device.release();
    for (pid_t pid : writers) waitpid(pid, nullptr, 0);
  }

  static std::unique_ptr<Tracer> tracer;
  static std::unique_ptr<TracedProcess> process;
  SlowDevice device;
  std::string number, queue;
  double detail_ms = 0;
  alignas(4096) char block[64 << 10] = {};
};
std::unique_ptr<Tracer> Held::tracer;
std::unique_ptr<TracedProcess> Held::process;

// blk-throttle lets the thread go on and holds its bio; the thread then waits for the page.
TEST_F(Held, CgroupLimit) {
  const std::string group = "/sys/fs/cgroup/blkio/flushlight-gate-" + std::to_string(getpid());
  std::error_code error;
  if (!std::filesystem::create_directory(group, error))
    GTEST_SKIP() << "no blkio cgroup of version 1: " << error.message();
  int fd = file("limited", O_DIRECT);
  ASSERT_TRUE(put(group + "/blkio.throttle.write_iops_device", number + " 20"));
  Account a = traced("cgroup limit", "throttle_cgroup_ns", [&] {
    ASSERT_TRUE(put(group + "/tasks", "0"));
    for (int i = 0; i < 20; i++) EXPECT_EQ(pwrite(fd, block, 4096, i * 4096), 4096);
    put("/sys/fs/cgroup/blkio/tasks", "0");
  });
  EXPECT_GE(a.wall_ms, 500);
  EXPECT_GE(a.cause(FL_CAUSE_THROTTLE), 0.9 * waited(a));
  EXPECT_NEAR(detail_ms, a.cause(FL_CAUSE_THROTTLE), 0.05 * a.wall_ms);
  close(fd);
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; i++) usleep(10'000);
}

TEST_F(Held, DirtyPages) {
  Setting strict("/sys/class/bdi/" + number + "/strict_limit", "1");
  Setting most("/sys/class/bdi/" + number + "/max_bytes", "4194304");
  if (!strict.good || !most.good) GTEST_SKIP() << "this kernel has no limit for the dirty pages of one device";
  int fd = file("dirty", 0);
  device.hold(rig::Kind::write, 5);
  Account a = traced("dirty pages", "throttle_dirty_ns", [&] {
    for (int i = 0; i < 400; i++)
      EXPECT_EQ(pwrite(fd, block, sizeof block, i % 100 * static_cast<off_t>(sizeof block)), ssize_t{sizeof block});
  });
  EXPECT_GE(a.cause(FL_CAUSE_THROTTLE), 0.8 * waited(a));
  EXPECT_NEAR(detail_ms, a.cause(FL_CAUSE_THROTTLE), 0.02 * a.wall_ms);
  close(fd);
}

// A memory cgroup of version 1 does not throttle who dirties its pages: whoever needs one more waits in reclaim for theirs.
TEST_F(Held, Reclaim) {
  const std::string memory = "/sys/fs/cgroup/memory", group = memory + "/flushlight-gate-" + std::to_string(getpid());
  std::error_code error;
  if (!std::filesystem::exists(memory + "/memory.limit_in_bytes") || !std::filesystem::create_directory(group, error))
    GTEST_SKIP() << "no memory cgroup of version 1: " << error.message();
  int fd = file("unlimited", 0);
  device.hold(rig::Kind::write, 20);
  const auto write_all = [&] {
    for (int i = 0; i < 2048; i++)
      EXPECT_EQ(pwrite(fd, block, sizeof block, i * static_cast<off_t>(sizeof block)), ssize_t{sizeof block});
  };
  Account free = traced("no limit of memory", "throttle_reclaim_ns", write_all);
  EXPECT_EQ(free.cause(FL_CAUSE_THROTTLE), 0);
  EXPECT_EQ(detail_ms, 0);
  close(fd);
  fd = file("limited", 0, 4096);  // pages that nobody has yet
  ASSERT_TRUE(put(group + "/memory.limit_in_bytes", std::to_string(24 << 20)));
  ASSERT_TRUE(put(group + "/cgroup.procs", std::to_string(getpid())));
  Account a = traced("reclaim", "throttle_reclaim_ns", write_all);
  put(memory + "/cgroup.procs", std::to_string(getpid()));
  EXPECT_GE(a.cause(FL_CAUSE_THROTTLE), 100);
  EXPECT_GE(a.cause(FL_CAUSE_THROTTLE), 0.8 * waited(a));
  EXPECT_NEAR(detail_ms, a.cause(FL_CAUSE_THROTTLE), 0.02 * a.wall_ms);
  device.release();
  close(fd);
  put(group + "/memory.force_empty", "0");
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; i++) usleep(10'000);
}

// cpu.max, of version 1 (cpu.cfs_quota_us): a fifth of a CPU for a thread that wants all of one.
TEST_F(Held, CpuQuota) {
  const std::string cpu = "/sys/fs/cgroup/cpu", group = cpu + "/flushlight-gate-" + std::to_string(getpid());
  std::error_code error;
  if (!std::filesystem::exists(cpu + "/cpu.stat") || !std::filesystem::create_directory(group, error))
    GTEST_SKIP() << "no cpu cgroup of version 1: " << error.message();
  ASSERT_TRUE(put(group + "/cpu.cfs_period_us", "50000") && put(group + "/cpu.cfs_quota_us", "10000"));
  ASSERT_TRUE(put(group + "/cpu.shares", "262144"));  // nothing else keeps it from the CPU
  Account a = traced("quota", "cpu_quota_ns", [&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // each CPU has its own slice of the quota
    ASSERT_TRUE(put(group + "/tasks", "0"));
    for (const uint64_t end_ns = now_ns() + 1'000'000'000; now_ns() < end_ns;) {
    }
    put(cpu + "/tasks", "0");
  });
  double throttled_ms = 0;
  std::ifstream statistics(group + "/cpu.stat");
  for (std::string name, value; statistics >> name >> value;)
    if (name == "throttled_time") throttled_ms = std::stod(value) / 1e6;
  EXPECT_GE(throttled_ms, 600);
  std::printf("  cpu.stat: %.1f ms\n", throttled_ms);
  EXPECT_NEAR(detail_ms, throttled_ms, 0.05 * throttled_ms);
  EXPECT_GE(a.cause(FL_CAUSE_CPU), 0.95 * throttled_ms);
  EXPECT_NEAR(a.cause(FL_CAUSE_CPU) + a.cause(FL_CAUSE_ONCPU), a.wall_ms, 0.02 * a.wall_ms);
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; i++) usleep(10'000);
}

TEST_F(Held, NoFreeTag) {
  Setting scheduler(queue + "scheduler", "none");
  Setting requests(queue + "nr_requests", "4");
  Setting wbt(queue + "wbt_lat_usec", "0");
  int fd = file("tag", O_DIRECT);
  device.hold(rig::Kind::write, 5);
  Account a;
  among_writers(
      16, [&](int bulk, int) { EXPECT_EQ(pwrite(bulk, block, 4096, 0), 4096); }, O_DIRECT,
      [&] {
        a = traced("no free tag", "queue_tag_ns", [&] {
          for (int i = 0; i < 20; i++) EXPECT_EQ(pwrite(fd, block, 4096, i * 4096), 4096);
        });
      });
  EXPECT_GE(a.cause(FL_CAUSE_QUEUE), 0.4 * a.wall_ms);
  EXPECT_NEAR(detail_ms, a.cause(FL_CAUSE_QUEUE), 0.1 * a.wall_ms);
  EXPECT_GE(a.cause(FL_CAUSE_QUEUE) + a.cause(FL_CAUSE_WRITE), 0.95 * waited(a));
  close(fd);
}

TEST_F(Held, WritebackThrottling) {
  Setting scheduler(queue + "scheduler", "none");
  Setting wbt(queue + "wbt_lat_usec", "2000");
  if (!wbt.good) GTEST_SKIP() << "this kernel has no writeback throttling";
  int fd = file("wbt", 0);
  device.hold(rig::Kind::write, 5);
  Account a;
  among_writers(
      4,
      [&](int bulk, int) {
        for (int i = 0; i < 64; i++) EXPECT_EQ(pwrite(bulk, block, 4096, i * 8192), 4096);
        EXPECT_EQ(fdatasync(bulk), 0);
      },
      0,
      [&] {
        a = traced("writeback throttling", "queue_wbt_ns", [&] {
          for (int i = 0; i < 20; i++) {
            EXPECT_EQ(pwrite(fd, block, 4096, i * 4096), 4096);
            EXPECT_EQ(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER), 0);
          }
        });
      });
  EXPECT_GE(a.cause(FL_CAUSE_QUEUE), 0.2 * a.wall_ms);
  EXPECT_GE(detail_ms, 0.8 * a.cause(FL_CAUSE_QUEUE));
  EXPECT_GE(a.cause(FL_CAUSE_QUEUE) + a.cause(FL_CAUSE_WRITE), 0.95 * waited(a));
  close(fd);
}

}  // namespace
}  // namespace gate
