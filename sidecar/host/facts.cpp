// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/facts.h"

#include "sidecar/base/clock.h"

namespace flushlight {
namespace {

constexpr std::chrono::seconds kInterval(1), kTuningInterval(10);

}  // namespace

void HostFacts::start() {
  devices_.start(
      [reader = std::make_shared<BlockDeviceReader>(), clock = SystemClock()] { return reader->read(clock.now_ns()); },
      kInterval);
  journals_.start([] { return read_journals(""); }, kInterval);
  pressures_.start([this, reader = std::make_shared<PressureReader>()] { return reader->read(followed()); }, kInterval);
  tuning_.start([this] { return read_tuning("", followed(), try_io_uring); }, kTuningInterval);
}

std::vector<Followed> HostFacts::followed() {
  const std::lock_guard lock(mutex_);
  return followed_;
}

void HostFacts::follow(std::vector<Followed> followed) {
  const std::lock_guard lock(mutex_);
  followed_ = std::move(followed);
}

}  // namespace flushlight
