// SPDX-License-Identifier: GPL-2.0-or-later
// Which CPUs take a device's interrupts, that is, its completions.
// Owner: one thread (facts.h).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace flushlight {

struct InterruptShares {
  std::optional<double> top;         // of the CPU that takes most
  std::optional<double> cross_node;  // on CPUs of another memory node than the device's
};

class Interrupts {
 public:
  static constexpr uint64_t kEnough = 100;  // fewer make no share

  explicit Interrupts(std::string root) : root_(std::move(root)) {}
  // Reads /proc/interrupts; shares count from the first reading.
  void read();
  // device: its folder below /sys, links resolved.
  [[nodiscard]] InterruptShares shares(const std::string &device) const;

 private:
  using Counts = std::vector<uint64_t>;  // by place in the table's head
  std::string root_;
  std::vector<int> cpus_;
  std::map<int, int> node_of_;  // CPU → memory node
  std::set<int> nodes_;
  std::map<int64_t, Counts> first_, latest_;  // by interrupt
};

}  // namespace flushlight
