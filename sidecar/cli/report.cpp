// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "abi/ledger.h"
#include "sidecar/cli/exit_codes.h"
#include "sidecar/cli/layout.h"

namespace flushlight::cli {
namespace {

using Align = TextTable::Align;

struct Part {
  std::string_view column, name, help;
};
constexpr Part kCauses[] = {
#define FL_X(ENUM, name, help) {#name "_ms", #name, help},
    FL_CAUSES(FL_X)
#undef FL_X
};
constexpr Part kPaths[] = {
#define FL_X(ENUM, name, help) {#name "_ms", #name, help},
    FL_PATHS(FL_X)
#undef FL_X
};
constexpr size_t kBarWidth = 30;
constexpr size_t kPartsShown = 3;
constexpr double kPartShare = 0.05;  // smaller parts are not named in a row

// "flush 83 %, write 12 %": the largest parts of a row's accounted commit time.
std::string parts_text(const ViewTable &table, size_t row, std::span<const Part> parts) {
  std::vector<std::pair<double, std::string_view>> found;
  double total = 0;
  for (const Part &part : parts) {
    const double ms = table.number(row, part.column);
    total += ms;
    found.emplace_back(ms, part.name);
  }
  if (total <= 0) return "not observed";
  std::sort(found.rbegin(), found.rend());
  std::string text;
  for (size_t i = 0; i < std::min(kPartsShown, found.size()); i++)
    if (found[i].first >= kPartShare * total)
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", found[i].second, 100 * found[i].first / total);
  return text;
}

void print_bars(const ViewTable &statements, std::span<const Part> parts, const char *title) {
  std::vector<double> sums(parts.size());
  double total = 0;
  for (size_t row = 0; row < statements.rows.size(); row++)
    for (size_t i = 0; i < parts.size(); i++) sums[i] += statements.number(row, parts[i].column);
  for (const double sum : sums) total += sum;
  if (total <= 0) return;
  fmt::print("{}\n", title);
  for (size_t i = 0; i < parts.size(); i++)
    if (sums[i] >= 0.0005 * total)
      fmt::print("  {:<12} {:>10}  {:>5.1f} %  {}\n", parts[i].name, duration_text(sums[i]), 100 * sums[i] / total,
                 bar(sums[i] / total, kBarWidth));
  fmt::print("\n");
}

void print_statements(ViewTable statements, size_t limit, bool recent) {
  const char *span = recent ? " (last five minutes)" : "";
  statements.sort_by("total_commit_ms");
  // Sorted: whatever has no commit time stands at the end.
  size_t with_commits = statements.rows.size();
  while (with_commits > 0 && statements.number(with_commits - 1, "commits") == 0) with_commits--;
  statements.rows.resize(with_commits);
  if (statements.rows.empty()) {
    fmt::print("No commits seen{}.\n\n", span);
    return;
  }
  print_bars(statements, kCauses, "Where the commit time went");
  print_bars(statements, kPaths, "Who did the work that was waited for");
  fmt::print("Statements with most commit time{}\n", span);
  TextTable table({{"total", Align::kRight},
                   {"commits", Align::kRight},
                   {"p50 ms", Align::kRight},
                   {"p99 ms", Align::kRight},
                   {"causes"},
                   {"database"},
                   {"user"},
                   {"query"}});
  for (size_t row = 0; row < std::min(limit, statements.rows.size()); row++) {
    std::string query = statements.text(row, "query");
    if (query.empty()) query = "digest " + statements.text(row, "queryid");
    table.add({duration_text(statements.number(row, "total_commit_ms")), statements.text(row, "commits"),
               statements.text(row, "p50_commit_ms"), statements.text(row, "p99_commit_ms"),
               parts_text(statements, row, kCauses), statements.text(row, "db_name"), statements.text(row, "user_name"),
               query});
  }
  fmt::print("{}\n", table.to_string(terminal_width()));
}

void print_slow_commits(ViewTable commits, size_t limit) {
  if (commits.rows.empty()) {
    fmt::print("No commit was over the threshold.\n\n");
    return;
  }
  const size_t all = commits.rows.size();
  commits.sort_by("duration_ms");
  fmt::print("Slowest commits ({} of {} kept ones)\n", std::min(limit, all), all);
  for (size_t row = 0; row < std::min(limit, all); row++) {
    fmt::print("  {}  session {}, {}@{}: {}\n", commits.text(row, "ended_at"), commits.text(row, "session_id"),
               commits.text(row, "user_name"), commits.text(row, "db_name"), commits.text(row, "verdict"));
    if (const std::string query = commits.text(row, "query"); !query.empty())
      fmt::print("      {}\n", cut_to_width(query, terminal_width() - 8));
  }
  fmt::print("\n");
}

void print_devices(const ViewTable &devices) {
  if (devices.rows.empty()) return;
  fmt::print("Devices\n");
  TextTable table({{"name"},
                   {"flushes", Align::kRight},
                   {"flush p50", Align::kRight},
                   {"p99 ms", Align::kRight},
                   {"writes", Align::kRight},
                   {"write p50", Align::kRight},
                   {"p99 ms", Align::kRight},
                   {"queue p99", Align::kRight},
                   {"scheduler"},
                   {"cache"},
                   {"mounted at"}});
  for (size_t row = 0; row < devices.rows.size(); row++) {
    std::vector<std::string> cells;
    for (const char *column : {"name", "flushes", "flush_p50_ms", "flush_p99_ms", "writes", "write_p50_ms",
                               "write_p99_ms", "queue_p99_ms", "scheduler", "write_cache", "mount_point"})
      cells.push_back(devices.text(row, column));
    table.add(std::move(cells));
  }
  fmt::print("{}\n", table.to_string(terminal_width()));
}

void print_health(const ViewTable &health) {
  fmt::print("Health\n");
  TextTable table({{"component"},
                   {"instance"},
                   {"state"},
                   {"tier"},
                   {"coverage", Align::kRight},
                   {"lost", Align::kRight},
                   {"CPU %", Align::kRight}});
  for (size_t row = 0; row < health.rows.size(); row++) {
    const Cell &coverage = health.at(row, "coverage"), &cost = health.at(row, "cost_percent");
    table.add({health.text(row, "component"), health.text(row, "instance"), health.text(row, "state"),
               health.text(row, "tier"), coverage.type == FL_CELL_NULL ? "" : fmt::format("{:.3f}", coverage.real),
               health.text(row, "lost"), cost.type == FL_CELL_NULL ? "" : fmt::format("{:.2f}", cost.real)});
  }
  fmt::print("{}", table.to_string(terminal_width()));
  for (size_t row = 0; row < health.rows.size(); row++)  // in full: this is what there is to act on
    if (const std::string detail = health.text(row, "detail"); !detail.empty())
      fmt::print("  {}{}{}: {}\n", health.text(row, "component"),
                 health.at(row, "instance").type == FL_CELL_NULL ? "" : " ", health.text(row, "instance"), detail);
  fmt::print("\n");
}

int fail(const Error &error) {
  std::fprintf(stderr, "flushlight: %s\n", error.text.c_str());
  return kExitFailed;
}

}  // namespace

int report(const ReportOptions &options) {
  if (const auto known = check_instance(options.connection); !known) return fail(known.error());
  const std::string_view statements_view = options.recent ? "statements_recent" : "statements";
  std::vector<ViewTable> tables;
  for (const std::string_view view :
       {statements_view, std::string_view("slow_commits"), std::string_view("devices"), std::string_view("threads"),
        std::string_view("statements_info"), std::string_view("health")}) {
    auto table = fetch_view(options.connection, view);
    if (!table) return fail(table.error());
    tables.push_back(std::move(*table));
  }
  if (options.json) {
    nlohmann::ordered_json all;
    for (const ViewTable &table : tables) all[table.view] = table.to_json();
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }
  print_statements(std::move(tables[0]), options.limit, options.recent);
  print_slow_commits(std::move(tables[1]), options.limit);
  print_devices(tables[2]);
  print_health(tables.back());
  return kExitDone;
}

int status(const Connection &connection, bool json) {
  const auto health = fetch_view(connection, "health");
  if (!health) {
    (void)fail(health.error());
    return kExitUnreachable;
  }
  if (const auto known = check_instance(connection); !known) return fail(known.error());
  bool all_good = true;
  for (size_t row = 0; row < health->rows.size(); row++) all_good &= health->text(row, "state") == "ok";
  if (json)
    fmt::print("{}\n", health->to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    print_health(*health);
  return all_good ? kExitDone : kExitFailed;
}

}  // namespace flushlight::cli
