// SPDX-License-Identifier: GPL-2.0-or-later
// replication: what the commits of each server waited for its replicas, and wait now. Which replicas it has only the engine
// knows: its half fills those columns in, and makes one row for each.
#include <algorithm>

#include "sidecar/serve/families.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

struct Row {
  const Instance *instance = nullptr;
  bool observed = false;  // traced
  ReplicationWaits waits;
  uint64_t waiting = 0, oldest_ns = 0;
};
using Columns = std::vector<Column<Row>>;

// By the engine's half (pg_extension/generate, mariadb_plugin/replicas.cpp).
constexpr std::string_view kOfTheEngine[] = {"name",         "client_addr",     "session_id",      "state",
                                             "sync_mode",    "remote_write_ms", "remote_flush_ms", "remote_apply_ms",
                                             "unsent_bytes", "unflushed_bytes", "unapplied_bytes"};

Columns replication_columns() {
  Columns columns = {
      {"instance", [](const Row &r, auto &) { return text_cell(r.instance->name); }},
      {"commits_waited", [](const Row &r, auto &) { return r.observed ? count_cell(r.waits.commits) : null_cell(); }},
      {"commit_wait_ms", [](const Row &r, auto &) { return r.observed ? ms_cell(r.waits.total_ns) : null_cell(); }},
      {"mean_commit_wait_ms",
       [](const Row &r, auto &) {
         if (!r.observed || r.waits.commits == 0) return null_cell();
         return ms_cell(static_cast<double>(r.waits.total_ns) / static_cast<double>(r.waits.commits));
       }},
      {"max_commit_wait_ms",
       [](const Row &r, auto &) { return r.observed && r.waits.commits ? ms_cell(r.waits.max_ns) : null_cell(); }},
      {"commits_waiting", [](const Row &r, auto &) { return r.observed ? count_cell(r.waiting) : null_cell(); }},
      {"oldest_wait_ms",
       [](const Row &r, auto &) { return r.observed && r.waiting ? ms_cell(r.oldest_ns) : null_cell(); }},
      {"stats_since", [](const Row &r, auto &c) { return c.time(c.statistics.reset_at_ns(r.instance->id)); }},
  };
  for (const std::string_view name : kOfTheEngine)
    columns.push_back({name, [](const Row &, auto &) { return null_cell(); }});
  return columns;
}

// Its state word says so, and it has no request of its own.
bool waits_for_replica(const kernel::ThreadState &thread) {
  return thread.blocked_since_ns != 0 &&
         (thread.state_cause == FL_CAUSE_REPLICATION || thread.rest_cause == FL_CAUSE_REPLICATION) &&
         thread.own_flushes + thread.own_writes + thread.own_reads + thread.own_queued == 0;
}

void add_waiting(const ViewContext &context, std::map<uint32_t, Row> *rows) {
  const SlotLeases leases(context.intake);
  const uint64_t now_ns = context.clock.now_ns();
  for (const kernel::ThreadState &thread : context.kernel->threads()) {
    const Lease *lease = leases.find(thread.slot);
    if (lease == nullptr) continue;
    const auto found = rows->find(lease->instance().id);
    if (found == rows->end()) continue;
    Row &row = found->second;
    row.observed = true;
    if (!waits_for_replica(thread) || thread.blocked_since_ns > now_ns) continue;
    row.waiting++;
    row.oldest_ns = std::max(row.oldest_ns, now_ns - thread.blocked_since_ns);
  }
}

void each_row(const ViewContext &context, const TableView<Row>::Visit &visit) {
  std::map<uint32_t, Row> rows;
  for (const auto &[name, instance] : context.intake.instances()) {
    if (!context.shows(instance->id)) continue;
    Row &row = rows[instance->id];
    row.instance = instance.get();
    row.waits = context.statistics.replication_waits(instance->id);
    row.observed = row.waits.commits != 0;
  }
  if (context.kernel != nullptr) add_waiting(context, &rows);
  for (const auto &[id, row] : rows) visit(row);
}

}  // namespace

std::unique_ptr<View> make_replication_view() {
  return std::make_unique<TableView<Row>>("replication", replication_columns(), each_row);
}

}  // namespace flushlight
