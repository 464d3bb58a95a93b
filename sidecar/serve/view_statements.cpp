// SPDX-License-Identifier: GPL-2.0-or-later
// statements, statements_recent, statements_info.
#include <algorithm>

#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

constexpr std::string_view kEvictedText = "<evicted>";
constexpr std::string_view kRest = "rest";  // the kind of what has no row of its own in the metrics

struct Row {
  const StatementKey *key = nullptr;  // nullptr: folded rows
  const StatementRow *row = nullptr;
  const Instance *instance = nullptr;
  const StatementText *text = nullptr;
  bool visible = false;
  bool is_rest = false;
  [[nodiscard]] const Aggregate &figures() const { return row->figures; }
  [[nodiscard]] bool is(fl_engine engine) const { return instance != nullptr && instance->is(engine); }
};

using Columns = std::vector<Column<Row>>;

Cell percentile(const Row &row, double q) {
  const Aggregate &figures = row.figures();
  auto value = percentile_ns(figures.histogram, q);
  // The exact extremes are known as long as they cover the same commits.
  if (value && figures.minmax_commits == figures.commits)
    value = std::clamp(*value, static_cast<double>(figures.min_ns), static_cast<double>(figures.max_ns));
  return ms_or_null(value);
}

void add_key_columns(Columns *columns) {
  const Columns keys = {
      {"instance", [](const Row &r, auto &) { return r.instance ? text_cell(r.instance->name) : null_cell(); }},
      {"userid", [](const Row &r, auto &) { return r.key ? count_or_null(r.key->userid) : null_cell(); }},
      {"dbid", [](const Row &r, auto &) { return r.key ? count_or_null(r.key->dbid) : null_cell(); }},
      {"user_name", [](const Row &r, auto &c) { return r.key ? c.symbol(r.key->user) : null_cell(); }},
      {"db_name", [](const Row &r, auto &c) { return r.key ? c.symbol(r.key->database) : null_cell(); }},
      {"toplevel", [](const Row &r, auto &) { return r.key ? int_cell(r.key->toplevel) : null_cell(); }},
      {"queryid",
       [](const Row &r, auto &) { return r.key && r.visible ? count_or_null(r.key->queryid) : null_cell(); }},
      {"kind",
       [](const Row &r, auto &) {
         if (r.is_rest) return text_cell(kRest);
         return r.key ? text_cell(r.key->kind == FL_KIND_COMMIT ? "commit" : "statement") : null_cell();
       }},
      {"query",
       [](const Row &r, auto &) {
         if (r.key == nullptr) return text_cell(kEvictedText);
         if (!r.visible) return text_cell(kHidden);
         return r.text ? text_cell(r.text->text) : null_cell();
       }},
      {"query_truncated",
       [](const Row &r, auto &) { return r.visible && r.text ? int_cell(r.text->truncated) : null_cell(); }},
  };
  columns->insert(columns->end(), keys.begin(), keys.end());
}

void add_time_columns(Columns *columns) {
  const auto add = [columns](std::string_view name, auto value) {
    columns->push_back({name, [value](const Row &r, const ViewContext &) { return value(r.figures()); }});
  };
  using A = Aggregate;
  add("calls", [](const A &a) { return count_cell(a.calls); });
  add("commits", [](const A &a) { return count_cell(a.commits); });
  add("caused_commits", [](const A &a) { return count_cell(a.caused_commits); });
  add("caused_commit_ms", [](const A &a) { return ms_cell(a.caused_commit_ns); });
  add("total_exec_ms", [](const A &a) { return ms_cell(a.exec_ns); });
  add("total_commit_ms", [](const A &a) { return ms_cell(a.commit_ns); });
  add("min_commit_ms", [](const A &a) { return a.minmax_commits ? ms_cell(a.min_ns) : null_cell(); });
  add("max_commit_ms", [](const A &a) { return a.minmax_commits ? ms_cell(a.max_ns) : null_cell(); });
  add("mean_commit_ms", [](const A &a) { return a.commits ? ms_cell(a.mean_ns) : null_cell(); });
  add("stddev_commit_ms", [](const A &a) { return a.commits ? ms_cell(a.stddev_ns()) : null_cell(); });
  static constexpr std::pair<std::string_view, double> kPercentiles[] = {
      {"p50_commit_ms", 0.5}, {"p95_commit_ms", 0.95}, {"p99_commit_ms", 0.99}, {"p999_commit_ms", 0.999}};
  for (const auto &[name, q] : kPercentiles)
    columns->push_back({name, [q = q](const Row &r, const ViewContext &) { return percentile(r, q); }});
}

// led, followed and unsynced add up to commits. A commit without an account whose record shows no sync counts
// as unsynced where other commits of the row have accounts (coverage says how many); where none has, nobody
// knows, and all three are NULL.
bool roles_known(const Aggregate &a) { return a.accounted > 0 || a.led + a.followed > 0; }

void add_role_columns(Columns *columns) {
  const auto add = [columns](std::string_view name, auto value) {
    columns->push_back({name, [value](const Row &r, const ViewContext &) { return value(r, r.figures()); }});
  };
  using A = Aggregate;
  add("attributed_ms", [](const Row &r, const A &a) {
    return r.is(FL_ENGINE_MARIADB) && a.accounted > 0 ? ms_cell(a.attributed_ns) : null_cell();
  });
  add("led", [](const Row &, const A &a) { return roles_known(a) ? count_cell(a.led) : null_cell(); });
  add("followed", [](const Row &, const A &a) { return roles_known(a) ? count_cell(a.followed) : null_cell(); });
  add("unsynced", [](const Row &, const A &a) {
    return roles_known(a) ? count_cell(a.commits - a.led - a.followed) : null_cell();
  });
  add("binlog_led",
      [](const Row &r, const A &a) { return r.is(FL_ENGINE_MARIADB) ? count_cell(a.binlog_led) : null_cell(); });
  add("binlog_followed",
      [](const Row &r, const A &a) { return r.is(FL_ENGINE_MARIADB) ? count_cell(a.binlog_followed) : null_cell(); });
  add("syncs", [](const Row &, const A &a) { return a.accounted > 0 ? count_cell(a.syncs) : null_cell(); });
  add("wal_bytes",
      [](const Row &r, const A &a) { return r.is(FL_ENGINE_POSTGRESQL) ? count_cell(a.work) : null_cell(); });
  add("rows_changed",
      [](const Row &r, const A &a) { return r.is(FL_ENGINE_MARIADB) ? count_cell(a.work) : null_cell(); });
  add("coverage", [](const Row &, const A &a) {
    return a.commits ? double_cell(static_cast<double>(a.accounted) / static_cast<double>(a.commits)) : null_cell();
  });
}

Columns statement_columns() {
  Columns columns;
  add_key_columns(&columns);
  add_time_columns(&columns);
  add_account_columns<Row>(&columns, [](const Row &row) -> const uint64_t * {
    return row.figures().accounted > 0 ? row.figures().vector_ns : nullptr;
  });
  add_role_columns(&columns);
  columns.push_back({"stats_since", [](const Row &r, auto &c) { return c.time(r.row->since_ns); }});
  columns.push_back({"minmax_stats_since", [](const Row &r, auto &c) { return c.time(r.row->minmax_since_ns); }});
  return columns;
}

void each_top(const StatementTable &table, const ViewContext &context, const TableView<Row>::Visit &visit) {
  const TopStatements::Chosen chosen = context.top->choose(table);
  for (const auto *entry : chosen.top)
    visit({&entry->first, &entry->second, context.find_instance(entry->first.instance), nullptr, true});
  for (const auto &[instance, row] : chosen.rest)
    visit({nullptr, &row, context.find_instance(instance), nullptr, true, true});
}

void each_row(const StatementTable &table, const ViewContext &context, const TableView<Row>::Visit &visit) {
  for (const auto &[key, statement] : table.rows()) {
    if (!context.shows(key.instance)) continue;
    Row row{&key, &statement, context.find_instance(key.instance), nullptr, context.may_see(key.user)};
    if (row.visible) row.text = context.texts.find(key.instance, key.queryid);
    visit(row);
  }
  for (const auto &[instance, statement] : table.evicted())
    if (context.shows(instance)) visit({nullptr, &statement, context.find_instance(instance), nullptr, true});
}

}  // namespace

std::unique_ptr<View> make_statements_view() {
  return std::make_unique<TableView<Row>>("statements", statement_columns(),
                                          [](const ViewContext &context, const TableView<Row>::Visit &visit) {
                                            const StatementTable &table = context.statistics.statements();
                                            if (context.top != nullptr)
                                              each_top(table, context, visit);
                                            else
                                              each_row(table, context, visit);
                                          });
}

std::unique_ptr<View> make_statements_recent_view() {
  return std::make_unique<TableView<Row>>("statements_recent", statement_columns(),
                                          [](const ViewContext &context, const TableView<Row>::Visit &visit) {
                                            const StatementTable recent = context.statistics.recent();
                                            each_row(recent, context, visit);
                                          });
}

std::unique_ptr<View> make_statements_info_view() {
  using InfoRow = const Instance *;
  std::vector<Column<InfoRow>> columns = {
      {"instance", [](const InfoRow &r, auto &) { return text_cell(r->name); }},
      {"dealloc", [](const InfoRow &r, auto &c) { return count_cell(c.statistics.statements().dealloc(r->id)); }},
      {"stats_reset", [](const InfoRow &r, auto &c) { return c.time(c.statistics.reset_at_ns(r->id)); }},
  };
  return std::make_unique<TableView<InfoRow>>("statements_info", std::move(columns),
                                              [](const ViewContext &context, const TableView<InfoRow>::Visit &visit) {
                                                for (const auto &[name, instance] : context.intake.instances())
                                                  if (context.shows(instance->id)) visit(instance.get());
                                              });
}

}  // namespace flushlight
