// SPDX-License-Identifier: GPL-2.0-or-later
// What sysfs and the mount table say about block devices. Files are read by whoever calls; see facts.h for
// who does so.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flushlight {

// Kernel numbering: major << 20 | minor.
uint32_t device_number(uint32_t major, uint32_t minor);

struct BlockDevice {
  uint32_t number = 0;
  std::string name;
  std::string mount_point;  // of it or its partitions; several are separated by commas
  std::string file_system;
  std::string transport, model, scheduler, write_cache;  // empty: not known
  std::optional<int64_t> nr_requests, nomerges, rq_affinity, read_ahead_kb, rotational, fua, wbt_lat_us, inflight;
  std::vector<uint32_t> parts;  // disks that a stacked device lies on (layers.h)
  bool stacked = false;         // it makes no requests: all that is observed of it is its parts'
};

using BlockDevices = std::map<uint32_t, BlockDevice>;

// sys: "/sys" (a test brings its own tree); mount_info: text of /proc/self/mountinfo.
BlockDevices read_block_devices(const std::string &sys, const std::string &mount_info);

// "none [mq-deadline] kyber" → "mq-deadline".
std::string active_choice(const std::string &choices);

}  // namespace flushlight
