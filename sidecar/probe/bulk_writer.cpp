// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/bulk_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include "sidecar/probe/buffer.h"

namespace flushlight::probe {

BulkWriter::BulkWriter(const Scratch &data, uint64_t data_bytes, Governor *governor) {
  auto file = data.open_again(O_WRONLY | O_DIRECT);
  if (!file) {
    direct_ = false;  // through the page cache then: the syncs send it to the device
    file = data.open_again(O_WRONLY);
  }
  if (!file) {
    error_ = file.error().code;
    return;
  }
  file_ = std::move(*file);
  for (unsigned i = 0; i < kThreads; i++)
    threads_.emplace_back([this, i, data_bytes, governor] { write_pages(i, data_bytes, governor); });
}

void BulkWriter::stop() {
  stopped_ = true;
  for (std::thread &thread : threads_) thread.join();
  threads_.clear();
}

void BulkWriter::write_pages(unsigned number, uint64_t data_bytes, Governor *governor) {
  Buffer buffer(kPageBytes);
  Random random(number + 1);
  const uint64_t pages = data_bytes / kPageBytes;
  for (unsigned done = 1; !stopped_ && governor->may_go_on(); done++) {
    buffer.make_unique();
    const auto offset = static_cast<off_t>(random.below(pages) * kPageBytes);
    const bool failed = pwrite(file_.get(), buffer.data(), kPageBytes, offset) != kPageBytes ||
                        (done % kPagesPerSync == 0 && fdatasync(file_.get()) != 0);
    if (failed) {
      int none = 0;
      error_.compare_exchange_strong(none, errno != 0 ? errno : EIO);
      return;
    }
    bytes_ += kPageBytes;
    governor->wrote(kPageBytes);
  }
}

}  // namespace flushlight::probe
