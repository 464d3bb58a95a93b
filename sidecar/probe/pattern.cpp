// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/pattern.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

namespace flushlight::probe {
namespace {

constexpr uint32_t kLogBytes[] = {512, 4096, 8192, 16384, 65536};
constexpr uint32_t kPageBytes[] = {8192, 16384};  // PostgreSQL, InnoDB
constexpr uint32_t kDepths[] = {1, 4, 16, 64};
constexpr uint32_t kWalBytes = 8192;     // a WAL page: what wal_sync_method is ranked by
constexpr uint32_t kBinlogBytes = 4096;  // appended
constexpr uint32_t kQuickDepth = 16;
constexpr std::string_view kGroupNames[] = {"log", "log-grows", "log-bulk", "read"};

template <typename Row, typename Method>
const Row &find_row(const std::vector<Row> &rows, Method method) {
  return *std::find_if(rows.begin(), rows.end(), [method](const Row &row) { return row.method == method; });
}

Pattern log_pattern(Group group, LogMethod method, uint32_t bytes) {
  Pattern pattern;
  pattern.group = group;
  pattern.log = method;
  pattern.block_bytes = bytes;
  pattern.name = fmt::format("{}-{}-{}", group_name(group), size_text(bytes), row_of(method).name);
  pattern.quick = bytes == kWalBytes && group == Group::kLog;
  return pattern;
}

Pattern read_pattern(ReadMethod method, uint32_t bytes, uint32_t depth) {
  Pattern pattern;
  pattern.group = Group::kRead;
  pattern.read = method;
  pattern.block_bytes = bytes;
  pattern.depth = depth;
  pattern.name = fmt::format("read-{}-depth{}-{}", size_text(bytes), depth, row_of(method).name);
  pattern.quick = bytes == kWalBytes && (depth == 1 || depth == kQuickDepth);
  return pattern;
}

std::vector<Pattern> make_patterns() {
  std::vector<Pattern> patterns;
  for (const uint32_t bytes : kLogBytes)
    for (const LogMethodRow &row : log_methods()) patterns.push_back(log_pattern(Group::kLog, row.method, bytes));
  for (const LogMethodRow &row : log_methods())
    patterns.push_back(log_pattern(Group::kLogGrows, row.method, kBinlogBytes));
  for (const LogMethodRow &row : log_methods()) patterns.push_back(log_pattern(Group::kLogBulk, row.method, kWalBytes));
  for (const uint32_t bytes : kPageBytes)
    for (const uint32_t depth : kDepths)
      for (const ReadMethodRow &row : read_methods())
        if (row.method != ReadMethod::kSync || depth == 1) patterns.push_back(read_pattern(row.method, bytes, depth));
  return patterns;
}

}  // namespace

const std::vector<LogMethodRow> &log_methods() {
  static const std::vector<LogMethodRow> rows = {
      {LogMethod::kFdatasync, "fdatasync", "fdatasync", false},
      {LogMethod::kFsync, "fsync", "fsync", false},
      {LogMethod::kOpenDatasync, "open_datasync", "open_datasync", false},
      {LogMethod::kOpenSync, "open_sync", "open_sync", false},
      {LogMethod::kRwfDsync, "rwf_dsync", "", false},
      {LogMethod::kUringLinked, "io_uring", "", true},
  };
  return rows;
}

const std::vector<ReadMethodRow> &read_methods() {
  static const std::vector<ReadMethodRow> rows = {
      {ReadMethod::kSync, "sync", "sync", false},
      {ReadMethod::kWorker, "worker", "worker", false},
      {ReadMethod::kUring, "io_uring", "io_uring", true},
      {ReadMethod::kUringSqpoll, "sqpoll", "", true},
  };
  return rows;
}

const LogMethodRow &row_of(LogMethod method) { return find_row(log_methods(), method); }
const ReadMethodRow &row_of(ReadMethod method) { return find_row(read_methods(), method); }
std::string_view group_name(Group group) { return kGroupNames[static_cast<size_t>(group)]; }

std::string_view method_name(const Pattern &pattern) {
  return is_log(pattern) ? row_of(pattern.log).name : row_of(pattern.read).name;
}

bool needs_uring(const Pattern &pattern) {
  return is_log(pattern) ? row_of(pattern.log).uring : row_of(pattern.read).uring;
}

const std::vector<Pattern> &all_patterns() {
  static const std::vector<Pattern> patterns = make_patterns();
  return patterns;
}

std::vector<Pattern> select_patterns(std::string_view wanted, bool quick) {
  std::vector<std::string> globs;
  while (!wanted.empty()) {
    const size_t comma = std::min(wanted.find(','), wanted.size());
    if (comma > 0) globs.emplace_back(wanted.substr(0, comma));
    wanted.remove_prefix(std::min(comma + 1, wanted.size()));
  }
  std::vector<Pattern> chosen;
  for (const Pattern &pattern : all_patterns()) {
    const auto matches = [&](const std::string &glob) { return fnmatch(glob.c_str(), pattern.name.c_str(), 0) == 0; };
    if ((!quick || pattern.quick) && (globs.empty() || std::any_of(globs.begin(), globs.end(), matches)))
      chosen.push_back(pattern);
  }
  return chosen;
}

std::string size_text(uint64_t bytes) {
  if (bytes >= 1u << 20 && bytes % (1u << 20) == 0) return fmt::format("{}m", bytes >> 20);
  if (bytes >= 1u << 10 && bytes % (1u << 10) == 0) return fmt::format("{}k", bytes >> 10);
  return fmt::format("{}", bytes);
}

}  // namespace flushlight::probe
