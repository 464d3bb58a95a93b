// SPDX-License-Identifier: GPL-2.0-or-later
// stalls and stall_tasks: episodes of the host's devices, with the asker's own commits. Paths, stacks and other users'
// statements only for those who may see all.
#include "sidecar/serve/stall_texts.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

using stalls::Hits;
using stalls::Stall;
using stalls::StallTask;

struct Row {
  const Stall *stall = nullptr;
  uint64_t now_ns = 0;
  uint64_t waiting = 0;  // commits in progress
  Hits hits;             // these included
};

// Commits in progress, as if they ended now.
void add_waiting(const ViewContext &context, Row *row) {
  for (const auto &lease : context.intake.leases()) {
    if (!context.shows(lease->instance().id)) continue;
    for (uint32_t ring = 0; ring < lease->ring_count(); ring++) {
      const RingLive live = lease->live(ring);
      if (live.window_begin_ns == 0) continue;
      stalls::WaitedCommit commit;
      commit.begin_ns = live.window_begin_ns;
      commit.end_ns = row->now_ns;
      commit.storage_ns = commit.journal_ns = row->now_ns - std::min(row->now_ns, live.window_begin_ns);
      commit.session_id = live.session_id;
      commit.key.instance = lease->instance().id;
      commit.key.queryid = live.queryid;
      if (const SessionInfo *session = lease->session(live.session_id)) commit.key.user = session->user;
      if (!row->stall->hit(commit, row->now_ns)) continue;
      row->waiting++;
      row->hits.add(commit);
    }
  }
}

Cell worst_query(const Row &row, const ViewContext &context) {
  if (row.hits.commits == 0) return null_cell();
  if (!context.may_see(row.hits.worst.user)) return text_cell(kHidden);
  const StatementText *text = context.texts.find(row.hits.worst.instance, row.hits.worst.queryid);
  return text != nullptr ? text_cell(text->text) : null_cell();
}

std::vector<Column<Row>> stall_columns() {
  return {
      {"stall_id", [](const Row &r, auto &) { return count_cell(r.stall->episode.id); }},
      {"started_at", [](const Row &r, auto &c) { return c.time(r.stall->episode.begin_ns); }},
      {"ended_at",
       [](const Row &r, auto &c) { return r.stall->lasts() ? null_cell() : c.time(r.stall->episode.end_ns); }},
      {"age_ms",
       [](const Row &r, auto &) {
         return ms_cell((r.stall->lasts() ? r.now_ns : r.stall->episode.end_ns) - r.stall->episode.begin_ns);
       }},
      {"device", [](const Row &r, auto &) { return text_cell(r.stall->device); }},
      {"mount_point", [](const Row &r, auto &) { return text_or_null(r.stall->mount_point); }},
      {"kind", [](const Row &r, auto &) { return text_cell(kind_name(r.stall->episode.kind)); }},
      {"oldest_request_ms", [](const Row &r, auto &) { return ms_cell(r.stall->episode.oldest_request_ns); }},
      {"inflight", [](const Row &r, auto &) { return count_cell(r.stall->episode.inflight); }},
      {"commits_waiting", [](const Row &r, auto &) { return count_cell(r.waiting); }},
      {"commits_hit", [](const Row &r, auto &) { return count_cell(r.hits.commits); }},
      {"sessions_hit", [](const Row &r, auto &) { return count_cell(r.hits.sessions.size()); }},
      {"worst_query", worst_query},
      {"worst_commit_ms",
       [](const Row &r, auto &) { return r.hits.commits > 0 ? ms_cell(r.hits.worst_ns) : null_cell(); }},
      {"other_tasks_waiting", [](const Row &r, auto &) { return count_cell(r.stall->other_tasks); }},
      {"culprit_process",
       [](const Row &r, auto &) {
         return r.stall->culprit.is_device ? text_cell("device") : text_or_null(r.stall->culprit.process);
       }},
      {"culprit_file",
       [](const Row &r, auto &c) {
         return c.see_all ? text_or_null(file_text(r.stall->culprit.file, c)) : null_cell();
       }},
      {"culprit_cgroup",
       [](const Row &r, auto &c) { return c.see_all ? text_or_null(r.stall->culprit.cgroup) : null_cell(); }},
      {"verdict", [](const Row &r, auto &c) { return text_cell(stall_verdict(*r.stall, c)); }},
  };
}

struct TaskRow {
  const Stall *stall = nullptr;
  const StallTask *task = nullptr;
};

std::string join_stack(const std::vector<std::string> &stack) {
  std::string text;
  for (const std::string &function : stack) text += (text.empty() ? "" : " < ") + function;
  return text;
}

std::vector<Column<TaskRow>> task_columns() {
  return {
      {"stall_id", [](const TaskRow &r, auto &) { return count_cell(r.stall->episode.id); }},
      {"process", [](const TaskRow &r, auto &) { return text_or_null(r.task->process); }},
      {"process_id", [](const TaskRow &r, auto &) { return count_cell(r.task->tgid); }},
      {"thread_id", [](const TaskRow &r, auto &) { return count_cell(r.task->tid); }},
      {"thread_name", [](const TaskRow &r, auto &) { return text_or_null(r.task->name); }},
      {"role", [](const TaskRow &r, auto &) { return text_cell(r.task->commits ? "session" : "other"); }},
      {"state", [](const TaskRow &, auto &) { return text_cell("D"); }},
      {"wait_function", [](const TaskRow &r, auto &) { return text_or_null(r.task->wait_function); }},
      {"stack",
       [](const TaskRow &r, auto &c) { return c.see_all ? text_or_null(join_stack(r.task->stack)) : null_cell(); }},
      {"waited_ms",
       [](const TaskRow &r, auto &) { return r.task->waited_ns != 0 ? ms_cell(r.task->waited_ns) : null_cell(); }},
  };
}

}  // namespace

std::unique_ptr<View> make_stalls_view() {
  return std::make_unique<TableView<Row>>("stalls", stall_columns(),
                                          [](const ViewContext &context, const TableView<Row>::Visit &visit) {
                                            if (context.stalls == nullptr) return;
                                            for (const Stall &stall : context.stalls->log().stalls()) {
                                              if (context.top != nullptr && !stall.lasts()) continue;  // metrics
                                              Row row{&stall, context.clock.now_ns(), 0, {}};
                                              if (context.instance != ViewContext::kNoInstance)
                                                row.hits = stall.hits_of(context.instance, row.now_ns);
                                              if (stall.lasts()) add_waiting(context, &row);
                                              visit(row);
                                            }
                                          });
}

std::unique_ptr<View> make_stall_tasks_view() {
  return std::make_unique<TableView<TaskRow>>("stall_tasks", task_columns(),
                                              [](const ViewContext &context, const TableView<TaskRow>::Visit &visit) {
                                                if (context.stalls == nullptr) return;
                                                for (const Stall &stall : context.stalls->log().stalls())
                                                  for (const auto &[tid, task] : stall.tasks) visit({&stall, &task});
                                              });
}

}  // namespace flushlight
