// SPDX-License-Identifier: GPL-2.0-or-later
// What one attached process holds: its rings, its sessions, its range of the ledger.
// Owner: main thread.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/base/memory_file.h"
#include "sidecar/intake/recorder.h"
#include "sidecar/intake/records.h"
#include "sidecar/intake/ring_reader.h"
#include "sidecar/kernel/tracer.h"

namespace flushlight {

class Lease {
 public:
  // `range` is empty (slot_count 0) without tracing.
  Lease(Instance *instance, MemoryFile memory, uint32_t ring_count, uint32_t data_bytes, const kernel::Lease &range);

  struct Context {
    const Clock &clock;
    SymbolTable &symbols;
    RecordSink &sink;
    std::vector<std::byte> scratch;
    std::vector<RecordView> records;
    Recorder *recorder = nullptr;
  };
  struct Drained {
    uint64_t records = 0;
    double fill = 0;  // of the fullest ring
  };
  // Takes everything that was published before the call. Sessions and texts of all rings come before the
  // rest: MariaDB's sessions wander between threads, so a ring may hold what another ring introduced.
  Drained drain(Context *context);

  [[nodiscard]] Instance &instance() const { return *instance_; }
  [[nodiscard]] const kernel::Lease &range() const { return range_; }
  [[nodiscard]] bool traced() const { return range_.slot_count > 0; }
  [[nodiscard]] uint32_t ring_count() const { return static_cast<uint32_t>(rings_.size()); }
  [[nodiscard]] size_t memory_bytes() const { return memory_.bytes(); }
  [[nodiscard]] RingLive live(uint32_t ring) const { return rings_[ring].live(); }
  [[nodiscard]] const SessionInfo *session(uint64_t session_id) const;
  [[nodiscard]] uint32_t number() const { return number_; }
  void set_number(uint32_t number) { number_ = number; }
  [[nodiscard]] int memory_fd() const { return memory_.fd(); }
  void close_descriptor() { memory_.close_descriptor(); }
  [[nodiscard]] size_t session_count() const { return sessions_.size(); }

 private:
  struct Held {
    SessionInfo info;
    uint64_t ended_in_pass = 0;  // 0: it lives
  };
  void introduce(const RecordView &view);
  void take_text(const RecordView &view);
  void take_statement(const RecordView &view);
  void take_commit(const RecordView &view);
  void take_session_end(const RecordView &view);
  void forget_ended_sessions();
  const SessionInfo &session_or_unknown(uint64_t session_id);
  bool plausible_times(uint64_t begin_ns, uint64_t duration_ns) const;

  Instance *instance_;
  MemoryFile memory_;
  std::vector<RingReader> rings_;
  std::vector<uint64_t> ends_;  // of this pass
  kernel::Lease range_;
  std::unordered_map<uint64_t, Held> sessions_;
  std::vector<uint64_t> ended_;
  uint64_t pass_ = 0;
  uint32_t number_ = 0;  // tells attachments apart in a record
  SessionInfo unknown_;
  Context *context_ = nullptr;  // during drain()
};

}  // namespace flushlight
