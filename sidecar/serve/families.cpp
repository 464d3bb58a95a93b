// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/families.h"

#include "sidecar/host/process.h"

namespace flushlight {

SlotLeases::SlotLeases(const Intake &intake) {
  for (const auto &lease : intake.leases())
    if (lease->traced()) by_first_slot_[lease->range().first_slot] = lease.get();
}

const Lease *SlotLeases::find(uint32_t slot) const {
  auto after = by_first_slot_.upper_bound(slot);
  if (after == by_first_slot_.begin()) return nullptr;
  const Lease *lease = std::prev(after)->second;
  return slot < lease->range().first_slot + lease->range().slot_count ? lease : nullptr;
}

Families::Families(const SlotLeases &leases, const std::vector<kernel::ThreadState> &threads) {
  for (const auto &thread : threads)
    if (const Lease *lease = leases.find(thread.slot)) add(thread.host_tgid, &lease->instance());
}

void Families::add(uint32_t process, const Instance *instance) {
  if (!by_process_.try_emplace(process, instance).second || !instance->is(FL_ENGINE_POSTGRESQL)) return;
  if (const uint32_t parent = read_thread_facts(process).parent; parent > 1) by_parent_.try_emplace(parent, instance);
}

const Instance *Families::find(uint32_t process) const {
  if (const auto found = by_process_.find(process); found != by_process_.end()) return found->second;
  if (const auto found = by_parent_.find(process); found != by_parent_.end()) return found->second;
  const auto found = by_parent_.find(read_thread_facts(process).parent);
  return found != by_parent_.end() ? found->second : nullptr;
}

}  // namespace flushlight
