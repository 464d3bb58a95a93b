// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel's own counts of what each block device was asked and did: /proc/diskstats, which is answered from memory.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>

#include "sidecar/base/unique_fd.h"

namespace flushlight {

struct DiskStats {
  uint64_t completed = 0;  // reads, writes and flushes
  uint64_t bytes = 0;      // read and written
  uint64_t inflight = 0;
};
using AllDiskStats = std::map<uint32_t, DiskStats>;  // by kernel number: major << 20 | minor; partitions too

AllDiskStats parse_disk_stats(std::string_view text);

class DiskStatsFile {
 public:
  AllDiskStats read();

 private:
  UniqueFd fd_;
};

}  // namespace flushlight
