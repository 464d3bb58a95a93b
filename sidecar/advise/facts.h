// SPDX-License-Identifier: GPL-2.0-or-later
// All that a rule may look at: plain data of one moment and one server. What was not observed is not there.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "abi/ledger.h"
#include "sidecar/engines/engine_facts.h"
#include "sidecar/host/block_devices.h"
#include "sidecar/host/journals.h"
#include "sidecar/host/pressure.h"
#include "sidecar/host/tuning.h"

namespace flushlight::advise {

// A commit with an account, as far as a what-if needs it.
struct CommitSample {
  uint64_t duration_ns = 0;
  uint64_t vector_ns[FL_VECTOR_COUNT] = {};
  uint64_t work = 0;  // WAL bytes or rows changed
  uint32_t digest = 0;
  uint32_t role = 0;  // of Commits::roles
  uint32_t syncs = 0;
  bool followed = false;  // waited for another thread's sync
  bool binlog = false, binlog_led = false;

  [[nodiscard]] uint64_t cause(int cause) const { return vector_ns[cause]; }
  [[nodiscard]] uint64_t path(int path) const { return vector_ns[FL_VECTOR_PATH(path)]; }
};

struct DigestCommits {
  int64_t queryid = 0;
  std::string query;  // normalised; empty: not known
  uint64_t commits = 0, commit_ns = 0, work = 0;
  bool explicit_commit = false;
};
struct RoleCommits {
  std::string name;
  uint64_t commits = 0, commit_ns = 0;
};

// The commits of one window.
struct Commits {
  double window_s = 0;
  uint64_t commits = 0, accounted = 0, commit_ns = 0, work = 0;
  uint64_t vector_ns[FL_VECTOR_COUNT] = {};  // of accounted ones
  uint64_t syncs = 0, led = 0, followed = 0, binlog = 0;
  size_t sessions = 0;  // that committed
  std::optional<double> p50_ms, p99_ms;
  std::vector<CommitSample> samples;   // a fair choice of the accounted ones
  std::vector<DigestCommits> digests;  // by commit time
  std::vector<RoleCommits> roles;

  [[nodiscard]] double rate() const { return window_s > 0 ? static_cast<double>(commits) / window_s : 0; }
  [[nodiscard]] double mean_ms() const {
    return commits > 0 ? static_cast<double>(commit_ns) / static_cast<double>(commits) / 1e6 : 0;
  }
  // Commits under way at one time, on average.
  [[nodiscard]] double concurrency() const {
    return window_s > 0 ? static_cast<double>(commit_ns) / 1e9 / window_s : 0;
  }
  [[nodiscard]] double work_per_commit() const {
    return commits > 0 ? static_cast<double>(work) / static_cast<double>(commits) : 0;
  }
  // Share of the accounted commit time; nothing: none is accounted.
  [[nodiscard]] std::optional<double> share(int vector_index) const;
  [[nodiscard]] std::optional<double> cause_share(int cause) const { return share(cause); }
  [[nodiscard]] std::optional<double> path_share(int path) const { return share(FL_VECTOR_PATH(path)); }
  // Of the commit time, what went to syncing: flush, write, queue, throttle.
  [[nodiscard]] std::optional<double> storage_share() const;
};

// What a server's log files saw in the window (writers); nothing: no such file was seen.
struct LogFile {
  uint64_t syncs = 0, bytes = 0;
  std::optional<double> sync_ms;  // with at least one under way; nothing: the file system does not say
};
struct LogFiles {
  std::optional<LogFile> redo, binlog, wal;
};

// The device that the server's log is on.
struct LogDevice {
  BlockDevice device;
  std::optional<double> flush_p50_ms, flush_p99_ms, write_p50_ms, write_p99_ms, queue_p99_ms;
  uint64_t flushes = 0, writes = 0;
};

struct Facts {
  std::string instance;
  fl_engine engine{};
  EngineFacts server;  // known() is false without credentials
  HostTuning host;
  std::optional<Pressure> host_pressure, cgroup;
  ServerLimits limits;
  std::optional<LogDevice> device;
  std::optional<JournalFacts> journal;
  bool power_loss_protected = false;  // the operator declared it of the device
  LogFiles files;
  Commits commits;
  std::optional<int64_t> free_bytes;  // of the file system that the log is on

  [[nodiscard]] bool is(fl_engine wanted) const { return engine == wanted; }
};

// Fewer commits than this make no evidence.
inline constexpr uint64_t kCommitsForEvidence = 100;

}  // namespace flushlight::advise
