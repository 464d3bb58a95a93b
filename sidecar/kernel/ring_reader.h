// SPDX-License-Identifier: GPL-2.0-or-later
// Private to sidecar/kernel: io_uring instances of a loaded tracer.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/rings_shared.h"
#include "sidecar/kernel/rings.h"

struct flushlight_bpf;

namespace flushlight::kernel {

class RingReader {
 public:
  explicit RingReader(flushlight_bpf *skeleton);
  ~RingReader();
  RingReader(const RingReader &) = delete;
  RingReader &operator=(const RingReader &) = delete;

  // Looks for open rings, forgets those that are gone.
  std::vector<Ring> look();
  // Once in a while: the table must not fill up with rings that are gone, though nobody looks.
  void tick(uint64_t now_ns);
  // After a time without events: what was counted before it is no number of anything.
  void forget();

 private:
  struct Known {
    uint64_t address;
    fl_uring ring;
  };
  bool sweep();
  std::vector<Known> read();
  void remove(const Known &known);
  uint64_t created() const;

  flushlight_bpf *skeleton_;
  int files_link_ = -1, registered_link_ = -1;
  uint64_t created_before_ = 0, next_ns_ = 0;
};

}  // namespace flushlight::kernel
