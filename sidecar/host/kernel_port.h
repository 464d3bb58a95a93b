// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel side behind an interface: the daemon runs without it (tier B), the tests with a made-up one.
// Owner: main thread.
#pragma once
#include <memory>
#include <optional>

#include "sidecar/kernel/stalls.h"
#include "sidecar/kernel/tracer.h"

namespace flushlight {

class KernelPort {
 public:
  virtual ~KernelPort() = default;
  [[nodiscard]] virtual int ledger_fd() const = 0;
  [[nodiscard]] virtual uint32_t ledger_slots() const = 0;
  virtual Result<kernel::Lease> grant(const fl_hello &hello) = 0;
  virtual void revoke(const kernel::Lease &lease) = 0;
  virtual void tick() = 0;
  virtual void measure(bool always) = 0;
  virtual Result<> set_enabled(bool enabled) = 0;
  [[nodiscard]] virtual bool enabled() const = 0;
  [[nodiscard]] virtual std::vector<kernel::Feature> features() const = 0;
  [[nodiscard]] virtual std::vector<kernel::ProgramCost> costs() const = 0;
  [[nodiscard]] virtual std::vector<kernel::Counter> counters() const = 0;
  [[nodiscard]] virtual std::vector<kernel::DeviceHistogram> histograms() const = 0;
  [[nodiscard]] virtual std::vector<kernel::InFlight> in_flight() const = 0;
  [[nodiscard]] virtual std::vector<kernel::JournalCommits> journals() const = 0;
  [[nodiscard]] virtual std::vector<kernel::ThreadState> threads() const = 0;
  [[nodiscard]] virtual kernel::StallSource *stalls() { return nullptr; }
  [[nodiscard]] virtual std::vector<kernel::Ring> rings() { return {}; }
};

// Whether this build has a kernel side at all.
bool kernel_side_built();
Result<std::unique_ptr<KernelPort>> load_kernel_side(const kernel::Options &options);
std::vector<kernel::Feature> probe_kernel_features(const kernel::Options &options);

}  // namespace flushlight
