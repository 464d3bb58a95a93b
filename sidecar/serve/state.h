// SPDX-License-Identifier: GPL-2.0-or-later
// What the daemon knows about itself, for `health`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace flushlight {

struct DaemonState {
  uint64_t started_ns = 0;
  bool off = false;
  std::string off_reason;      // who switched it off, and how to switch it on again
  bool tracing_wanted = true;  // by configuration
  std::string tracing_error;   // why there is no kernel side; empty: there is one
  std::string memory_lock_error;
  std::string metrics_listen;             // empty: not wanted
  std::string metrics_error;              // why they are not served; empty: they are
  std::optional<double> own_cpu_percent;  // over the last ten seconds, of one CPU
  std::optional<double> kernel_cpu_percent;
  double max_cpu_percent = 0;
  uint64_t refused_peers = 0;        // connections of users that are not allowed
  uint64_t refused_messages = 0;     // that made no sense
  uint64_t refused_connections = 0;  // over the limit
  uint64_t dropped_readers = 0;      // that did not read their answer in time
};

}  // namespace flushlight
