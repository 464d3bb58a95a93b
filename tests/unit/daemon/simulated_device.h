// SPDX-License-Identifier: GPL-2.0-or-later
// A device with clients, in simulated time: requests queue at it, some servers take them in order, it can freeze.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "abi/histogram.h"
#include "sidecar/stalls/detector.h"

namespace flushlight::test {

inline constexpr uint64_t kMs = 1'000'000;

class SimulatedDevice {
 public:
  explicit SimulatedDevice(uint32_t number, uint32_t servers = 1) : servers_(servers) { activity_.device = number; }

  // Time of one request at a server.
  std::function<uint64_t(uint8_t operation, uint64_t now_ns)> service_ns = [](uint8_t, uint64_t) { return kMs / 2; };
  uint64_t frozen_from_ns = 0, frozen_until_ns = 0;
  bool counts_bytes = false;
  uint64_t request_bytes = 4096;
  std::vector<std::pair<uint32_t, uint64_t>> long_completions;

  void ask(uint8_t operation, uint64_t now_ns) { waiting_.push_back({operation, now_ns, 0}); }
  [[nodiscard]] size_t outstanding() const { return waiting_.size() + served_.size(); }

  // Moves on to now_ns, which must not be far from the last call.
  void run(uint64_t now_ns) {
    if (now_ns >= frozen_from_ns && now_ns < frozen_until_ns) return;
    if (frozen_until_ns != 0 && now_ns >= frozen_until_ns && frozen_from_ns != 0) {
      for (Request &request : served_) request.done_ns = std::max(request.done_ns, now_ns);
      frozen_from_ns = frozen_until_ns = 0;
    }
    std::erase_if(served_, [&](const Request &request) {
      if (request.done_ns > now_ns) return false;
      complete(request, now_ns);
      return true;
    });
    while (served_.size() < servers_ && !waiting_.empty()) {
      Request request = waiting_.front();
      waiting_.pop_front();
      request.done_ns = now_ns + service_ns(request.operation, now_ns);
      served_.push_back(request);
    }
  }

  kernel::DeviceActivity activity() const {
    kernel::DeviceActivity now = activity_;
    now.at_device = static_cast<uint32_t>(outstanding());
    for (const auto *list : {&waiting_}) add_oldest(*list, &now);
    add_oldest(served_, &now);
    now.kernel_inflight = now.at_device;
    now.kernel_completed = completed_;
    if (counts_bytes) now.kernel_bytes = completed_ * request_bytes;
    return now;
  }

 private:
  struct Request {
    uint8_t operation;
    uint64_t issue_ns, done_ns;
  };
  template <typename List>
  static void add_oldest(const List &list, kernel::DeviceActivity *now) {
    for (const Request &request : list)
      if (now->oldest_issue_ns == 0 || request.issue_ns < now->oldest_issue_ns) {
        now->oldest_issue_ns = now->oldest_start_ns = request.issue_ns;
        now->oldest_operation = request.operation;
      }
  }
  void complete(const Request &request, uint64_t now_ns) {
    const uint64_t took_ns = now_ns - request.issue_ns;
    const uint32_t bucket = fl_histogram_bucket(took_ns);
    activity_.completed[request.operation][std::min<size_t>(bucket / FL_HISTOGRAM_SUB, kernel::kOctaves - 1)]++;
    completed_++;
    if (took_ns >= 25 * kMs) long_completions.emplace_back(activity_.device, now_ns);
  }

  uint32_t servers_;
  kernel::DeviceActivity activity_;
  uint64_t completed_ = 1000;  // since the kernel started
  std::deque<Request> waiting_;
  std::vector<Request> served_;
};

}  // namespace flushlight::test
