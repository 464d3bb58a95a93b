// SPDX-License-Identifier: GPL-2.0-or-later
// One value of a view. "Not observed" is a type of its own: NULL, never 0.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "abi/attach.h"

namespace flushlight {

struct Cell {
  fl_cell_type type = FL_CELL_NULL;
  int64_t integer = 0;  // INT; TIME: ns since 1970
  double real = 0;
  std::string text;
};

inline Cell null_cell() { return {}; }
inline Cell int_cell(int64_t value) { return {FL_CELL_INT, value, 0, {}}; }
inline Cell count_cell(uint64_t value) { return int_cell(static_cast<int64_t>(value)); }
inline Cell double_cell(double value) { return {FL_CELL_DOUBLE, 0, value, {}}; }
inline Cell time_cell(int64_t unix_ns) { return {FL_CELL_TIME, unix_ns, 0, {}}; }
inline Cell text_cell(std::string_view text) { return {FL_CELL_TEXT, 0, 0, std::string(text)}; }

inline Cell text_or_null(std::string_view text) { return text.empty() ? null_cell() : text_cell(text); }
inline Cell count_or_null(uint64_t value) { return value == 0 ? null_cell() : count_cell(value); }
inline Cell int_or_null(std::optional<int64_t> value) { return value ? int_cell(*value) : null_cell(); }
inline Cell ms_cell(uint64_t ns) { return double_cell(static_cast<double>(ns) / 1e6); }
inline Cell ms_cell(double ns) { return double_cell(ns / 1e6); }
inline Cell ms_or_null(std::optional<double> ns) { return ns ? ms_cell(*ns) : null_cell(); }

}  // namespace flushlight
