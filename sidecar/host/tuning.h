// SPDX-License-Identifier: GPL-2.0-or-later
// What of the host, beyond its devices, decides what a commit costs and what can be changed: kernel, memory, io_uring,
// limits of the observed servers. Files are read by whoever calls; see facts.h for who does so.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/host/pressure.h"

namespace flushlight {

// Of an observed server, as its process and cgroup have it.
struct ServerLimits {
  std::optional<int64_t> memlock_bytes;  // INT64_MAX: unlimited
  std::optional<int64_t> memory_bytes;   // of its cgroup, or of one above; nothing: none, or not known
  std::optional<double> cpus;            // cpu.max as CPUs
  std::optional<int64_t> seccomp;        // 0 none, 1 strict, 2 filter
};

struct HostTuning {
  std::string kernel_release;
  int kernel = 0;  // 6012 for 6.12
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> dirty_ratio, dirty_background_ratio, dirty_bytes, dirty_background_bytes, dirty_expire_cs,
      dirty_writeback_cs, swappiness, overcommit_memory;
  std::optional<int64_t> swap_bytes;
  int cpus = 0;
  std::optional<int64_t> memory_nodes;
  std::optional<bool> irqbalance;            // runs
  std::optional<int64_t> io_uring_disabled;  // kernel.io_uring_disabled; nothing: a kernel before 6.6
  std::optional<int> io_uring_error;         // what io_uring_setup(2) says to the daemon: 0 or an errno
  std::vector<std::string> costly_options;   // of the kernel's configuration
  bool kernel_options_known = false;
  std::map<uint32_t, ServerLimits> servers;  // by instance
};

// root: of the file system, "" but for tests. try_io_uring: what io_uring_setup says here (tests bring their own).
HostTuning read_tuning(const std::string &root, const std::vector<Followed> &followed, int (*try_io_uring)());

// Makes a ring and throws it away: 0 or an errno.
int try_io_uring();

// "CONFIG_X=y" lines → the options that cost on a commit's path.
std::vector<std::string> costly_kernel_options(const std::string &config);

}  // namespace flushlight
