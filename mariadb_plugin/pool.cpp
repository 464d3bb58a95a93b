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
  for (int i = 0; i < FL_VECTOR_COUNT; i++)
    vector[i] = static_cast<uint64_t>(static_cast<double>(vector[i]) * factor);
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

// Another thread's work over [from, to], at most span_ns of it; 0s where unknown.
void inherit_between(const flc_account &from, const flc_account &to, uint64_t span_ns, bool whole, uint64_t *vector) {
  flc_account difference;
  flc_account_difference(&from, &to, &difference);
  if (!difference.valid) return;
  inherit(difference.vector_ns);
  if (!whole || total_of(difference.vector_ns) > span_ns) scale(difference.vector_ns, span_ns);
  add(vector, difference.vector_ns);
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

void leave_out_idle(uint64_t *vector) {
  uint64_t left_ns = vector[FL_CAUSE_IDLE];
  vector[FL_CAUSE_IDLE] = 0;
  for (const int path : {FL_PATH_SELF, FL_PATH_PEER, FL_PATH_JOURNAL}) {  // its own, then what was inherited
    const uint64_t here_ns = std::min(left_ns, vector[FL_VECTOR_PATH(path)]);
    vector[FL_VECTOR_PATH(path)] -= here_ns;
    left_ns -= here_ns;
  }
}

bool trail_is_current(flc_thread *thread) {
  return trail.thread == thread && trail.epoch == flc_thread_epoch(thread);
}

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
      leave_out_idle(difference.vector_ns);
      memcpy(part, difference.vector_ns, sizeof part);
    }
  }
  fill_with_other(part, span_ns);
  add(vector, part);
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
    while (bits && suspension.flusher_count < kFlushersMax) {
      const uint32_t slot = word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
      bits &= bits - 1;
      auto &flusher = suspension.flushers[suspension.flusher_count];
      flusher.slot = slot;
      flc_read_account_of(slot, &flusher.account);
      if (flusher.account.valid) suspension.flusher_count++;
    }
  }
}

void pool_resumed(Session &session) {
  Suspension &suspension = session.suspension;
  memset(suspension.vector_ns, 0, sizeof suspension.vector_ns);
  suspension.resumed_ns = flc_now_ns();
  suspension.resumed = true;
  const uint64_t left_ns = suspension.left.clock_ns;
  const uint64_t span_ns = suspension.resumed_ns > left_ns ? suspension.resumed_ns - left_ns : 0;

  if (trail.in_call && trail_is_current(trail.thread)) {
    flc_account now;
    flc_read_account(trail.thread, &now);
    const uint32_t own = flc_thread_slot_in_range(trail.thread);
    const flc_account *known = nullptr;
    for (uint32_t i = 0; i < suspension.flusher_count; i++)
      if (suspension.flushers[i].slot == own) known = &suspension.flushers[i].account;
    if (known) {
      inherit_between(*known, now, span_ns, true, suspension.vector_ns);
    } else if (trail.entered.clock_ns <= left_ns) {
      inherit_between(trail.entered, now, span_ns, false, suspension.vector_ns);
    } else {
      inherit_between(trail.entered, now, now.clock_ns - trail.entered.clock_ns, true, suspension.vector_ns);
      if (suspension.flusher_count) {
        flc_account before;
        flc_read_account_of(suspension.flushers[0].slot, &before);
        inherit_between(suspension.flushers[0].account, before, trail.entered.clock_ns - left_ns, false,
                        suspension.vector_ns);
      }
    }
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
