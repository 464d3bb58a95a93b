// SPDX-License-Identifier: GPL-2.0-or-later
// The slow device under the test: set its faults, ask what it really held.
#pragma once
#include <cstdint>
#include <string>

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

  [[nodiscard]] const std::string &folder() const { return folder_; }
  [[nodiscard]] bool is_xfs() const { return file_system_ == "xfs"; }

 private:
  std::string folder_;
  std::string file_system_;
  rig::SlowControl *control_ = nullptr;
};

}  // namespace gate
