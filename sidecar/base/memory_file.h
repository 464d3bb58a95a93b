// SPDX-License-Identifier: GPL-2.0-or-later
// Shared memory that is handed to databases: allocated in full before it is sealed, so that no first touch
// can fail inside a database process.
#pragma once
#include <cstddef>

#include "sidecar/base/result.h"
#include "sidecar/base/unique_fd.h"

namespace flushlight {

class MemoryFile {
 public:
  enum class Access {
    kShared,        // the receiver may map it writable
    kReadOnlyThere  // only mappings that exist now may write (F_SEAL_FUTURE_WRITE, kernel 5.1)
  };
  static Result<MemoryFile> create(const char *name, size_t bytes, Access access);

  MemoryFile() = default;
  MemoryFile(MemoryFile &&other) noexcept;
  MemoryFile &operator=(MemoryFile &&other) noexcept;
  ~MemoryFile();

  [[nodiscard]] void *data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The mapping stays: for memory whose descriptor was handed out for good.
  void close_descriptor() { fd_.reset(); }

 private:
  UniqueFd fd_;
  void *data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace flushlight
