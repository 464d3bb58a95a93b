// SPDX-License-Identifier: GPL-2.0-or-later
// One look at the devices as text, so that the record of a real run has what stalls are found from (intake/recorder.h).
// JSON: records are compressed, and whoever wonders can read them.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/host/disk_stats.h"
#include "sidecar/kernel/stalls.h"
#include "sidecar/kernel/tracer.h"

namespace flushlight::stalls {

struct LookRecord {
  uint64_t now_ns = 0;
  int64_t unix_ns = 0;
  AllDiskStats stats;  // of these devices only
  std::vector<kernel::DeviceActivity> devices;
  std::vector<kernel::SlowRequest> requests;
  std::vector<kernel::JournalCommits> journals;
  // Asked for only when there was a reason.
  std::optional<std::vector<kernel::Writer>> writers;
  std::set<uint32_t> databases;
};

std::string to_text(const LookRecord &look);
// Nothing: it is damaged.
std::optional<LookRecord> parse_look(std::string_view text);

}  // namespace flushlight::stalls
