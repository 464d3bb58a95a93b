// SPDX-License-Identifier: GPL-2.0-only
// Everything that is put into the server: InnoDB's prepare, commit, commit_ordered and commit_by_xid, the
// binary log's prepare_commit_versioned and commit (around what it alone commits) and the thread pool's resume.
// The only file that knows the shape of a handlerton; 11.8 changes it.
//
// Owner: the thread that installs or removes the plugin (the server runs one at a time). Pointers are
// replaced atomically, and put back only where they are still ours: somebody may have wrapped us since.
// A thread can be inside a wrapper for as long as a commit takes, also after removal. So the library is
// pinned in memory, and the originals are never forgotten.
#include <dlfcn.h>

#include "probe.h"

namespace flushlight {

uint32_t innodb_slot;

namespace {

handlerton *innodb;

// One replaced pointer. The original stays known for ever: a thread may be between our entry and its call.
template <typename Function>
struct Hook {
  Function original = nullptr;
  bool chained = false;  // somebody wrapped us and kept us in their chain: still called, not to be put in again

  void put(Function *place, Function ours) {
    if (chained || !*place || *place == ours) return;
    original = *place;
    __atomic_store_n(place, ours, __ATOMIC_SEQ_CST);
  }
  // For a place that may be empty. Never emptied again: the server looks and calls in two steps.
  void fill(Function *place, Function ours) {
    if (*place == ours) return;
    original = *place;
    __atomic_store_n(place, ours, __ATOMIC_SEQ_CST);
  }
  void put_back(Function *place, Function ours) {
    if (original && !chained)
      chained = !__atomic_compare_exchange_n(place, &ours, original, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
};

Hook<int (*)(handlerton *, THD *, bool)> prepare_hook, commit_hook, binlog_commit_hook;
Hook<void (*)(handlerton *, THD *, bool)> commit_ordered_hook;
Hook<int (*)(handlerton *, XID *)> commit_by_xid_hook;
Hook<ulonglong (*)(THD *, ulonglong *)> commit_versioned_hook;
Hook<void (*)(THD *)> resume_hook;

// The session if this call belongs to a commit that is to be observed.
Session *observed(THD *thd, bool all) {
  if (!probe_on() || !commit_is_real(thd, all)) return nullptr;
  Session *session = session_of(thd);
  if (session && session->window_open) return session;
  return commit_is_read_write(thd, all) ? session : nullptr;
}

int wrapped_prepare(handlerton *hton, THD *thd, bool all) {
  const Inside inside;
  Session *session = observed(thd, all);
  if (!session) return prepare_hook.original(hton, thd, all);
  commit_begins(thd, *session);
  const int result = prepare_hook.original(hton, thd, all);
  if (probe_on()) commit_prepared(thd, *session, result);
  return result;
}

int wrapped_commit(handlerton *hton, THD *thd, bool all) {
  const Inside inside;
  Session *session = observed(thd, all);
  if (!session) return commit_hook.original(hton, thd, all);
  commit_begins(thd, *session);
  const int result = commit_hook.original(hton, thd, all);
  if (probe_on()) commit_returned(thd, *session, result);
  return result;
}

// Often on the group leader's thread, for a session that waits for it.
void wrapped_commit_ordered(handlerton *hton, THD *thd, bool all) {
  const Inside inside;
  if (probe_on())
    if (Session *session = session_of(thd)) commit_ordered(thd, *session);
  commit_ordered_hook.original(hton, thd, all);
}

// XA COMMIT of a transaction that another connection prepared.
int wrapped_commit_by_xid(handlerton *hton, XID *xid) {
  const Inside inside;
  THD *thd = current_thd;
  Session *session = thd && probe_on() ? session_of(thd) : nullptr;
  if (!session) return commit_by_xid_hook.original(hton, xid);
  commit_begins(thd, *session);
  const int result = commit_by_xid_hook.original(hton, xid);
  if (probe_on()) commit_returned(thd, *session, result);
  return result;
}

bool innodb_writes(THD *thd) {
  const Ha_trx_info *infos = thd->ha_data[innodb_slot].ha_info;
  return (infos[0].is_started() && infos[0].is_trx_read_write()) ||
         (infos[1].is_started() && infos[1].is_trx_read_write());
}

// Called for every engine of a transaction that is to be committed and has written, the binary log among them, before
// anything else: for a commit of the binary log alone (other engines, temporary tables, statements that found no row)
// the only sign before its wait. The server's own binary log has nothing here.
ulonglong wrapped_commit_versioned(THD *thd, ulonglong *trx_id) {
  const Inside inside;
  Session *session = probe_on() && !innodb_writes(thd) ? session_of(thd) : nullptr;
  if (session && !commit_is_known(thd, *session)) commit_of_binlog_begins(thd, *session);
  return commit_versioned_hook.original ? commit_versioned_hook.original(thd, trx_id) : 0;
}

// The binary log is written already when the server comes here.
int wrapped_binlog_commit(handlerton *hton, THD *thd, bool all) {
  const Inside inside;
  if (probe_on())
    if (Session *session = session_of(thd)) commit_of_binlog_returned(thd, *session);
  return binlog_commit_hook.original(hton, thd, all);
}

// On the thread that flushed the log, for a connection that left its thread.
void wrapped_resume(THD *thd) {
  const Inside inside;
  if (probe_on()) {
    Session *session = session_of(thd);
    if (session && session_has_windows(*session)) pool_resumed(*session);
  }
  resume_hook.original(thd);
}

handlerton *find_innodb() {
  const LEX_CSTRING name = {STRING_WITH_LEN("InnoDB")};
  plugin_ref plugin = ha_resolve_by_name(nullptr, &name, false);
  if (!plugin) return nullptr;
  handlerton *found = plugin_hton(plugin);
  plugin_unlock(nullptr, plugin);
  return found;
}

void pin_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&wrapped_commit), &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

const char *wrap_refusal() {
  innodb = find_innodb();
  if (!innodb) return "InnoDB is not running";
  if (!innodb->prepare || !innodb->commit || !innodb->commit_ordered)
    return "InnoDB's handlerton has no prepare, commit or commit_ordered";
  if (innodb->slot >= MAX_HA) return "InnoDB's handlerton has an impossible slot";
  return nullptr;
}

void wrap() {
  pin_library();
  innodb_slot = innodb->slot;
  prepare_hook.put(&innodb->prepare, &wrapped_prepare);
  commit_ordered_hook.put(&innodb->commit_ordered, &wrapped_commit_ordered);
  commit_hook.put(&innodb->commit, &wrapped_commit);
  commit_by_xid_hook.put(&innodb->commit_by_xid, &wrapped_commit_by_xid);
  if (binlog_hton) {
    binlog_commit_hook.put(&binlog_hton->commit, &wrapped_binlog_commit);
    commit_versioned_hook.fill(&binlog_hton->prepare_commit_versioned, &wrapped_commit_versioned);
  }
  if (thread_scheduler) resume_hook.put(&thread_scheduler->thd_resume, &wrapped_resume);
}

void unwrap() {
  if (!innodb) return;
  commit_hook.put_back(&innodb->commit, &wrapped_commit);
  prepare_hook.put_back(&innodb->prepare, &wrapped_prepare);
  commit_ordered_hook.put_back(&innodb->commit_ordered, &wrapped_commit_ordered);
  commit_by_xid_hook.put_back(&innodb->commit_by_xid, &wrapped_commit_by_xid);
  if (binlog_hton) binlog_commit_hook.put_back(&binlog_hton->commit, &wrapped_binlog_commit);
  if (thread_scheduler) resume_hook.put_back(&thread_scheduler->thd_resume, &wrapped_resume);
}

}  // namespace flushlight
