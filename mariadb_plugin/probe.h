// SPDX-License-Identifier: GPL-2.0-only
// The probe's parts, as they see each other. One direction: wrap.cpp and events.cpp call commit.cpp and
// statement.cpp, those call pool.cpp and the engine client.
//
// Rules on the statement path: no allocation, no lock, no system call (but the two prctl of a thread's first
// statement), no exception. Whatever cannot be observed is skipped and counted, never guessed.
#pragma once

#include "server.h"
// keep this order
#include <atomic>
#include <cstdint>

#include "engine_client/client.h"
#include "session.h"

namespace flushlight {

// ---- probe.cpp: on, off, and who is inside ----

extern std::atomic<bool> probe_running;        // installed and wrapped
extern std::atomic<bool> probe_enabled;        // flushlight_enabled
extern std::atomic<uint32_t> probe_calls;      // threads inside wrapped calls
extern std::atomic<uint64_t> probe_overflows;  // commits that found no free window

uint64_t probe_installation();
inline bool probe_on() {
  return probe_running.load(std::memory_order_relaxed) && probe_enabled.load(std::memory_order_relaxed);
}

// A thread inside a wrapped call: removal of the plugin waits for it.
class Inside {
 public:
  Inside() { probe_calls.fetch_add(1, std::memory_order_seq_cst); }
  ~Inside() { probe_calls.fetch_sub(1, std::memory_order_release); }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
};

// The plugin's halves call these; text of a refusal goes to the error log once.
bool probe_start();  // false: refused
void probe_stop();
void probe_first_event(THD *thd);  // wraps, where no connection was there at start to check the layout with

// ---- state words: why a thread sleeps, where only the engine knows ----

constexpr uint32_t kStateWordsMax = 2048;
constexpr uint32_t kStateWorking = 0;
constexpr uint32_t kStateIdle = 1;         // waits for its client, or for work
constexpr uint32_t kStateReplication = 2;  // its commit is durable here and waits for a replica
constexpr uint32_t kStateOrdering = 3;     // its group is synced, then waits for a replica, then is ordered
struct alignas(64) StateWord {
  std::atomic<uint32_t> value;
};
extern StateWord state_words[kStateWordsMax];
void set_state(const flc_thread *thread, uint32_t state);

// ---- statement.cpp ----

uint64_t rows_changed_of(const THD *thd);
Statement &current_statement(Session &session);
// `parsed`: the server has understood it, so what looks like a literal is one.
void name_statement(THD *thd, Session &session, Statement &statement, flc_thread *thread, const char *query,
                    size_t length, bool parsed);
void statement_prepared(const THD *thd, Session &session, const mysql_event_general &event);
void announce_session(THD *thd, Session &session, flc_thread *thread);
void statement_begins(THD *thd, Session &session, flc_thread *thread, const mysql_event_general &event,
                      uint64_t now_ns);
void statement_ends(THD *thd, Session &session, flc_thread *thread, const mysql_event_general &event, uint64_t now_ns);
// Writes the statements that only waited for their commits.
void statements_settled(Session &session, flc_thread *thread, uint64_t now_ns);

// ---- commit.cpp ----

bool commit_is_real(THD *thd, bool all);
bool commit_is_read_write(THD *thd, bool all);
void commit_begins(THD *thd, Session &session);
// The query that begins does nothing but commit: its window begins here.
void commit_is_all_of(THD *thd, Session &session, flc_thread *thread);
void commit_prepared(THD *thd, Session &session, int result);
void commit_ordered(THD *thd, Session &session);
void commit_returned(THD *thd, Session &session, int result);
// Has this query a commit already, open or ended?
bool commit_is_known(THD *thd, const Session &session);
// The same of the binary log alone, which is no commit where it wrote nothing.
void commit_of_binlog_begins(THD *thd, Session &session);
void commit_of_binlog_returned(THD *thd, Session &session);
void commits_durable(Session &session, flc_thread *thread, bool failed);
void commits_dropped(Session &session, flc_thread *thread);
inline int pending_operations(THD *thd) { return thd->async_state.m_pending_ops; }

// ---- pool.cpp: accounts across a suspension ----

bool pool_used();
void pool_enter(flc_thread *thread);  // a thread goes into a commit call
void pool_leave_call();
void pool_left(Session &session, flc_thread *thread);  // the last reading before a possible suspension
void pool_resumed(Session &session);                   // on the flushing thread
void pool_seen(flc_thread *thread);                    // a reading of a thread between its connections
// Account of [window.begin, end] of a session that was suspended in between.
bool pool_account(const Session &session, const Window &window, flc_thread *thread, const flc_account &end,
                  flc_account *account, uint64_t *attributed_ns);

// ---- events.cpp ----

void audit_event(MYSQL_THD thd, unsigned event_class, const void *event);

// ---- wrap.cpp, layout.cpp, attach.cpp ----

bool server_version_fits();  // logs once when not
bool layout_fits(THD *thd);  // logs once when not
const char *wrap_refusal();  // nullptr: InnoDB can be wrapped
void wrap();
void unwrap();
extern uint32_t innodb_slot;

bool attach_start(const char *socket_path, const char *instance);
void attach_stop();
const char *attach_instance();
void attach_socket_path(char *path, size_t bytes);
void attach_change_path(const char *path);

}  // namespace flushlight
