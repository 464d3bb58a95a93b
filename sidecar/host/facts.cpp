// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/facts.h"

#include <chrono>
#include <fstream>
#include <sstream>

#include "sidecar/base/log.h"
#include "sidecar/host/layers.h"

namespace flushlight {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);

std::string text_of(const char *path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

BlockDevices read_all() {
  BlockDevices devices = read_block_devices("/sys", text_of("/proc/self/mountinfo"));
  add_layers("/sys", text_of("/proc/diskstats"), &devices);
  return devices;
}

}  // namespace

HostFacts::~HostFacts() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostFacts::start() {
  thread_ = std::thread([this] { run(); });
}

void HostFacts::set(BlockDevices devices) {
  auto latest = std::make_shared<const BlockDevices>(std::move(devices));
  const std::lock_guard lock(mutex_);
  latest_ = std::move(latest);
}

std::shared_ptr<const BlockDevices> HostFacts::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void HostFacts::run() {
  for (;;) {
    try {
      set(read_all());
    } catch (const std::exception &error) {
      spdlog::warn("reading facts about block devices failed: {}", error.what());
    }
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kInterval, [this] { return stop_; })) return;
  }
}

}  // namespace flushlight
