// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel side as the rest of the daemon sees it: load, hand out, read, stop.
// Owner: the daemon's main thread, except where a function says "any thread".
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi/attach.h"
#include "sidecar/base/result.h"
#include "sidecar/kernel/rings.h"

namespace flushlight::kernel {

class StallSource;

struct Options {
  uint32_t ledger_slots = 4096;   // power of two
  uint32_t pool_slots = 1024;     // of these, for background and kernel threads
  bool without_io_start = false;  // as on kernels before 6.5, though this one has the events (tests)
  std::string btf_path;           // empty: /sys/kernel/btf/vmlinux
};

// One thing that the kernel side needs or can use.
struct Feature {
  std::string name;  // capability, BTF, program …
  bool present = false;
  bool required = false;
  std::string detail;  // what was tried and what came back
  std::string cost;    // what its absence costs
  std::string remedy;  // how to fix it
};
// Any thread. Tries each capability; loads nothing for good.
std::vector<Feature> probe_features(const Options &options);

struct ProgramCost {
  std::string name;
  uint64_t runs = 0;
  uint64_t run_time_ns = 0;  // over the sampled time
  uint64_t sampled_ns = 0;   // run statistics were on for so long; 0: not permitted, cost unknown
  uint64_t misses = 0;       // runs that the kernel's recursion guard refused: lost events
};

// Ever-growing counts of what was lost or refused. One row per counter, with a help text for `health`.
struct Counter {
  std::string name;
  std::string help;
  uint64_t value = 0;
  bool is_loss = false;  // counts into `lost`
};

enum class Operation : uint8_t { kRead, kWrite, kFlush, kDiscard, kCount };
enum class Stage : uint8_t { kQueue, kDevice, kCount };

// Log-linear: 32 buckets per power of two, first bucket [0, 1024 ns) in steps of 32 ns; see histogram.h.
struct DeviceHistogram {
  uint32_t device = 0;  // kernel dev_t: major << 20 | minor
  Operation operation{};
  Stage stage{};
  std::vector<uint64_t> buckets;
  uint64_t sum_ns = 0;  // of all that was observed
};

// Requests that have begun and not ended.
struct InFlight {
  uint32_t device = 0;
  uint64_t requests = 0;   // at the device
  uint64_t oldest_ns = 0;  // when the oldest one began, at the device or before it; CLOCK_MONOTONIC
};

// Commits of an ext4 journal since they were first seen.
struct JournalCommits {
  enum Phase { kStarting, kLocking, kFlushing, kLogging, kPhases };
  uint32_t device = 0;          // of the file system
  uint32_t disk = 0;            // that it lies on; 0: not known yet
  uint64_t in_progress_ns = 0;  // since when; 0: none
  Phase phase = kPhases;        // of that commit
  uint64_t phase_ns[kPhases] = {};
  uint64_t log_bytes = 0;  // size of the journal; 0: not known
  uint64_t flushes = 0;    // that its devices did during its commits
  uint64_t checkpoints = 0;
  std::vector<uint64_t> buckets;  // of commit times
  uint64_t sum_ns = 0;
};

// What a traced thread does now.
struct ThreadState {
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t host_tid = 0;
  uint32_t host_tgid = 0;
  uint32_t kind = 0;              // 1 session, 2 journal, 3 background
  std::string name;               // comm at enrolment
  uint64_t blocked_since_ns = 0;  // 0: runs or is runnable
  uint64_t runnable_since_ns = 0;
  uint32_t own_flushes = 0, own_writes = 0, own_reads = 0, own_queued = 0;  // outstanding requests
  uint32_t state_cause = FL_CAUSE_COUNT;  // the state word's cause for this sleep; COUNT: none
  uint32_t rest_cause = FL_CAUSE_COUNT;   // likewise, but only of what nothing else explains
  uint32_t device = 0;                    // of its oldest outstanding request
  uint64_t vector_ns[FL_VECTOR_COUNT] = {};
};

struct Lease {
  uint64_t token = 0;
  uint32_t first_slot = 0;
  uint32_t slot_count = 0;
};

class Tracer {
 public:
  static Result<std::unique_ptr<Tracer>> load(const Options &options);
  ~Tracer();

  [[nodiscard]] int ledger_fd() const;  // frozen; send it with SCM_RIGHTS
  [[nodiscard]] uint32_t ledger_slots() const;

  // A range of slots and the token that binds the process; grants min(wanted, free), at least 1.
  Result<Lease> grant(const fl_hello &hello);
  // The process is gone (its connection closed) or was refused: its range may be granted again once every
  // slot in it is free.
  void revoke(const Lease &lease);

  // Once in a while (about 10 times a second): enrols background threads of newly bound processes, frees
  // ranges, samples the programs' run time (1 s in 20 s, or all the time with `measure`).
  void tick();
  void measure(bool always);

  // The brake. Off detaches every program; on attaches them again and voids what was in between.
  Result<> set_enabled(bool enabled);
  [[nodiscard]] bool enabled() const;

  [[nodiscard]] std::vector<Feature> features() const;
  [[nodiscard]] std::vector<ProgramCost> costs() const;
  [[nodiscard]] std::vector<Counter> counters() const;
  [[nodiscard]] std::vector<DeviceHistogram> histograms() const;
  [[nodiscard]] std::vector<InFlight> in_flight() const;
  [[nodiscard]] std::vector<JournalCommits> journals() const;
  [[nodiscard]] std::vector<ThreadState> threads() const;
  [[nodiscard]] StallSource &stalls();
  [[nodiscard]] std::vector<Ring> rings();

  struct Impl;

 private:
  explicit Tracer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace flushlight::kernel
