// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/client.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <memory>

#include "engine_client/client.h"
#include "sidecar/base/text.h"
#include "sidecar/serve/catalog.h"

namespace flushlight::cli {
namespace {

constexpr size_t kErrorBytes = 512;

Cell to_cell(const flc_cell &from) {
  Cell cell{from.type, from.integer, from.real, {}};
  if (from.type == FL_CELL_TEXT) cell.text.assign(from.text, from.length);
  return cell;
}

nlohmann::ordered_json to_json(const Cell &cell) {
  switch (cell.type) {
    case FL_CELL_NULL:
      return nullptr;
    case FL_CELL_INT:
      return cell.integer;
    case FL_CELL_DOUBLE:
      return cell.real;
    case FL_CELL_TEXT:
      return cell.text;
    case FL_CELL_TIME:
      return utc_text(cell.integer);
  }
  return nullptr;
}

}  // namespace

size_t ViewTable::index_of(std::string_view column) const {
  return static_cast<size_t>(std::find(columns.begin(), columns.end(), column) - columns.begin());
}

const Cell &ViewTable::at(size_t row, std::string_view column) const {
  static const Cell null;
  const size_t index = index_of(column);
  return index < columns.size() ? rows[row][index] : null;
}

double ViewTable::number(size_t row, std::string_view column) const {
  const Cell &cell = at(row, column);
  return cell.type == FL_CELL_DOUBLE ? cell.real : static_cast<double>(cell.integer);
}

std::string ViewTable::text(size_t row, std::string_view column) const {
  const Cell &cell = at(row, column);
  switch (cell.type) {
    case FL_CELL_NULL:
      return "";
    case FL_CELL_INT:
      return fmt::to_string(cell.integer);
    case FL_CELL_DOUBLE:
      return fmt::format("{:.1f}", cell.real);
    case FL_CELL_TEXT:
      return cell.text;
    case FL_CELL_TIME:
      return utc_text(cell.integer);
  }
  return "";
}

void ViewTable::sort_by(std::string_view column) {
  const size_t index = index_of(column);
  if (index >= columns.size()) return;
  const auto value = [index](const std::vector<Cell> &row) {
    return row[index].type == FL_CELL_DOUBLE ? row[index].real : static_cast<double>(row[index].integer);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto &a, const auto &b) { return value(a) > value(b); });
}

nlohmann::ordered_json ViewTable::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto &row : rows) {
    nlohmann::ordered_json object;
    for (size_t i = 0; i < columns.size(); i++) object[std::string(columns[i])] = cli::to_json(row[i]);
    list.push_back(std::move(object));
  }
  return list;
}

Result<ViewTable> fetch_view(const Connection &connection, std::string_view view) {
  ViewTable table;
  table.view = view;
  std::vector<std::string> names;
  for (const CatalogColumn &column : catalog_columns()) {
    if (column.view != view) continue;
    table.columns.push_back(column.name);
    names.emplace_back(column.name);
  }
  std::vector<const char *> pointers;
  for (const auto &name : names) pointers.push_back(name.c_str());
  flc_query query{};
  query.socket_path = connection.socket_path.c_str();
  query.view = table.view.c_str();
  query.instance = connection.instance.c_str();
  query.user_name = "";
  query.see_all = true;
  query.columns = pointers.data();
  query.column_count = static_cast<uint32_t>(pointers.size());
  query.deadline_ms = connection.deadline_ms;
  char error[kErrorBytes] = "";
  const std::unique_ptr<flc_result, decltype(&flc_result_free)> result(flc_query_run(&query, error, sizeof error),
                                                                       &flc_result_free);
  if (!result) return Error{0, error};
  std::vector<flc_cell> cells(pointers.size());
  while (flc_result_next(result.get(), cells.data())) {
    auto &row = table.rows.emplace_back();
    for (const flc_cell &cell : cells) row.push_back(to_cell(cell));
  }
  return table;
}

Result<> check_instance(const Connection &connection) {
  if (connection.instance.empty()) return Ok{};
  const auto table = fetch_view(connection, "statements_info");
  if (!table) return table.error();
  if (table->rows.empty())
    return Error{0, fmt::format("no server named '{}' is known to flushlightd: `flushlight status` shows their names",
                                connection.instance)};
  return Ok{};
}

Result<> run_command(const Connection &connection, fl_command command) {
  fill_field(command.instance, connection.instance);
  char error[kErrorBytes] = "";
  if (!flc_command(connection.socket_path.c_str(), &command, connection.deadline_ms, error, sizeof error))
    return Error{0, error};
  return Ok{};
}

std::string utc_text(int64_t unix_ns) {
  const int64_t ms = unix_ns / 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

}  // namespace flushlight::cli
