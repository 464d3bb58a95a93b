// SPDX-License-Identifier: GPL-2.0-or-later
// pressure: the host, and the cgroup of each observed server.
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

using Columns = std::vector<Column<Pressure>>;

Cell real_or_null(std::optional<double> value) { return value ? double_cell(*value) : null_cell(); }
Cell us_or_null(std::optional<int64_t> us) { return us ? double_cell(static_cast<double>(*us) / 1e3) : null_cell(); }

void add_stalled(Columns *columns) {
  struct Kind {
    std::string_view percent, total;
    Stalled Pressure::*member;
  };
  static constexpr Kind kKinds[] = {
      {"cpu_some_percent", "cpu_some_ms", &Pressure::cpu_some},
      {"cpu_full_percent", "cpu_full_ms", &Pressure::cpu_full},
      {"io_some_percent", "io_some_ms", &Pressure::io_some},
      {"io_full_percent", "io_full_ms", &Pressure::io_full},
      {"memory_some_percent", "memory_some_ms", &Pressure::memory_some},
      {"memory_full_percent", "memory_full_ms", &Pressure::memory_full},
  };
  for (const Kind &kind : kKinds) {
    const auto member = kind.member;
    columns->push_back(
        {kind.percent, [member](const Pressure &r, auto &) { return real_or_null((r.*member).percent); }});
    columns->push_back({kind.total, [member](const Pressure &r, auto &) { return us_or_null((r.*member).total_us); }});
  }
}

Columns pressure_columns() {
  Columns columns = {
      {"instance", [](const Pressure &r, auto &c) { return r.instance ? c.instance_name(r.instance) : null_cell(); }},
      {"scope", [](const Pressure &r, auto &) { return text_cell(r.instance ? "cgroup" : "host"); }},
      {"name", [](const Pressure &r, auto &) { return text_or_null(r.name); }},
      {"io_limit", [](const Pressure &r, auto &) { return text_or_null(r.io_limit); }},
      {"cpu_throttled_ms", [](const Pressure &r, auto &) { return us_or_null(r.cpu_throttled_us); }},
  };
  add_stalled(&columns);
  static constexpr std::pair<std::string_view, std::optional<int64_t> Pressure::*> kNumbers[] = {
      {"dirty_bytes", &Pressure::dirty_bytes},
      {"writeback_bytes", &Pressure::writeback_bytes},
      {"dirty_limit_bytes", &Pressure::dirty_limit_bytes},
      {"dirty_background_bytes", &Pressure::dirty_background_bytes},
      {"direct_reclaims", &Pressure::direct_reclaims},
      {"direct_reclaim_bytes", &Pressure::direct_reclaim_bytes},
      {"compaction_stalls", &Pressure::compaction_stalls},
      {"swap_in_bytes", &Pressure::swap_in_bytes},
      {"cpu_throttled", &Pressure::cpu_throttled},
      {"softirq_top_cpu", &Pressure::softirq_top_cpu},
      {"runnable_tasks", &Pressure::runnable_tasks},
      {"blocked_tasks", &Pressure::blocked_tasks},
  };
  for (const auto &[name, member] : kNumbers)
    columns.push_back({name, [member = member](const Pressure &r, auto &) { return int_or_null(r.*member); }});
  static constexpr std::pair<std::string_view, std::optional<double> Pressure::*> kReals[] = {
      {"softirq_top_percent", &Pressure::softirq_top_percent},
      {"steal_percent", &Pressure::steal_percent},
      {"load_1m", &Pressure::load_1m},
  };
  for (const auto &[name, member] : kReals)
    columns.push_back({name, [member = member](const Pressure &r, auto &) { return real_or_null(r.*member); }});
  return columns;
}

}  // namespace

std::unique_ptr<View> make_pressure_view() {
  return std::make_unique<TableView<Pressure>>("pressure", pressure_columns(),
                                               [](const ViewContext &context, const TableView<Pressure>::Visit &visit) {
                                                 for (const Pressure &row : *context.host.pressures)
                                                   if (row.instance == 0 || context.shows(row.instance)) visit(row);
                                               });
}

}  // namespace flushlight
