// SPDX-License-Identifier: GPL-2.0-or-later
// What slowfs and slowctl share: one mmapped file on tmpfs. Changing a fault or reading the log is a memory
// access and never an operation of the slow device itself.
//
// Writers: slowctl (or a test) writes the settings; slowfs's threads write the log. Every field is an atomic of
// its own; a log entry is valid when its sequence is its number + 1.
#pragma once
#include <atomic>
#include <cstdint>
#include <ctime>

namespace rig {

enum class Kind : uint32_t { read = 0, write = 1, flush = 2 };
constexpr unsigned kKinds = 3;
constexpr const char *kKindNames[kKinds] = {"read", "write", "flush"};
constexpr uint64_t kMagic = 0x31574f4c53474952;  // "RIGSLOW1"
constexpr uint64_t kLogEntries = 1 << 18;

// One operation: when it came, until when it was held, when it was answered. CLOCK_MONOTONIC.
struct Operation {
  std::atomic<uint64_t> sequence;
  uint64_t begin_ns;
  uint64_t released_ns;
  uint64_t end_ns;
  uint64_t offset_bytes;
  uint32_t length_bytes;
  Kind kind;
  uint64_t asked_ns;  // 0: was not to be held
};

struct SlowControl {
  uint64_t magic;
  std::atomic<uint64_t> ready;  // the file system is mounted
  std::atomic<uint64_t> delay_ns[kKinds];
  std::atomic<uint64_t> frozen_until_ns;  // everything waits until then
  std::atomic<uint64_t> range_offset_bytes;
  std::atomic<uint64_t> range_length_bytes;  // not 0: reads and writes are held only where they touch the range
  std::atomic<uint64_t> logged;              // operations logged so far; the last kLogEntries are kept
  Operation log[kLogEntries];
};

inline uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace rig
