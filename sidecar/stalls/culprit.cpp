// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/culprit.h"

#include <algorithm>
#include <map>
#include <string>

namespace flushlight::stalls {
namespace {

// All of one name: a script that starts one copy after the other floods as well as a single one.
struct Process {
  uint64_t bytes = 0, syncs = 0;
  uint64_t last_ns = 0;
  bool is_database = false;
  const kernel::Writer *by_bytes = nullptr, *by_syncs = nullptr;  // its file with most of them
};

Culprit blame(const Process &process, const kernel::Writer &writer, double share) {
  Culprit culprit;
  culprit.is_device = false;
  culprit.process = writer.process;
  culprit.tgid = writer.tgid;
  culprit.file = writer.file;
  culprit.cgroup = writer.cgroup;
  culprit.bytes = process.bytes;
  culprit.syncs = process.syncs;
  culprit.share = share;
  return culprit;
}

double ratio(uint64_t part, uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// What was written to one device lately.
struct Recent {
  std::map<std::string, Process> processes;
  uint64_t bytes = 0, syncs = 0;
};

Recent recent(const std::vector<kernel::Writer> &writers, uint32_t device, const std::set<uint32_t> &databases) {
  Recent all;
  for (const kernel::Writer &writer : writers) {
    if (writer.file.device != device) continue;
    Process &process = all.processes[writer.process];
    process.is_database |= databases.contains(writer.tgid);
    process.bytes += writer.recent_bytes;
    process.syncs += writer.recent_syncs;
    process.last_ns = std::max(process.last_ns, writer.last_ns);
    all.bytes += writer.recent_bytes;
    all.syncs += writer.recent_syncs;
    if (process.by_bytes == nullptr || writer.recent_bytes > process.by_bytes->recent_bytes) process.by_bytes = &writer;
    if (process.by_syncs == nullptr || writer.recent_syncs > process.by_syncs->recent_syncs) process.by_syncs = &writer;
  }
  return all;
}

}  // namespace

Culprit find_culprit(const std::vector<kernel::Writer> &writers, const Episode &stall,
                     std::optional<double> usual_bytes_per_second, const std::set<uint32_t> &databases) {
  const auto [processes, all_bytes, all_syncs] = recent(writers, stall.device, databases);
  const double usual_bytes = usual_bytes_per_second.value_or(0) * static_cast<double>(kRecentNs) / 1e9;
  for (const auto &[name, process] : processes) {
    const double share = ratio(process.bytes, all_bytes);
    if (process.bytes < kFloodBytes || share < kFloodShare) continue;
    if (static_cast<double>(process.bytes) < kFloodFactor * usual_bytes) continue;
    if (!usual_bytes_per_second && process.is_database) continue;
    return blame(process, *process.by_bytes, share);
  }
  if (stall.kind == Kind::kSlowFlush)
    for (const auto &[name, process] : processes)
      if (const double share = ratio(process.syncs, all_syncs);
          process.syncs >= kSyncStorm && share >= kFloodShare && !process.is_database)
        return blame(process, *process.by_syncs, share);
  return {};
}

std::optional<Culprit> find_crowd(const std::vector<kernel::Writer> &writers, uint32_t device,
                                  const std::set<uint32_t> &databases, uint64_t now_ns) {
  const Recent all = recent(writers, device, databases);
  const Process *best = nullptr;
  double share_of_bytes = 0, share_of_syncs = 0;
  for (const auto &[name, process] : all.processes) {
    if (process.is_database || process.syncs < kCrowdSyncs || process.syncs == all.syncs) continue;
    if (process.last_ns + kCrowdFreshNs < now_ns) continue;
    const double of_bytes = ratio(process.bytes, all.bytes), of_syncs = ratio(process.syncs, all.syncs);
    // (a database's own log may be most of the bytes, and it waits for the others all the same)
    const bool much = process.bytes >= kFloodBytes || process.syncs >= kSyncStorm;
    if (!much && std::max(of_bytes, of_syncs) < kFloodShare) continue;
    if (best != nullptr && process.bytes <= best->bytes) continue;
    best = &process;
    share_of_bytes = of_bytes;
    share_of_syncs = of_syncs;
  }
  if (best == nullptr) return std::nullopt;
  const bool by_bytes = share_of_bytes >= share_of_syncs || best->bytes >= kFloodBytes;
  Culprit culprit =
      blame(*best, by_bytes ? *best->by_bytes : *best->by_syncs, by_bytes ? share_of_bytes : share_of_syncs);
  culprit.is_crowd = true;
  return culprit;
}

}  // namespace flushlight::stalls
