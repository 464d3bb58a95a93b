// SPDX-License-Identifier: GPL-2.0-or-later
// How far the probe is, on stderr: one line that is written over on a terminal, a line now and then elsewhere. Silent
// for the first two seconds.
#pragma once
#include <mutex>
#include <optional>

#include "sidecar/probe/runner.h"
#include "sidecar/probe/ticker.h"

namespace flushlight::cli {

// What the line says; its own function for the tests.
struct ProgressState {
  bool preparing = true;
  size_t index = 0, count = 0;
  std::string pattern;
  std::optional<double> last_p50_ms;  // of the pattern before
  uint64_t begun_ns = 0;              // of the pattern
};
std::string progress_line(const ProgressState &state, uint64_t now_ns, uint64_t slice_end_ns, uint64_t deadline_ns);

class ProbeProgress final : public probe::Progress {
 public:
  ProbeProgress(const probe::Governor *governor, bool quiet);
  ~ProbeProgress() override;
  ProbeProgress(const ProbeProgress &) = delete;
  ProbeProgress &operator=(const ProbeProgress &) = delete;

  void preparing() override {}
  void begins(size_t index, size_t count, const probe::Pattern &pattern) override;
  void ended(const probe::Outcome &outcome) override;

 private:
  void show();

  const probe::Governor *governor_;
  const uint64_t begun_ns_;
  const bool terminal_;
  uint64_t shown_ns_ = 0;
  std::mutex lock_;  // state_
  ProgressState state_;
  std::optional<probe::Ticker> ticker_;  // last: it uses the others
};

}  // namespace flushlight::cli
