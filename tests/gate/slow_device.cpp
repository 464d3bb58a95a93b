// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/gate/slow_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace gate {
namespace {
std::string required(const char *name) {
  const char *value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set: start me with tests/gate/run");
  return value;
}
}  // namespace

SlowDevice::SlowDevice() : folder_(required("FLUSHLIGHT_GATE_FOLDER")), file_system_(required("FLUSHLIGHT_GATE_FS")) {
  int fd = open(required("FLUSHLIGHT_GATE_CONTROL").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("cannot open the device's control block");
  void *at = mmap(nullptr, sizeof(rig::SlowControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) throw std::runtime_error("cannot map the device's control block");
  control_ = static_cast<rig::SlowControl *>(at);
  release();
  if (const char *block_device = std::getenv("FLUSHLIGHT_GATE_CLOCK_DEVICE")) find_clock(block_device);
}

SlowDevice::~SlowDevice() {
  release();
  munmap(control_, sizeof(rig::SlowControl));
}

// Where the CPU is emulated, each operation takes a millisecond or more beside the hold: longer holds keep that small.
void SlowDevice::hold(rig::Kind kind, uint64_t ms) {
  const char *longer = std::getenv("FLUSHLIGHT_GATE_LONGER");
  const uint64_t factor = longer != nullptr ? std::strtoull(longer, nullptr, 10) : 1;
  control_->delay_ns[static_cast<unsigned>(kind)] = ms * factor * 1'000'000;
}

void SlowDevice::release() {
  for (auto &delay : control_->delay_ns) delay = 0;
}

// In a virtual machine the device belongs to another kernel with a clock of its own. Reads that nobody else makes (the
// device's last block) tell the distance: each one's middle is the same moment for both. The shortest is the best.
void SlowDevice::find_clock(const char *block_device) {
  constexpr size_t kBlock = 4096;
  constexpr int kReads = 32;
  int fd = open(block_device, O_RDONLY | O_DIRECT | O_CLOEXEC);
  const off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
  if (size < static_cast<off_t>(2 * kBlock)) throw std::runtime_error(std::string("cannot read ") + block_device);
  const off_t offset = (size / static_cast<off_t>(kBlock) - 1) * static_cast<off_t>(kBlock);
  alignas(kBlock) char block[kBlock];
  uint64_t shortest_ns = ~0ull;
  for (int i = 0; i < kReads; i++) {
    const uint64_t first = control_->logged, before = rig::monotonic_ns();
    if (pread(fd, block, sizeof block, offset) != static_cast<ssize_t>(sizeof block))
      throw std::runtime_error(std::string("cannot read the last block of ") + block_device);
    const uint64_t after = rig::monotonic_ns(), logged = control_->logged;
    for (uint64_t n = first; n < logged; n++) {
      const rig::Operation &o = control_->log[n % rig::kLogEntries];
      if (o.sequence != n + 1 || o.kind != rig::Kind::read || o.offset_bytes != static_cast<uint64_t>(offset)) continue;
      if (after - before >= shortest_ns) continue;
      shortest_ns = after - before;
      clock_ahead_ns_ = o.begin_ns + (o.end_ns - o.begin_ns) / 2 - (before + shortest_ns / 2);
    }
  }
  close(fd);
  if (shortest_ns == ~0ull) throw std::runtime_error("the device's log does not show our reads");
}

template <typename Visit>
void SlowDevice::each_operation(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns, const Visit &visit) const {
  uint64_t logged = control_->logged;
  uint64_t first = logged > rig::kLogEntries ? logged - rig::kLogEntries : 0;
  for (uint64_t n = first; n < logged; n++) {
    const rig::Operation &o = control_->log[n % rig::kLogEntries];
    if (o.sequence != n + 1 || o.kind != kind) continue;
    const uint64_t from = o.begin_ns - clock_ahead_ns_, to = o.end_ns - clock_ahead_ns_;
    if (to > begin_ns && from < end_ns) visit(from, to, o.asked_ns);
  }
}

std::vector<uint64_t> SlowDevice::operations_ns(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns) const {
  std::vector<uint64_t> lengths;
  each_operation(kind, begin_ns, end_ns, [&](uint64_t from, uint64_t to, uint64_t) { lengths.push_back(to - from); });
  return lengths;
}

uint64_t SlowDevice::held_ns(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns) const {
  std::vector<std::pair<uint64_t, uint64_t>> holds;
  each_operation(kind, begin_ns, end_ns, [&](uint64_t from, uint64_t to, uint64_t asked_ns) {
    if (asked_ns != 0) holds.emplace_back(std::max(from, begin_ns), std::min(to, end_ns));
  });
  std::sort(holds.begin(), holds.end());
  uint64_t total = 0, covered = begin_ns;
  for (auto [from, to] : holds) {
    from = std::max(from, covered);
    if (to > from) {
      total += to - from;
      covered = to;
    }
  }
  return total;
}

}  // namespace gate
