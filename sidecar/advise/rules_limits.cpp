// SPDX-License-Identifier: GPL-2.0-or-later
// Limits that somebody set: of cgroups, of the kernel's build.
#include <fmt/format.h>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

Advice limit(const char *rule, const char *setting, std::string now, std::string suggested) {
  Advice advice;
  advice.rule = rule;
  advice.kind = Kind::kHost;
  advice.scope = "server's cgroup";
  advice.setting = setting;
  advice.now = std::move(now);
  advice.suggested = std::move(suggested);
  advice.confidence = Confidence::kHigh;
  advice.authority = "kernel Documentation/admin-guide/cgroup-v2.rst";
  return advice;
}

void io_limit(const Facts &facts, std::vector<Advice> *out) {
  if (!share_is(facts.commits, FL_CAUSE_THROTTLE, 0.1) || !facts.cgroup || facts.cgroup->io_limit.empty()) return;
  Advice advice = limit("limits.io", "io.max", facts.cgroup->io_limit, "higher, or none");
  advice.evidence = fmt::format("{} of the commit time of {} is held by the cgroup's own I/O limit, not by the device",
                                percent(*facts.commits.cause_share(FL_CAUSE_THROTTLE)), seen(facts.commits));
  advice.risk = "neighbours get less of the device";
  advice.apply = {{"shell", "systemctl set-property UNIT IOWriteIOPSMax= IOWriteBandwidthMax="},
                  {"operator", "raise the limit of the container's I/O"}};
  advice.undo = "set the limit again: " + facts.cgroup->io_limit;
  out->push_back(std::move(advice));
}

void cpu_limit(const Facts &facts, std::vector<Advice> *out) {
  if (!share_is(facts.commits, FL_CAUSE_CPU, 0.2) || !facts.limits.cpus || !facts.cgroup ||
      facts.cgroup->cpu_throttled.value_or(0) == 0)
    return;
  Advice advice = limit("limits.cpu", "cpu.max", number_text(*facts.limits.cpus) + " CPUs", "more, or none");
  advice.evidence = fmt::format("{} of the commit time waits for a CPU; the cgroup had used up its limit in {} periods",
                                percent(*facts.commits.cause_share(FL_CAUSE_CPU)), *facts.cgroup->cpu_throttled);
  advice.risk = "neighbours get less CPU time";
  advice.apply = {{"shell", "systemctl set-property UNIT CPUQuota="},
                  {"operator", "raise resources.limits.cpu, or leave it out"}};
  advice.undo = fmt::format("set {} CPUs again", number_text(*facts.limits.cpus));
  out->push_back(std::move(advice));
}

void kernel_build(const Facts &facts, std::vector<Advice> *out) {
  if (facts.host.costly_options.empty() || !commits_wait_for_storage(facts.commits, 0.3)) return;
  Advice advice;
  advice.rule = "limits.kernel_options";
  advice.kind = Kind::kHost;
  advice.scope = "host";
  advice.setting = "kernel build";
  advice.now = fmt::format("{}", fmt::join(facts.host.costly_options, ", "));
  advice.suggested = "a kernel without them";
  advice.evidence = fmt::format(
      "kernel {} is built with options for debugging that cost on the way of each sync (a p99.99 of 81 ms was traced "
      "to EXT4_DEBUG and JBD2_DEBUG once)",
      facts.host.kernel_release);
  advice.confidence = Confidence::kLow;
  advice.risk = "none";
  advice.apply = {{"shell", "boot the distribution's own kernel"}};
  advice.undo = "boot the old one";
  out->push_back(std::move(advice));
}

constexpr RuleEntry kRules[] = {{"limits", io_limit}, {"limits", cpu_limit}, {"limits", kernel_build}};

}  // namespace

std::span<const RuleEntry> limit_rules() { return kRules; }

}  // namespace flushlight::advise
