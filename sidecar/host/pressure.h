// SPDX-License-Identifier: GPL-2.0-or-later
// How short the host and the cgroups of the observed servers are of CPU, memory and I/O: from /proc and cgroupfs, files
// that the kernel answers from memory.
// Owner of PressureReader: one thread (facts.h).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flushlight {

// Pressure stall information: time that some (or all) tasks waited.
struct Stalled {
  std::optional<double> percent;    // of the last ten seconds
  std::optional<int64_t> total_us;  // since the start of the host or cgroup
};

struct Pressure {
  uint32_t instance = 0;  // 0: the host
  std::string name;       // of the cgroup
  Stalled cpu_some, cpu_full, io_some, io_full, memory_some, memory_full;
  std::optional<int64_t> dirty_bytes, writeback_bytes, dirty_limit_bytes, dirty_background_bytes;
  std::optional<int64_t> direct_reclaims, direct_reclaim_bytes, compaction_stalls, swap_in_bytes;
  std::optional<int64_t> cpu_throttled, cpu_throttled_us;
  std::string io_limit;  // empty: none
  std::optional<double> softirq_top_percent, steal_percent, load_1m;
  std::optional<int64_t> softirq_top_cpu, runnable_tasks, blocked_tasks;
};
using Pressures = std::vector<Pressure>;  // the host first

// An observed server and what /proc/PID/cgroup said about one of its processes when it attached: by the time that
// somebody asks, the process may be gone, as every client of PostgreSQL is.
struct Followed {
  uint32_t instance = 0;
  std::string cgroup;
  uint32_t process = 0;  // of the server; 0: not visible from here
};

class PressureReader {
 public:
  explicit PressureReader(std::string root = "") : root_(std::move(root)) {}  // of the file system: for tests
  Pressures read(const std::vector<Followed> &followed);

 private:
  struct CpuTimes {
    int64_t total = 0, softirq = 0, steal = 0;
  };
  struct Cgroup {
    std::string text;                               // that it was found with
    std::string name, unified, memory, cpu, blkio;  // folders; empty: not found
  };
  Pressure read_host();
  void read_proc_stat(Pressure *host);
  Pressure read_cgroup(uint32_t instance, const Cgroup &cgroup) const;
  void resolve(const Followed &followed);

  std::string root_;
  std::map<int, CpuTimes> last_cpus_;   // -1: all together
  std::map<uint32_t, Cgroup> cgroups_;  // by instance
};

}  // namespace flushlight
