// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/gate/traced.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

namespace gate {
namespace {

std::string digits(uint64_t value, int count) {
  std::string result(static_cast<size_t>(count), FL_NAME_DIGIT_BASE);
  for (int i = count - 1; i >= 0; i--, value >>= 6)
    result[static_cast<size_t>(i)] = static_cast<char>(FL_NAME_DIGIT_BASE + (value & 63));
  return result;
}

}  // namespace

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

std::unique_ptr<flushlight::kernel::Tracer> load_tracer(flushlight::kernel::Options options) {
  options.without_io_start = std::getenv("FLUSHLIGHT_GATE_WITHOUT_IO_START") != nullptr;
  auto loaded = flushlight::kernel::Tracer::load(options);
  if (!loaded) ADD_FAILURE() << loaded.error().text;
  return loaded ? std::move(*loaded) : nullptr;
}

double Account::cause_sum() const {
  double sum = 0;
  for (int i = 0; i < FL_CAUSE_COUNT; i++) sum += vector_ms[i];
  return sum / wall_ms;
}

double Account::path_sum() const {
  double sum = 0;
  for (int i = 0; i < FL_PATH_COUNT; i++) sum += vector_ms[FL_VECTOR_PATH(i)];
  return sum / wall_ms;
}

void Account::print(const char *what) const {
  std::printf("  %-28s %8.2f ms:", what, wall_ms);
  static const char *const kNames[] = {
#define FL_X(ENUM, name, help) #name,
      FL_CAUSES(FL_X) FL_PATHS(FL_X)
#undef FL_X
  };
  for (int i = 0; i < FL_VECTOR_COUNT; i++) {
    if (i == FL_CAUSE_COUNT) std::printf(" |");
    if (vector_ms[i] >= 0.005) std::printf(" %s %.2f", kNames[i], vector_ms[i]);
  }
  std::printf(" | sums %.4f %.4f closure %.4f\n", cause_sum(), path_sum(), closure());
}

void rename_thread(const char *name) {
  char old[16] = {};
  prctl(PR_GET_NAME, old);
  prctl(PR_SET_NAME, name);
  prctl(PR_SET_NAME, old);
}

std::string token_name(uint64_t token) {
  return std::string{FL_NAME_MARK, FL_NAME_TOKEN} + digits(token, FL_NAME_TOKEN_DIGITS);
}

std::string slot_name(uint32_t slot, uint32_t nonce) {
  return std::string{FL_NAME_MARK, FL_NAME_SLOT} + digits(slot, FL_NAME_SLOT_DIGITS) +
         digits(nonce, FL_NAME_NONCE_DIGITS);
}

TracedProcess::TracedProcess(flushlight::kernel::Tracer &tracer, uint32_t slots) : tracer_(tracer) {
  fl_hello hello{};
  hello.engine = FL_ENGINE_PROGRAM;
  hello.slots_wanted = slots;
  auto lease = tracer.grant(hello);
  if (!lease) throw std::runtime_error(lease.error().text);
  lease_ = *lease;
  bytes_ = tracer.ledger_slots() * sizeof(fl_slot);
  void *at = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, tracer.ledger_fd(), 0);
  if (at == MAP_FAILED) throw std::runtime_error("cannot map the ledger");
  ledger_ = static_cast<const fl_slot *>(at);
  rename_thread(token_name(lease_.token).c_str());
}

TracedProcess::~TracedProcess() {
  tracer_.revoke(lease_);
  munmap(const_cast<fl_slot *>(ledger_), bytes_);
}

const fl_slot *TracedProcess::enrol(uint32_t index_in_range) {
  static std::atomic<uint32_t> next_nonce{1};
  uint32_t number = lease_.first_slot + index_in_range;
  uint32_t nonce = next_nonce++;
  rename_thread(slot_name(number, nonce).c_str());
  const fl_slot *slot = &ledger_[number];
  bool mine = __atomic_load_n(&slot->nonce, __ATOMIC_ACQUIRE) == nonce && slot->state == FL_SLOT_LIVE;
  return mine ? slot : nullptr;
}

Reading read_slot(const fl_slot *slot) {
  const volatile fl_slot *s = slot;
  for (;;) {
    Reading r;
    uint32_t before = s->seq;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    r.clock_ns = now_ns();
    uint64_t on_at_ns = s->on_at_ns;
    for (int i = 0; i < FL_VECTOR_COUNT; i++) r.vector_ns[i] = s->vector_ns[i];
    r.syncs = s->syncs;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (on_at_ns == 0) usleep(1);  // the switch-in was not seen (docs/decisions/0007): another one puts it right
    if (before != s->seq || (before & 1) != 0 || on_at_ns == 0) continue;
    r.vector_ns[FL_CAUSE_ONCPU] += r.clock_ns - on_at_ns;
    r.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += r.clock_ns - on_at_ns;
    return r;
  }
}

Account account(const Reading &begin, const Reading &end) {
  Account a;
  a.begin_ns = begin.clock_ns;
  a.end_ns = end.clock_ns;
  a.wall_ms = static_cast<double>(end.clock_ns - begin.clock_ns) / 1e6;
  for (int i = 0; i < FL_VECTOR_COUNT; i++)
    a.vector_ms[i] = static_cast<double>(end.vector_ns[i] - begin.vector_ns[i]) / 1e6;
  a.syncs = end.syncs - begin.syncs;
  return a;
}

}  // namespace gate
