// SPDX-License-Identifier: GPL-2.0-or-later
// Facts about the host, read once a second by an own thread and handed over as an unchangeable copy: sysfs
// can make its reader wait while a queue is frozen, and a view must answer during a stall.
// Owner of HostFacts: main thread; latest() is safe in any thread. mutex_ guards latest_ and stop_.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "sidecar/host/block_devices.h"

namespace flushlight {

class HostFacts {
 public:
  HostFacts() = default;
  HostFacts(const HostFacts &) = delete;
  HostFacts &operator=(const HostFacts &) = delete;
  ~HostFacts();

  void start();
  void set(BlockDevices devices);
  [[nodiscard]] std::shared_ptr<const BlockDevices> latest() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::shared_ptr<const BlockDevices> latest_ = std::make_shared<BlockDevices>();
  std::thread thread_;
};

}  // namespace flushlight
