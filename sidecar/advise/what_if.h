// SPDX-License-Identifier: GPL-2.0-or-later
// What-if on recorded accounts: the distribution of commit times goes in, the one that would have been comes out. Where
// accounts cannot tell, nothing comes out, and why.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sidecar/advise/facts.h"

namespace flushlight::advise {

struct Outcome {
  std::optional<double> p50_ms, p99_ms;
  std::string why_not;  // nothing predicted: the reason
};

// Commits no longer wait for the sync of their log. The log is still written: where that bypasses the page cache, a
// commit waits for the device's writes (write_ms: of one) as it did, but not for the journal's.
struct WithoutSync {
  std::optional<double> write_ms;  // nothing: the write goes to the page cache
};
Outcome without_sync(std::span<const CommitSample> samples, const WithoutSync &how);

// Commits keep this share of their waits for syncs (two logs are synced, and one of them no longer is).
Outcome with_share_of_sync(std::span<const CommitSample> samples, double share);

// Nobody has to wait for the file system's journal any more (log files that are neither extended nor created).
Outcome without_journal(std::span<const CommitSample> samples);

// Leaders wait before they sync, so that more commits share a sync. A model of the group commit, with the sync times of
// leaders and as many sessions as were seen: given only if it reproduces what was measured without a delay.
Outcome with_group_delay(const Commits &commits, double delay_ms);

// Percentile of values, by rank with interpolation.
double percentile_of(std::vector<double> values, double q);

// A commit's time without its waits for syncs: what it did itself and waited for otherwise. Waits for a CPU come from
// being woken: they go with the waits that they followed.
double time_without_sync_ns(const CommitSample &sample, double keep_write_ns);

}  // namespace flushlight::advise
