// SPDX-License-Identifier: GPL-2.0-only
// Start and stop of the probe as a whole, and the state that all its parts look at.
//
// Start, in this order: version, thread variable, InnoDB, layout (with a connection's THD), wrapping. Nothing
// is wrapped unless all before it went well. At server start there is no connection yet: then layout and
// wrapping come with the first event of one. Stop: pointers back, wait for threads inside, detach.
//
// Owner: the thread that installs or removes the plugin; at most one connection runs probe_first_event().
#include "probe.h"

namespace flushlight {

std::atomic<bool> probe_running;
std::atomic<bool> probe_enabled;
std::atomic<uint32_t> probe_calls;
std::atomic<uint64_t> probe_overflows;
StateWord state_words[kStateWordsMax];

namespace {

constexpr unsigned kLeaveMs = 3000;  // a commit on a stalled disk may hold a thread longer; it hurts nobody

std::atomic<uint64_t> installation;
enum Stage : int { kStopped, kWaitsForConnection, kChecking, kReady, kRefused };
std::atomic<int> stage;

bool check_and_wrap(THD *thd) {
  if (!layout_fits(thd)) return false;
  wrap();
  probe_running.store(true, std::memory_order_seq_cst);
  return true;
}

bool is_connection(const THD *thd) { return thd && thd->system_thread == NON_SYSTEM_THREAD && thd->thread_id; }

}  // namespace

uint64_t probe_installation() { return installation.load(std::memory_order_relaxed); }

void set_state(const flc_thread *thread, uint32_t state) {
  const uint32_t slot = flc_thread_slot_in_range(thread);
  if (slot < kStateWordsMax) state_words[slot].value.store(state, std::memory_order_relaxed);
}

bool probe_start() {
  if (stage.load() != kStopped) {
    sql_print_error("flushlight: an earlier installation is still going: try again when it is gone");
    return false;
  }
  if (!sessions_init()) {
    sql_print_error("flushlight: the server has no room for a thread variable: nothing is observed");
    return false;
  }
  if (const char *why = wrap_refusal()) {
    sql_print_error("flushlight: %s: nothing is observed", why);
    return false;
  }
  installation.fetch_add(1);
  THD *thd = current_thd;
  if (is_connection(thd)) {
    if (!check_and_wrap(thd)) return false;
    stage = kReady;
  } else {
    stage = kWaitsForConnection;
  }
  return true;
}

void probe_first_event(THD *thd) {
  int expected = kWaitsForConnection;
  if (stage.load(std::memory_order_relaxed) != kWaitsForConnection || !is_connection(thd)) return;
  if (!stage.compare_exchange_strong(expected, kChecking)) return;
  stage = check_and_wrap(thd) ? kReady : kRefused;
}

void probe_stop() {
  probe_running.store(false, std::memory_order_seq_cst);
  if (stage.load() == kReady) unwrap();
  for (unsigned waited_ms = 0; probe_calls.load() != 0 && waited_ms < kLeaveMs; waited_ms++) {
    const timespec step = {0, 1000000};
    nanosleep(&step, nullptr);
  }
  stage = kStopped;
}

}  // namespace flushlight
