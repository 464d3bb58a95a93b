// SPDX-License-Identifier: GPL-2.0-or-later
// What intake hands on: checked records together with whose they are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "abi/attach.h"
#include "sidecar/base/symbols.h"

namespace flushlight {

// A server: all processes that attached under one name.
struct Instance {
  uint32_t id = 0;
  std::string name;
  uint32_t engine = 0;  // enum fl_engine of the last attachment
  std::string engine_version, client_version;
  uint32_t file_system = 0;  // of its data: f_type of statfs(2); 0: not told
  uid_t owner = 0;
  uint32_t attached = 0;        // processes now
  uint32_t process = 0;         // the one that attached last, as this PID namespace numbers it
  uint32_t server_process = 0;  // PostgreSQL: its parent, while it was there; MariaDB: the same
  std::string cgroup;        // what /proc/PID/cgroup said of one of them; empty: not in use, or not visible from here
  uint64_t detached_ns = 0;  // when the last one left
  uint32_t traced = 0;       // of these, with a range of ledger slots

  // Ever-growing counts.
  uint64_t records = 0;
  uint64_t bad_records = 0;
  uint64_t unknown_records = 0;
  uint64_t dropped = 0;           // by producers, for want of room
  uint64_t implausible = 0;       // accounts that cannot be: taken as not observed
  uint64_t orphans = 0;           // records of sessions that never introduced themselves
  uint64_t commits_seen = 0;      // the engine's hooks saw
  uint64_t commits_missed = 0;    // of sessions that were not observed
  uint64_t commits_recorded = 0;  // reached us
  uint64_t commits_accounted = 0;
  uint64_t not_attached = 0;  // attachments refused or left without a ledger range

  [[nodiscard]] bool is(fl_engine wanted) const { return engine == wanted; }
};

struct SessionInfo {
  uint64_t session_id = 0;
  uint64_t userid = 0, dbid = 0;
  uint64_t backend_start_unix_ns = 0;
  Symbol user = SymbolTable::kNone;
  Symbol database = SymbolTable::kNone;
  std::string application, address;
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void on_text(const Instance &instance, uint64_t queryid, std::string_view text, bool truncated) = 0;
  virtual void on_statement(const Instance &instance, const SessionInfo &session,
                            const fl_record_statement &record) = 0;
  virtual void on_commit(const Instance &instance, const SessionInfo &session, const fl_record_commit &record) = 0;
};

}  // namespace flushlight
