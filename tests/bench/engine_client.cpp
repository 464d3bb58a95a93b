// SPDX-License-Identifier: GPL-2.0-or-later
// What the probe adds to a statement and to a commit inside a database: the calls that both engines make, in
// their order, against memory of a daemon in this process. The normalised text is apart (bench_tokenizer).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <iterator>

#include "tests/unit/engine_client/fake_daemon.h"

namespace flushlight::test {
namespace {

class Attached {
 public:
  Attached() : daemon_({.slots = 1, .ledger = true}) {
    configure(daemon_.path(), 1);
    flc_attach_step(1000);
    thread_ = flc_thread_self();
    fl_slot *slot = daemon_.slot_in_range(0);
    slot->state = FL_SLOT_LIVE;
    slot->generation = 1;
    slot->on_at_ns = flc_now_ns();
  }
  ~Attached() { flc_detach(); }
  // The daemon reads as fast as we write: rings are never full here.
  void consume() {
    fl_ring_head *ring = daemon_.ring(0);
    __atomic_store_n(&ring->tail, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    daemon_.beat();
  }
  flc_thread *thread_;

 private:
  FakeDaemon daemon_;
};

flc_thread *observed() { return flc_active(flc_now_ns()) ? flc_thread_self() : nullptr; }

void record_statement() {
  flc_thread *thread = observed();
  if (thread == nullptr) return;
  flc_set_query(thread, 42);
  benchmark::DoNotOptimize(flc_text_wanted(thread, 42));
  uint64_t begin_ns = flc_now_ns();
  fl_record_statement record{};
  record.header = {sizeof(record), FL_RECORD_STATEMENT, FL_RING_VERSION};
  record.begin_ns = begin_ns;
  record.duration_ns = flc_now_ns() - begin_ns;
  flc_write(thread, &record);
}

// A live slot needs the kernel side: reading by number does the same work, minus the check of the nonce.
void record_commit() {
  flc_thread *thread = observed();
  if (thread == nullptr) return;
  flc_account begin;
  flc_account end;
  flc_account account;
  flc_read_account_of(0, &begin);
  flc_set_window(thread, begin.clock_ns);
  flc_read_account_of(0, &end);
  flc_set_window(thread, 0);
  flc_set_query(thread, 0);
  flc_account_difference(&begin, &end, &account);
  if (!account.valid) return;
  fl_record_commit record{};
  record.header = {sizeof(record), FL_RECORD_COMMIT, FL_RING_VERSION};
  std::copy(std::begin(account.vector_ns), std::end(account.vector_ns), std::begin(record.vector_ns));
  flc_count_commit(thread);
  flc_write(thread, &record);
}

void record_both() {
  record_statement();
  record_commit();
}

template <void (*kWork)()>
void run(benchmark::State &state) {
  Attached attached;
  int since = 0;
  for (auto _ : state) {
    kWork();
    if (++since == 30) {
      attached.consume();
      since = 0;
    }
  }
}

void statement(benchmark::State &state) { run<record_statement>(state); }
void statement_with_commit(benchmark::State &state) { run<record_both>(state); }
void not_attached(benchmark::State &state) {
  flc_detach();
  for (auto _ : state) benchmark::DoNotOptimize(flc_active(1));
}
void clock(benchmark::State &state) {
  for (auto _ : state) benchmark::DoNotOptimize(flc_now_ns());
}
BENCHMARK(statement);
BENCHMARK(statement_with_commit);
BENCHMARK(not_attached);
BENCHMARK(clock);

}  // namespace
}  // namespace flushlight::test

BENCHMARK_MAIN();
