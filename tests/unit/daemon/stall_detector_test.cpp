// SPDX-License-Identifier: GPL-2.0-or-later
// The detector, shown simulated devices: every stall is found with its length, and nothing else is.
#include <gtest/gtest.h>

#include <random>

#include "sidecar/stalls/detector.h"
#include "simulated_device.h"

namespace flushlight::test {
namespace {

using stalls::Detector;
using stalls::Episode;
using stalls::Kind;

constexpr uint64_t kStepNs = kMs / 10;
constexpr uint8_t kRead = 0, kWrite = 1, kFlush = 2;

class StallDetector : public ::testing::Test {
 protected:
  // What asks the devices for something; called once a step.
  std::function<void(uint64_t now_ns)> load = [](uint64_t) {};

  SimulatedDevice &add(uint32_t number, uint32_t servers = 1) {
    return *devices_.emplace_back(std::make_unique<SimulatedDevice>(number, servers));
  }
  void run_ms(uint64_t ms) {
    for (const uint64_t until = now_ns + ms * kMs; now_ns < until; now_ns += kStepNs) {
      load(now_ns);
      for (auto &device : devices_) device->run(now_ns);
      if (now_ns >= next_look_ns) look();
    }
  }
  void look() {
    next_look_ns = now_ns + (detector.suspicious() ? 20 : 100) * kMs;
    Detector::Look look{now_ns, {}, {}};
    for (auto &device : devices_) {
      look.devices.push_back(device->activity());
      look.long_completions.insert(look.long_completions.end(), device->long_completions.begin(),
                                   device->long_completions.end());
      device->long_completions.clear();
    }
    const auto changes = detector.look(look);
    for (const Episode &episode : changes.opened) opened.push_back(episode);
    for (const Episode &episode : changes.closed) closed.push_back(episode);
  }
  void freeze_for_ms(SimulatedDevice &device, uint64_t ms) {
    device.frozen_from_ns = now_ns;
    device.frozen_until_ns = now_ns + ms * kMs;
  }
  static double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }
  static double length_ms(const Episode &episode) { return ms(episode.end_ns - episode.begin_ns); }

  // Clients that each wait for their request before the next one.
  static std::function<void(uint64_t)> clients(SimulatedDevice &device, size_t count, uint8_t operation = kFlush) {
    return [&device, count, operation](uint64_t now) {
      while (device.outstanding() < count) device.ask(operation, now);
    };
  }

  uint64_t now_ns = 5'000 * kMs, next_look_ns = 0;
  Detector detector;
  std::vector<Episode> opened, closed;
  std::vector<std::unique_ptr<SimulatedDevice>> devices_;
};

TEST_F(StallDetector, FreezeIsOneStallOfThatLength) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  for (const uint64_t length : {300u, 1000u, 2500u, 20000u}) {
    opened.clear();
    closed.clear();
    const uint64_t begin = now_ns;
    freeze_for_ms(disk, length);
    run_ms(length + 3000);
    ASSERT_EQ(opened.size(), 1u) << length;
    ASSERT_EQ(closed.size(), 1u) << length;
    const Episode &stall = closed[0];
    EXPECT_EQ(stall.kind, Kind::kFreeze);
    EXPECT_EQ(stall.device, 7u);
    EXPECT_EQ(stall.inflight, 4u);
    EXPECT_FALSE(stall.began_unseen);
    EXPECT_NEAR(length_ms(stall), static_cast<double>(length), 0.05 * static_cast<double>(length));
    EXPECT_NEAR(ms(stall.begin_ns), ms(begin), 5);
    EXPECT_NEAR(ms(stall.oldest_request_ns), static_cast<double>(length), 25);
    EXPECT_TRUE(detector.open().empty());
  }
}

TEST_F(StallDetector, FreezeIsOpenWhileItLasts) {
  auto &disk = add(7);
  load = clients(disk, 1);
  run_ms(5000);
  freeze_for_ms(disk, 2000);
  run_ms(400);
  ASSERT_EQ(detector.open().size(), 1u);
  EXPECT_EQ(detector.open()[0].end_ns, 0u);
  EXPECT_EQ(closed.size(), 0u);
  run_ms(1500);
  EXPECT_GT(detector.open()[0].oldest_request_ns, 1800 * kMs) << "it grows";
}

TEST_F(StallDetector, ShortPausesAreNone) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  for (int i = 0; i < 10; i++) {
    freeze_for_ms(disk, 150);
    run_ms(1000);
  }
  EXPECT_TRUE(opened.empty());
}

TEST_F(StallDetector, IdleDeviceIsNotFrozen) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  load = [](uint64_t) {};
  run_ms(20000);
  disk.ask(kWrite, now_ns);
  run_ms(5000);
  EXPECT_TRUE(opened.empty());
}

TEST_F(StallDetector, FloodedAndFrozenIsOneStall) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  load = clients(disk, 128, kWrite);
  run_ms(2000);
  freeze_for_ms(disk, 2000);
  run_ms(6000);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(opened.size(), 1u);
  EXPECT_NEAR(length_ms(closed[0]), 2000, 100);
  EXPECT_EQ(closed[0].inflight, 128u);
}

// On a host without a free CPU the last look may be long ago; what is known exactly counts.
TEST_F(StallDetector, BeginIsExactAlthoughLooksAreLate) {
  auto &disk = add(7);
  load = clients(disk, 128, kWrite);
  run_ms(5000);
  next_look_ns = now_ns + 400 * kMs;
  run_ms(300);
  const uint64_t begin = now_ns;
  freeze_for_ms(disk, 1500);
  run_ms(4000);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_NEAR(ms(closed[0].begin_ns), ms(begin), 10);
  EXPECT_NEAR(length_ms(closed[0]), 1500, 15);
}

// A device that lets one request through now and then has not recovered.
TEST_F(StallDetector, StutterIsOneStall) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  for (int i = 0; i < 5; i++) {
    freeze_for_ms(disk, 700);
    run_ms(701);
  }
  run_ms(3000);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_NEAR(length_ms(closed[0]), 3500, 100);
}

TEST_F(StallDetector, SlowTailIsFoundAndEnds) {
  auto &disk = add(7);
  load = clients(disk, 2);
  run_ms(10000);
  const uint64_t begin = now_ns;
  std::mt19937 random(1);
  disk.service_ns = [&](uint8_t, uint64_t) { return random() % 4 == 0 ? 180 * kMs : kMs; };
  run_ms(6000);
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0].kind, Kind::kSlowFlush);
  EXPECT_NEAR(ms(opened[0].begin_ns), ms(begin), 800);
  disk.service_ns = [&](uint8_t, uint64_t) { return kMs / 2; };
  const uint64_t end = now_ns;
  run_ms(5000);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_NEAR(ms(closed[0].end_ns), ms(end), 500);
  EXPECT_EQ(opened.size(), 1u);
}

TEST_F(StallDetector, WhatLastsBecomesUsual) {
  auto &disk = add(7);
  load = clients(disk, 2);
  run_ms(10000);
  disk.service_ns = [](uint8_t, uint64_t) { return 200 * kMs; };
  run_ms(700'000);
  ASSERT_EQ(opened.size(), 1u);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_TRUE(closed[0].became_usual);
}

TEST_F(StallDetector, HealthyLoadAtChangingRatesHasNone) {
  auto &disk = add(7, 4);
  disk.counts_bytes = true;
  std::mt19937 random(7);
  // from idle over a few clients to a queue of hundreds, reads, writes and flushes, each at its own pace
  disk.service_ns = [&](uint8_t operation, uint64_t) {
    std::exponential_distribution<double> time(operation == kFlush ? 1 / 6e6 : 1 / 3e6);
    return static_cast<uint64_t>(time(random)) + kMs / 10;
  };
  for (int phase = 0; phase < 60; phase++) {
    const size_t count = phase % 7 == 0 ? 0 : size_t{1} << (random() % 9);
    const auto operation = static_cast<uint8_t>(random() % 3);
    load = clients(disk, count, operation);
    run_ms(1000 + random() % 4000);
  }
  EXPECT_TRUE(opened.empty()) << stalls::kind_name(opened[0].kind) << " at " << ms(opened[0].begin_ns) << " ms of "
                              << ms(opened[0].oldest_request_ns) << " ms";
}

// A hard disk after small writes: big ones, each longer, and a deep queue.
TEST_F(StallDetector, BulkWritesAreNone) {
  auto &disk = add(7);
  disk.counts_bytes = true;
  load = clients(disk, 1);
  run_ms(20000);
  disk.service_ns = [](uint8_t, uint64_t) { return 8 * kMs; };
  disk.request_bytes = 1 << 20;
  load = clients(disk, 64, kWrite);
  run_ms(20000);
  EXPECT_TRUE(opened.empty());
}

TEST_F(StallDetector, TwoDevicesAreApart) {
  auto &first = add(7), &second = add(8);
  const auto one = clients(first, 2), two = clients(second, 3);
  load = [&](uint64_t now) {
    one(now);
    two(now);
  };
  run_ms(5000);
  freeze_for_ms(first, 1000);
  run_ms(500);
  freeze_for_ms(second, 1500);
  run_ms(4000);
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].device, 7u);
  EXPECT_NEAR(length_ms(closed[0]), 1000, 50);
  EXPECT_EQ(closed[1].device, 8u);
  EXPECT_NEAR(length_ms(closed[1]), 1500, 75);
  EXPECT_LT(closed[0].id, closed[1].id);
}

TEST_F(StallDetector, StartedInTheMiddle) {
  // nobody asks it for anything: only the kernel knows of what is in flight
  struct Frozen {
    kernel::DeviceActivity activity;
  } disk;
  disk.activity.device = 9;
  disk.activity.kernel_inflight = 3;
  disk.activity.kernel_completed = 50;
  uint64_t now = 1000 * kMs;
  for (; now < 4000 * kMs; now += 100 * kMs) {
    const auto changes = detector.look({now, {disk.activity}, {}});
    opened.insert(opened.end(), changes.opened.begin(), changes.opened.end());
  }
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_TRUE(opened[0].began_unseen);
  EXPECT_EQ(opened[0].begin_ns, 1000 * kMs) << "since we look";
  EXPECT_EQ(detector.open()[0].inflight, 3u);
  disk.activity.kernel_inflight = 0;
  disk.activity.kernel_completed = 53;
  const auto changes = detector.look({now, {disk.activity}, {}});
  ASSERT_EQ(changes.closed.size(), 1u);
  EXPECT_NEAR(length_ms(changes.closed[0]), 3000, 100);
}

// A request whose end was not seen stays in the table; the kernel knows better.
TEST_F(StallDetector, RequestThatEndedUnseenIsNoStall) {
  kernel::DeviceActivity activity;
  activity.device = 9;
  activity.kernel_completed = 50;
  activity.kernel_inflight = 0;
  for (uint64_t now = 1000 * kMs; now < 9000 * kMs; now += 100 * kMs) {
    if (now > 2000 * kMs) {
      activity.at_device = 1;
      activity.oldest_issue_ns = activity.oldest_start_ns = 1990 * kMs;
    }
    EXPECT_TRUE(detector.look({now, {activity}, {}}).opened.empty());
  }
}

TEST_F(StallDetector, QueueThatIsNotIssued) {
  kernel::DeviceActivity activity;
  activity.device = 9;
  activity.completed[kWrite][3] = 1000;
  detector.look({1000 * kMs, {activity}, {}});
  activity.completed[kWrite][3] += 1000;
  for (uint64_t now = 1100 * kMs; now <= 3000 * kMs; now += 100 * kMs) detector.look({now, {activity}, {}});
  activity.queued = 5;
  activity.oldest_start_ns = 3010 * kMs;
  for (uint64_t now = 3100 * kMs; now <= 3500 * kMs; now += 100 * kMs) detector.look({now, {activity}, {}});
  ASSERT_EQ(detector.open().size(), 1u);
  EXPECT_EQ(detector.open()[0].kind, Kind::kQueue);
  EXPECT_EQ(detector.open()[0].begin_ns, 3010 * kMs);
}

TEST_F(StallDetector, DeviceThatGoesAwayEndsItsStall) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  freeze_for_ms(disk, 5000);
  run_ms(1000);
  EXPECT_EQ(detector.look({now_ns, {}, {}}).closed.size(), 1u);
}

TEST_F(StallDetector, OffMeansForgotten) {
  auto &disk = add(7);
  load = clients(disk, 4);
  run_ms(5000);
  freeze_for_ms(disk, 5000);
  run_ms(1000);
  EXPECT_EQ(detector.forget(now_ns).size(), 1u);
  EXPECT_TRUE(detector.open().empty());
}

}  // namespace
}  // namespace flushlight::test
