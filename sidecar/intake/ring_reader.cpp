// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/intake/ring_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace flushlight {
namespace {

uint64_t load(uint64_t &field, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref<uint64_t>(field).load(order);
}

// Growth of a counter of the other side. One that jumps by more than a ring could ever explain is a lie or
// damage: believed by nobody, and counted.
constexpr uint64_t kGrowthMax = 1u << 24;

uint64_t growth(uint64_t now, uint64_t *last, uint64_t *bad) {
  const uint64_t before = std::exchange(*last, now);
  if (now >= before && now - before <= kGrowthMax) return now - before;
  if (now < before && now <= kGrowthMax) return now;  // started again at zero
  ++*bad;
  return 0;
}

// Smallest size of a record of each type; 0: type unknown.
uint32_t smallest_bytes(uint16_t type) {
  switch (type) {
    case FL_RECORD_SESSION:
      return sizeof(fl_record_session);
    case FL_RECORD_TEXT:
      return sizeof(fl_record_text);
    case FL_RECORD_STATEMENT:
      return sizeof(fl_record_statement);
    case FL_RECORD_COMMIT:
      return sizeof(fl_record_commit);
    case FL_RECORD_SESSION_END:
      return sizeof(fl_record_session_end);
    default:
      return 0;
  }
}

}  // namespace

RingReader::RingReader(void *memory, uint32_t data_bytes)
    : head_(static_cast<fl_ring_head *>(memory)),
      data_(static_cast<const std::byte *>(memory) + FL_RING_HEAD_BYTES),
      data_bytes_(data_bytes) {}

uint64_t RingReader::poll(Counts *counts) {
  // Counters before the head: a commit that is counted and not yet recorded is less likely to show.
  counts->commits_seen += growth(load(head_->commits_seen), &last_seen_, &counts->bad);
  counts->commits_missed += growth(load(head_->commits_missed), &last_missed_, &counts->bad);
  counts->dropped += growth(load(head_->dropped), &last_dropped_, &counts->bad);
  const uint64_t head = load(head_->head, std::memory_order_acquire);
  if (head - tail_ <= data_bytes_ && head % 8 == 0) return head;
  counts->bad++;
  release(head & ~uint64_t{7});
  return tail_;
}

void RingReader::copy(uint64_t end, std::vector<std::byte> *scratch, std::vector<RecordView> *records,
                      Counts *counts) const {
  records->clear();
  const auto total = static_cast<size_t>(end - tail_);
  scratch->resize(std::max<size_t>(scratch->size(), data_bytes_));
  const size_t first = tail_ % data_bytes_;
  const size_t before_wrap = std::min<size_t>(total, data_bytes_ - first);
  std::memcpy(scratch->data(), data_ + first, before_wrap);
  std::memcpy(scratch->data() + before_wrap, data_, total - before_wrap);

  Counts ignored;
  Counts &count = counts != nullptr ? *counts : ignored;
  for (size_t offset = 0; offset < total;) {
    fl_record_header header;
    std::memcpy(&header, scratch->data() + offset, sizeof header);
    const bool pad = header.type == FL_RECORD_PAD;
    if (header.length < sizeof header || header.length % 8 != 0 || header.length > total - offset ||
        (!pad && header.length > FL_RECORD_BYTES_MAX)) {
      count.bad++;  // no way to find the next record
      return;
    }
    const std::span<const std::byte> bytes(scratch->data() + offset, header.length);
    offset += header.length;
    if (pad) continue;
    const uint32_t smallest = smallest_bytes(header.type);
    if (smallest == 0)
      count.unknown++;
    else if (header.length < smallest)
      count.bad++;
    else
      records->push_back({header.type, bytes});
  }
}

void RingReader::release(uint64_t end) {
  tail_ = end;
  std::atomic_ref<uint64_t>(head_->tail).store(end, std::memory_order_release);
}

RingLive RingReader::live() const {
  return {load(head_->session_id), load(head_->queryid), load(head_->window_begin_ns)};
}

}  // namespace flushlight
