// SPDX-License-Identifier: GPL-2.0-or-later
// The whole run: files, one pattern after the other, what ended it.
// Owner: the calling thread; `Progress` is told from it alone.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "sidecar/probe/governor.h"
#include "sidecar/probe/outcome.h"
#include "sidecar/probe/target.h"
#include "sidecar/probe/ticker.h"

namespace flushlight::probe {

struct Request {
  TargetOptions target;
  std::vector<Pattern> patterns;
  unsigned workers = 3;  // PostgreSQL's io_workers
};

struct Run {
  Place place;
  uint64_t data_bytes = 0, log_bytes = 0;  // of the files that were written
  std::vector<Outcome> outcomes;           // one for each pattern, in their order
  uint64_t prepared_ns = 0;                // how long the files took
  uint64_t took_ns = 0;
  Stop stopped = Stop::kNone;  // kTime too, where it left patterns without their share
  std::string stop_detail;
};

class Progress {
 public:
  virtual ~Progress() = default;
  virtual void preparing() {}
  virtual void begins(size_t index, size_t count, const Pattern &pattern) = 0;
  virtual void ended(const Outcome &outcome) = 0;
};

// Only what the patterns need of the two files.
TargetOptions trimmed(const TargetOptions &options, const std::vector<Pattern> &patterns);

// The place, inspected, with its files; patterns run there one after the other.
class Bench {
 public:
  // An error with code ETIME: it was stopped while it wrote its files; the governor says why.
  static Result<std::unique_ptr<Bench>> prepare(const Request &request, Governor *governor);
  // Fills the outcome of one pattern, in the governor's slice. A pattern that fails stops everything.
  void measure(Outcome *outcome);
  [[nodiscard]] const Place &place() const { return place_; }
  [[nodiscard]] const TargetOptions &target() const { return target_; }

 private:
  Bench(const Request &request, Governor *governor)
      : request_(request), target_(trimmed(request.target, request.patterns)), governor_(governor) {}
  Result<> make_files();
  void run_pattern(Outcome *outcome);
  void run_beside_bulk(Outcome *outcome);
  void check_room();

  const Request request_;
  const TargetOptions target_;
  Governor *governor_;
  Place place_;
  std::optional<Scratch> log_, grows_, data_;
  std::optional<Ticker> room_;  // last: it uses the others
};
Result<Run> run(const Request &request, Governor *governor, Progress *progress);

}  // namespace flushlight::probe
