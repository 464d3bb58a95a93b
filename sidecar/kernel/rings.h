// SPDX-License-Identifier: GPL-2.0-or-later
// What the kernel knows of io_uring instances. Read on demand: a look goes through the open files of all tasks.
// Owner: the daemon's main thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flushlight::kernel {

struct Ring {
  enum class Poller : uint8_t { kNone, kSleeps, kRuns, kWaitsForCpu };

  // Who made it; where that was not seen, the oldest process that holds it. And the process of the last completion.
  uint32_t owner = 0, user = 0;  // the host's numbers; 0: not known
  std::string owner_name, user_name;
  std::optional<uint32_t> descriptor;  // of the owner
  bool created = false;                // its creation was seen
  uint64_t counted_ns = 0;             // events are counted since

  // As the ring itself counts, since its creation.
  uint32_t flags = 0, sq_entries = 0, cq_entries = 0;
  uint64_t submitted = 0, posted = 0;
  uint32_t sq_pending = 0, cq_pending = 0;
  uint32_t sq_dropped = 0, cq_dropped = 0;

  // Events; nothing: this kernel does not tell.
  std::optional<uint64_t> punts, failed, overflows;
  std::optional<uint64_t> timed;  // requests whose time is known
  uint64_t time_ns = 0;           // of these together
  std::vector<uint64_t> buckets;  // abi/histogram.h

  // The kernel's thread that takes submissions (SQPOLL).
  Poller poller = Poller::kNone;
  uint32_t poller_tid = 0;
  std::optional<uint32_t> poller_cpu;  // bound to it
  uint64_t poller_run_ns = 0;
  std::optional<uint64_t> poller_wait_ns;  // runnable without a CPU
};

}  // namespace flushlight::kernel
