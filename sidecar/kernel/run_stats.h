// SPDX-License-Identifier: GPL-2.0-or-later
// Run time of the programs over windows of our own. The kernel's counters grow whenever anybody has run statistics on
// (another tool, kernel.bpf_stats_enabled): what they counted outside of a window has no time to be compared with.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace flushlight::kernel {

class RunStats {
 public:
  using Counters = std::vector<uint64_t>;  // run time of each program as the kernel counts it, ns

  void begin(uint64_t now_ns, Counters counters) {
    begun_ns_ = now_ns;
    at_begin_ = std::move(counters);
    measured_.resize(at_begin_.size());
    open_ = true;
  }
  void end(uint64_t now_ns, const Counters &counters) {
    for (size_t i = 0; i < measured_.size(); i++) measured_[i] = measured_ns(i, counters[i]);
    sampled_ns_ = sampled_ns(now_ns);
    open_ = false;
  }
  // Statistics were switched off meanwhile: the window says nothing.
  void drop() { open_ = false; }

  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] uint64_t begun_ns() const { return begun_ns_; }
  // Length of all windows up to now.
  [[nodiscard]] uint64_t sampled_ns(uint64_t now_ns) const { return sampled_ns_ + (open_ ? now_ns - begun_ns_ : 0); }
  // Run time of a program in them, its counter being at `counter` now.
  [[nodiscard]] uint64_t measured_ns(size_t program, uint64_t counter) const {
    if (program >= measured_.size()) return 0;
    return measured_[program] + (open_ ? counter - at_begin_[program] : 0);
  }

 private:
  bool open_ = false;
  uint64_t begun_ns_ = 0, sampled_ns_ = 0;
  Counters at_begin_, measured_;
};

}  // namespace flushlight::kernel
