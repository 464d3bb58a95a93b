// SPDX-License-Identifier: GPL-2.0-or-later
// Tables and bars for a terminal.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace flushlight::cli {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Head {
    std::string name;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Head> heads) : heads_(std::move(heads)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // The last column is cut to the width of the terminal.
  [[nodiscard]] std::string to_string(size_t width) const;

 private:
  std::vector<Head> heads_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters, not bytes.
size_t text_width(std::string_view text);
std::string cut_to_width(std::string_view text, size_t width);
std::string bar(double share, size_t width);  // share 0 to 1
size_t terminal_width();
std::string duration_text(double ms);  // 1.2 ms, 3.4 s, 5.6 min

}  // namespace flushlight::cli
