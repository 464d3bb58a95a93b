// SPDX-License-Identifier: GPL-2.0-or-later
// What can end a probe from outside: a signal, and what the databases' commits suffer.
#pragma once
#include <optional>

#include "sidecar/cli/commit_watch.h"
#include "sidecar/probe/report.h"
#include "sidecar/probe/ticker.h"

namespace flushlight::cli {

// SIGINT, SIGTERM and SIGHUP end the run, and what was measured is printed all the same. A second one ends the process
// at once. One at a time.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard &) = delete;
  SignalGuard &operator=(const SignalGuard &) = delete;
  [[nodiscard]] static int received();
};

class ProbeWatch {
 public:
  ProbeWatch(Connection connection, std::optional<double> limit_ms)
      : watch_(std::move(connection)), asked_ms_(limit_ms) {}
  // Finds out whether there is a daemon, and what the commits are like before the probe begins. An error: a limit was
  // asked for, and nobody can say.
  Result<> begin();
  // Looks, from threads of its own, for as long as what it returns lives: not longer than the governor.
  class Looking {
   public:
    explicit Looking(ProbeWatch *watch) : watch_(watch) {}
    ~Looking() { watch_->end(); }
    Looking(const Looking &) = delete;
    Looking &operator=(const Looking &) = delete;

   private:
    ProbeWatch *watch_;
  };
  [[nodiscard]] Looking look_after(probe::Governor *governor);
  [[nodiscard]] const probe::WatchReport &report() const { return report_; }  // when nobody looks any more

 private:
  void look_once(probe::Governor *governor);
  void end();

  CommitWatch watch_;
  std::optional<double> asked_ms_;
  probe::WatchReport report_;
  std::optional<probe::Ticker> signals_, commits_;
};

}  // namespace flushlight::cli
