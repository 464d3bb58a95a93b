// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/intake/lease.h"

#include <algorithm>

#include "sidecar/base/text.h"

namespace flushlight {
namespace {

// A client that invents sessions without end must not eat the daemon.
constexpr size_t kSessionsMax = 20'000;
// Clocks are the same on one host; the slack is for a record that is written while a pass runs.
constexpr uint64_t kFutureSlackNs = 1'000'000'000;

// What is taken before all else of the same pass.
bool is_introduction(const RecordView &view) { return view.type == FL_RECORD_SESSION || view.type == FL_RECORD_TEXT; }

}  // namespace

Lease::Lease(Instance *instance, MemoryFile memory, uint32_t ring_count, uint32_t data_bytes,
             const kernel::Lease &range)
    : instance_(instance), memory_(std::move(memory)), ends_(ring_count), range_(range) {
  auto *base = static_cast<std::byte *>(memory_.data());
  rings_.reserve(ring_count);
  for (uint32_t i = 0; i < ring_count; i++)
    rings_.emplace_back(base + size_t{i} * (FL_RING_HEAD_BYTES + data_bytes), data_bytes);
}

Lease::Drained Lease::drain(Context *context) {
  context_ = context;
  pass_++;
  Drained drained;
  RingReader::Counts counts;
  bool any = false;
  for (size_t i = 0; i < rings_.size(); i++) {
    ends_[i] = rings_[i].poll(&counts);
    const uint64_t bytes = ends_[i] - rings_[i].tail();
    any |= bytes > 0;
    drained.fill = std::max(drained.fill, static_cast<double>(bytes) / rings_[i].data_bytes());
  }
  if (any) {
    // Heads are read again here: whatever a record of the first reading relies on was published before it.
    for (RingReader &ring : rings_) {
      RingReader::Counts ignored;
      const uint64_t end = ring.poll(&counts);
      if (end == ring.tail()) continue;
      ring.copy(end, &context->scratch, &context->records, &ignored);
      for (const RecordView &view : context->records) {
        if (view.type == FL_RECORD_SESSION) introduce(view);
        if (view.type == FL_RECORD_TEXT) take_text(view);
        if (context->recorder != nullptr && is_introduction(view))
          context->recorder->record(number_, static_cast<uint32_t>(&ring - rings_.data()), view.bytes);
      }
    }
    for (size_t i = 0; i < rings_.size(); i++) {
      if (ends_[i] - rings_[i].tail() - 1 >= rings_[i].data_bytes()) continue;  // empty, or given up meanwhile
      rings_[i].copy(ends_[i], &context->scratch, &context->records, &counts);
      rings_[i].release(ends_[i]);
      drained.records += context->records.size();
      for (const RecordView &view : context->records) {
        if (view.type == FL_RECORD_STATEMENT) take_statement(view);
        if (view.type == FL_RECORD_COMMIT) take_commit(view);
        if (view.type == FL_RECORD_SESSION_END) take_session_end(view);
        if (context->recorder != nullptr && !is_introduction(view))
          context->recorder->record(number_, static_cast<uint32_t>(i), view.bytes);
      }
    }
  }
  if (!ended_.empty()) forget_ended_sessions();
  if (context->recorder != nullptr)
    context->recorder->counters(number_, {counts.dropped, counts.commits_seen, counts.commits_missed});
  instance_->records += drained.records;
  instance_->bad_records += counts.bad;
  instance_->unknown_records += counts.unknown;
  instance_->dropped += counts.dropped;
  instance_->commits_seen += counts.commits_seen;
  instance_->commits_missed += counts.commits_missed;
  context_ = nullptr;
  return drained;
}

const SessionInfo *Lease::session(uint64_t session_id) const {
  const auto found = sessions_.find(session_id);
  return found == sessions_.end() ? nullptr : &found->second.info;
}

void Lease::introduce(const RecordView &view) {
  const auto record = view.fixed<fl_record_session>();
  const uint16_t lengths[] = {record.user_length, record.database_length, record.application_length,
                              record.address_length};
  std::string texts[std::size(lengths)];
  size_t offset = sizeof record;
  for (size_t i = 0; i < std::size(lengths); i++) {
    if (lengths[i] > FL_NAME_BYTES_MAX || lengths[i] > view.bytes.size() - offset) {
      instance_->bad_records++;
      return;
    }
    texts[i] =
        sanitize_utf8({reinterpret_cast<const char *>(view.bytes.data()) + offset, lengths[i]}, FL_NAME_BYTES_MAX);
    offset += lengths[i];
  }
  if (sessions_.size() >= kSessionsMax && !sessions_.contains(record.session_id)) {
    instance_->bad_records++;
    return;
  }
  Held &held = sessions_[record.session_id];
  held.ended_in_pass = 0;
  held.info = SessionInfo{record.session_id,
                          record.userid,
                          record.dbid,
                          record.backend_start_unix_ns,
                          context_->symbols.intern(texts[0]),
                          context_->symbols.intern(texts[1]),
                          std::move(texts[2]),
                          std::move(texts[3])};
}

void Lease::take_text(const RecordView &view) {
  const auto record = view.fixed<fl_record_text>();
  if (record.text_length > view.bytes.size() - sizeof record || record.text_length > FL_TEXT_BYTES_MAX) {
    instance_->bad_records++;
    return;
  }
  const std::string text = sanitize_utf8(
      {reinterpret_cast<const char *>(view.bytes.data()) + sizeof record, record.text_length}, FL_TEXT_BYTES_MAX);
  context_->sink.on_text(*instance_, record.queryid, text, (record.flags & FL_TEXT_TRUNCATED) != 0);
}

void Lease::take_statement(const RecordView &view) {
  const auto record = view.fixed<fl_record_statement>();
  if (record.kind > FL_KIND_COMMIT || !plausible_times(record.begin_ns, record.duration_ns)) {
    instance_->bad_records++;
    return;
  }
  context_->sink.on_statement(*instance_, session_or_unknown(record.session_id), record);
}

void Lease::take_commit(const RecordView &view) {
  auto record = view.fixed<fl_record_commit>();
  if (record.kind > FL_KIND_COMMIT || !plausible_times(record.begin_ns, record.duration_ns)) {
    instance_->bad_records++;
    return;
  }
  if (record.flags & FL_COMMIT_ACCOUNTED) {
    // Whatever it is, a thread's account cannot be far longer than the time that passed.
    const uint64_t limit = record.duration_ns + record.duration_ns / 2 + 1'000'000;
    uint64_t causes = 0;
    for (int i = 0; i < FL_CAUSE_COUNT; i++) causes += std::min(record.vector_ns[i], limit + 1);
    uint64_t paths = 0;
    for (int i = 0; i < FL_PATH_COUNT; i++) paths += std::min(record.vector_ns[FL_VECTOR_PATH(i)], limit + 1);
    if (causes > limit || paths > limit) {
      record.flags &= ~FL_COMMIT_ACCOUNTED;
      instance_->implausible++;
    }
  }
  instance_->commits_recorded++;
  if (record.flags & FL_COMMIT_ACCOUNTED) instance_->commits_accounted++;
  context_->sink.on_commit(*instance_, session_or_unknown(record.session_id), record);
}

void Lease::take_session_end(const RecordView &view) {
  const auto record = view.fixed<fl_record_session_end>();
  const auto found = sessions_.find(record.session_id);
  if (found == sessions_.end() || found->second.ended_in_pass != 0) return;
  found->second.ended_in_pass = pass_;
  ended_.push_back(record.session_id);
}

// One pass later: a last record of the session may stand in a ring whose head was read before it came.
void Lease::forget_ended_sessions() {
  std::erase_if(ended_, [this](uint64_t session_id) {
    const auto found = sessions_.find(session_id);
    if (found == sessions_.end() || found->second.ended_in_pass == 0) return true;
    if (found->second.ended_in_pass == pass_) return false;
    sessions_.erase(found);
    return true;
  });
}

const SessionInfo &Lease::session_or_unknown(uint64_t session_id) {
  if (const SessionInfo *info = session(session_id)) return *info;
  instance_->orphans++;
  unknown_ = SessionInfo{};
  unknown_.session_id = session_id;
  return unknown_;
}

bool Lease::plausible_times(uint64_t begin_ns, uint64_t duration_ns) const {
  const uint64_t limit = context_->clock.now_ns() + kFutureSlackNs;
  return begin_ns <= limit && duration_ns <= limit - begin_ns;
}

}  // namespace flushlight
