// SPDX-License-Identifier: GPL-2.0-or-later
// All servers that are asked for their settings and statistics, each by a thread of its own: one that does not answer
// holds up its own facts only. Without credentials everything else goes on.
// Owner: main thread.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/base/config.h"
#include "sidecar/engines/reader.h"
#include "sidecar/host/refreshed.h"

namespace flushlight {

// Adds to a reader what comes of reading again and again: times, errors, the figures of some minutes ago.
// Owner: the thread that reads.
class EngineHistory {
 public:
  static constexpr uint64_t kWindowNs = 600'000'000'000;
  static constexpr uint64_t kKeepEveryNs = 30'000'000'000;

  EngineHistory(std::unique_ptr<EngineReader> reader, fl_engine engine, std::string target, std::string instance);
  EngineFacts read(uint64_t now_ns);

 private:
  struct Sample {
    uint64_t at_ns = 0;
    EngineStatistics statistics;
  };
  std::unique_ptr<EngineReader> reader_;
  EngineFacts last_;
  std::deque<Sample> samples_;
};

class Engines {
 public:
  void start(const Config &config);
  [[nodiscard]] std::vector<std::shared_ptr<const EngineFacts>> latest() const;
  // What the threads would have found (tests).
  void set(EngineFacts facts);

 private:
  std::vector<std::unique_ptr<Refreshed<EngineFacts>>> targets_;
};

}  // namespace flushlight
