// SPDX-License-Identifier: GPL-2.0-or-later
// Who is to blame for a stall: the process that wrote far more than usual shortly before it, or the device itself.
// Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sidecar/kernel/stalls.h"
#include "sidecar/stalls/detector.h"

namespace flushlight::stalls {

struct Culprit {
  bool is_device = true;
  bool is_crowd = false;  // a process that keeps the journal busy meanwhile, not one that wrote before
  std::string process;    // these: unless it is the device
  uint32_t tgid = 0;
  kernel::FileName file;  // of its files the one that it wrote most to
  std::string cgroup;
  uint64_t bytes = 0, syncs = 0;  // in the seconds before
  double share = 0;               // of all bytes (or syncs) that went to the device then
};

inline constexpr uint64_t kFloodBytes = 32u << 20;
inline constexpr double kFloodShare = 0.5;
inline constexpr double kFloodFactor = 4;  // times the bytes that the device took before, in the same time
inline constexpr uint64_t kSyncStorm = 100;
inline constexpr uint64_t kRecentNs = 6'400'000'000;  // that "recent" of the writers covers, in the mean

// usual_bytes_per_second: what the device took in the minute before; nothing: not known, then a database's own writes
// are not blamed. databases: processes that are attached.
Culprit find_culprit(const std::vector<kernel::Writer> &writers, const Episode &stall,
                     std::optional<double> usual_bytes_per_second, const std::set<uint32_t> &databases);

// Who keeps a file system's journal busy: a process that is no database, syncs, and writes much, or half or more of
// all that is written or synced on the device, while others sync too. Nothing: nobody does.
inline constexpr uint64_t kCrowdSyncs = 3;
inline constexpr uint64_t kCrowdFreshNs = 2'000'000'000;  // quiet for longer: it has ended
std::optional<Culprit> find_crowd(const std::vector<kernel::Writer> &writers, uint32_t device,
                                  const std::set<uint32_t> &databases, uint64_t now_ns);

}  // namespace flushlight::stalls
