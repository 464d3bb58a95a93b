// SPDX-License-Identifier: GPL-2.0-or-later
// The neighbour of a log: threads that write pages all over another file and sync them now and then, as a checkpoint
// or a page cleaner does. Starts at construction, has ended after stop().
#pragma once
#include <atomic>
#include <thread>
#include <vector>

#include "sidecar/probe/governor.h"
#include "sidecar/probe/target.h"

namespace flushlight::probe {

class BulkWriter {
 public:
  static constexpr unsigned kThreads = 4;
  static constexpr uint32_t kPageBytes = 16384;
  static constexpr unsigned kPagesPerSync = 128;

  BulkWriter(const Scratch &data, uint64_t data_bytes, Governor *governor);
  ~BulkWriter() { stop(); }
  BulkWriter(const BulkWriter &) = delete;
  BulkWriter &operator=(const BulkWriter &) = delete;

  void stop();
  [[nodiscard]] uint64_t bytes() const { return bytes_.load(); }
  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] int error() const { return error_.load(); }  // of the first operation that failed

 private:
  void write_pages(unsigned number, uint64_t data_bytes, Governor *governor);

  UniqueFd file_;
  bool direct_ = true;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<int> error_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace flushlight::probe
