// SPDX-License-Identifier: GPL-2.0-or-later
// Small text files of procfs, sysfs and cgroupfs.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flushlight {

// Whole text, at most max_bytes; empty where it cannot be read.
std::string read_text_file(const std::string &path, size_t max_bytes = 1u << 20);
std::string read_first_line(const std::string &path);

std::optional<int64_t> to_number(std::string_view text);
std::optional<double> to_real(std::string_view text);
std::optional<int64_t> read_number(const std::string &path);

// The parts point into the text: never of a temporary.
std::vector<std::string_view> split_words(std::string_view text);
std::vector<std::string_view> split_lines(std::string_view text);
std::vector<std::string_view> split_words(std::string &&text) = delete;
std::vector<std::string_view> split_lines(std::string &&text) = delete;

// "name 123" on each line.
using NamedNumbers = std::map<std::string, int64_t, std::less<>>;
NamedNumbers parse_named_numbers(std::string_view text);
std::optional<int64_t> number_named(const NamedNumbers &numbers, std::string_view name);

// Mounts, as in /proc/self/mountinfo.
struct Mount {
  uint32_t device = 0;  // kernel numbering
  std::string root, mount_point, file_system, source, options, super_options;
};
std::vector<Mount> parse_mounts(std::string_view mount_info);

// Kernel numbering: major << 20 | minor.
uint32_t device_number(uint32_t major, uint32_t minor);
std::optional<uint32_t> to_device(std::string_view text);  // "8:1"

}  // namespace flushlight
