// SPDX-License-Identifier: GPL-2.0-only
// What the server tells an audit plugin, and what each of it means here.
//
//   text           LOG, RESULT, STATUS              error    LOG, ERROR, STATUS
//   prepared       LOG, STATUS, RESULT              several  LOG, STATUS for each, RESULT before the last
//   CALL           LOG, then LOG and STATUS for each statement inside, RESULT, STATUS
//
// Owner: the connection's thread.
#include "probe.h"

namespace flushlight {
namespace {

void on_log(THD *thd, const mysql_event_general &event) {
  const uint64_t now_ns = flc_now_ns();
  flc_thread *thread = flc_active(now_ns) ? flc_thread_self() : nullptr;
  Session *session = session_make(thd);
  if (!session) return;
  statement_prepared(thd, *session, event);
  if (!thread) {
    commits_dropped(*session, nullptr);
    session->statements[0].running = false;
    return;
  }
  // Windows that are still here end at an unknown time before this statement: seen, not recorded.
  if (!thd->spcont && session->window_count && !pending_operations(thd)) {
    for (uint32_t i = 0; i < session->window_count; i++)
      if (session->windows[i].durable_soon) flc_count_commit(thread);
    commits_dropped(*session, thread);
  }
  statement_begins(thd, *session, thread, event, now_ns);
}

void on_result_or_status(THD *thd, const mysql_event_general &event) {
  Session *session = session_of(thd);
  if (!session) return;
  const bool status = event.event_subclass == MYSQL_AUDIT_GENERAL_STATUS;
  if (!status && !session->window_count && !session->statements[0].ended_ns) return;  // STATUS follows
  const uint64_t now_ns = flc_now_ns();
  flc_thread *thread = flc_active(now_ns) ? flc_thread_self() : nullptr;
  if (!thread) {
    commits_dropped(*session, nullptr);
    session->statements[0].ended_ns = 0;
    return;
  }
  if (session->window_count) {
    if (!pending_operations(thd)) {
      announce_session(thd, *session, thread);
      commits_durable(*session, thread, event.general_error_code != 0);
    } else if (pool_used()) {
      pool_left(*session, thread);
    }
  }
  if (status)
    statement_ends(thd, *session, thread, event, now_ns);
  else
    statements_settled(*session, thread, now_ns);
}

void on_general(THD *thd, const mysql_event_general &event) {
  switch (event.event_subclass) {
    case MYSQL_AUDIT_GENERAL_LOG:
      on_log(thd, event);
      break;
    case MYSQL_AUDIT_GENERAL_RESULT:
    case MYSQL_AUDIT_GENERAL_STATUS:
      on_result_or_status(thd, event);
      break;
    default:
      break;
  }
}

void on_disconnect(THD *thd) {
  Session *session = session_of(thd);
  flc_thread *thread = session && flc_active(flc_now_ns()) ? flc_thread_self() : nullptr;
  if (thread && session->announced_epoch == flc_thread_epoch(thread)) {
    fl_record_session_end record{};
    record.header = {sizeof record, FL_RECORD_SESSION_END, FL_RING_VERSION};
    record.session_id = session->id;
    flc_write(thread, &record);
    flc_set_session(thread, 0);
    flc_set_query(thread, 0);
    flc_set_window(thread, 0);
    set_state(thread, kStateIdle);
  }
  session_free(thd);
}

void on_connection(THD *thd, const mysql_event_connection &event) {
  switch (event.event_subclass) {
    case MYSQL_AUDIT_CONNECTION_CONNECT:
      session_make(thd);
      break;
    case MYSQL_AUDIT_CONNECTION_CHANGE_USER:
      if (Session *session = session_of(thd)) session->announced_on = nullptr;
      break;
    case MYSQL_AUDIT_CONNECTION_DISCONNECT:
      on_disconnect(thd);
      break;
    default:
      break;
  }
}

}  // namespace

void audit_event(MYSQL_THD thd, unsigned event_class, const void *event) {
  if (!thd) return;
  probe_first_event(thd);
  if (!probe_on()) return;
  if (event_class == MYSQL_AUDIT_GENERAL_CLASS)
    on_general(thd, *static_cast<const mysql_event_general *>(event));
  else if (event_class == MYSQL_AUDIT_CONNECTION_CLASS)
    on_connection(thd, *static_cast<const mysql_event_connection *>(event));
}

}  // namespace flushlight
