// SPDX-License-Identifier: GPL-2.0-or-later
// What a server says about itself: settings and statistics, plain data. Nothing that was not told is here.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/attach.h"

namespace flushlight {

struct EngineSetting {
  std::string value;             // numbers in base units: bytes, milliseconds
  std::string unit;              // "B", "ms" or none
  std::string origin;            // who set it, in the server's words
  bool needs_restart = false;    // to be changed
  bool pending_restart = false;  // it was changed and waits for one
};
using EngineSettings = std::map<std::string, EngineSetting, std::less<>>;
using EngineStatistics = std::map<std::string, double, std::less<>>;

struct EngineReplica {
  std::string name, sync_state;                                     // PostgreSQL's words
  std::optional<double> write_lag_ms, flush_lag_ms, replay_lag_ms;  // NULL: nothing was replicated lately
};

struct EngineFacts {
  fl_engine engine{};
  std::string target;           // where it was asked; no secrets
  std::string instance;         // as configured; empty: it is the one of server_process
  uint32_t server_process = 0;  // as this PID namespace numbers it; 0: not known (TCP)
  std::string error;            // not empty: nothing was read now; the rest is of the last time
  int version = 0;              // 150018, 101118
  std::string version_text;
  EngineSettings settings;
  EngineStatistics statistics;
  std::vector<EngineReplica> replicas;
  std::vector<std::string> refused;  // what rights are lacking for
  uint64_t read_ns = 0;              // CLOCK_MONOTONIC; 0: never
  EngineStatistics earlier;          // those of some minutes ago, for what happened since
  uint64_t earlier_ns = 0;

  [[nodiscard]] bool known() const { return read_ns != 0; }
  [[nodiscard]] const EngineSetting *setting(std::string_view name) const;
  [[nodiscard]] std::string text(std::string_view name) const;  // of a setting; empty: not known
  [[nodiscard]] std::optional<double> number(std::string_view name) const;
  [[nodiscard]] std::optional<bool> is_on(std::string_view name) const;
  [[nodiscard]] std::optional<double> statistic(std::string_view name) const;
  // What a counter grew by since `earlier`; nothing where it was reset in between.
  [[nodiscard]] std::optional<double> grown(std::string_view name) const;
  [[nodiscard]] double window_s() const { return static_cast<double>(read_ns - earlier_ns) / 1e9; }
};

}  // namespace flushlight
