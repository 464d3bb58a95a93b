// SPDX-License-Identifier: GPL-2.0-or-later
// The test process as a traced process: binds itself, enrols its threads, reads accounts.
#pragma once
#include <cstdint>
#include <memory>

#include "abi/ledger.h"
#include "sidecar/kernel/tracer.h"

namespace gate {

uint64_t now_ns();

// A thread's account of a span, in ms.
struct Account {
  double wall_ms = 0;
  double vector_ms[FL_VECTOR_COUNT] = {};
  uint64_t syncs = 0;
  uint64_t begin_ns = 0, end_ns = 0;

  [[nodiscard]] double cause(fl_cause c) const { return vector_ms[c]; }
  [[nodiscard]] double path(fl_path p) const { return vector_ms[FL_VECTOR_PATH(p)]; }
  [[nodiscard]] double cause_sum() const;
  [[nodiscard]] double path_sum() const;
  [[nodiscard]] double closure() const { return 1 - cause(FL_CAUSE_OTHER) / wall_ms; }
  void print(const char *what) const;
};

struct Reading {
  uint64_t clock_ns = 0;
  uint64_t vector_ns[FL_VECTOR_COUNT] = {};
  uint64_t syncs = 0;
};

// The names that enrol a thread (abi/ledger.h); false: the name did not take effect.
void rename_thread(const char *name);
std::string token_name(uint64_t token);
std::string slot_name(uint32_t slot, uint32_t nonce);

// Loads and attaches the programs, as the environment wants them: FLUSHLIGHT_GATE_WITHOUT_IO_START asks for the variant for
// kernels before 6.5. nullptr: the calling test has failed.
std::unique_ptr<flushlight::kernel::Tracer> load_tracer(flushlight::kernel::Options options = {});

class TracedProcess {
 public:
  explicit TracedProcess(flushlight::kernel::Tracer &tracer, uint32_t slots = 64);
  ~TracedProcess();
  TracedProcess(const TracedProcess &) = delete;
  TracedProcess &operator=(const TracedProcess &) = delete;

  // The calling thread takes a slot of the range; nullptr: refused.
  const fl_slot *enrol(uint32_t index_in_range);
  [[nodiscard]] const flushlight::kernel::Lease &lease() const { return lease_; }
  [[nodiscard]] const fl_slot &slot(uint32_t number) const { return ledger_[number]; }

 private:
  flushlight::kernel::Tracer &tracer_;
  flushlight::kernel::Lease lease_;
  const fl_slot *ledger_ = nullptr;
  size_t bytes_ = 0;
};

Reading read_slot(const fl_slot *slot);
Account account(const Reading &begin, const Reading &end);

}  // namespace gate
