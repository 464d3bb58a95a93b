// SPDX-License-Identifier: GPL-2.0-or-later
// What procfs says about threads. Only files that are answered from memory and take no lock of the process
// (stat and comm; never cmdline or maps).
#pragma once
#include <cstdint>
#include <string>

namespace flushlight {

struct ThreadFacts {
  std::string name;     // empty: not visible here (another PID namespace) or gone
  uint32_t parent = 0;  // process id of the parent
};
ThreadFacts read_thread_facts(uint32_t tid);

// What /proc/PID/cgroup says; empty: not visible here, or gone.
std::string read_cgroup_text(uint32_t process);

// CPU time of this process so far.
uint64_t own_cpu_ns();

}  // namespace flushlight
