// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace flushlight::probe {
namespace {

// Flash takes 100 us and more to programme a page, in its fastest mode too; a disk that turns 15,000 times a minute
// needs 4 ms until the same place comes by again, and 1 ms even when everything lies well.
constexpr double kFlashLimitMs = 0.1;
constexpr double kRotationalLimitMs = 1.0;
constexpr uint64_t kObservationsMin = 10;
constexpr uint32_t kRankedBytes = 8192;
constexpr double kSameShare = 0.05;
constexpr std::string_view kStateNames[] = {"unknown", "plausible", "implausible", "not_sent", "declared"};
constexpr std::string_view kDefaultMethod = "fdatasync";  // PostgreSQL's on Linux

bool all_write_through(const Place &place) {
  return !place.devices.empty() &&
         std::all_of(place.devices.begin(), place.devices.end(),
                     [](const BlockDevice &device) { return device.write_cache == "write through"; });
}

bool without_barriers(const Place &place) {
  const std::string options = "," + place.mount_options + ",";
  return options.find(",nobarrier,") != std::string::npos || options.find(",barrier=0,") != std::string::npos;
}

bool any_rotational(const Place &place) {
  return std::any_of(place.devices.begin(), place.devices.end(),
                     [](const BlockDevice &device) { return device.rotational == 1; });
}

const Outcome *find_log(const std::vector<Outcome> &outcomes, Group group, LogMethod method) {
  for (const Outcome &outcome : outcomes)
    if (outcome.pattern.group == group && outcome.pattern.log == method &&
        outcome.pattern.block_bytes == kRankedBytes && outcome.state == State::kMeasured)
      return &outcome;
  return nullptr;
}

std::string explain(FlushState state, const FlushJudgement &judgement, const Place &place) {
  if (!judgement.p50_ms) return "not measured";
  const std::string figure =
      fmt::format("a durable write takes {:.3f} ms (median of {})", *judgement.p50_ms, judgement.pattern);
  const std::string limit = fmt::format(
      "no {} can have kept it in less than {:g} ms",
      any_rotational(place) ? "disk that turns (the kernel calls this one rotational)" : "flash", judgement.limit_ms);
  const std::string declare =
      "Only you can know whether that cache survives a power loss: if so, say "
      "--power-loss-protection; if not, commits are lost with it";
  switch (state) {
    case FlushState::kUnknown:
      break;
    case FlushState::kPlausible:
      return figure + ": as slow as a medium that keeps what it is given";
    case FlushState::kImplausible:
      return fmt::format("{}: {}. A cache answered: of the device, its controller, or the host of a virtual disk. {}",
                         figure, limit, declare);
    case FlushState::kNotSent:
      return fmt::format(
          "{}, and no flush is sent: {}. {}", figure,
          without_barriers(place)
              ? "the file system is mounted with nobarrier"
              : "the device says that its cache is not volatile (or somebody wrote to queue/write_cache)",
          declare);
    case FlushState::kDeclared:
      return figure + ": a cache answered, and you declare that it survives a power loss";
  }
  return "";
}

}  // namespace

std::string_view flush_state_name(FlushState state) { return kStateNames[static_cast<size_t>(state)]; }

FlushJudgement judge_flush(const std::vector<Outcome> &outcomes, const Place &place, bool power_loss_protection) {
  FlushJudgement judgement;
  judgement.limit_ms = any_rotational(place) ? kRotationalLimitMs : kFlashLimitMs;
  for (const Outcome &outcome : outcomes) {
    if (!is_log(outcome.pattern) || outcome.state != State::kMeasured || outcome.total.count() < kObservationsMin)
      continue;
    const auto p50 = outcome.total.percentile_ms(0.5);
    if (!p50 || (judgement.p50_ms && *judgement.p50_ms <= *p50)) continue;
    judgement.p50_ms = p50;
    judgement.pattern = outcome.pattern.name;
  }
  if (judgement.p50_ms) {
    if (*judgement.p50_ms >= judgement.limit_ms)
      judgement.state = FlushState::kPlausible;
    else if (power_loss_protection)
      judgement.state = FlushState::kDeclared;
    else if (all_write_through(place) || without_barriers(place))
      judgement.state = FlushState::kNotSent;
    else
      judgement.state = FlushState::kImplausible;
  }
  judgement.text = explain(judgement.state, judgement, place);
  return judgement;
}

Ranking rank_wal_sync_methods(const std::vector<Outcome> &outcomes) {
  Ranking ranking;
  for (const LogMethodRow &row : log_methods()) {
    const Outcome *alone = find_log(outcomes, Group::kLog, row.method);
    if (row.wal_sync_method.empty() || alone == nullptr || !alone->total.percentile_ms(0.5)) continue;
    RankedMethod ranked;
    ranked.method = row.wal_sync_method;
    ranked.p50_ms = *alone->total.percentile_ms(0.5);
    ranked.p99_ms = alone->total.percentile_ms(0.99);
    if (const Outcome *bulk = find_log(outcomes, Group::kLogBulk, row.method)) {
      ranked.bulk_p50_ms = bulk->total.percentile_ms(0.5);
      ranked.bulk_p99_ms = bulk->total.percentile_ms(0.99);
    }
    ranking.methods.push_back(std::move(ranked));
  }
  auto &methods = ranking.methods;
  if (methods.size() < 2) {
    ranking.text = "not enough methods were measured to rank them";
    return ranking;
  }
  std::stable_sort(methods.begin(), methods.end(), [](const auto &a, const auto &b) { return a.p50_ms < b.p50_ms; });
  for (RankedMethod &ranked : methods) ranked.as_good_as_best = ranked.p50_ms <= methods[0].p50_ms * (1 + kSameShare);
  const auto usual =
      std::find_if(methods.begin(), methods.end(), [](const auto &m) { return m.method == kDefaultMethod; });
  if (usual == methods.end())
    ranking.text = fmt::format("{} is the fastest here", methods[0].method);
  else if (usual->as_good_as_best)
    ranking.text = fmt::format("nothing to change: no method is more than {:.0f} % faster than {}, the default",
                               100 * kSameShare, kDefaultMethod);
  else
    ranking.text = fmt::format("{} takes {:.3f} ms, {} (the default) {:.3f} ms: try wal_sync_method = {}",
                               methods[0].method, methods[0].p50_ms, kDefaultMethod, usual->p50_ms, methods[0].method);
  return ranking;
}

}  // namespace flushlight::probe
