// SPDX-License-Identifier: GPL-2.0-or-later
// threads: what the kernel side knows of every traced thread, joined with what its ring's head says now.
// Without tracing only the rings speak, and all that the kernel would know is NULL.
//
// Whom a sleeper waits for is settled by the kernel side when it wakes; a live view cannot know it yet. For a
// thread in the middle of a commit that sleeps without a request of its own it is inferred, and only where
// there is one explanation: one single thread of its server (or, if none, one single journal thread) has
// requests outstanding. Otherwise the columns are NULL.
#include <algorithm>
#include <map>
#include <vector>

#include "sidecar/base/text.h"
#include "sidecar/host/process.h"
#include "sidecar/join/verdict.h"
#include "sidecar/serve/families.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

enum ThreadKind : uint32_t { kSession = 1, kJournal = 2, kBackground = 3 };

struct Row {
  const Instance *instance = nullptr;
  const SessionInfo *session = nullptr;
  const kernel::ThreadState *thread = nullptr;
  RingLive live;
  uint32_t kind = kSession;
  std::string thread_name;
  const StatementText *text = nullptr;
  bool visible = false;
  uint64_t now_ns = 0;
  const Row *root = nullptr;  // inferred: who does the work that this thread waits for
};

// The request of its own that a thread has outstanding; FL_CAUSE_COUNT: none.
int outstanding_cause(const kernel::ThreadState &thread) {
  const std::pair<uint32_t, int> outstanding[] = {{thread.own_flushes, FL_CAUSE_FLUSH},
                                                  {thread.own_writes, FL_CAUSE_WRITE},
                                                  {thread.own_reads, FL_CAUSE_READ},
                                                  {thread.own_queued, FL_CAUSE_QUEUE}};
  for (const auto &[count, cause] : outstanding)
    if (count > 0) return cause;
  return FL_CAUSE_COUNT;
}

// Enrolled while it slept and not switched since: whether and why it sleeps was not seen.
bool never_seen(const kernel::ThreadState &thread) {
  return thread.blocked_since_ns == 0 &&
         std::all_of(std::begin(thread.vector_ns), std::end(thread.vector_ns), [](uint64_t ns) { return ns == 0; });
}

// What the thread waits for now, as far as its own state shows it; FL_CAUSE_COUNT: it does not.
int own_cause(const kernel::ThreadState &thread) {
  if (never_seen(thread)) return FL_CAUSE_COUNT;
  if (thread.blocked_since_ns == 0) return thread.runnable_since_ns != 0 ? FL_CAUSE_CPU : FL_CAUSE_ONCPU;
  if (thread.state_cause < FL_CAUSE_COUNT) return static_cast<int>(thread.state_cause);
  return outstanding_cause(thread);
}

int current_cause(const Row &row) {
  if (row.thread == nullptr) return FL_CAUSE_COUNT;
  const int cause = own_cause(*row.thread);
  return cause == FL_CAUSE_COUNT && row.root != nullptr ? outstanding_cause(*row.root->thread) : cause;
}

Cell current_path(const Row &row) {
  if (row.root != nullptr) return text_cell(path_name(row.root->kind == kJournal ? FL_PATH_JOURNAL : FL_PATH_PEER));
  return current_cause(row) != FL_CAUSE_COUNT ? text_cell(path_name(FL_PATH_SELF)) : null_cell();
}

Cell wait_ms(const Row &row) {
  if (row.thread == nullptr) return null_cell();
  const uint64_t since =
      row.thread->blocked_since_ns != 0 ? row.thread->blocked_since_ns : row.thread->runnable_since_ns;
  return since != 0 && since <= row.now_ns ? ms_cell(row.now_ns - since) : null_cell();
}

Cell role(const Row &row) {
  static const std::map<uint32_t, std::string_view> kNames = {
      {kSession, "session"}, {kJournal, "journal"}, {kBackground, "background"}};
  const auto found = kNames.find(row.kind);
  return found != kNames.end() ? text_cell(found->second) : null_cell();
}

Cell device_name(const Row &row, const ViewContext &context) {
  const kernel::ThreadState *thread = row.root != nullptr ? row.root->thread : row.thread;
  if (thread == nullptr || thread->device == 0) return null_cell();
  const auto found = context.host.devices->find(thread->device);
  if (found != context.host.devices->end()) return text_cell(found->second.name);
  return text_cell(fmt::format("{}:{}", thread->device >> 20, thread->device & 0xfffff));
}

std::vector<Column<Row>> thread_columns() {
  std::vector<Column<Row>> columns = {
      {"instance", [](const Row &r, auto &) { return r.instance ? text_cell(r.instance->name) : null_cell(); }},
      {"session_id", [](const Row &r, auto &) { return count_or_null(r.live.session_id); }},
      {"user_name", [](const Row &r, auto &c) { return r.session ? c.symbol(r.session->user) : null_cell(); }},
      {"db_name", [](const Row &r, auto &c) { return r.session ? c.symbol(r.session->database) : null_cell(); }},
      {"application_name",
       [](const Row &r, auto &) { return r.session ? text_or_null(r.session->application) : null_cell(); }},
      {"client_addr",
       [](const Row &r, auto &) { return r.session && r.visible ? text_or_null(r.session->address) : null_cell(); }},
      {"role", [](const Row &r, auto &) { return role(r); }},
      {"thread_name", [](const Row &r, auto &) { return text_or_null(r.thread_name); }},
      {"commit_age_ms",
       [](const Row &r, auto &) {
         const uint64_t begin = r.live.window_begin_ns;
         return begin != 0 && begin <= r.now_ns ? ms_cell(r.now_ns - begin) : null_cell();
       }},
      {"wait_cause",
       [](const Row &r, auto &) {
         const char *name = cause_name(current_cause(r));
         return name ? text_cell(name) : null_cell();
       }},
      {"wait_path", [](const Row &r, auto &) { return current_path(r); }},
      {"wait_ms", [](const Row &r, auto &) { return wait_ms(r); }},
      {"waits_on_session",
       [](const Row &r, auto &) { return r.root ? count_or_null(r.root->live.session_id) : null_cell(); }},
      {"root_thread", [](const Row &r, auto &) { return r.root ? text_or_null(r.root->thread_name) : null_cell(); }},
      {"root_file", [](const Row &, auto &) { return null_cell(); }},  // not observed yet
      {"device", [](const Row &r, auto &c) { return device_name(r, c); }},
      {"queryid", [](const Row &r, auto &) { return r.visible ? count_or_null(r.live.queryid) : null_cell(); }},
      {"query",
       [](const Row &r, auto &) {
         if (r.live.queryid == 0) return null_cell();
         if (!r.visible) return text_cell(kHidden);
         return r.text ? text_cell(r.text->text) : null_cell();
       }},
  };
  add_account_columns<Row>(&columns, [](const Row &row) -> const uint64_t * {
    return row.thread != nullptr ? row.thread->vector_ns : nullptr;
  });
  return columns;
}

void fill_session(const ViewContext &context, const Lease &lease, uint32_t ring, Row *row) {
  row->instance = &lease.instance();
  row->live = lease.live(ring);
  if (row->live.session_id != 0) row->session = lease.session(row->live.session_id);
  row->visible = context.see_all || (row->session != nullptr && context.may_see(row->session->user));
  if (row->visible && row->live.queryid != 0) row->text = context.texts.find(lease.instance().id, row->live.queryid);
}

// Who alone may be doing the work that others wait for: of each server, and of the journals.
struct Workers {
  std::map<const Instance *, std::vector<const Row *>> of_instance;
  std::vector<const Row *> journals;
};

void infer_roots(std::vector<Row> *rows) {
  Workers workers;
  for (const Row &row : *rows) {
    if (outstanding_cause(*row.thread) == FL_CAUSE_COUNT) continue;
    if (row.kind == kJournal)
      workers.journals.push_back(&row);
    else if (row.instance != nullptr)
      workers.of_instance[row.instance].push_back(&row);
  }
  for (Row &row : *rows) {
    if (row.live.window_begin_ns == 0 || row.instance == nullptr || own_cause(*row.thread) != FL_CAUSE_COUNT) continue;
    const auto own = workers.of_instance.find(row.instance);
    const auto &candidates = own != workers.of_instance.end() ? own->second : workers.journals;
    if (candidates.size() == 1) row.root = candidates.front();
  }
}

void traced_rows(const ViewContext &context, const std::vector<kernel::ThreadState> &threads,
                 const TableView<Row>::Visit &visit) {
  const SlotLeases leases(context.intake);
  const Families families(leases, threads);
  std::vector<Row> rows;
  rows.reserve(threads.size());
  for (const auto &thread : threads) {
    Row &row = rows.emplace_back();
    row.thread = &thread;
    row.kind = thread.kind;
    row.now_ns = context.clock.now_ns();
    const Lease *lease = leases.find(thread.slot);
    if (lease != nullptr && thread.slot - lease->range().first_slot < lease->ring_count())
      fill_session(context, *lease, thread.slot - lease->range().first_slot, &row);
    else if (thread.kind != kJournal)
      row.instance = families.find(thread.host_tgid);
    row.thread_name = read_thread_facts(thread.host_tid).name;
    if (row.thread_name.empty()) row.thread_name = sanitize_utf8(thread.name, 64);  // another PID namespace
  }
  infer_roots(&rows);
  for (const Row &row : rows) {
    // Journal threads serve everybody; other threads are shown to their own server only.
    const bool shown = row.kind == kJournal ? context.instance != ViewContext::kNoInstance
                                            : context.shows(row.instance != nullptr ? row.instance->id : 0);
    if (shown) visit(row);
  }
}

void untraced_rows(const ViewContext &context, const TableView<Row>::Visit &visit) {
  for (const auto &lease : context.intake.leases()) {
    if (lease->traced() && context.kernel != nullptr) continue;
    if (!context.shows(lease->instance().id)) continue;
    for (uint32_t ring = 0; ring < lease->ring_count(); ring++) {
      Row row;
      row.now_ns = context.clock.now_ns();
      fill_session(context, *lease, ring, &row);
      if (row.live.session_id != 0 || row.live.window_begin_ns != 0) visit(row);
    }
  }
}

}  // namespace

std::unique_ptr<View> make_threads_view() {
  return std::make_unique<TableView<Row>>("threads", thread_columns(),
                                          [](const ViewContext &context, const TableView<Row>::Visit &visit) {
                                            if (context.kernel != nullptr)
                                              traced_rows(context, context.kernel->threads(), visit);
                                            untraced_rows(context, visit);
                                          });
}

}  // namespace flushlight
