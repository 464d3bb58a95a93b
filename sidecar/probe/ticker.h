// SPDX-License-Identifier: GPL-2.0-or-later
// A thread that does one thing again and again until it goes.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace flushlight::probe {

class Ticker {
 public:
  Ticker(std::chrono::milliseconds period, std::function<void()> work)
      : thread_([this, period, work = std::move(work)] {
          std::unique_lock guard(lock_);
          while (!ended_) {
            guard.unlock();
            work();
            guard.lock();
            changed_.wait_for(guard, period, [this] { return ended_; });
          }
        }) {}
  ~Ticker() {
    {
      const std::lock_guard guard(lock_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Ticker(const Ticker &) = delete;
  Ticker &operator=(const Ticker &) = delete;

 private:
  std::mutex lock_;  // ended_
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace flushlight::probe
