// SPDX-License-Identifier: GPL-2.0-or-later
// The command line's side of the socket: whole views as tables.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "abi/attach.h"
#include "sidecar/base/result.h"
#include "sidecar/serve/cell.h"

namespace flushlight::cli {

struct Connection {
  std::string socket_path = FL_SOCKET_PATH_DEFAULT;
  std::string instance;  // empty: all
  uint32_t deadline_ms = 2000;
};

// Rows of a view with all its columns, in the order of views.def.
class ViewTable {
 public:
  std::string view;
  std::vector<std::string_view> columns;
  std::vector<std::vector<Cell>> rows;

  // The cell of a column; a NULL cell if there is no such column.
  [[nodiscard]] const Cell &at(size_t row, std::string_view column) const;
  [[nodiscard]] double number(size_t row, std::string_view column) const;     // NULL: 0
  [[nodiscard]] std::string text(size_t row, std::string_view column) const;  // NULL: empty
  // Highest first.
  void sort_by(std::string_view column);
  [[nodiscard]] nlohmann::ordered_json to_json() const;

 private:
  [[nodiscard]] size_t index_of(std::string_view column) const;
};

Result<ViewTable> fetch_view(const Connection &connection, std::string_view view);
// An instance that nobody has heard of is a mistake of the one who asks: rows of it would just be empty.
Result<> check_instance(const Connection &connection);
Result<> run_command(const Connection &connection, fl_command command);

std::string utc_text(int64_t unix_ns);  // 2026-01-31T12:00:00.123Z

}  // namespace flushlight::cli
