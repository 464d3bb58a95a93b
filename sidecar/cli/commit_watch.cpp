// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/commit_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flushlight::cli {

CommitCounts commit_counts(const ViewTable &latency) {
  CommitCounts counts;
  for (size_t row = 0; row < latency.rows.size(); row++)
    if (latency.text(row, "operation") == "commit")
      counts[std::llround(latency.number(row, "bucket_low_ms") * 1e6)] +=
          static_cast<uint64_t>(latency.number(row, "observations"));
  return counts;
}

CommitWindow window_between(const CommitCounts &before, const CommitCounts &after) {
  std::vector<uint64_t> buckets(FL_HISTOGRAM_BUCKETS);
  bool fell = false;
  for (const auto &[low_ns, count] : before) {
    const auto now = after.find(low_ns);
    fell |= now == after.end() || now->second < count;
  }
  CommitWindow window;
  for (const auto &[low_ns, count] : after) {
    const auto old = before.find(low_ns);
    const uint64_t more = count - (fell || old == before.end() ? 0 : old->second);
    buckets[fl_histogram_bucket(static_cast<uint64_t>(std::max<int64_t>(low_ns, 0)))] += more;
    window.commits += more;
  }
  if (window.commits >= CommitWatch::kCommitsMin)
    if (const auto ns = percentile_ns(buckets, 0.99)) window.p99_ms = *ns / 1e6;
  return window;
}

Result<CommitWindow> CommitWatch::observe() {
  const auto latency = fetch_view(connection_, "latency");
  if (!latency) return latency.error();
  const auto threads = fetch_view(connection_, "threads");
  if (!threads) return threads.error();
  const CommitCounts now = commit_counts(*latency);
  CommitWindow window = since_ ? window_between(*since_, now) : CommitWindow{};
  if (!since_ || window.p99_ms) since_ = now;
  for (size_t row = 0; row < threads->rows.size(); row++)
    if (threads->at(row, "commit_age_ms").type != FL_CELL_NULL)
      window.oldest_open_ms = std::max(window.oldest_open_ms.value_or(0), threads->number(row, "commit_age_ms"));
  return window;
}

double CommitWatch::default_limit_ms(const CommitWindow &baseline) {
  const double usual = baseline.p99_ms.value_or(0);
  return std::max(usual * kBaselineFactor, usual + kBaselineMoreMs);
}

std::optional<std::string> CommitWatch::suffering(const CommitWindow &window, double limit_ms) {
  if (window.p99_ms && *window.p99_ms > limit_ms)
    return fmt::format("the databases' commit p99 was {:.1f} ms over the last {} commits, the limit is {:.1f} ms",
                       *window.p99_ms, window.commits, limit_ms);
  if (window.oldest_open_ms && *window.oldest_open_ms > kOpenFactor * limit_ms)
    return fmt::format("a commit has waited for {:.0f} ms, the limit of their p99 is {:.1f} ms", *window.oldest_open_ms,
                       limit_ms);
  return std::nullopt;
}

}  // namespace flushlight::cli
