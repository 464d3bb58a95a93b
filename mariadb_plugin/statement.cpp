// SPDX-License-Identifier: GPL-2.0-only
// Statements: their digest and text, their records, and who their session is.
//
// A statement lasts from its LOG event to its STATUS event; with the binary protocol STATUS comes before the
// answer, so a statement whose commit is still pending is written when that is durable. A packet of several
// statements has one LOG and a STATUS for each.
//
// The query is normalised once, at LOG, for its digest. Where the daemon does not know the text, it is normalised
// again and sent once the server has parsed it: in a query that the server does not understand (an apostrophe that
// nobody escaped) words are literals. Such queries have one row for all. Where a packet may hold several statements,
// all waits until the server has cut it.
//
// Owner: the connection's own thread.
#include "probe.h"

namespace flushlight {
namespace {

constexpr char kReplicated[] = "REPLICATION APPLY";  // row events have no text
constexpr char kOtherEncoding[] = "STATEMENT IN AN UNSAFE CHARACTER SET";
constexpr char kOtherRules[] = "STATEMENT PREPARED UNDER ANOTHER SQL_MODE";
constexpr char kNotUnderstood[] = "STATEMENT WITH A SYNTAX ERROR";

// Errors that end the parser.
constexpr unsigned kParseErrors[] = {ER_PARSE_ERROR, ER_SYNTAX_ERROR, ER_UNKNOWN_CHARACTER_SET,
                                     ER_INVALID_CHARACTER_STRING};

bool is_understood(const mysql_event_general &event) {
  for (const unsigned code : kParseErrors)
    if (static_cast<unsigned>(event.general_error_code) == code) return false;
  return true;
}

bool is_command(const mysql_event_general &event, const char *name) {
  return event.general_command && strncmp(event.general_command, name, strlen(name)) == 0;
}

// Prepare, Quit, Init DB and so on are no statements.
bool is_statement(const mysql_event_general &event) {
  return is_command(event, "Query") || is_command(event, "Execute") || is_command(event, "Bulk_execute");
}

bool is_xa(const char *query, size_t length) {
  while (length && my_isspace(system_charset_info, *query)) query++, length--;
  return length > 2 && (query[0] | 0x20) == 'x' && (query[1] | 0x20) == 'a' &&
         my_isspace(system_charset_info, query[2]);
}

bool may_hold_several(const THD *thd, const char *query, size_t length) {
  if (!(thd->client_capabilities & CLIENT_MULTI_STATEMENTS) || thd->spcont) return false;
  const auto *semicolon = static_cast<const char *>(memchr(query, ';', length));
  if (!semicolon) return false;
  for (semicolon++; semicolon < query + length; semicolon++)
    if (!my_isspace(system_charset_info, *semicolon)) return true;
  return false;
}

// The daemon takes UTF-8. What other character sets have above ASCII is not worth a conversion here.
void keep_ascii(char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (static_cast<unsigned char>(text[i]) >= 0x80) text[i] = '?';
}

// May the text go out before the statement ends? Only a query of the client's own is not parsed yet at LOG.
bool is_parsed(const THD *thd, const mysql_event_general &event) { return thd->spcont || !is_command(event, "Query"); }

// What decides where a string ends, as a number below 4.
unsigned quoting_rules(const THD *thd) {
  return (thd->variables.sql_mode & MODE_NO_BACKSLASH_ESCAPES ? 1 : 0) |
         (thd->variables.sql_mode & MODE_ANSI_QUOTES ? 2 : 0);
}

struct Normalized {
  char text[FL_TEXT_BYTES_MAX];
  size_t length = 0;
  bool truncated = false;
  uint64_t queryid = 0;
};

void normalize(const char *query, size_t length, unsigned rules, Normalized *to) {
  flc_tokenizer_options options{};
  options.no_backslash_escapes = rules & 1;
  options.ansi_quotes = rules & 2;
  to->queryid = flc_normalize(query, length, &options, to->text, sizeof to->text, &to->length, &to->truncated);
}

// False: under other rules of `possible` it has other literals.
bool same_under_all(const char *query, size_t length, unsigned possible, uint64_t queryid) {
  for (unsigned rules = 0; possible >> rules; rules++) {
    Normalized other;
    if (!(possible >> rules & 1)) continue;
    normalize(query, length, rules, &other);
    if (other.queryid != queryid) return false;
  }
  return true;
}

// *due: the daemon lacks the text. Without `send` it goes on lacking it. `possible`: bits of the rules under which the
// server may have parsed it, besides those of now.
uint64_t normalize_for(THD *thd, flc_thread *thread, const char *query, size_t length, unsigned possible, bool send,
                       bool *due) {
  const CHARSET_INFO *charset = thd->variables.character_set_client;
  if (!query) {
    query = kReplicated;
    length = sizeof kReplicated - 1;
  } else if (charset->escape_with_backslash_is_dangerous) {
    query = kOtherEncoding;  // a byte of a character may look like a backslash: strings cannot be told
    length = sizeof kOtherEncoding - 1;
  }
  const unsigned rules = quoting_rules(thd);
  Normalized normalized;
  normalize(query, length, rules, &normalized);
  if (!same_under_all(query, length, possible & ~(1u << rules), normalized.queryid))
    normalize(kOtherRules, sizeof kOtherRules - 1, rules, &normalized);
  *due = !send && flc_text_lacking(thread, normalized.queryid);
  if (send && flc_text_wanted(thread, normalized.queryid)) {
    if (strncmp(charset->cs_name.str, "utf8", 4) != 0) keep_ascii(normalized.text, normalized.length);
    flc_write_text(thread, normalized.queryid, normalized.text, normalized.length, normalized.truncated);
  }
  return normalized.queryid;
}

uint16_t name_length(size_t length) { return static_cast<uint16_t>(std::min<size_t>(length, FL_NAME_BYTES_MAX)); }

bool announced(const THD *thd, const Session &session, const flc_thread *thread) {
  return session.announced_on == thread && session.announced_epoch == flc_thread_epoch(thread) &&
         session.database_length == name_length(thd->db.length) &&
         (session.database_length == 0 || memcmp(session.database, thd->db.str, session.database_length) == 0);
}

void write_statement(Session &session, Statement &statement, flc_thread *thread, uint64_t end_ns, bool nested) {
  fl_record_statement record{};
  record.header = {sizeof record, FL_RECORD_STATEMENT, FL_RING_VERSION};
  record.session_id = session.id;
  record.queryid = statement.queryid;
  record.begin_ns = statement.begin_ns;
  record.duration_ns = end_ns - statement.begin_ns;
  record.work = statement.rows_changed;
  record.flags = (nested ? FL_STATEMENT_NESTED : 0) | (statement.failed ? FL_STATEMENT_FAILED : 0);
  record.kind = statement.kind;
  flc_write(thread, &record);
  statement.ended_ns = 0;
}

void start(Statement &statement, uint64_t now_ns, uint64_t rows) {
  statement.begin_ns = now_ns;
  statement.queryid = 0;
  statement.rows_before = rows;
  statement.ended_ns = 0;
  statement.query = nullptr;
  statement.query_length = 0;
  statement.running = true;
  statement.failed = false;
  statement.several = false;
  statement.text_due = false;
  statement.prepared = false;
}

void go_idle(Session &session, flc_thread *thread) {
  if (session.window_count || session.statements[0].ended_ns) return;
  set_state(thread, kStateIdle);
  flc_set_query(thread, 0);
  if (pool_used()) {
    flc_set_session(thread, 0);  // the thread goes on to other connections
    pool_seen(thread);
  }
}

}  // namespace

uint64_t rows_changed_of(const THD *thd) {
  const system_status_var &counts = thd->status_var;
  return counts.ha_write_count + counts.ha_update_count + counts.ha_delete_count;
}

Statement &current_statement(Session &session) { return session.statements[session.depth]; }

void statement_prepared(const THD *thd, Session &session, const mysql_event_general &event) {
  if (is_command(event, "Prepare")) session.prepared_under |= static_cast<uint8_t>(1u << quoting_rules(thd));
}

void name_statement(THD *thd, Session &session, Statement &statement, flc_thread *thread, const char *query,
                    size_t length, bool parsed) {
  const bool known = statement.queryid && statement.query == query && statement.query_length == length;
  if (known && !(statement.text_due && parsed)) return;
  statement.query = query;
  statement.query_length = length;
  const unsigned possible = statement.prepared ? session.prepared_under : 0;
  statement.queryid = normalize_for(thd, thread, query, length, possible, parsed, &statement.text_due);
  flc_set_query(thread, statement.queryid);
}

// The user changes with COM_CHANGE_USER only, which has an event of its own.
void announce_session(THD *thd, Session &session, flc_thread *thread) {
  if (announced(thd, session, thread)) return;
  const Security_context &who = thd->main_security_ctx;
  const char *user = who.user ? who.user : "";
  const char *address = who.ip ? who.ip : "";  // a local connection has none
  session.database_length = name_length(thd->db.length);
  if (session.database_length) memcpy(session.database, thd->db.str, session.database_length);
  const char *const parts[] = {user, session.database, "", address};
  fl_record_session record{};
  record.header = {sizeof record, FL_RECORD_SESSION, FL_RING_VERSION};
  record.session_id = session.id;
  record.backend_start_unix_ns = session.start_unix_ns;
  record.user_length = name_length(strlen(user));
  record.database_length = session.database_length;
  record.address_length = name_length(strlen(address));
  const uint16_t lengths[] = {record.user_length, record.database_length, 0, record.address_length};
  const bool written = flc_write_parts(thread, &record, sizeof record, parts, lengths, 4);
  session.announced_on = written ? thread : nullptr;
  session.announced_epoch = flc_thread_epoch(thread);
  flc_set_session(thread, session.id);
}

void statement_begins(THD *thd, Session &session, flc_thread *thread, const mysql_event_general &event,
                      uint64_t now_ns) {
  statements_settled(session, thread, now_ns);
  if (!is_statement(event)) return;
  if (!thd->spcont)
    session.depth = 0;
  else if (session.depth + 1 < kNestingMax)
    session.depth++;
  Statement &statement = current_statement(session);
  start(statement, now_ns, rows_changed_of(thd));
  if (!thd->in_active_multi_stmt_transaction() && !session.depth) {
    session.transaction_rows_before = statement.rows_before;
    session.most_rows = 0;
    session.most_rows_queryid = 0;
  }
  set_state(thread, kStateWorking);
  announce_session(thd, session, thread);
  if (pool_used()) flc_set_session(thread, session.id);
  if (is_xa(event.general_query, event.general_query_length)) commit_is_all_of(thd, session, thread);
  statement.prepared = is_command(event, "Execute") || is_command(event, "Bulk_execute");
  if (may_hold_several(thd, event.general_query, event.general_query_length))
    statement.several = true;
  else
    name_statement(thd, session, statement, thread, event.general_query, event.general_query_length,
                   is_parsed(thd, event));
}

void statement_ends(THD *thd, Session &session, flc_thread *thread, const mysql_event_general &event, uint64_t now_ns) {
  Statement &statement = current_statement(session);
  if (!is_statement(event) || !statement.running) {
    go_idle(session, thread);
    return;
  }
  announce_session(thd, session, thread);
  if (is_understood(event))
    name_statement(thd, session, statement, thread, event.general_query, event.general_query_length, true);
  else
    name_statement(thd, session, statement, thread, kNotUnderstood, sizeof kNotUnderstood - 1, true);
  statement.rows_changed = rows_changed_of(thd) - statement.rows_before;
  statement.failed = event.general_error_code != 0;
  statement.running = false;
  if (statement.rows_changed > session.most_rows && thd->in_active_multi_stmt_transaction()) {
    session.most_rows = statement.rows_changed;
    session.most_rows_queryid = statement.queryid;
  }
  switch (thd->lex->sql_command) {
    case SQLCOM_COMMIT:
    case SQLCOM_XA_COMMIT:
    case SQLCOM_XA_PREPARE:
      statement.kind = FL_KIND_COMMIT;
      break;
    default:
      statement.kind = FL_KIND_STATEMENT;
  }
  if (session.depth) {
    write_statement(session, statement, thread, now_ns, true);
    set_state(thread, kStateWorking);
    session.depth--;
    return;
  }
  if (statement.several && (thd->server_status & SERVER_MORE_RESULTS_EXISTS)) {
    write_statement(session, statement, thread, now_ns, false);
    start(statement, now_ns, rows_changed_of(thd));
    statement.several = true;
  } else if (session.window_count) {
    statement.ended_ns = now_ns;  // its commits are pending: the answer comes after them
  } else {
    write_statement(session, statement, thread, now_ns, false);
    go_idle(session, thread);
  }
}

void statements_settled(Session &session, flc_thread *thread, uint64_t now_ns) {
  Statement &statement = session.statements[0];
  if (!statement.ended_ns) return;
  write_statement(session, statement, thread, session.window_count ? statement.ended_ns : now_ns, false);
  go_idle(session, thread);
}

}  // namespace flushlight
