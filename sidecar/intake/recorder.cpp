// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/intake/recorder.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstring>
#include <memory>

#include "sidecar/base/log.h"

namespace flushlight {
namespace {

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

constexpr unsigned kReadStep = 1u << 20;

}  // namespace

void Recorder::put(ReplayKind kind, uint32_t lease, uint32_t ring, const void *bytes, size_t size) {
  if (kind != ReplayKind::kRecords) flush();
  const ReplayChunk chunk{static_cast<uint32_t>(kind), lease, ring, static_cast<uint32_t>(size)};
  if (data_.size() + sizeof chunk + size > kBytesMax) {
    if (!std::exchange(full_, true)) spdlog::warn("the record has reached {} bytes: what comes is left out", kBytesMax);
    return;
  }
  data_.append(reinterpret_cast<const char *>(&chunk), sizeof chunk);
  if (size > 0) data_.append(static_cast<const char *>(bytes), size);
  in_pass_ |= kind != ReplayKind::kPass && kind != ReplayKind::kLook;
}

void Recorder::flush() {
  if (records_.empty()) return;
  const std::string records = std::exchange(records_, {});
  put(ReplayKind::kRecords, lease_, ring_, records.data(), records.size());
}

void Recorder::record(uint32_t lease, uint32_t ring, std::span<const std::byte> bytes) {
  if (lease != lease_ || ring != ring_) flush();
  lease_ = lease;
  ring_ = ring;
  records_.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

void Recorder::counters(uint32_t lease, const ReplayCounters &counters) {
  if (counters.dropped + counters.commits_seen + counters.commits_missed == 0) return;
  put(ReplayKind::kCounters, lease, 0, &counters, sizeof counters);
}

void Recorder::passed() {
  flush();
  if (!in_pass_) return;  // nothing came: nothing to be told apart
  const ReplayTime time{clock_.now_ns(), clock_.unix_ns()};
  put(ReplayKind::kPass, 0, 0, &time, sizeof time);
  in_pass_ = false;
}

void Recorder::histograms(const std::vector<kernel::DeviceHistogram> &histograms) {
  for (const auto &histogram : histograms) {
    const ReplayHistogram head{histogram.device, static_cast<uint32_t>(histogram.operation),
                               static_cast<uint32_t>(histogram.stage), 0, histogram.sum_ns};
    std::string bytes(reinterpret_cast<const char *>(&head), sizeof head);
    for (uint64_t bucket = 0; bucket < histogram.buckets.size(); bucket++) {
      if (histogram.buckets[bucket] == 0) continue;
      const uint64_t pair[] = {bucket, histogram.buckets[bucket]};
      bytes.append(reinterpret_cast<const char *>(pair), sizeof pair);
    }
    put(ReplayKind::kHistogram, 0, 0, bytes.data(), bytes.size());
  }
}

Result<> Recorder::finish() {
  flush();
  const GzFile file(gzopen(path_.c_str(), "wb9"));
  if (!file) return system_error(errno, "creating the record " + path_);
  if (gzwrite(file.get(), data_.data(), static_cast<unsigned>(data_.size())) != static_cast<int>(data_.size()))
    return Error{EIO, "writing the record " + path_ + " failed"};
  return Ok{};
}

Result<std::vector<ReplayItem>> read_replay(const std::string &path) {
  const GzFile file(gzopen(path.c_str(), "rb"));
  if (!file) return system_error(errno, "opening the record " + path);
  std::string data, buffer(kReadStep, '\0');
  for (int got = 1; got > 0 && data.size() <= Recorder::kBytesMax;) {
    got = gzread(file.get(), buffer.data(), kReadStep);
    if (got < 0) return Error{EINVAL, path + " is damaged"};
    data.append(buffer, 0, static_cast<size_t>(got));
  }
  std::string_view rest = data;
  if (!rest.starts_with(kReplayMagic)) return Error{EINVAL, path + " is no record of this version of flushlight"};
  rest.remove_prefix(kReplayMagic.size());
  std::vector<ReplayItem> items;
  while (!rest.empty()) {
    ReplayItem item;
    if (rest.size() < sizeof item.chunk) return Error{EINVAL, path + " ends inside a chunk"};
    std::memcpy(&item.chunk, rest.data(), sizeof item.chunk);
    rest.remove_prefix(sizeof item.chunk);
    if (rest.size() < item.chunk.bytes) return Error{EINVAL, path + " ends inside a chunk"};
    item.bytes = rest.substr(0, item.chunk.bytes);
    rest.remove_prefix(item.chunk.bytes);
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace flushlight
