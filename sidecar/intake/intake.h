// SPDX-License-Identifier: GPL-2.0-or-later
// All attached processes: hands out memory, polls the rings, lets go of what has gone.
// Owner: main thread.
#pragma once
#include <list>
#include <map>
#include <memory>

#include "sidecar/base/result.h"
#include "sidecar/intake/lease.h"

namespace flushlight {

struct IntakeLimits {
  uint32_t ring_data_bytes = FL_RING_DATA_BYTES_DEFAULT;
  uint32_t slots_per_process_max = 1024;
  uint64_t memory_max_bytes = 512ull << 20;
};

class Intake {
 public:
  Intake(const Clock &clock, SymbolTable &symbols, RecordSink &sink, IntakeLimits limits);

  // The instance to forget before `peer` can have the wanted name: it has that name, belongs to another user and has no
  // process; or the table is full, and this one has no process for longest. nullptr: there is room, or none can go.
  [[nodiscard]] const Instance *superfluous_instance(const std::string &wanted, uid_t peer) const;
  void forget(uint32_t instance);
  // The instance that a process names; refuses a name that another user's processes hold.
  Result<Instance *> find_or_add_instance(const fl_hello &hello, uid_t peer);
  // Memory for `slots` threads. `range` as granted by the kernel side, or empty.
  Result<Lease *> attach(Instance *instance, uint32_t slots, const kernel::Lease &range);
  // Takes what is left in the rings, then lets go.
  void detach(Lease *lease);

  // One pass over every ring. After it the sink has seen all that was published before the call.
  Lease::Drained drain();

  // How long to wait until the next pass, from how full the rings were. Bounded by 10 ms, in which the
  // fastest producer seen (8,000 asynchronous commits a second) fills a third of a ring.
  [[nodiscard]] uint64_t interval_ns() const { return interval_ns_; }

  [[nodiscard]] const std::list<std::unique_ptr<Lease>> &leases() const { return leases_; }
  [[nodiscard]] const std::map<std::string, std::unique_ptr<Instance>> &instances() const { return instances_; }
  [[nodiscard]] const Instance *instance(const std::string &name) const;
  [[nodiscard]] const Instance *instance(uint32_t id) const;
  // Everything that comes from now on goes there too; nullptr: no more.
  void set_recorder(Recorder *recorder) { context_.recorder = recorder; }
  void set_limits(const IntakeLimits &limits) { limits_ = limits; }
  [[nodiscard]] const IntakeLimits &limits() const { return limits_; }
  [[nodiscard]] uint64_t memory_bytes() const { return memory_bytes_; }
  [[nodiscard]] uint32_t slots_for(uint32_t wanted) const;

 private:
  void adapt(const Lease::Drained &drained);

  Lease::Context context_;
  IntakeLimits limits_;
  std::map<std::string, std::unique_ptr<Instance>> instances_;
  std::unordered_map<uint32_t, const Instance *> by_id_;
  uint32_t last_id_ = 0;  // ids are never used twice
  uint32_t last_lease_ = 0;
  std::list<std::unique_ptr<Lease>> leases_;
  uint64_t memory_bytes_ = 0;
  uint64_t interval_ns_;
};

}  // namespace flushlight
