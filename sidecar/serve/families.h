// SPDX-License-Identifier: GPL-2.0-or-later
// Which server a thread or process of the host belongs to. For one look: made anew each time.
#pragma once
#include <map>
#include <vector>

#include "sidecar/intake/intake.h"

namespace flushlight {

// Which lease holds each slot of the ledger.
class SlotLeases {
 public:
  explicit SlotLeases(const Intake &intake);
  [[nodiscard]] const Lease *find(uint32_t slot) const;

 private:
  std::map<uint32_t, const Lease *> by_first_slot_;
};

// Processes and background threads belong to the instance of their process, or (PostgreSQL) of their siblings.
class Families {
 public:
  Families(const SlotLeases &leases, const std::vector<kernel::ThreadState> &threads);
  [[nodiscard]] const Instance *find(uint32_t process) const;

 private:
  void add(uint32_t process, const Instance *instance);
  std::map<uint32_t, const Instance *> by_process_, by_parent_;
};

}  // namespace flushlight
