// SPDX-License-Identifier: GPL-2.0-or-later
// PostgreSQL's way to durable WAL, and the settings that must never be off.
#include <fmt/format.h>

#include <algorithm>

#include "sidecar/advise/postgresql_change.h"

namespace flushlight::advise {
namespace {

struct Safety {
  const char *rule, *setting;
  bool must_be;
  const char *why;
};
constexpr Safety kSafety[] = {
    {"postgresql.fsync", "fsync", true, "with fsync=off an OS crash damages the whole cluster beyond repair"},
    {"postgresql.full_page_writes", "full_page_writes", true,
     "with full_page_writes=off a page that was half written at a crash stays damaged; wal_compression is the way to "
     "less WAL"},
    {"postgresql.data_sync_retry", "data_sync_retry", false,
     "after a failed fsync the kernel may have dropped the pages: a retry can succeed falsely, and data is gone "
     "without a word"},
};

void safety(const Facts &facts, std::vector<Advice> *out) {
  for (const Safety &known : kSafety) {
    const auto on = facts.server.is_on(known.setting);
    if (!on || *on == known.must_be) continue;
    out->push_back(postgresql_advice(facts, {.rule = known.rule,
                                             .setting = known.setting,
                                             .suggested = known.must_be ? "on" : "off",
                                             .evidence = known.why,
                                             .risk = "commits and checkpoints take as long as durability takes",
                                             .authority = std::string("PostgreSQL manual, ") + known.setting,
                                             .confidence = Confidence::kHigh}));
  }
}

void wal_buffers(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kBuffersMax = 64.0 * 1024 * 1024, kOften = 1;
  const auto full = facts.server.grown("wal.buffers_full"), now = facts.server.number("wal_buffers");
  if (!full || !now || facts.server.window_s() <= 0) return;
  const double rate = *full / facts.server.window_s();
  const bool often = rate >= kOften && *now > 0 && *now < kBuffersMax;
  if (!often && *now >= 16.0 * 1024 * 1024 && facts.server.setting("wal_buffers")->origin == "default") return;
  if (!often) {
    if (facts.server.setting("wal_buffers")->origin == "default") return;
    out->push_back(postgresql_advice(
        facts, {.rule = "no.wal_buffers",
                .setting = "wal_buffers",
                .evidence = fmt::format(
                    "{:.0f} writes for want of WAL buffers in {:.0f} s: more of them change nothing (-1 takes 1/32 of "
                    "shared_buffers, at most 16 MB)",
                    *full, facts.server.window_s()),
                .authority = "PostgreSQL manual, wal_buffers",
                .confidence = Confidence::kHigh}));
    return;
  }
  out->push_back(postgresql_advice(
      facts, {.rule = "postgresql.wal_buffers",
              .setting = "wal_buffers",
              .suggested = fmt::format("{:.0f}MB", std::min(kBuffersMax, 2 * *now) / 1048576),
              .evidence = fmt::format(
                  "sessions had to write WAL themselves because its buffers were full, {:.1f} times a second", rate),
              .risk = "memory only; nothing is lost",
              .authority = "PostgreSQL manual, wal_buffers"}));
}

// Guides contradict each other, so a method is never named without a measurement of this device.
void sync_method(const Facts &facts, std::vector<Advice> *out) {
  const std::string now = facts.server.text("wal_sync_method");
  if (now.empty() || now == "fdatasync" || !commits_wait_for_storage(facts.commits)) return;
  out->push_back(postgresql_advice(
      facts, {.rule = "no.wal_sync_method",
              .setting = "wal_sync_method",
              .evidence = fmt::format(
                  "{} is set; which method is fastest differs between devices (one took 1.6 ms with fdatasync, 4.0 ms "
                  "with open_datasync, 5.6 ms with fsync): measure with `flushlight probe` in the folder of pg_wal",
                  now),
              .authority = "PostgreSQL manual, wal_sync_method; pg_test_fsync",
              .confidence = Confidence::kMedium}));
}

// Narrow as can be: the role that commits most, and only if its commits are slow.
void synchronous_commit(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kRoleShare = 0.2;
  const std::string now = facts.server.text("synchronous_commit");
  if (now.empty() || now == "off" || !commits_wait_for_storage(facts.commits)) return;
  if (facts.server.is_on("fsync") == false) return;
  for (size_t i = 0; i < facts.commits.roles.size(); i++) {
    const RoleCommits &role = facts.commits.roles[i];
    if (role.name.empty() ||
        static_cast<double>(role.commits) < kRoleShare * static_cast<double>(facts.commits.commits))
      continue;
    std::vector<CommitSample> own;
    for (const CommitSample &sample : facts.commits.samples)
      if (sample.role == i) own.push_back(sample);
    Advice advice;
    advice.rule = "postgresql.synchronous_commit";
    advice.kind = Kind::kDurability;
    advice.scope = "role " + role.name;
    advice.setting = "synchronous_commit";
    advice.now = now;
    advice.suggested = "off";
    advice.evidence =
        fmt::format("{} of {} are of role {}; {} of the commit time waits for storage",
                    percent(static_cast<double>(role.commits) / static_cast<double>(facts.commits.commits)),
                    seen(facts.commits), role.name, percent(*facts.commits.storage_share()));
    predict(without_sync(own, {}), &advice);
    advice.confidence = Confidence::kMedium;
    const double delay_ms = facts.server.number("wal_writer_delay").value_or(200);
    advice.risk = fmt::format(
        "this role may lose its last acknowledged commits at a crash of the server or the OS: those of up to three "
        "times "
        "wal_writer_delay, {:.0f} ms; nothing is damaged, and standbys may lack them too. Only for data that can be "
        "lost",
        3 * delay_ms);
    const std::string quoted = fmt::format("\"{}\"", role.name);
    advice.apply = {
        {"sql", fmt::format("ALTER ROLE {} SET synchronous_commit = off;", quoted)},
        {"application", "SET LOCAL synchronous_commit = off in the transactions that can be lost: narrower still"}};
    advice.undo = fmt::format("ALTER ROLE {} RESET synchronous_commit;", quoted);
    advice.authority = "PostgreSQL manual, Asynchronous commit";
    out->push_back(std::move(advice));
    return;
  }
}

constexpr RuleEntry kRules[] = {{"postgresql", safety},
                                {"postgresql", wal_buffers},
                                {"postgresql", sync_method},
                                {"durability", synchronous_commit}};

}  // namespace

std::span<const RuleEntry> postgresql_rules() { return kRules; }

}  // namespace flushlight::advise
