// SPDX-License-Identifier: GPL-2.0-or-later
// Joined events: whose record it is and which row of the statistics it belongs to.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "sidecar/intake/records.h"

namespace flushlight {

// A row of `statements`. MariaDB has names and no numbers, PostgreSQL both.
struct StatementKey {
  uint64_t queryid = 0;
  uint64_t userid = 0, dbid = 0;
  uint32_t instance = 0;
  Symbol user = SymbolTable::kNone;
  Symbol database = SymbolTable::kNone;
  uint8_t kind = FL_KIND_STATEMENT;
  uint8_t toplevel = 1;
  bool operator==(const StatementKey &) const = default;
};

struct StatementKeyHash {
  size_t operator()(const StatementKey &key) const {
    uint64_t hash = key.queryid;
    for (const uint64_t part : {key.userid << 32 ^ key.dbid, uint64_t{key.user} << 32 | key.database,
                                uint64_t{key.instance} << 16 | uint64_t{key.kind} << 8 | key.toplevel}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// Who synced, as far as it was observed.
enum class Role : uint8_t {
  kUnknown,   // no account, and the record shows no sync
  kLed,       // its own thread completed a sync
  kFollowed,  // it waited for another thread's sync
  kUnsynced   // neither: already durable, or asynchronous
};

struct JoinedStatement {
  StatementKey key;
  const fl_record_statement &record;
};

struct JoinedCommit {
  StatementKey key;
  StatementKey cause;  // valid if has_cause: the statement that wrote most of an explicit transaction
  bool has_cause = false;
  Role role = Role::kUnknown;
  const Instance &instance;
  const SessionInfo &session;
  const fl_record_commit &record;
  [[nodiscard]] bool accounted() const { return (record.flags & FL_COMMIT_ACCOUNTED) != 0; }
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_statement(const JoinedStatement &event) = 0;
  virtual void on_commit(const JoinedCommit &event) = 0;
};

// Several sinks, one after the other.
class EventFan final : public EventSink {
 public:
  explicit EventFan(std::vector<EventSink *> sinks) : sinks_(std::move(sinks)) {}
  void on_statement(const JoinedStatement &event) override {
    for (EventSink *sink : sinks_) sink->on_statement(event);
  }
  void on_commit(const JoinedCommit &event) override {
    for (EventSink *sink : sinks_) sink->on_commit(event);
  }

 private:
  std::vector<EventSink *> sinks_;
};

}  // namespace flushlight
