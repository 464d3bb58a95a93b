// SPDX-License-Identifier: GPL-2.0-or-later
// vm.*: only on evidence. Accounts cannot tell what a commit would take.
#include <fmt/format.h>

#include <algorithm>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

Advice sysctl(const char *rule, const char *name, std::string now, std::string suggested) {
  Advice advice;
  advice.rule = rule;
  advice.kind = Kind::kHost;
  advice.scope = "host";
  advice.setting = name;
  advice.apply = {{"sysctl", fmt::format("{} = {}", name, suggested)},
                  {"shell", fmt::format("sysctl -w {}={}", name, suggested)}};
  advice.undo = fmt::format("sysctl -w {}={}", name, now);
  advice.now = std::move(now);
  advice.suggested = std::move(suggested);
  return advice;
}

// A share of a big memory is more than a device writes in seconds.
void dirty_pages(const Facts &facts, std::vector<Advice> *out) {
  constexpr int64_t kBig = 64ll << 30;
  constexpr double kThrottled = 0.1, kNearLimit = 0.7;
  const HostTuning &host = facts.host;
  if (!host.memory_bytes || host.dirty_bytes.value_or(0) != 0 || !host.dirty_ratio) return;
  const bool throttled = share_is(facts.commits, FL_CAUSE_THROTTLE, kThrottled);
  const bool near_limit = facts.host_pressure && facts.host_pressure->dirty_bytes &&
                          facts.host_pressure->dirty_limit_bytes &&
                          static_cast<double>(*facts.host_pressure->dirty_bytes) >=
                              kNearLimit * static_cast<double>(*facts.host_pressure->dirty_limit_bytes);
  if (!near_limit) return;
  if (*host.memory_bytes < kBig && !throttled) return;
  const double limit = std::min(1024.0 * 1024 * 1024, static_cast<double>(*host.memory_bytes) / 20);
  Advice advice = sysctl("memory.dirty", "vm.dirty_bytes", "0", fmt::format("{:.0f}", limit));
  advice.apply.push_back({"sysctl", fmt::format("vm.dirty_background_bytes = {:.0f}", limit / 4)});
  advice.undo = fmt::format("sysctl -w vm.dirty_ratio={} vm.dirty_background_ratio={}", *host.dirty_ratio,
                            host.dirty_background_ratio.value_or(10));
  advice.evidence = fmt::format(
      "{} of page cache wait to be written, the limit is {} ({} % of {}); when it is reached all writers wait{}",
      bytes_text(static_cast<double>(*facts.host_pressure->dirty_bytes)),
      bytes_text(static_cast<double>(*facts.host_pressure->dirty_limit_bytes)), *host.dirty_ratio,
      bytes_text(static_cast<double>(*host.memory_bytes)),
      throttled
          ? fmt::format("; {} of the commit time is throttled", percent(*facts.commits.cause_share(FL_CAUSE_THROTTLE)))
          : "");
  advice.risk = "other writers of this host are held back earlier; nothing is lost";
  advice.authority = "kernel Documentation/admin-guide/sysctl/vm.rst";
  out->push_back(std::move(advice));
}

void swapping(const Facts &facts, std::vector<Advice> *out) {
  constexpr int64_t kSwappiness = 10, kSwappedIn = 16ll << 20;
  const auto &swappiness = facts.host.swappiness;
  if (!swappiness || *swappiness <= kSwappiness || facts.host.swap_bytes.value_or(0) == 0) return;
  if (!facts.cgroup || facts.cgroup->swap_in_bytes.value_or(0) < kSwappedIn) return;
  Advice advice =
      sysctl("memory.swappiness", "vm.swappiness", fmt::to_string(*swappiness), fmt::to_string(kSwappiness));
  advice.evidence = fmt::format("the server's cgroup read {} back from swap",
                                bytes_text(static_cast<double>(*facts.cgroup->swap_in_bytes)));
  advice.risk = "page cache is given up earlier than memory of processes";
  advice.authority = "kernel Documentation/admin-guide/sysctl/vm.rst";
  out->push_back(std::move(advice));
}

void overcommit(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.is(FL_ENGINE_POSTGRESQL) || facts.host.overcommit_memory != 1) return;
  Advice advice = sysctl("memory.overcommit", "vm.overcommit_memory", "1", "2");
  advice.evidence =
      "with 1 the kernel promises any memory and kills a process when it is short: a backend killed so restarts the "
      "whole server";
  advice.confidence = Confidence::kHigh;
  advice.risk =
      "allocations fail when memory is short (set vm.overcommit_ratio to fit shared_buffers and other services)";
  advice.authority = "PostgreSQL manual, Linux memory overcommit";
  out->push_back(std::move(advice));
}

constexpr RuleEntry kRules[] = {{"memory", dirty_pages}, {"memory", swapping}, {"memory", overcommit}};

}  // namespace

std::span<const RuleEntry> memory_rules() { return kRules; }

}  // namespace flushlight::advise
