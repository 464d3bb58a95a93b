// SPDX-License-Identifier: GPL-2.0-or-later
// What became of changes, kept over restarts in a small SQLite file. Written by a thread of its own: a stalled disk
// never holds up the daemon. At most kRowsMax rows.
// Owner: main thread; the thread has the database, mutex_ guards queue_, error_ and stop_.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sidecar/base/result.h"

namespace flushlight::advise {

struct Outcomes {
  std::string instance, rule, scope, setting, value_before, value_after, state, why, risk;
  int64_t changed_unix_ns = 0;
  std::optional<double> predicted_p50_ms, predicted_p99_ms, measured_p50_ms, measured_p99_ms;
};

class History {
 public:
  static constexpr int kRowsMax = 1000;
  static constexpr size_t kQueueMax = 1000;  // while the disk does not answer

  ~History();
  // Opens the file and starts the thread; what it holds, newest last. Waits for the disk: at the start only.
  Result<std::vector<Outcomes>> open(const std::string &path);
  void add(Outcomes outcomes);
  // Why it cannot be written; empty: all is well.
  [[nodiscard]] std::string error() const;
  [[nodiscard]] uint64_t lost() const;

 private:
  void run();
  std::string write(const Outcomes &outcomes);

  std::string path_;
  struct Database;
  Database *database_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Outcomes> queue_;
  std::string error_;
  uint64_t lost_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace flushlight::advise
