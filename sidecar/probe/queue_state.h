// SPDX-License-Identifier: GPL-2.0-or-later
// What a queue was like before --matrix changed it, on disk before the first change, so that it can be put back
// whatever happens: by the run itself, by a guard process that notices its death, or by `flushlight probe --restore`.
//
// One state file for each device in a folder of root's own. It is keyed by the boot: settings do not survive one. What
// is read is checked as if somebody hostile had written it: its owner and mode, its size, each value.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sidecar/base/unique_fd.h"
#include "sidecar/probe/queue_settings.h"

namespace flushlight::probe {

struct StatePaths {
  std::string folder = "/run/flushlight-probe";
  std::string sys = "/sys";
  std::string boot_id = "/proc/sys/kernel/random/boot_id";
};

struct SavedQueue {
  std::string device, number;  // number: the name may have gone to another device meanwhile
  std::string boot_id;
  QueueSettings settings;
};
std::string to_text(const SavedQueue &saved);
Result<SavedQueue> parse_saved(const std::string &text, const std::string &device);

struct Restored {
  std::string device;
  std::string text;  // what was put back, or why there was nothing to put back
};
// All devices. An error: something could not be put back; its file stays.
Result<std::vector<Restored>> restore_all(const StatePaths &paths);

// Holds the folder's lock, has saved the settings, and puts them back when it goes.
class QueueKeeper {
 public:
  // Refuses while another run holds the lock, or while an earlier one left something to restore. Forks the guard: no
  // other thread may run yet.
  static Result<std::unique_ptr<QueueKeeper>> begin(const Queue &queue, const StatePaths &paths);
  ~QueueKeeper();
  QueueKeeper(const QueueKeeper &) = delete;
  QueueKeeper &operator=(const QueueKeeper &) = delete;

  Result<> put_back();
  [[nodiscard]] const QueueSettings &before() const { return saved_.settings; }
  [[nodiscard]] pid_t guard() const { return guard_; }

 private:
  QueueKeeper(Queue queue, StatePaths paths) : queue_(std::move(queue)), paths_(std::move(paths)) {}
  Result<> start_guard();

  Queue queue_;
  StatePaths paths_;
  SavedQueue saved_;
  UniqueFd lock_, alive_;  // alive_: the guard's pipe; it closes when this process dies
  pid_t guard_ = -1;
  bool done_ = false;
};

}  // namespace flushlight::probe
