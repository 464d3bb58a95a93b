// SPDX-License-Identifier: GPL-2.0-or-later
// Private to sidecar/kernel: what a loaded tracer holds.
#pragma once
#include <bpf/libbpf.h>

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "bpf/shared.h"
#include "sidecar/kernel/btf.h"
#include "sidecar/kernel/leases.h"
#include "sidecar/kernel/ring_reader.h"
#include "sidecar/kernel/run_stats.h"
#include "sidecar/kernel/stalls.h"
#include "sidecar/kernel/tracer.h"

struct flushlight_bpf;

namespace flushlight::kernel {

uint64_t steady_ns();
std::unique_ptr<StallSource> make_stall_reader(Tracer::Impl &tracer);

// A map of the kernel side, mapped into the daemon. Read-only where the map is frozen.
template <typename T>
struct Mapped {
  T *data = nullptr;
  size_t count = 0;
};

struct Tracer::Impl {
  Impl() = default;
  ~Impl();
  Impl(const Impl &) = delete;
  Impl &operator=(const Impl &) = delete;

  Options options;
  Btf btf;
  flushlight_bpf *skeleton = nullptr;
  std::vector<std::pair<std::string, bpf_link *>> links;
  std::vector<Feature> features;
  Mapped<const fl_slot> ledger;
  Mapped<fl_state> states;
  Mapped<fl_request> requests;
  Mapped<const fl_device> devices;
  Mapped<fl_journal> journals;
  Mapped<const fl_device_histogram> histograms;
  std::unique_ptr<LeaseTable> leases;
  std::unique_ptr<StallSource> stalls;
  std::unique_ptr<RingReader> rings;
  std::set<uint32_t> revoked;  // first slots of leases whose processes are to be forgotten
  int enrol_link = -1;
  int stats_fd = -1;
  bool measure_always = false;
  uint64_t stats_next_ns = 0;
  RunStats run_stats;

  Result<> open();
  Result<> map_all();
  Result<> attach();
  void detach();
  void forget_in_flight();
  void fill_pool();
  void scan_processes();
  void enrol_existing();
  RunStats::Counters run_times() const;
  void sample_costs();
};

std::vector<Feature> features_from(const btf *b, const Options &options);

// Whether a program may attach to it by BTF: it is in the kernel, or in a module and we may read the types of modules.
bool has_typed_tracepoint(const btf *b, const std::string &name);

// A program that does the same without the types of a module; nullptr: there is none.
const char *untyped_twin(const std::string &tracepoint);

}  // namespace flushlight::kernel
