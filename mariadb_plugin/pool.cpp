// SPDX-License-Identifier: GPL-2.0-only
// Accounts of commits with the pool of threads, where a connection leaves its thread while its log is being
// flushed and comes back on any other.
//
//   first thread    begin ──────── left                          accounted: its own slot
//   no thread                       left ──────── resumed        attributed: the flushing thread's slot
//   second thread                                 resumed ── end attributed: its own slot, idle left out
//
// Who flushes is known when it resumes the connection: the server calls the scheduler's thd_resume on that
// very thread. What that thread did since `left` is known if it was in a commit call at that time: then its
// slot was read too. If it came later, the time before is that of a thread that was in a commit call at `left`.
// InnoDB's background threads flush as well (once a second, and before they write pages): those that ever
// resumed a connection are given a slot and read every time; what they slept before is not the connection's
// wait and counts as time before.
// A follower inherits as the kernel side's sleepers do: the flusher's own part becomes `peer`, its running
// `lock`. What stays unexplained is `other`: measured, never spread over the rest.
//
// Owners: a Trail is its thread's own. A Suspension is written by the first thread, then by the flushing one,
// then read by the second: the server's queue orders them. The bits of `inside` are atomic.
#include "probe.h"

namespace flushlight {
namespace {

constexpr uint32_t kReadings = 8;

struct Trail {
  flc_thread *thread;
  uint64_t epoch;
  bool in_call;
  flc_account entered;              // the commit call that it is in
  flc_account readings[kReadings];  // between connections, newest last
  uint32_t reading_count;
};
thread_local Trail trail;

std::atomic<uint64_t> inside[kStateWordsMax / 64];  // by slot in range: threads in commit calls
std::atomic<uint32_t> background[kBackgroundMax];   // slot + 1 of background threads that resumed a connection
std::atomic<uint32_t> next_background;

void mark(uint32_t slot, bool in) {
  if (slot >= kStateWordsMax) return;
  const uint64_t bit = 1ull << (slot % 64);
  if (in)
    inside[slot / 64].fetch_or(bit, std::memory_order_relaxed);
  else
    inside[slot / 64].fetch_and(~bit, std::memory_order_relaxed);
}

uint64_t total_of(const uint64_t *vector) {
  uint64_t total = 0;
  for (int i = 0; i < FL_CAUSE_COUNT; i++) total += vector[i];
  return total;
}

// Causes and paths each count the same time; they are scaled together.
void scale(uint64_t *vector, uint64_t to_ns) {
  const uint64_t total = total_of(vector);
  if (total == 0) return;
  const double factor = static_cast<double>(to_ns) / static_cast<double>(total);
  for (int i = 0; i < FL_VECTOR_COUNT; i++) vector[i] = static_cast<uint64_t>(static_cast<double>(vector[i]) * factor);
}

void add(uint64_t *to, const uint64_t *from) {
  for (int i = 0; i < FL_VECTOR_COUNT; i++) to[i] += from[i];
}

// As a sleeper inherits from its waker (abi/ledger.h, design.md section 1).
void inherit(uint64_t *vector) {
  vector[FL_CAUSE_LOCK] += vector[FL_CAUSE_ONCPU];
  vector[FL_CAUSE_ONCPU] = 0;
  vector[FL_VECTOR_PATH(FL_PATH_PEER)] += vector[FL_VECTOR_PATH(FL_PATH_SELF)];
  vector[FL_VECTOR_PATH(FL_PATH_SELF)] = 0;
}

void leave_out(uint64_t *vector, fl_cause cause) {
  uint64_t left_ns = vector[cause];
  vector[cause] = 0;
  for (const int path : {FL_PATH_SELF, FL_PATH_PEER, FL_PATH_JOURNAL}) {  // its own, then what was inherited
    const uint64_t here_ns = std::min(left_ns, vector[FL_VECTOR_PATH(path)]);
    vector[FL_VECTOR_PATH(path)] -= here_ns;
    left_ns -= here_ns;
  }
}

// Another thread's work over [from, to] as this one's wait, at most span_ns of it; false: not known.
bool inherit_between(const flc_account &from, const flc_account &to, uint64_t span_ns, uint64_t *vector) {
  flc_account difference;
  flc_account_difference(&from, &to, &difference);
  if (!difference.valid) return false;
  inherit(difference.vector_ns);
  if (total_of(difference.vector_ns) > span_ns) scale(difference.vector_ns, span_ns);
  add(vector, difference.vector_ns);
  return true;
}

// What is missing in `span_ns` was waiting for others, in a way that nobody saw.
void fill_with_other(uint64_t *vector, uint64_t span_ns) {
  const uint64_t total = total_of(vector);
  if (total > span_ns) {
    scale(vector, span_ns);
  } else {
    vector[FL_CAUSE_OTHER] += span_ns - total;
    vector[FL_VECTOR_PATH(FL_PATH_PEER)] += span_ns - total;
  }
}

void remember_background(flc_thread *thread) {
  const uint32_t entry = flc_thread_slot_in_range(thread) + 1;
  for (const auto &known : background)
    if (known.load(std::memory_order_relaxed) == entry) return;
  set_state(thread, kStateWorking);
  background[next_background.fetch_add(1, std::memory_order_relaxed) % kBackgroundMax].store(entry,
                                                                                             std::memory_order_relaxed);
}

void read_flusher(Suspension &suspension, uint32_t slot) {
  auto &flusher = suspension.flushers[suspension.flusher_count];
  flusher.slot = slot;
  flc_read_account_of(slot, &flusher.account);
  if (flusher.account.valid) suspension.flusher_count++;
}

bool trail_is_current(flc_thread *thread) { return trail.thread == thread && trail.epoch == flc_thread_epoch(thread); }

Trail &trail_of(flc_thread *thread) {
  if (!trail_is_current(thread)) {
    if (trail.in_call && trail.thread) mark(flc_thread_slot_in_range(trail.thread), false);
    memset(static_cast<void *>(&trail), 0, sizeof trail);
    trail.thread = thread;
    trail.epoch = flc_thread_epoch(thread);
  }
  return trail;
}

// The second thread's time from the resume to the end: its newest reading before the resume is the start, and
// its idle time since then was before the resume or before it was woken.
void add_return(flc_thread *thread, uint64_t resumed_ns, const flc_account &end, uint64_t *vector) {
  const uint64_t span_ns = end.clock_ns > resumed_ns ? end.clock_ns - resumed_ns : 0;
  uint64_t part[FL_VECTOR_COUNT] = {};
  if (trail_is_current(thread) && trail.reading_count) {
    const uint32_t kept = std::min(trail.reading_count, kReadings);
    const flc_account *from = nullptr;
    for (uint32_t i = 1; i <= kept; i++) {
      from = &trail.readings[(trail.reading_count - i) % kReadings];
      if (from->clock_ns <= resumed_ns) break;
    }
    flc_account difference;
    flc_account_difference(from, &end, &difference);
    if (difference.valid) {
      leave_out(difference.vector_ns, FL_CAUSE_IDLE);
      memcpy(part, difference.vector_ns, sizeof part);
    }
  }
  fill_with_other(part, span_ns);
  add(vector, part);
}

// The flushing thread's account from `left` on, or from where it began to flush.
void add_flush(Suspension &suspension, flc_thread *thread, bool in_call, uint64_t span_ns) {
  const uint32_t own = flc_thread_slot_in_range(thread);
  flc_account now;
  flc_read_account(thread, &now);
  for (uint32_t i = 0; i < suspension.flusher_count; i++) {
    if (suspension.flushers[i].slot != own) continue;
    if (!inherit_between(suspension.flushers[i].account, now, span_ns, suspension.vector_ns)) return;
    if (!in_call)
      for (const fl_cause slept : {FL_CAUSE_IDLE, FL_CAUSE_OTHER}) leave_out(suspension.vector_ns, slept);
    return;
  }
  if (in_call) inherit_between(trail.entered, now, span_ns, suspension.vector_ns);
}

// Time that the flushing thread was not there: what a thread that was in a commit call at `left` did then.
void add_before_flush(Suspension &suspension, uint64_t span_ns) {
  const uint64_t known_ns = total_of(suspension.vector_ns);
  if (known_ns >= span_ns || suspension.in_calls == 0) return;
  uint64_t part[FL_VECTOR_COUNT] = {};
  flc_account now;
  flc_read_account_of(suspension.flushers[0].slot, &now);
  if (!inherit_between(suspension.flushers[0].account, now, span_ns, part)) return;
  leave_out(part, FL_CAUSE_IDLE);  // after its own commit it went on with others
  leave_out(part, FL_CAUSE_OTHER);
  if (total_of(part) > span_ns - known_ns) scale(part, span_ns - known_ns);
  add(suspension.vector_ns, part);
}

}  // namespace

bool pool_used() { return thread_scheduler && thread_scheduler->thd_resume; }

void pool_enter(flc_thread *thread) {
  Trail &own = trail_of(thread);
  flc_read_account(thread, &own.entered);
  own.in_call = true;
  mark(flc_thread_slot_in_range(thread), true);
}

void pool_leave_call() {
  if (!trail.in_call) return;
  trail.in_call = false;
  mark(flc_thread_slot_in_range(trail.thread), false);
}

void pool_left(Session &session, flc_thread *thread) {
  Suspension &suspension = session.suspension;
  flc_set_window(thread, 0);  // this thread goes on to other connections
  suspension.flusher_count = 0;
  flc_read_account(thread, &suspension.left);
  for (uint32_t word = 0; word < kStateWordsMax / 64; word++) {
    uint64_t bits = inside[word].load(std::memory_order_relaxed);
    for (; bits && suspension.flusher_count < kFlushersMax; bits &= bits - 1)
      read_flusher(suspension, word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits)));
  }
  suspension.in_calls = suspension.flusher_count;
  for (const auto &known : background)
    if (const uint32_t entry = known.load(std::memory_order_relaxed)) read_flusher(suspension, entry - 1);
}

void pool_resumed(Session &session) {
  Suspension &suspension = session.suspension;
  memset(suspension.vector_ns, 0, sizeof suspension.vector_ns);
  suspension.resumed_ns = flc_now_ns();
  suspension.resumed = true;
  const uint64_t left_ns = suspension.left.clock_ns;
  const uint64_t span_ns = suspension.resumed_ns > left_ns ? suspension.resumed_ns - left_ns : 0;

  const bool in_call = trail.in_call && trail_is_current(trail.thread);
  flc_thread *thread = in_call ? trail.thread : flc_active(suspension.resumed_ns) ? flc_thread_self() : nullptr;
  if (thread) {
    if (!in_call) remember_background(thread);
    add_flush(suspension, thread, in_call, span_ns);
    add_before_flush(suspension, span_ns);
  }
  fill_with_other(suspension.vector_ns, span_ns);
}

void pool_seen(flc_thread *thread) {
  Trail &own = trail_of(thread);
  flc_read_account(thread, &own.readings[own.reading_count % kReadings]);
  own.reading_count++;
}

bool pool_account(const Session &session, const Window &window, flc_thread *thread, const flc_account &end,
                  flc_account *account, uint64_t *attributed_ns) {
  const Suspension &suspension = session.suspension;
  if (!suspension.resumed || !end.valid) return false;
  flc_account_difference(&window.begin, &suspension.left, account);
  if (!account->valid) return false;
  add(account->vector_ns, suspension.vector_ns);
  add_return(thread, suspension.resumed_ns, end, account->vector_ns);
  account->inherited_sync_ns += suspension.vector_ns[FL_CAUSE_FLUSH] + suspension.vector_ns[FL_CAUSE_WRITE] +
                                suspension.vector_ns[FL_CAUSE_QUEUE];
  *attributed_ns = end.clock_ns - suspension.left.clock_ns;
  return true;
}

}  // namespace flushlight
