// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/kernel/leases.h"

#include <algorithm>

namespace flushlight::kernel {

LeaseTable::LeaseTable(uint32_t first, uint32_t end, std::function<bool(uint32_t)> slot_free)
    : first_(first), end_(end), slot_free_(std::move(slot_free)) {}

Lease LeaseTable::take(uint32_t wanted, uint64_t token) {
  // The first gap that is large enough, else the largest one.
  uint32_t best_at = 0, best_size = 0, at = first_;
  auto consider = [&](uint32_t gap_end) {
    uint32_t size = gap_end - at;
    if (best_size < wanted && size > best_size) {
      best_at = at;
      best_size = size;
    }
  };
  for (const auto &[begin, range] : ranges_) {
    consider(begin);
    at = begin + range.count;
  }
  consider(end_);
  Lease lease{token, best_at, std::min(best_size, std::max(wanted, 1u))};
  if (lease.slot_count != 0) ranges_[lease.first_slot] = Range{lease.slot_count, false};
  return lease;
}

void LeaseTable::give_back(const Lease &lease) {
  auto found = ranges_.find(lease.first_slot);
  if (found != ranges_.end()) found->second.leaving = true;
}

void LeaseTable::sweep() {
  for (auto at = ranges_.begin(); at != ranges_.end();) {
    bool free = at->second.leaving;
    for (uint32_t i = 0; free && i < at->second.count; i++) free = slot_free_(at->first + i);
    at = free ? ranges_.erase(at) : std::next(at);
  }
}

uint32_t LeaseTable::granted_slots() const {
  uint32_t total = 0;
  for (const auto &[begin, range] : ranges_) total += range.count;
  return total;
}

}  // namespace flushlight::kernel
