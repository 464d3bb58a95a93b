// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/intake/intake.h"

#include <fmt/format.h>

#include <algorithm>

#include "sidecar/base/text.h"

namespace flushlight {
namespace {

constexpr size_t kInstancesMax = 1024;
constexpr uint64_t kIntervalMinNs = 1'000'000;
constexpr uint64_t kIntervalBusyNs = 2'000'000;
constexpr uint64_t kIntervalMaxNs = 10'000'000;
constexpr double kFillHigh = 0.25;
constexpr double kFillLow = 0.05;

}  // namespace

Intake::Intake(const Clock &clock, SymbolTable &symbols, RecordSink &sink, IntakeLimits limits)
    : context_{clock, symbols, sink, {}, {}}, limits_(limits), interval_ns_(kIntervalMaxNs) {}

Result<Instance *> Intake::find_or_add_instance(const fl_hello &hello, uid_t peer) {
  const std::string name = field_text(hello.instance);
  if (name.empty()) return Error{EPROTO, "HELLO names no instance"};
  if (hello.engine < FL_ENGINE_POSTGRESQL || hello.engine > FL_ENGINE_PROGRAM)
    return Error{EPROTO, fmt::format("HELLO names engine {}, which this daemon does not know", hello.engine)};
  const auto found = instances_.find(name);
  if (found == instances_.end() && instances_.size() >= kInstancesMax)
    return Error{EAGAIN, fmt::format("{} instances are attached: there is no room for more", kInstancesMax)};
  Instance *instance = nullptr;
  if (found == instances_.end()) {
    auto added = std::make_unique<Instance>();
    added->id = ++last_id_;
    added->name = name;
    added->owner = peer;
    instance = added.get();
    instances_.emplace(name, std::move(added));
    by_id_[instance->id] = instance;
  } else {
    instance = found->second.get();
    if (instance->owner != peer && instance->attached > 0) {
      instance->not_attached++;
      return Error{EACCES,
                   fmt::format("processes of user {} already use the instance name '{}'; give this server another",
                               instance->owner, name)};
    }
    instance->owner = peer;
  }
  instance->engine = hello.engine;
  instance->engine_version = field_text(hello.engine_version);
  instance->client_version = field_text(hello.client_version);
  if (hello.file_system != 0) instance->file_system = hello.file_system;
  return instance;
}

uint32_t Intake::slots_for(uint32_t wanted) const {
  return std::clamp<uint32_t>(wanted, 1, limits_.slots_per_process_max);
}

Result<Lease *> Intake::attach(Instance *instance, uint32_t slots, const kernel::Lease &range) {
  const size_t ring_bytes = FL_RING_HEAD_BYTES + size_t{limits_.ring_data_bytes};
  const size_t bytes = ring_bytes * slots;
  if (memory_bytes_ + bytes > limits_.memory_max_bytes) {
    instance->not_attached++;
    return Error{EAGAIN,
                 fmt::format("the rings of all processes would take {} bytes, more than rings.memory_max_bytes ({})",
                             memory_bytes_ + bytes, limits_.memory_max_bytes)};
  }
  auto memory = MemoryFile::create("flushlight-rings", bytes, MemoryFile::Access::kShared);
  if (!memory) {
    instance->not_attached++;
    return memory.error();
  }
  leases_.push_back(std::make_unique<Lease>(instance, std::move(*memory), slots, limits_.ring_data_bytes, range));
  memory_bytes_ += bytes;
  instance->attached++;
  if (range.slot_count > 0) instance->traced++;
  return leases_.back().get();
}

void Intake::detach(Lease *lease) {
  lease->drain(&context_);
  Instance &instance = lease->instance();
  instance.attached--;
  instance.detached_ns = context_.clock.now_ns();
  if (lease->traced()) instance.traced--;
  memory_bytes_ -= lease->memory_bytes();
  leases_.remove_if([lease](const auto &held) { return held.get() == lease; });
}

Lease::Drained Intake::drain() {
  Lease::Drained total;
  for (const auto &lease : leases_) {
    const Lease::Drained drained = lease->drain(&context_);
    total.records += drained.records;
    total.fill = std::max(total.fill, drained.fill);
  }
  adapt(total);
  return total;
}

void Intake::adapt(const Lease::Drained &drained) {
  if (drained.fill > kFillHigh)
    interval_ns_ = std::max(interval_ns_ / 2, kIntervalMinNs);
  else if (drained.records == 0)
    interval_ns_ = std::min(interval_ns_ + interval_ns_ / 2, kIntervalMaxNs);
  else if (drained.fill > kFillLow)
    interval_ns_ = std::min(interval_ns_, kIntervalBusyNs);
  else
    interval_ns_ = std::min(interval_ns_ + interval_ns_ / 4, kIntervalMaxNs);
}

const Instance *Intake::instance(const std::string &name) const {
  const auto found = instances_.find(name);
  return found == instances_.end() ? nullptr : found->second.get();
}

const Instance *Intake::instance(uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

const Instance *Intake::superfluous_instance(const std::string &wanted, uid_t peer) const {
  // What one user's server did is not for the next one that takes its name.
  if (const Instance *held = instance(wanted)) return held->owner != peer && held->attached == 0 ? held : nullptr;
  if (instances_.size() < kInstancesMax) return nullptr;
  const Instance *oldest = nullptr;
  for (const auto &[name, instance] : instances_)
    if (instance->attached == 0 && (oldest == nullptr || instance->detached_ns < oldest->detached_ns))
      oldest = instance.get();
  return oldest;
}

void Intake::forget(uint32_t id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  const std::string name = found->second->name;
  by_id_.erase(found);
  instances_.erase(name);
}

}  // namespace flushlight
