// SPDX-License-Identifier: GPL-2.0-or-later
// Writes down what intake gets, so that everything after it can be tested from real runs without root (tests/replay).
// All is kept in memory, at most kBytesMax, and written when the daemon stops: the intake loop never waits for a disk.
//
// The file is gzip over: the line "flushlight record 1", then chunks: a ReplayChunk, then `bytes` bytes.
// Owner: main thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/attach.h"
#include "abi/ring.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/result.h"
#include "sidecar/kernel/tracer.h"

namespace flushlight {

inline constexpr std::string_view kReplayMagic = "flushlight record 1\n";

enum class ReplayKind : uint32_t {
  kAttach = 1,  // a process attached; an fl_hello follows
  kDetach,      // it left
  kRecords,     // records of one ring, as they were in it
  kCounters,    // a ReplayCounters: what its process counted since the last time
  kPass,        // a pass over all rings has ended; a ReplayTime
  kCommand,     // an fl_command (reset); `lease` is not used
  kHistogram,   // of a device, at the end; a ReplayHistogram, then pairs of bucket and count, 64 bits each
  kLook,        // at the devices, for stalls; text (stalls/look_record.h)
};

struct ReplayChunk {
  uint32_t kind = 0;   // ReplayKind
  uint32_t lease = 0;  // a number for each attachment
  uint32_t ring = 0;
  uint32_t bytes = 0;
};
struct ReplayCounters {
  uint64_t dropped = 0, commits_seen = 0, commits_missed = 0;
};
struct ReplayTime {
  uint64_t now_ns = 0;
  int64_t unix_ns = 0;
};
struct ReplayHistogram {
  uint32_t device = 0, operation = 0, stage = 0, reserved = 0;
  uint64_t sum_ns = 0;
};

class Recorder {
 public:
  static constexpr size_t kBytesMax = size_t{64} << 20;

  Recorder(const Clock &clock, std::string path) : clock_(clock), path_(std::move(path)), data_(kReplayMagic) {}

  void attached(uint32_t lease, const fl_hello &hello) { put(ReplayKind::kAttach, lease, 0, &hello, sizeof hello); }
  void detached(uint32_t lease) { put(ReplayKind::kDetach, lease, 0, nullptr, 0); }
  void record(uint32_t lease, uint32_t ring, std::span<const std::byte> bytes);
  void counters(uint32_t lease, const ReplayCounters &counters);
  void passed();
  void command(const fl_command &command) { put(ReplayKind::kCommand, 0, 0, &command, sizeof command); }
  void histograms(const std::vector<kernel::DeviceHistogram> &histograms);
  void look(std::string_view text) { put(ReplayKind::kLook, 0, 0, text.data(), text.size()); }
  // Writes the file.
  Result<> finish();

 private:
  void put(ReplayKind kind, uint32_t lease, uint32_t ring, const void *bytes, size_t size);
  void flush();  // the records of one ring that came one after the other

  const Clock &clock_;
  std::string path_, data_;
  bool full_ = false, in_pass_ = false;
  uint32_t lease_ = 0, ring_ = 0;
  std::string records_;
};

// Takes a file apart. Everything in it is checked; a damaged one is an error.
struct ReplayItem {
  ReplayChunk chunk;
  std::string bytes;
};
Result<std::vector<ReplayItem>> read_replay(const std::string &path);

}  // namespace flushlight
