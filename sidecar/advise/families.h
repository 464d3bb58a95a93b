// SPDX-License-Identifier: GPL-2.0-or-later
// The families of rules, in the order of reading; each is a file rules_<family>.cpp. And the words they share.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "sidecar/advise/advice.h"
#include "sidecar/advise/what_if.h"

namespace flushlight::advise {

std::span<const RuleEntry> application_rules();
std::span<const RuleEntry> grouping_rules();
std::span<const RuleEntry> mariadb_rules();
std::span<const RuleEntry> checkpoint_rules();
std::span<const RuleEntry> postgresql_rules();
std::span<const RuleEntry> io_rules();
std::span<const RuleEntry> block_rules();
std::span<const RuleEntry> file_system_rules();
std::span<const RuleEntry> memory_rules();
std::span<const RuleEntry> limit_rules();
std::span<const RuleEntry> durability_rules();

// "3421 commits in 600 s"
std::string seen(const Commits &commits);
std::string percent(double share);
std::string ms_text(double ms);
std::string bytes_text(double bytes);  // 1.5 GB: in steps of 1024
std::string number_text(double value);

// Whether there is enough to speak of shares of commit time, and the share is at least so much.
bool share_is(const Commits &commits, int vector_index, double at_least);
// Commits wait for syncs (flush, write, queue, throttle) at least so much of their time, and long enough to matter.
bool commits_wait_for_storage(const Commits &commits, double at_least = 0.5);
inline constexpr double kSlowCommitMs = 1;  // a median below is nothing to worry about

void predict(const Outcome &outcome, Advice *advice);

}  // namespace flushlight::advise
