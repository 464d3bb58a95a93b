// SPDX-License-Identifier: GPL-2.0-or-later
// From what the daemon knows to the facts that rules look at.
// Owner: main thread.
#pragma once
#include <set>

#include "sidecar/advise/commit_window.h"
#include "sidecar/advise/facts.h"
#include "sidecar/host/facts.h"
#include "sidecar/host/kernel_port.h"
#include "sidecar/intake/intake.h"
#include "sidecar/join/texts.h"

namespace flushlight::advise {

// The kernel side counts since it was loaded; a window needs what was added since its beginning.
class Since {
 public:
  static constexpr size_t kSnapshotsMax = 16;
  explicit Since(uint64_t window_ns) : every_ns_(window_ns / 12) {}
  void remember(uint64_t now_ns, std::vector<kernel::Writer> writers, std::vector<kernel::DeviceHistogram> histograms);
  // Since from_ns, or a little earlier.
  [[nodiscard]] std::vector<kernel::Writer> writers(uint64_t from_ns) const;
  [[nodiscard]] std::vector<kernel::DeviceHistogram> histograms(uint64_t from_ns) const;

 private:
  struct Snapshot {
    uint64_t at_ns = 0;
    std::vector<kernel::Writer> writers;
    std::vector<kernel::DeviceHistogram> histograms;
  };
  [[nodiscard]] const Snapshot *before(uint64_t from_ns) const;
  uint64_t every_ns_;
  std::deque<Snapshot> snapshots_;
  std::vector<kernel::Writer> writers_;
  std::vector<kernel::DeviceHistogram> histograms_;
};

struct Sources {
  const Intake &intake;
  const SymbolTable &symbols;
  TextStore &texts;
  const HostReadings &host;
  const std::vector<kernel::Writer> &writers;              // empty: not traced
  const std::vector<kernel::DeviceHistogram> &histograms;  // empty: not traced
  const std::set<std::string> &power_loss_protected;       // devices, as the operator declared
};

// server: nullptr where it is not asked for its settings.
Facts gather(const Instance &instance, const EngineFacts *server, CommitWindow::Found commits, const Sources &sources);

}  // namespace flushlight::advise
