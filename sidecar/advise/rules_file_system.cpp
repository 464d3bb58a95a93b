// SPDX-License-Identifier: GPL-2.0-or-later
// Mount options and journals: effective ones, not those that were asked for.
#include <fmt/format.h>

#include <algorithm>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

bool has_option(const std::string &options, std::string_view option) {
  return ("," + options + ",").find(fmt::format(",{},", option)) != std::string::npos;
}
bool has_prefix(const std::string &options, std::string_view prefix) {
  return ("," + options).find(fmt::format(",{}", prefix)) != std::string::npos;
}

Advice about(const Facts &facts, const char *rule, Kind kind, std::string evidence, const char *authority) {
  Advice advice;
  advice.rule = rule;
  advice.kind = kind;
  advice.scope = "file system at " + facts.journal->mount_point;
  advice.now = facts.journal->options;
  advice.evidence = std::move(evidence);
  advice.confidence = Confidence::kHigh;
  advice.authority = authority;
  return advice;
}

struct Unsafe {
  const char *option, *rule, *instead, *why;
};
constexpr Unsafe kUnsafe[] = {
    {"nobarrier", "file_system.barrier", "barrier",
     "without barriers ext4 sends no flushes: a power loss may lose acknowledged commits and damage the file system"},
    {"barrier=0", "file_system.barrier", "barrier=1",
     "without barriers ext4 sends no flushes: a power loss may lose acknowledged commits and damage the file system"},
    {"data=writeback", "file_system.data", "data=ordered",
     "with data=writeback stale data can appear in files after a crash"},
    {"journal_async_commit", "file_system.async_commit", "nojournal_async_commit",
     "journal_async_commit is not allowed with data=ordered, and a commit block may be there before what it covers "
     "(journal_checksum does not imply it)"},
};

void unsafe_options(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.journal) return;
  for (const Unsafe &unsafe : kUnsafe) {
    const bool barrier = std::string_view(unsafe.rule) == "file_system.barrier";
    if (!has_option(facts.journal->options, unsafe.option)) continue;
    if (barrier && facts.power_loss_protected) continue;
    Advice advice =
        about(facts, unsafe.rule, Kind::kHost, fmt::format("{} is in effect: {}", unsafe.option, unsafe.why),
              "kernel Documentation/admin-guide/ext4.rst");
    advice.setting = "mount option";
    advice.now = unsafe.option;
    advice.suggested = unsafe.instead;
    advice.risk = "commits take as long as durability takes";
    advice.apply = {{"fstab", fmt::format("{} without {} (or with {})", facts.journal->mount_point, unsafe.option,
                                          unsafe.instead)}};
    if (barrier)
      advice.apply.push_back(
          {"shell", fmt::format("mount -o remount,{} {}", unsafe.instead, facts.journal->mount_point)});
    advice.undo = fmt::format("mount with {}", unsafe.option);
    out->push_back(std::move(advice));
  }
}

void commit_interval(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.journal || facts.journal->file_system != "ext4" || !has_prefix(facts.journal->options, "commit=") ||
      has_option(facts.journal->options, "commit=5"))
    return;
  Advice advice = about(facts, "no.commit_interval", Kind::kNo,
                        "commit=N is how often the journal commits by itself; a sync does not wait for it and is not "
                        "faster for it (and there is no sysctl for it)",
                        "kernel Documentation/admin-guide/ext4.rst");
  advice.setting = "commit=";
  out->push_back(std::move(advice));
}

// Fast commits are for syncs that need the journal.
void fast_commit(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kNever = 0.05, kWorth = 0.2;
  constexpr int kSafeKernel = 5018;
  const auto share = facts.commits.path_share(FL_PATH_JOURNAL);
  if (!facts.journal || facts.journal->file_system != "ext4" || !share || facts.commits.accounted < kCommitsForEvidence)
    return;
  if (facts.host.kernel == 0) return;
  const bool old = facts.host.kernel < kSafeKernel;
  const bool has_it = facts.journal->fast_commit == true;
  Advice advice = about(facts, "no.fast_commit", Kind::kNo, "", "ext4.rst, fast commits; kernel commit bdc8a53a");
  advice.setting = "fast_commit";
  advice.now = facts.journal->fast_commit ? (has_it ? "on" : "off") : "";
  if (old && has_it) {
    advice.rule = "file_system.fast_commit";
    advice.kind = Kind::kHost;
    advice.suggested = "off";
    advice.evidence =
        fmt::format("fast_commit is on with kernel {}: before 5.18 it could lose file operations after a sync",
                    facts.host.kernel_release);
    advice.risk = "commits of the journal are as long as before";
    advice.apply = {{"shell", fmt::format("tune2fs -O ^fast_commit /dev/{} (unmounted)", facts.journal->name)}};
    advice.undo = "tune2fs -O fast_commit";
  } else if (has_it) {
    return;
  } else if (old) {
    if (*share < kWorth) return;
    advice.evidence =
        fmt::format("fast_commit: not on kernel {}: before 5.18 it could lose file operations after a sync",
                    facts.host.kernel_release);
  } else if (*share < kNever) {
    if (!commits_wait_for_storage(facts.commits)) return;
    advice.evidence = fmt::format("fast_commit will not help: the journal has {} of the commit time of {}",
                                  percent(*share), seen(facts.commits));
  } else if (*share >= kWorth) {
    advice.rule = "file_system.fast_commit";
    advice.kind = Kind::kHost;
    advice.suggested = "on";
    advice.confidence = Confidence::kLow;
    advice.evidence = fmt::format(
        "{} of the commit time of {} is the journal's ({} commits{}); a fast commit writes less. How much shorter a "
        "commit becomes, accounts cannot tell",
        percent(*share), seen(facts.commits), facts.journal->commits.value_or(0),
        facts.journal->commit_mean_ms ? fmt::format(", mean {}", ms_text(*facts.journal->commit_mean_ms)) : "");
    advice.risk =
        "a young feature of ext4: test it; log files that are there in full (no extension) avoid the journal without "
        "it";
    advice.apply = {{"shell", fmt::format("tune2fs -O fast_commit /dev/{} (unmounted)", facts.journal->name)}};
    advice.undo = fmt::format("tune2fs -O ^fast_commit /dev/{} (unmounted)", facts.journal->name);
  } else {
    return;
  }
  out->push_back(std::move(advice));
}

void log_size(const Facts &facts, std::vector<Advice> *out) {
  constexpr int64_t kSmallExt4 = 64ll << 20;
  constexpr double kFull = 0.75;
  if (!facts.journal || !facts.journal->log_bytes || !share_is(facts.commits, FL_VECTOR_PATH(FL_PATH_JOURNAL), 0.1))
    return;
  const JournalFacts &journal = *facts.journal;
  const bool full = journal.log_used_bytes &&
                    static_cast<double>(*journal.log_used_bytes) >= kFull * static_cast<double>(*journal.log_bytes);
  if (!full && !(journal.file_system == "ext4" && *journal.log_bytes < kSmallExt4)) return;
  Advice advice = about(
      facts, "file_system.log_size", Kind::kHost,
      fmt::format(
          "{} of the commit time is the {}'s, which has {}{}", percent(*facts.commits.path_share(FL_PATH_JOURNAL)),
          journal.file_system == "xfs" ? "log" : "journal", bytes_text(static_cast<double>(*journal.log_bytes)),
          journal.log_used_bytes ? fmt::format(" and is {} full", percent(static_cast<double>(*journal.log_used_bytes) /
                                                                          static_cast<double>(*journal.log_bytes)))
                                 : ""),
      journal.file_system == "xfs" ? "mkfs.xfs(8), -l size" : "tune2fs(8), -J size");
  advice.setting = journal.file_system == "xfs" ? "log size" : "journal size";
  advice.now = bytes_text(static_cast<double>(*journal.log_bytes));
  advice.suggested = "1 GB";
  advice.confidence = Confidence::kLow;
  advice.risk = "takes that much space; replay at a mount after a crash is longer";
  advice.apply = {
      {"shell", journal.file_system == "xfs"
                    ? "only with mkfs.xfs -l size=1g: copy the data to a new file system"
                    : fmt::format("tune2fs -O ^has_journal /dev/{0} && tune2fs -J size=1024 /dev/{0} (unmounted)",
                                  journal.name)}};
  advice.undo = "the same with the old size";
  out->push_back(std::move(advice));
}

constexpr RuleEntry kRules[] = {{"file_system", unsafe_options},
                                {"file_system", commit_interval},
                                {"file_system", fast_commit},
                                {"file_system", log_size}};

}  // namespace

std::span<const RuleEntry> file_system_rules() { return kRules; }

}  // namespace flushlight::advise
