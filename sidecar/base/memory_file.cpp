// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace flushlight {

Result<MemoryFile> MemoryFile::create(const char *name, size_t bytes, Access access) {
  MemoryFile file;
  file.fd_.reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.fd_) return system_error(errno, "memfd_create");
  if (const int error = posix_fallocate(file.fd(), 0, static_cast<off_t>(bytes)); error != 0)
    return system_error(error, "allocating " + std::to_string(bytes) + " bytes of shared memory");
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (data == MAP_FAILED) return system_error(errno, "mapping shared memory");
  file.data_ = data;
  file.bytes_ = bytes;
  // Order matters: F_SEAL_SEAL forbids all further seals.
  if (access == Access::kReadOnlyThere) (void)fcntl(file.fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error(errno, "sealing shared memory");
  return file;
}

MemoryFile::MemoryFile(MemoryFile &&other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

MemoryFile &MemoryFile::operator=(MemoryFile &&other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) munmap(data_, bytes_);
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = other.bytes_;
  return *this;
}

MemoryFile::~MemoryFile() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace flushlight
