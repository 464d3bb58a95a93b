// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/text_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "sidecar/base/text.h"
#include "sidecar/base/unique_fd.h"

namespace flushlight {
namespace {

constexpr std::string_view kBlanks = " \t";

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return number;
}

// Octal escapes of the mount table: \040 is a blank.
std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return sanitize_utf8(plain, 1024);
}

}  // namespace

std::string read_text_file(const std::string &path, size_t max_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  std::string text;
  if (!fd) return text;
  char buffer[16384];
  while (text.size() < max_bytes) {
    const ssize_t got = read(fd.get(), buffer, std::min(sizeof buffer, max_bytes - text.size()));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::string read_first_line(const std::string &path) {
  std::string line = read_text_file(path, 4096);
  line.resize(std::min(line.find('\n'), line.size()));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return sanitize_utf8(line, 256);
}

std::optional<int64_t> to_number(std::string_view text) { return parse<int64_t>(text); }
std::optional<double> to_real(std::string_view text) { return parse<double>(text); }
std::optional<int64_t> read_number(const std::string &path) { return to_number(read_first_line(path)); }

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

NamedNumbers parse_named_numbers(std::string_view text) {
  NamedNumbers numbers;
  for (const std::string_view line : split_lines(text)) {
    const auto words = split_words(line);
    if (words.size() < 2) continue;
    if (const auto number = to_number(words[1])) numbers.emplace(words[0], *number);
  }
  return numbers;
}

std::optional<int64_t> number_named(const NamedNumbers &numbers, std::string_view name) {
  const auto found = numbers.find(name);
  return found != numbers.end() ? std::optional(found->second) : std::nullopt;
}

uint32_t device_number(uint32_t major, uint32_t minor) { return major << 20 | minor; }

std::optional<uint32_t> to_device(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto major = to_number(text.substr(0, colon)), minor = to_number(text.substr(colon + 1));
  if (!major || !minor) return std::nullopt;
  return device_number(static_cast<uint32_t>(*major), static_cast<uint32_t>(*minor));
}

// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
std::vector<Mount> parse_mounts(std::string_view mount_info) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split_lines(mount_info)) {
    const auto words = split_words(line);
    size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") dash++;
    if (dash + 3 >= words.size()) continue;
    const auto device = to_device(words[2]);
    if (!device) continue;
    mounts.push_back({*device, unescape(words[3]), unescape(words[4]), std::string(words[dash + 1]),
                      unescape(words[dash + 2]), std::string(words[5]), std::string(words[dash + 3])});
  }
  return mounts;
}

}  // namespace flushlight
