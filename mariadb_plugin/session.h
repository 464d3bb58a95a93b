// SPDX-License-Identifier: GPL-2.0-only
// What the probe keeps for each connection (THD), and how it is found.
//
// Owner: the thread that works for the connection now. Two others touch it, both while the owner waits for
// them: a binlog group's leader (Window::ordered) and, with the pool of threads, the thread that ends a
// suspension (Suspension). Locks: none. Memory is taken when a connection starts or at its first statement,
// never inside a commit.
#pragma once

#include "server.h"
// keep this order
#include <atomic>
#include <cstdint>

#include "engine_client/client.h"

namespace flushlight {

constexpr uint32_t kWindowsMax = 16;    // commits of one session that wait for their log at the same time
constexpr uint32_t kNestingMax = 6;     // statements in routines in routines
constexpr uint32_t kFlushersMax = 8;    // threads in commit calls when a session is suspended
constexpr uint32_t kBackgroundMax = 4;  // background threads that flush

// A statement between its LOG and its STATUS event.
struct Statement {
  uint64_t begin_ns;
  uint64_t queryid;  // 0: not normalised yet
  uint64_t rows_before;
  uint64_t rows_changed;
  uint64_t ended_ns;  // STATUS came, its commits are not durable yet; 0: runs
  const char *query;  // as the server holds it now: only compared, never read later
  size_t query_length;
  uint32_t kind;  // fl_kind
  bool running;
  bool failed;
  bool several;   // one of many in a packet: the next begins where this one ends
  bool prepared;  // earlier, perhaps under another sql_mode
  bool text_due;  // the daemon lacks its text, which must not be sent before the server has parsed it
};

// A commit between its first wrapped call and its durable end.
struct Window {
  flc_account begin;
  uint64_t begin_ns;
  uint64_t epoch;  // of the thread's attachment
  flc_thread *thread;
  pthread_t begun_on;
  uint64_t queryid;
  uint64_t cause_queryid;
  uint64_t rows_changed;
  uint64_t position;
  std::atomic<bool> ordered;      // commit_ordered ran: the commit went through the binary log
  std::atomic<bool> ordered_own;  // on the session's own thread: it led its group
  uint32_t kind;
  bool binlog_only;  // no engine's commit_ordered tells who led its group: its own syncs do
  bool nested;
  bool xa;
  bool durable_soon;  // the last wrapped call said yes: durable when nothing is pending
};

// With the pool of threads a connection leaves its thread while its log is being flushed.
struct Suspension {
  flc_account left;  // the last thing that the first thread did for the connection
  struct {
    uint32_t slot;
    flc_account account;
  } flushers[kFlushersMax + kBackgroundMax];  // who was in a commit call then, and background threads
  uint32_t in_calls;                          // of these, the first ones
  uint32_t flusher_count;
  bool resumed;
  uint64_t resumed_ns;
  uint64_t vector_ns[FL_VECTOR_COUNT];  // of the flushing thread, from left to resumed
};

struct Session {
  uint64_t installation;  // of the plugin: state of an earlier one is void
  uint64_t id;
  uint64_t start_unix_ns;

  // what SESSION said last, and on which ring
  flc_thread *announced_on;
  uint64_t announced_epoch;
  uint16_t database_length;
  char database[FL_NAME_BYTES_MAX];

  uint8_t prepared_under;  // bits of quoting_rules() under which its statements were prepared, as far as we saw it

  Statement statements[kNestingMax];
  uint32_t depth;  // of the statement that runs; only statements[0] outside of routines

  // the open transaction
  uint64_t transaction_rows_before;
  uint64_t most_rows;
  uint64_t most_rows_queryid;

  Window windows[kWindowsMax];
  uint32_t window_count;
  bool window_open;       // the last one is between its first and its last wrapped call
  uint64_t window_query;  // server's query id of it
  uint64_t event_group;   // number of the last one that the session wrote to the binary log, as far as we looked

  // XA PREPARE and XA COMMIT write the binary log before any hook is called, and do nothing but commit: their
  // windows begin with them.
  struct {
    flc_account account;
    flc_thread *on;
    uint64_t epoch;
    uint64_t query;  // server's query id; 0: none
  } early;

  Suspension suspension;
};

// At plugin start. False: the server is out of thread variables.
bool sessions_init();

// nullptr: none, or of an earlier installation and not yet made anew.
Session *session_of(THD *thd);
// The connection's own thread, outside of commits. nullptr: no memory.
Session *session_make(THD *thd);
void session_free(THD *thd);

inline bool session_has_windows(const Session &session) { return session.window_count != 0; }

}  // namespace flushlight
