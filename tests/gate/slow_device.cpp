// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/gate/slow_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

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
}

SlowDevice::~SlowDevice() {
  release();
  munmap(control_, sizeof(rig::SlowControl));
}

void SlowDevice::hold(rig::Kind kind, uint64_t ms) { control_->delay_ns[static_cast<unsigned>(kind)] = ms * 1'000'000; }

void SlowDevice::release() {
  for (auto &delay : control_->delay_ns) delay = 0;
}

uint64_t SlowDevice::held_ns(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns) const {
  std::vector<std::pair<uint64_t, uint64_t>> holds;
  uint64_t logged = control_->logged;
  uint64_t first = logged > rig::kLogEntries ? logged - rig::kLogEntries : 0;
  for (uint64_t n = first; n < logged; n++) {
    const rig::Operation &o = control_->log[n % rig::kLogEntries];
    if (o.sequence != n + 1 || o.kind != kind || o.asked_ns == 0) continue;
    if (o.end_ns > begin_ns && o.begin_ns < end_ns)
      holds.emplace_back(std::max(o.begin_ns, begin_ns), std::min(o.end_ns, end_ns));
  }
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
