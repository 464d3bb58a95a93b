// SPDX-License-Identifier: GPL-2.0-or-later
// Advice over time: which recommendations stand, which settings changed, what was predicted then, and whether it came
// true. It never writes a setting.
// Owner: main thread.
#pragma once
#include <map>
#include <memory>
#include <set>

#include "sidecar/advise/advice.h"
#include "sidecar/advise/gather.h"
#include "sidecar/advise/history.h"
#include "sidecar/advise/verify.h"
#include "sidecar/base/config.h"
#include "sidecar/engines/engines.h"
#include "sidecar/stalls/monitor.h"

namespace flushlight::advise {

enum class State : uint8_t { kOpen, kMeasuring, kVerified, kRefuted, kInconclusive, kDismissed };
std::string_view state_name(State state);

struct Entry {
  uint64_t id = 0;
  uint32_t instance = 0;
  std::string instance_name;
  Advice advice;
  State state = State::kOpen;
  uint64_t changed_ns = 0;  // not 0: the setting was changed then
  std::string value_after;
  std::string why;  // of the state
  std::optional<double> measured_p50_ms, measured_p99_ms;
};

class Advisor {
 public:
  static constexpr size_t kFinishedMax = 200;

  Advisor(const Clock &clock, const Config &config);
  [[nodiscard]] CommitWindow &window() { return window_; }
  void set_options(const Config &config);
  // Opens the history; an error is no reason to stop.
  void open_history();

  struct Inputs {
    const Intake &intake;
    const SymbolTable &symbols;
    TextStore &texts;
    const HostReadings &host;
    const KernelPort *kernel;  // nullptr: not traced
    const stalls::Monitor &stalls;
    const Engines &engines;
  };
  // Once a second or so: looks whether settings changed; at its interval, makes recommendations.
  void step(const Inputs &inputs);

  [[nodiscard]] const std::vector<Entry> &entries() const { return entries_; }
  [[nodiscard]] const History &history() const { return history_; }
  [[nodiscard]] std::string history_error() const { return history_error_.empty() ? history_.error() : history_error_; }

 private:
  struct Tracked {
    std::shared_ptr<const EngineFacts> server;  // of the last reading
    uint64_t changed_ns = 0;                    // some setting of it, last
    Facts facts;                                // as they were at the last reading
    bool has_facts = false;
  };
  struct Measuring {
    Commits before, before_part;
    uint64_t begin_ns = 0;
    std::string disturbed;        // another change meanwhile
    EngineStatistics statistics;  // of the reading that showed the change
  };
  struct Change {
    std::string name, from, to;
  };

  void look(const Instance &instance, const Inputs &inputs, bool due);
  void on_reading(const Instance &instance, Tracked *tracked, std::shared_ptr<const EngineFacts> server);
  void on_change(const Instance &instance, const Tracked &tracked, const std::vector<Change> &changes,
                 const EngineStatistics &statistics);
  void recommend(const Instance &instance, const Facts &facts);
  void measure(const Instance &instance);
  void forget_old();
  void finish(Entry *entry, State state, std::string why);
  [[nodiscard]] std::shared_ptr<const EngineFacts> server_of(const Instance &instance, const Inputs &inputs) const;
  Facts facts_of(const Instance &instance, const EngineFacts *server, uint64_t begin_ns, uint64_t end_ns,
                 const Inputs &inputs);
  [[nodiscard]] uint64_t window_ns() const { return static_cast<uint64_t>(enough_.seconds * 1e9); }

  const Clock &clock_;
  Enough enough_;
  uint64_t interval_ns_ = 0, next_ns_ = 0;
  std::set<std::string> power_loss_protected_, dismissed_;
  std::string history_path_, history_error_;
  CommitWindow window_;
  Since since_;
  std::map<uint32_t, Tracked> tracked_;
  std::map<uint64_t, Measuring> measuring_;  // by entry
  std::vector<Entry> entries_;
  uint64_t last_id_ = 0;
  History history_;
};

}  // namespace flushlight::advise
