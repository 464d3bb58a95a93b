// SPDX-License-Identifier: GPL-2.0-only
// Commit windows: from the first wrapped call of a commit to the first moment at which it is known durable.
//
// Without a binary log the wait for the log is asynchronous: InnoDB's commit returns with an operation
// pending, and the server waits for it before it answers the client. So a window ends at the first audit
// event after the answer with nothing pending. Inside routines several commits may be pending at once; they
// end together. System threads (appliers, events) have no pending operations and no such events: their
// windows end with the last wrapped call.
//
// Owner: the connection's thread; commit_ordered() alone also runs on a group leader's.
#include "probe.h"

void mysql_bin_log_commit_pos(THD *thd, ulonglong *position, const char **file);
extern my_bool rpl_semi_sync_master_enabled;
extern ulong rpl_semi_sync_master_wait_point;

namespace flushlight {
namespace {

Window *open_window(Session &session) {
  return session.window_open ? &session.windows[session.window_count - 1] : nullptr;
}

void close_window(Session &session) { session.window_open = false; }

void drop_open_window(Session &session) {
  if (!session.window_open) return;
  session.window_open = false;
  session.window_count--;
}

struct CommitCommand {
  enum_sql_command command;
  bool xa;
};
// Statements that are a commit and nothing else: rows of their own.
constexpr CommitCommand kCommitCommands[] = {
    {SQLCOM_COMMIT, false}, {SQLCOM_XA_COMMIT, true}, {SQLCOM_XA_PREPARE, true}};

void classify(THD *thd, Session &session, Window *window) {
  const uint64_t rows = rows_changed_of(thd);
  window->kind = FL_KIND_STATEMENT;
  for (const CommitCommand &known : kCommitCommands) {
    if (thd->lex->sql_command != known.command) continue;
    window->kind = FL_KIND_COMMIT;
    window->xa = known.xa;
  }
  window->nested = thd->spcont != nullptr;
  window->rows_changed = rows - session.transaction_rows_before;
  // in a transaction of several statements the one that wrote most caused the commit
  window->cause_queryid = session.most_rows_queryid == window->queryid ? 0 : session.most_rows_queryid;
  session.transaction_rows_before = rows;
  session.most_rows = 0;
  session.most_rows_queryid = 0;
}

// With the other wait point the group's leader waits inside the binary log, where nothing of ours is called.
bool waits_for_replica_next() {
  constexpr ulong kAfterCommit = 1;
  return rpl_semi_sync_master_enabled && rpl_semi_sync_master_wait_point == kAfterCommit;
}

// With AFTER_SYNC the leader of a group waits between the binary log's sync and the ordering, where no hook is.
bool group_waits_for_replica() {
  constexpr ulong kAfterSync = 0;
  return rpl_semi_sync_master_enabled && rpl_semi_sync_master_wait_point == kAfterSync;
}

// Number of the last event group that the session wrote; 0: none.
uint64_t event_group(THD *thd) { return thd->get_last_commit_gtid().seq_no; }

// Where the commit that is being ordered ends in the binary log. The server forgets it right afterwards.
uint64_t binlog_position(THD *thd) {
  ulonglong position = 0;
  const char *file = nullptr;
  mysql_bin_log_commit_pos(thd, &position, &file);
  return position;
}

// A commit without a window was counted where it had a thread (too many windows), or nobody observes it.
void miss_if_unobserved() {
  if (!flc_active(flc_now_ns()) || !flc_thread_self()) flc_miss_commit();
}

bool belongs_to_other_query(THD *thd, const Session &session) {
  return session.window_query != static_cast<uint64_t>(thd->query_id);
}

void write_commit(Session &session, Window &window, flc_thread *thread, const flc_account &end, bool failed) {
  fl_record_commit record{};
  record.header = {sizeof record, FL_RECORD_COMMIT, FL_RING_VERSION};
  record.session_id = session.id;
  record.queryid = window.queryid;
  record.cause_queryid = window.cause_queryid;
  record.begin_ns = window.begin_ns;
  record.duration_ns = end.clock_ns - window.begin_ns;
  record.work = window.rows_changed;
  record.position = window.position;
  record.kind = window.kind;
  record.flags =
      (window.nested ? FL_COMMIT_NESTED : 0) | (window.xa ? FL_COMMIT_XA : 0) | (failed ? FL_COMMIT_FAILED : 0);
  if (window.ordered.load(std::memory_order_acquire))
    record.flags |= FL_COMMIT_BINLOG | (window.ordered_own ? FL_COMMIT_BINLOG_LED : 0);

  flc_account account{};
  if (window.thread == thread && !session.suspension.resumed) {
    if (window.epoch == flc_thread_epoch(thread)) flc_account_difference(&window.begin, &end, &account);
  } else if (pool_account(session, window, thread, end, &account, &record.attributed_ns)) {
    record.flags |= FL_COMMIT_ATTRIBUTED;
  }
  if (account.valid) {
    record.flags |= FL_COMMIT_ACCOUNTED;
    record.syncs = account.syncs;
    record.inherited_sync_ns = account.inherited_sync_ns;
    memcpy(record.vector_ns, account.vector_ns, sizeof record.vector_ns);
    if (window.binlog_only && account.syncs) record.flags |= FL_COMMIT_BINLOG_LED;
  }
  flc_count_commit(thread);
  flc_write(thread, &record);
}

}  // namespace

bool commit_is_real(THD *thd, bool all) { return all || !thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN); }

bool commit_is_read_write(THD *thd, bool all) {
  const Ha_trx_info &info = thd->ha_data[innodb_slot].ha_info[all ? 1 : 0];
  return info.is_started() && info.is_trx_read_write();
}

bool commit_is_known(THD *thd, const Session &session) {
  return session.window_open || !belongs_to_other_query(thd, session);
}

void commit_is_all_of(THD *thd, Session &session, flc_thread *thread) {
  session.early.query = static_cast<uint64_t>(thd->query_id);
  session.early.on = thread;
  session.early.epoch = flc_thread_epoch(thread);
  flc_read_account(thread, &session.early.account);
}

void commit_begins(THD *thd, Session &session) {
  if (session.window_open) {
    if (!belongs_to_other_query(thd, session)) {  // prepared, and now committed
      if (pool_used()) pool_enter(open_window(session)->thread);
      return;
    }
    drop_open_window(session);  // was rolled back after its prepare
  }
  const uint64_t now_ns = flc_now_ns();
  flc_thread *thread = flc_active(now_ns) ? flc_thread_self() : nullptr;
  if (!thread) return;
  if (session.window_count && !pending_operations(thd)) commits_durable(session, thread, false);
  if (session.window_count == kWindowsMax) {
    probe_overflows.fetch_add(1, std::memory_order_relaxed);
    flc_count_commit(thread);  // seen, not recorded: coverage tells
    return;
  }
  Window *window = &session.windows[session.window_count++];
  session.window_open = true;
  session.window_query = static_cast<uint64_t>(thd->query_id);
  window->thread = thread;
  window->begun_on = pthread_self();
  window->epoch = flc_thread_epoch(thread);
  window->position = 0;
  window->ordered.store(false, std::memory_order_relaxed);
  window->ordered_own = false;
  window->binlog_only = false;
  window->durable_soon = false;
  window->xa = false;
  if (session.window_count == 1) session.suspension.resumed = false;
  set_state(thread, kStateWorking);
  if (session.early.query == session.window_query && session.early.on == thread && session.early.epoch == window->epoch)
    window->begin = session.early.account;
  else
    flc_read_account(thread, &window->begin);
  window->begin_ns = window->begin.clock_ns;
  flc_set_window(thread, window->begin_ns);
  if (pool_used()) pool_enter(thread);

  Statement &statement = current_statement(session);
  name_statement(thd, session, statement, thread, thd->query(), thd->query_length(), true);
  window->queryid = statement.queryid;
  classify(thd, session, window);
}

void commit_prepared(THD *thd, Session &session, int result) {
  if (pool_used()) pool_leave_call();
  Window *window = open_window(session);
  if (!window) {
    if (result == 0 && thd->lex->sql_command == SQLCOM_XA_PREPARE) miss_if_unobserved();
    return;
  }
  if (result != 0) {
    drop_open_window(session);
  } else if (thd->lex->sql_command == SQLCOM_XA_PREPARE) {
    window->durable_soon = true;
    close_window(session);
  } else if (group_waits_for_replica()) {
    set_state(window->thread, kStateOrdering);
  }
}

void commit_ordered(THD *thd, Session &session) {
  Window *window = open_window(session);
  if (!window || !opt_bin_log) return;
  window->position = binlog_position(thd);
  // not current_thd: a leader makes itself the current THD of each of its followers in turn
  window->ordered_own = pthread_equal(window->begun_on, pthread_self()) != 0;
  window->ordered.store(true, std::memory_order_release);
}

void commit_returned(THD *thd, Session &session, int result) {
  if (pool_used()) pool_leave_call();
  Window *window = open_window(session);
  if (!window) {
    if (result == 0) miss_if_unobserved();
    return;
  }
  if (result != 0) {
    drop_open_window(session);
    return;
  }
  window->durable_soon = true;
  close_window(session);
  session.event_group = event_group(thd);
  if (thd->system_thread != NON_SYSTEM_THREAD) {
    if (flc_thread *thread = flc_active(flc_now_ns()) ? flc_thread_self() : nullptr) {
      announce_session(thd, session, thread);
      commits_durable(session, thread, false);
    } else {
      commits_dropped(session, nullptr);
    }
    return;
  }
  set_state(window->thread, waits_for_replica_next() ? kStateReplication : kStateWorking);
  if (pool_used() && pending_operations(thd)) pool_left(session, window->thread);
}

void commit_of_binlog_begins(THD *thd, Session &session) {
  session.event_group = event_group(thd);
  commit_begins(thd, session);
  if (Window *window = open_window(session)) window->binlog_only = true;
}

void commit_of_binlog_returned(THD *thd, Session &session) {
  Window *window = open_window(session);
  const bool alone = window && window->binlog_only && !belongs_to_other_query(thd, session);
  if (!alone && !thd->transaction->stmt.modified_non_trans_table) return;
  const uint64_t group = event_group(thd);
  const bool written = group != session.event_group;
  session.event_group = group;
  if (alone) {
    window->ordered.store(true, std::memory_order_relaxed);
    commit_returned(thd, session, written ? 0 : 1);
  } else if (written && !window && belongs_to_other_query(thd, session)) {
    // a table that cannot be rolled back, within a transaction: no sign before its wait, so only counted
    if (flc_thread *thread = flc_active(flc_now_ns()) ? flc_thread_self() : nullptr)
      flc_count_commit(thread);
    else
      flc_miss_commit();
  }
}

void commits_durable(Session &session, flc_thread *thread, bool failed) {
  flc_account end;
  flc_read_account(thread, &end);
  for (uint32_t i = 0; i < session.window_count; i++)
    if (session.windows[i].durable_soon) write_commit(session, session.windows[i], thread, end, failed);
  commits_dropped(session, thread);
}

void commits_dropped(Session &session, flc_thread *thread) {
  if (!thread)
    for (uint32_t i = 0; i < session.window_count; i++)
      if (session.windows[i].durable_soon) flc_miss_commit();
  session.window_count = 0;
  session.window_open = false;
  session.suspension.resumed = false;
  if (thread) flc_set_window(thread, 0);
}

}  // namespace flushlight
