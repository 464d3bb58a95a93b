// SPDX-License-Identifier: GPL-2.0-or-later
// What the probe can do to a device: the databases' own patterns, as a table. Rows are made once and never change.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flushlight::probe {

// How a log write is made durable.
enum class LogMethod : uint8_t { kFdatasync, kFsync, kOpenDatasync, kOpenSync, kRwfDsync, kUringLinked };
// How reads are kept in flight, after PostgreSQL's io_method.
enum class ReadMethod : uint8_t { kSync, kWorker, kUring, kUringSqpoll };

enum class Group : uint8_t {
  kLog,       // overwrites of a preallocated file, one after the other, each made durable
  kLogGrows,  // the same at the end of a file that grows: the file system's journal works too
  kLogBulk,   // as kLog, while others write pages to another file of the same file system
  kRead,      // random reads past the page cache
};

struct Pattern {
  std::string name;  // log-8k-fdatasync, read-16k-depth4-worker
  Group group = Group::kLog;
  LogMethod log = LogMethod::kFdatasync;
  ReadMethod read = ReadMethod::kSync;
  uint32_t block_bytes = 0;
  uint32_t depth = 1;  // operations in flight
  bool quick = false;  // part of --quick
};

struct LogMethodRow {
  LogMethod method;
  std::string_view name;
  std::string_view wal_sync_method;  // PostgreSQL's name; empty: it has none
  bool uring;
};
struct ReadMethodRow {
  ReadMethod method;
  std::string_view name;
  std::string_view io_method;  // PostgreSQL's name; empty: it has none
  bool uring;
};
const std::vector<LogMethodRow> &log_methods();
const std::vector<ReadMethodRow> &read_methods();
const LogMethodRow &row_of(LogMethod method);
const ReadMethodRow &row_of(ReadMethod method);
std::string_view group_name(Group group);

[[nodiscard]] inline bool is_log(const Pattern &pattern) { return pattern.group != Group::kRead; }
std::string_view method_name(const Pattern &pattern);
bool needs_uring(const Pattern &pattern);

const std::vector<Pattern> &all_patterns();
// The patterns whose names match one of the comma-separated shell patterns; empty: all. Nothing: none matches.
std::vector<Pattern> select_patterns(std::string_view wanted, bool quick);

std::string size_text(uint64_t bytes);  // 512, 8k, 16m

}  // namespace flushlight::probe
