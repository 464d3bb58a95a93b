// SPDX-License-Identifier: GPL-2.0-or-later
// Something that is read once in a while by a thread of its own and handed over as an unchangeable copy: its reader may
// have to wait (sysfs does while a queue is frozen), and a view must answer during a stall.
// Owner: main thread; latest() is safe in any thread. mutex_ guards latest_ and stop_.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "sidecar/base/log.h"

namespace flushlight {

template <typename T>
class Refreshed {
 public:
  explicit Refreshed(const char *what) : what_(what) {}
  Refreshed(const Refreshed &) = delete;
  Refreshed &operator=(const Refreshed &) = delete;
  ~Refreshed() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // read() runs in the thread alone.
  void start(std::function<T()> read, std::chrono::milliseconds interval) {
    thread_ = std::thread([this, read = std::move(read), interval] { run(read, interval); });
  }
  void set(T value) {
    auto latest = std::make_shared<const T>(std::move(value));
    const std::lock_guard lock(mutex_);
    latest_ = std::move(latest);
  }
  [[nodiscard]] std::shared_ptr<const T> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  void run(const std::function<T()> &read, std::chrono::milliseconds interval) {
    for (;;) {
      try {
        set(read());
      } catch (const std::exception &error) {
        spdlog::warn("reading facts about {} failed: {}", what_, error.what());
      }
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, interval, [this] { return stop_; })) return;
    }
  }

  const char *what_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::shared_ptr<const T> latest_ = std::make_shared<T>();
  std::thread thread_;
};

}  // namespace flushlight
