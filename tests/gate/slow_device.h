// SPDX-License-Identifier: GPL-2.0-or-later
// The slow device under the test: set its faults, ask what it really held.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/rig/slow_control.h"

namespace gate {

class SlowDevice {
 public:
  SlowDevice();  // from the environment that tests/gate/run sets
  ~SlowDevice();
  SlowDevice(const SlowDevice &) = delete;
  SlowDevice &operator=(const SlowDevice &) = delete;

  void hold(rig::Kind kind, uint64_t ms);
  void release();
  // Length of the union of the holds of that kind inside [begin, end).
  [[nodiscard]] uint64_t held_ns(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns) const;
  // Operations of that kind, held or not, that began inside [begin, end): their lengths.
  [[nodiscard]] std::vector<uint64_t> operations_ns(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns) const;

  [[nodiscard]] const std::string &folder() const { return folder_; }
  [[nodiscard]] bool is_xfs() const { return file_system_ == "xfs"; }

 private:
  void find_clock(const char *block_device);
  template <typename Visit>
  void each_operation(rig::Kind kind, uint64_t begin_ns, uint64_t end_ns, const Visit &visit) const;

  std::string folder_;
  std::string file_system_;
  uint64_t clock_ahead_ns_ = 0;  // the device's clock minus ours, modulo 2^64; not 0 in a virtual machine
  rig::SlowControl *control_ = nullptr;
};

}  // namespace gate
