// SPDX-License-Identifier: GPL-2.0-or-later
// One operation of a slow device: held as the control block says, then written to its log. For the threads of slowfs
// and slownbd; they share only the control block (slow_control.h).
#pragma once
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "slow_control.h"

namespace rig {

constexpr uint64_t kFreezeStep_ns = 1'000'000;  // a freeze that is lifted early ends within this
constexpr int kFifoPriority = 10;

inline void sleep_until(uint64_t when_ns) {
  timespec when{static_cast<time_t>(when_ns / 1'000'000'000u), static_cast<long>(when_ns % 1'000'000'000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

// Holds the calling operation as long as the settings say; log() records it just before it is answered.
class Held {
 public:
  Held(SlowControl &control, Kind kind, uint64_t offset_bytes, uint32_t length_bytes)
      : control_(control),
        kind_(kind),
        offset_bytes_(offset_bytes),
        length_bytes_(length_bytes),
        begin_ns_(monotonic_ns()) {
    uint64_t asked = control.delay_ns[static_cast<unsigned>(kind)];
    if (kind != Kind::flush && !touches_range()) asked = 0;
    if (asked) sleep_until(begin_ns_ + asked);
    for (uint64_t now = monotonic_ns(), until; (until = control.frozen_until_ns) > now; now = monotonic_ns()) {
      asked = std::max(asked, until - begin_ns_);
      sleep_until(std::min(until, now + kFreezeStep_ns));
    }
    asked_ns_ = asked;
    released_ns_ = monotonic_ns();
  }

  // Before the reply: whoever sees the operation complete finds it in the log.
  void log() const {
    const uint64_t number = control_.logged.fetch_add(1);
    Operation &entry = control_.log[number % kLogEntries];
    entry.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    entry.begin_ns = begin_ns_;
    entry.released_ns = released_ns_;
    entry.end_ns = monotonic_ns();
    entry.offset_bytes = offset_bytes_;
    entry.length_bytes = length_bytes_;
    entry.kind = kind_;
    entry.asked_ns = asked_ns_;
    entry.sequence.store(number + 1, std::memory_order_release);
  }

 private:
  [[nodiscard]] bool touches_range() const {
    const uint64_t range_length = control_.range_length_bytes;
    const uint64_t range_offset = control_.range_offset_bytes;
    return range_length == 0 ||
           (offset_bytes_ < range_offset + range_length && range_offset < offset_bytes_ + length_bytes_);
  }

  SlowControl &control_;
  Kind kind_;
  uint64_t offset_bytes_;
  uint32_t length_bytes_;
  uint64_t begin_ns_, released_ns_ = 0, asked_ns_ = 0;
};

// Maps the control block; makes it when it is not there. nullptr: said why on stderr.
inline SlowControl *open_control(const char *path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat before {};
  const auto wanted = static_cast<off_t>(sizeof(SlowControl));
  if (fd < 0 || fstat(fd, &before) != 0 || (before.st_size < wanted && ftruncate(fd, wanted) != 0)) {
    std::perror(path);
    return nullptr;
  }
  void *memory = mmap(nullptr, sizeof(SlowControl), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return nullptr;
  }
  auto *control = static_cast<SlowControl *>(memory);
  control->magic = kMagic;
  control->ready = 0;
  return control;
}

// None of these is needed to work, only to hold exactly what was asked under pressure.
inline void prepare_process(bool fifo, int lock_flags = 0) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE | lock_flags) != 0) std::perror("mlockall (going on)");
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  sched_param priority{};
  priority.sched_priority = kFifoPriority;
  if (fifo && sched_setscheduler(0, SCHED_FIFO, &priority) != 0) std::perror("SCHED_FIFO (going on)");
}

}  // namespace rig
