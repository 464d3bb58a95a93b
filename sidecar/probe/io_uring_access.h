// SPDX-License-Identifier: GPL-2.0-or-later
// A ring, or in plain words why there is none. One thread uses it.
#pragma once
#include <liburing.h>

#include <memory>
#include <string>

#include "sidecar/base/result.h"

namespace flushlight::probe {

class Ring {
 public:
  static Result<std::unique_ptr<Ring>> create(unsigned entries, bool sqpoll);
  ~Ring() {
    if (ready_) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring &) = delete;
  Ring &operator=(const Ring &) = delete;

  io_uring *get() { return &ring_; }
  // Submits what was prepared; an errno or 0.
  int submit();
  // Waits for one completion at least; the one that came, or nullptr and an errno.
  io_uring_cqe *wait(int *error);

 private:
  Ring() = default;
  io_uring ring_{};
  bool ready_ = false;
};

// Cause and remedy of a refusal; disabled: the sysctl kernel.io_uring_disabled, -1 if it does not exist.
std::string refusal_text(int code, int disabled);

}  // namespace flushlight::probe
