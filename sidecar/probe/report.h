// SPDX-License-Identifier: GPL-2.0-or-later
// A run as JSON. docs/probe.md says what each field means; a test compares the two.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "sidecar/probe/judge.h"
#include "sidecar/probe/runner.h"

namespace flushlight::probe {

inline constexpr const char *kSchema = "flushlight-probe/1";

// How the databases' commits were looked after meanwhile.
struct WatchReport {
  std::string state = "off";  // watched, no_daemon, off
  std::string detail;
  std::optional<double> baseline_p99_ms, limit_ms, worst_p99_ms;
  uint64_t commits = 0;
};

struct Report {
  Run run;
  FlushJudgement flush;
  Ranking ranking;
  WatchReport watch;
  Limits limits;
  uint64_t written_bytes = 0;
  unsigned workers = 0;
  double reserve_share = 0;
  bool power_loss_protection = false;
  std::string started_at;  // UTC
};

nlohmann::ordered_json to_json(const Report &report);
nlohmann::ordered_json to_json(const Times &times);  // without the histogram
nlohmann::ordered_json to_json(const BlockDevice &device);

}  // namespace flushlight::probe
