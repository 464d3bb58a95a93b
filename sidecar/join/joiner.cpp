// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/join/joiner.h"

namespace flushlight {
namespace {

StatementKey make_key(const Instance &instance, const SessionInfo &session, uint64_t queryid, uint32_t kind,
                      bool nested) {
  StatementKey key;
  key.queryid = queryid;
  key.userid = session.userid;
  key.dbid = session.dbid;
  key.instance = instance.id;
  key.user = session.user;
  key.database = session.database;
  key.kind = static_cast<uint8_t>(kind);
  key.toplevel = nested ? 0 : 1;
  return key;
}

}  // namespace

Role commit_role(const fl_record_commit &record) {
  if (record.syncs > 0) return Role::kLed;
  if (record.inherited_sync_ns > 0) return Role::kFollowed;
  return (record.flags & FL_COMMIT_ACCOUNTED) != 0 ? Role::kUnsynced : Role::kUnknown;
}

void Joiner::keep_texts(bool keep) {
  keep_texts_ = keep;
  if (!keep) texts_.clear();
}

void Joiner::on_text(const Instance &instance, uint64_t queryid, std::string_view text, bool truncated) {
  if (keep_texts_) texts_.put(instance.id, queryid, text, truncated);
}

void Joiner::on_statement(const Instance &instance, const SessionInfo &session, const fl_record_statement &record) {
  sink_.on_statement(
      {make_key(instance, session, record.queryid, record.kind, (record.flags & FL_STATEMENT_NESTED) != 0), record});
}

void Joiner::on_commit(const Instance &instance, const SessionInfo &session, const fl_record_commit &record) {
  JoinedCommit event{make_key(instance, session, record.queryid, record.kind, (record.flags & FL_COMMIT_NESTED) != 0),
                     {},
                     record.cause_queryid != 0 && record.cause_queryid != record.queryid,
                     commit_role(record),
                     instance,
                     session,
                     record};
  if (event.has_cause) event.cause = make_key(instance, session, record.cause_queryid, FL_KIND_STATEMENT, false);
  sink_.on_commit(event);
}

}  // namespace flushlight
