// SPDX-License-Identifier: GPL-2.0-or-later
// Reads one ring of a database thread. Everything in it is hostile: positions are checked against an own
// copy of the tail, bytes are copied out before they are looked at, work is bounded by the ring's size.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "abi/ring.h"

namespace flushlight {

// What the producer's side of the head says now, for the live view. Unchecked values.
struct RingLive {
  uint64_t session_id = 0;
  uint64_t queryid = 0;
  uint64_t window_begin_ns = 0;
};

// A record inside the private copy: its length fits what was copied and its type's smallest size.
struct RecordView {
  uint16_t type = 0;
  std::span<const std::byte> bytes;

  // A copy of the fixed part. The caller asks for the struct of this type only.
  template <typename T>
  [[nodiscard]] T fixed() const {
    T value;
    __builtin_memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};

class RingReader {
 public:
  struct Counts {
    uint64_t dropped = 0;         // records that found no room
    uint64_t commits_seen = 0;    // durable commits, recorded or not
    uint64_t commits_missed = 0;  // of sessions that were not observed
    uint64_t bad = 0;             // records or positions that made no sense
    uint64_t unknown = 0;         // record types of a newer client
  };

  RingReader(void *memory, uint32_t data_bytes);

  // Where the producer stands; adds the growth of its counters to `counts`. A position that makes no sense
  // is counted and everything in the ring is given up. The result is never before tail().
  uint64_t poll(Counts *counts);

  // Copies [tail, end) out and cuts it into records. Bad ones are left out, and counted if `counts` is given.
  void copy(uint64_t end, std::vector<std::byte> *scratch, std::vector<RecordView> *records, Counts *counts) const;

  void release(uint64_t end);  // the producer may overwrite everything before
  [[nodiscard]] uint64_t tail() const { return tail_; }
  [[nodiscard]] uint32_t data_bytes() const { return data_bytes_; }
  [[nodiscard]] RingLive live() const;

 private:
  fl_ring_head *head_;
  const std::byte *data_;
  uint32_t data_bytes_;
  uint64_t tail_ = 0;
  uint64_t last_dropped_ = 0;
  uint64_t last_seen_ = 0;
  uint64_t last_missed_ = 0;
};

}  // namespace flushlight
