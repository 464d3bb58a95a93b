// SPDX-License-Identifier: GPL-2.0-or-later
// Ranges of slots: who has which, and when a range may be granted again.
// Owner: the daemon's main thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>

#include "sidecar/kernel/tracer.h"

namespace flushlight::kernel {

class LeaseTable {
 public:
  // Slots [first, end) are to be had. `slot_free` asks the ledger.
  LeaseTable(uint32_t first, uint32_t end, std::function<bool(uint32_t)> slot_free);

  // First fit; nullptr-like (slot_count 0) when not even one slot is left.
  Lease take(uint32_t wanted, uint64_t token);
  // The process is gone; the range comes back once every slot in it is free.
  void give_back(const Lease &lease);
  void sweep();

  [[nodiscard]] uint32_t granted_slots() const;

 private:
  struct Range {
    uint32_t count = 0;
    bool leaving = false;
  };
  uint32_t first_;
  uint32_t end_;
  std::function<bool(uint32_t)> slot_free_;
  std::map<uint32_t, Range> ranges_;  // by first slot
};

}  // namespace flushlight::kernel
