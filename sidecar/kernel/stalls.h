// SPDX-License-Identifier: GPL-2.0-or-later
// What the kernel side knows about devices that may have stopped: requests outstanding, requests that took long,
// who wrote what, which tasks are blocked. All of it is read on demand; nothing waits for a device.
// Owner: the daemon's main thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flushlight::kernel {

// Histogram of times at the device by powers of two: octave 0 is below 1024 ns, octave i [2^(9+i), 2^(10+i)) ns, the
// last one is open.
inline constexpr size_t kOctaves = 32;
constexpr uint64_t octave_low_ns(size_t octave) { return octave == 0 ? 0 : uint64_t{1} << (9 + octave); }
constexpr uint64_t octave_high_ns(size_t octave) { return uint64_t{1} << (10 + octave); }
using Octaves = std::array<uint64_t, kOctaves>;

// Reads, writes and flushes: what a database waits for. Discards may take seconds on a healthy device.
inline constexpr size_t kStallOperations = 3;

struct DeviceActivity {
  uint32_t device = 0;           // major << 20 | minor
  uint32_t at_device = 0;        // requests issued and not completed, flushes of the flush machinery included
  uint32_t flushing = 0;         // of these, such flushes
  uint32_t queued = 0;           // requests that exist and are not issued
  uint64_t oldest_issue_ns = 0;  // of those at the device; 0: none
  uint64_t oldest_start_ns = 0;  // of all; 0: none
  uint8_t oldest_operation = 0;  // of that at the device for longest
  std::array<Octaves, kStallOperations> completed{};  // ever-growing, by operation

  // The kernel's own count (diskstats); nothing: not read this time.
  std::optional<uint64_t> kernel_inflight, kernel_completed, kernel_bytes;
};

// A file as the kernel names it: the last parts of its path, or only its inode.
struct FileName {
  uint32_t device = 0;    // of its file system: kernel numbering, whole disk
  uint64_t inode = 0;     // 0: not known
  std::string path;       // its last parts; empty: not known
  bool is_whole = false;  // the path reaches up to the root of its file system
};

// A request that took long.
struct SlowRequest {
  uint32_t device = 0;
  uint8_t operation = 0;
  uint64_t start_ns = 0, issue_ns = 0, complete_ns = 0;  // issue 0: never issued itself (a write behind a flush)
  uint64_t sector = 0;
  uint32_t bytes = 0;
  uint32_t tid = 0;     // who submitted it, the host's number; 0: not known
  std::string process;  // empty: not known
  FileName file;
};

// Who wrote and synced: process and file. Ever-growing, from its first write while traced.
struct Writer {
  uint32_t tgid = 0;
  std::string process;
  FileName file;
  uint64_t writes = 0, bytes = 0, syncs = 0;
  std::optional<uint64_t> sync_ns;              // nothing: the file system does not say when a sync ends
  uint64_t recent_bytes = 0, recent_syncs = 0;  // in the last four to nine seconds
  uint64_t last_ns = 0;
  std::string cgroup;  // its own name; empty: the root group
};

// A task that sleeps uninterruptibly.
struct BlockedTask {
  uint32_t tid = 0, tgid = 0;  // the host's numbers
  uint64_t blocked_ns = 0;     // time since it ran; 0: not known
  bool in_iowait = false, is_kernel = false;
  std::string name;
  std::vector<std::string> stack;  // innermost first; empty: not permitted
};

class StallSource {
 public:
  virtual ~StallSource() = default;
  virtual std::vector<DeviceActivity> activity() = 0;
  // Since the last call, oldest first; adds what was overwritten before it could be read.
  virtual std::vector<SlowRequest> take_slow_requests(uint64_t *lost) = 0;
  virtual std::vector<Writer> writers() = 0;
  virtual std::vector<BlockedTask> blocked_tasks() = 0;
};

}  // namespace flushlight::kernel
