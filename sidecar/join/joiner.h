// SPDX-License-Identifier: GPL-2.0-or-later
// From records to events: which row, which role, which cause. Keeps the texts.
// Owner: main thread.
#pragma once
#include "sidecar/join/events.h"
#include "sidecar/join/texts.h"

namespace flushlight {

class Joiner final : public RecordSink {
 public:
  Joiner(EventSink &sink, TextStore &texts) : sink_(sink), texts_(texts) {}
  void keep_texts(bool keep);

  void on_text(const Instance &instance, uint64_t queryid, std::string_view text, bool truncated) override;
  void on_statement(const Instance &instance, const SessionInfo &session, const fl_record_statement &record) override;
  void on_commit(const Instance &instance, const SessionInfo &session, const fl_record_commit &record) override;

 private:
  EventSink &sink_;
  TextStore &texts_;
  bool keep_texts_ = true;
};

Role commit_role(const fl_record_commit &record);

}  // namespace flushlight
