// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/layout.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace flushlight::cli {
namespace {

constexpr size_t kWidthDefault = 120;
bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

std::string padded(std::string_view text, size_t width, TextTable::Align align) {
  const size_t used = text_width(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return align == TextTable::Align::kRight ? blanks + std::string(text) : std::string(text) + blanks;
}

}  // namespace

size_t text_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string cut_to_width(std::string_view text, size_t width) {
  if (text_width(text) <= width) return std::string(text);
  std::string cut;
  size_t used = 0;
  for (const char byte : text) {
    if (starts_character(byte) && ++used >= width) break;
    cut += byte;
  }
  return cut + "…";
}

std::string bar(double share, size_t width) {
  const auto full = static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  std::string text;
  for (size_t i = 0; i < full; i++) text += "█";
  return text;
}

size_t terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return kWidthDefault;
}

std::string duration_text(double ms) {
  if (ms < 1000) return fmt::format("{:.1f} ms", ms);
  if (ms < 600'000) return fmt::format("{:.1f} s", ms / 1000);
  return fmt::format("{:.1f} min", ms / 60'000);
}

std::string TextTable::to_string(size_t width) const {
  std::vector<size_t> widths;
  for (const Head &head : heads_) widths.push_back(text_width(head.name));
  for (const auto &row : rows_)
    for (size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], text_width(row[i]));
  size_t before_last = 0;
  for (size_t i = 0; i + 1 < widths.size(); i++) before_last += widths[i] + 2;
  widths.back() = std::min(widths.back(), width > before_last + 20 ? width - before_last : 20);
  std::string text;
  const auto line = [&](const auto &cell_of) {
    std::string one;
    for (size_t i = 0; i < heads_.size(); i++)
      one +=
          padded(cut_to_width(cell_of(i), widths[i]), widths[i], heads_[i].align) + (i + 1 < heads_.size() ? "  " : "");
    while (!one.empty() && one.back() == ' ') one.pop_back();
    text += "  " + one + "\n";
  };
  line([&](size_t i) { return heads_[i].name; });
  for (const auto &row : rows_) line([&](size_t i) { return row[i]; });
  return text;
}

}  // namespace flushlight::cli
