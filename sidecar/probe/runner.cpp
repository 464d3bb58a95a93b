// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/runner.h"

#include <fmt/format.h>

#include "sidecar/host/text_files.h"
#include "sidecar/probe/bulk_writer.h"
#include "sidecar/probe/log_writer.h"
#include "sidecar/probe/reader.h"

namespace flushlight::probe {
namespace {

constexpr std::chrono::milliseconds kSpacePeriod{200};

bool uses_data(const Pattern &pattern) { return pattern.group == Group::kRead || pattern.group == Group::kLogBulk; }

Result<> make_file(const std::string &directory, uint64_t bytes, Governor *governor, std::optional<Scratch> *file) {
  auto made = Scratch::create(directory);
  if (!made) return made.error();
  file->emplace(std::move(*made));
  auto filled = bytes == 0 ? Result<>(Ok{}) : (*file)->fill(bytes, governor);
  if (!filled && filled.error().code != ETIME) return write_error(filled.error().code, directory);
  return filled;
}

// Of the calling thread since it began; nothing where the kernel does not count it (CONFIG_SCHED_INFO).
std::optional<uint64_t> cpu_waited_ns() {
  const std::string line = read_first_line("/proc/thread-self/schedstat");
  const auto words = split_words(line);
  const auto waited = words.size() >= 2 ? to_number(words[1]) : std::nullopt;
  return waited ? std::optional(static_cast<uint64_t>(*waited)) : std::nullopt;
}

}  // namespace

TargetOptions trimmed(const TargetOptions &options, const std::vector<Pattern> &patterns) {
  TargetOptions target = options;
  bool data = false, log = false;
  for (const Pattern &pattern : patterns) {
    data |= uses_data(pattern);
    log |= is_log(pattern);
  }
  if (!data) target.data_bytes = 0;
  if (!log) target.log_bytes = 0;
  return target;
}

Result<std::unique_ptr<Bench>> Bench::prepare(const Request &request, Governor *governor) {
  std::unique_ptr<Bench> bench(new Bench(request, governor));
  auto place = inspect(bench->target_);
  if (!place) return place.error();
  bench->place_ = std::move(*place);
  bench->room_.emplace(kSpacePeriod, [raw = bench.get()] { raw->check_room(); });
  if (auto made = bench->make_files(); !made) return made.error();
  return bench;
}

Result<> Bench::make_files() {
  bool log = false, grows = false;
  for (const Pattern &pattern : request_.patterns) {
    grows |= pattern.group == Group::kLogGrows;
    log |= pattern.group == Group::kLog || pattern.group == Group::kLogBulk;
  }
  const std::string &directory = target_.directory;
  if (log)
    if (auto made = make_file(directory, target_.log_bytes, governor_, &log_); !made) return made;
  if (grows)
    if (auto made = make_file(directory, 0, governor_, &grows_); !made) return made;
  if (target_.data_bytes > 0)
    if (auto made = make_file(directory, target_.data_bytes, governor_, &data_); !made) return made;
  return Ok{};
}

// Somebody else may fill the file system, and one that copies on write needs room for what is overwritten.
void Bench::check_room() {
  const auto space = read_space(target_.directory);
  if (space && space->free_bytes < reserve_bytes(*space, target_.reserve_share))
    governor_->stop(Stop::kSpace,
                    fmt::format("{} MB free on the file system, less than the {:.0f} % that stay untouched",
                                space->free_bytes >> 20, 100 * target_.reserve_share));
}

void Bench::run_beside_bulk(Outcome *outcome) {
  BulkWriter bulk(*data_, target_.data_bytes, governor_);
  run_log(*log_, target_.log_bytes, governor_, outcome);
  outcome->bulk_direct = bulk.direct();
  outcome->bulk_bytes = bulk.bytes();
  bulk.stop();
  if (bulk.error() != 0) {
    outcome->state = State::kFailed;
    outcome->reason = system_error(bulk.error(), "the writer beside it").text;
  }
}

void Bench::run_pattern(Outcome *outcome) {
  switch (outcome->pattern.group) {
    case Group::kLog:
      return run_log(*log_, target_.log_bytes, governor_, outcome);
    case Group::kLogGrows:
      return run_log(*grows_, target_.log_bytes, governor_, outcome);
    case Group::kLogBulk:
      return run_beside_bulk(outcome);
    case Group::kRead:
      return run_reads(*data_, target_.data_bytes, request_.workers, governor_, outcome);
  }
}

void Bench::measure(Outcome *outcome) {
  const auto waited_before = cpu_waited_ns();
  run_pattern(outcome);
  if (const auto waited = cpu_waited_ns(); waited && waited_before) outcome->cpu_wait_ns = *waited - *waited_before;
  if (outcome->state == State::kFailed) governor_->stop(Stop::kDevice, outcome->pattern.name + ": " + outcome->reason);
}

Result<Run> run(const Request &request, Governor *governor, Progress *progress) {
  const uint64_t begin = governor->clock().now_ns();
  progress->preparing();
  const auto bench = Bench::prepare(request, governor);
  if (!bench && bench.error().code != ETIME) return bench.error();
  Run result;
  const TargetOptions target = trimmed(request.target, request.patterns);
  result.place = bench ? (*bench)->place() : describe_place(target.directory);
  result.data_bytes = target.data_bytes;
  result.log_bytes = target.log_bytes;
  result.prepared_ns = governor->clock().now_ns() - begin;
  for (size_t i = 0; i < request.patterns.size(); i++) {
    Outcome &outcome = result.outcomes.emplace_back();
    outcome.pattern = request.patterns[i];
    governor->check_time();
    if (governor->stopped() != Stop::kNone || !bench) {
      outcome.reason = governor->detail();
      continue;
    }
    progress->begins(i, request.patterns.size(), outcome.pattern);
    governor->begin_slice(request.patterns.size() - i);
    (*bench)->measure(&outcome);
    progress->ended(outcome);
  }
  result.stopped = governor->stopped();
  result.stop_detail = governor->detail();
  result.took_ns = governor->clock().now_ns() - begin;
  return result;
}

}  // namespace flushlight::probe
