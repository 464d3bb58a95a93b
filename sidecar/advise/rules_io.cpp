// SPDX-License-Identifier: GPL-2.0-or-later
// Asynchronous I/O of both engines: what is allowed here, what is in effect, and what it does not do for a commit.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "sidecar/advise/postgresql_change.h"

namespace flushlight::advise {
namespace {

// Why a server cannot use io_uring here, and what to do; empty: nothing is known to stop it.
std::string ring_obstacle(const Facts &facts, double need_bytes) {
  const HostTuning &host = facts.host;
  if (host.io_uring_disabled.value_or(0) == 2)
    return "kernel.io_uring_disabled is 2: nobody may use it (sysctl kernel.io_uring_disabled=0)";
  if (host.io_uring_disabled.value_or(0) == 1)
    return "kernel.io_uring_disabled is 1: only members of kernel.io_uring_group may use it (add the server's group, "
           "or set 0)";
  if (host.io_uring_error.value_or(0) == ENOSYS)
    return "the kernel has no io_uring, or seccomp hides it (io_uring_setup: ENOSYS): allow it in the profile";
  if (host.io_uring_error.value_or(0) == EPERM)
    return "io_uring_setup is refused here (EPERM), as container runtimes' default seccomp profiles do: allow it in "
           "the profile";
  if (facts.limits.memlock_bytes && static_cast<double>(*facts.limits.memlock_bytes) < need_bytes)
    return fmt::format(
        "the server may lock {} of memory, and its rings may need {} (since Linux 6.14 they count): raise LimitMEMLOCK",
        bytes_text(static_cast<double>(*facts.limits.memlock_bytes)), bytes_text(need_bytes));
  if (facts.limits.seccomp.value_or(0) == 2)
    return "the server runs under a seccomp filter of its own, which may refuse it: try it";
  return "";
}

// 1000 connections needed 8 to 13 MiB.
double ring_need_bytes(const Facts &facts) {
  return facts.server.number("max_connections").value_or(100) * 13.0 * 1024 * 1024 / 1000;
}

void io_method(const Facts &facts, std::vector<Advice> *out) {
  const std::string now = facts.server.text("io_method");
  if (now.empty()) return;  // before 18
  const std::string obstacle = ring_obstacle(facts, ring_need_bytes(facts));
  const std::string refused = obstacle.empty() ? "" : "; io_uring would not start here: " + obstacle;
  if (share_is(facts.commits, FL_CAUSE_READ, 0.3)) {
    out->push_back(postgresql_advice(
        facts, {.rule = "no.io_method",
                .setting = "io_method",
                .evidence = fmt::format(
                    "{} of the commit time waits for reads; which of sync, worker and io_uring reads fastest is to be "
                    "measured (`flushlight probe`): worker was 30 % slower than sync on cached scans{}",
                    percent(*facts.commits.cause_share(FL_CAUSE_READ)), refused),
                .authority = "PostgreSQL manual, io_method"}));
  } else if (commits_wait_for_storage(facts.commits, 0.3)) {
    out->push_back(postgresql_advice(
        facts, {.rule = "no.io_method",
                .setting = "io_method",
                .evidence = fmt::format(
                    "io_method will not change your commits: it is for reads; your commits wait on {} ({} of {}){}",
                    share_is(facts.commits, FL_CAUSE_FLUSH, 0.3) ? "flush" : "writes",
                    percent(*facts.commits.storage_share()), seen(facts.commits), refused),
                .authority = "PostgreSQL manual, io_method",
                .confidence = Confidence::kHigh}));
  }
  if (now == "io_uring" && facts.server.setting("io_workers") != nullptr &&
      facts.server.setting("io_workers")->origin != "default")
    out->push_back(postgresql_advice(facts, {.rule = "no.io_workers",
                                             .setting = "io_workers",
                                             .evidence = "io_workers has no effect with io_method=io_uring",
                                             .authority = "PostgreSQL manual, io_workers",
                                             .confidence = Confidence::kHigh}));
}

void native_aio(const Facts &facts, std::vector<Advice> *out) {
  const EngineSetting *setting = facts.server.setting("innodb_use_native_aio");
  if (setting == nullptr || !facts.is(FL_ENGINE_MARIADB) || facts.server.is_on("innodb_use_native_aio") != false)
    return;
  const std::string obstacle = ring_obstacle(facts, 1024.0 * 1024);
  Advice advice;
  advice.rule = "mariadb.native_aio";
  advice.kind = Kind::kServer;
  advice.scope = "server";
  advice.setting = "innodb_use_native_aio";
  advice.now = setting->value;
  advice.suggested = "ON";
  advice.evidence = fmt::format("native asynchronous I/O is off in effect{}{}; this is about pages, not about commits",
                                setting->origin == "CONFIG" || setting->origin == "COMMAND-LINE"
                                    ? " (it may have been set so)"
                                    : ": the server fell back at its start",
                                obstacle.empty() ? "" : "; " + obstacle);
  advice.confidence = Confidence::kMedium;
  advice.risk = facts.host.kernel > 0 && facts.host.kernel <= 5015
                    ? "with io_uring on kernels before 5.14.19 and 5.15.3 the server may hang (MDEV-26674): update the "
                      "kernel first"
                    : "none for safety";
  advice.apply = {{"my.cnf", "innodb_use_native_aio = ON"},
                  {"shell", "see the server's error log at its start for the reason"}};
  advice.undo = "innodb_use_native_aio = OFF and a restart";
  advice.authority = "MariaDB KB, innodb_use_native_aio; MDEV-26674, MDEV-36234";
  out->push_back(std::move(advice));
}

constexpr RuleEntry kRules[] = {{"io", io_method}, {"io", native_aio}};

}  // namespace

std::span<const RuleEntry> io_rules() { return kRules; }

}  // namespace flushlight::advise
