// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/io_uring_access.h"

#include <fmt/format.h>

#include "sidecar/host/text_files.h"

namespace flushlight::probe {
namespace {

constexpr unsigned kSqpollIdleMs = 1000;
constexpr const char *kDisabledPath = "/proc/sys/kernel/io_uring_disabled";

}  // namespace

std::string refusal_text(int code, int disabled) {
  if (code == EPERM && disabled == 2)
    return "io_uring is off on this host: kernel.io_uring_disabled = 2 (sysctl -w kernel.io_uring_disabled=0 allows "
           "it)";
  if (code == EPERM && disabled == 1)
    return "io_uring is for CAP_SYS_ADMIN and the group kernel.io_uring_group only: kernel.io_uring_disabled = 1";
  if (code == EPERM || code == EACCES)
    return "io_uring was refused though the host allows it: most likely by a seccomp filter (the default one of "
           "container "
           "engines does so) or by a security module; a profile that allows io_uring_setup, io_uring_enter and "
           "io_uring_register changes that";
  if (code == ENOSYS) return "this kernel has no io_uring, or a seccomp filter hides it";
  if (code == ENOMEM)
    return "io_uring found no memory: before kernel 5.12 its rings count against the limit of locked memory (ulimit "
           "-l)";
  return fmt::format("io_uring: {}", std::strerror(code));
}

Result<std::unique_ptr<Ring>> Ring::create(unsigned entries, bool sqpoll) {
  std::unique_ptr<Ring> ring(new Ring);
  io_uring_params params{};
  if (sqpoll) {
    params.flags = IORING_SETUP_SQPOLL;
    params.sq_thread_idle = kSqpollIdleMs;
  }
  const int result = io_uring_queue_init_params(entries, &ring->ring_, &params);
  if (result < 0)
    return Error{-result, refusal_text(-result, static_cast<int>(read_number(kDisabledPath).value_or(-1)))};
  ring->ready_ = true;
  return ring;
}

int Ring::submit() {
  const int result = io_uring_submit(&ring_);
  return result < 0 ? -result : 0;
}

io_uring_cqe *Ring::wait(int *error) {
  io_uring_cqe *cqe = nullptr;
  int result = 0;
  do {
    result = io_uring_wait_cqe(&ring_, &cqe);
  } while (result == -EINTR);
  *error = result < 0 ? -result : 0;
  return result < 0 ? nullptr : cqe;
}

}  // namespace flushlight::probe
