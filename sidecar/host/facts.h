// SPDX-License-Identifier: GPL-2.0-or-later
// Facts about the host, each kind read by a thread of its own (refreshed.h): one that waits in sysfs, because a
// queue is frozen, holds up its own kind only.
// Owner: main thread.
#pragma once
#include <mutex>

#include "sidecar/host/block_devices.h"
#include "sidecar/host/journals.h"
#include "sidecar/host/pressure.h"
#include "sidecar/host/refreshed.h"
#include "sidecar/host/tuning.h"

namespace flushlight {

// All of one moment, as far as it is known.
struct HostReadings {
  std::shared_ptr<const BlockDevices> devices;
  std::shared_ptr<const Pressures> pressures;
  std::shared_ptr<const Journals> journals;
  std::shared_ptr<const HostTuning> tuning;
};

class HostFacts {
 public:
  void start();
  [[nodiscard]] HostReadings latest() const {
    return {devices_.latest(), pressures_.latest(), journals_.latest(), tuning_.latest()};
  }

  // Whose cgroups are to be read.
  void follow(std::vector<Followed> followed);

  // What the threads would have found (tests).
  void set(BlockDevices devices) { devices_.set(std::move(devices)); }
  void set(Pressures pressures) { pressures_.set(std::move(pressures)); }
  void set(Journals journals) { journals_.set(std::move(journals)); }
  void set(HostTuning tuning) { tuning_.set(std::move(tuning)); }

 private:
  [[nodiscard]] std::vector<Followed> followed();

  std::mutex mutex_;  // guards followed_
  std::vector<Followed> followed_;
  Refreshed<BlockDevices> devices_{"block devices"};
  Refreshed<Pressures> pressures_{"pressure"};
  Refreshed<Journals> journals_{"journals"};
  Refreshed<HostTuning> tuning_{"settings of the host"};
};

}  // namespace flushlight
