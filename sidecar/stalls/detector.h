// SPDX-License-Identifier: GPL-2.0-or-later
// Finds out from looks at the devices, about ten a second, when one stops serving what it was asked, and when it
// serves again. Pure: no clock, no files, no kernel; what it knows is what it is shown.
//
//   freeze    requests are at the device and none has completed for long
//   queue     requests exist, none was issued and none has completed for long
//   slow read, slow write, slow flush
//             requests complete, but a tenth of them or more take longer than this device ever takes, and neither the
//             number of requests at the device nor its pace explains it
//
// "Long" is measured against the device's own history, never less than kFreezeFloorNs or kSlowFloorNs. A busy device
// has long times too, but it completes as many requests or bytes as at its best, or its times grow with its queue.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/kernel/stalls.h"
#include "sidecar/stalls/history.h"

namespace flushlight::stalls {

enum class Kind : uint8_t { kFreeze, kQueue, kSlowRead, kSlowWrite, kSlowFlush, kJournal };
std::string_view kind_name(Kind kind);
bool is_slow(Kind kind);  // something is still served

// One stall of one device, or (kJournal, found by JournalWatch) of a file system's journal on it. Times of CLOCK_MONOTONIC.
struct Episode {
  uint64_t id = 0;  // grows with each episode
  uint32_t device = 0;
  Kind kind{};
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;               // 0: it lasts
  uint32_t inflight = 0;             // most at one time, those not issued yet included
  uint64_t oldest_request_ns = 0;    // longest that a request waited
  bool began_unseen = false;         // it was so already when we began to look
  bool became_usual = false;         // ended because the device has been so for kUsualAfterNs
  std::optional<uint64_t> usual_ns;  // what was usual before
};

class Detector {
 public:
  static constexpr uint64_t kMs = 1'000'000;
  static constexpr uint64_t kFreezeFloorNs = 250 * kMs;
  static constexpr uint64_t kFreezeUnknownNs = 1000 * kMs;  // without a history
  static constexpr uint64_t kFreezeFactor = 4;
  static constexpr uint64_t kSlowFloorNs = 100 * kMs;
  static constexpr uint64_t kSlowFactor = 8;
  static constexpr double kSlowShare = 0.1;
  static constexpr uint64_t kSlowMin = 3;  // requests
  static constexpr double kPaceHealthy = 0.25;
  static constexpr uint64_t kWindowNs = 1000 * kMs;
  static constexpr uint64_t kRecoveryNs = 300 * kMs;  // completions for so long, and it is over
  static constexpr uint64_t kServesNs = 150 * kMs;    // without a completion for longer, it may have stopped
  static constexpr uint64_t kUsualAfterNs = 600'000 * kMs;

  struct Look {
    uint64_t now_ns = 0;
    std::vector<kernel::DeviceActivity> devices;
    // Exact completions of requests that took long, since the last look: device and time.
    std::vector<std::pair<uint32_t, uint64_t>> long_completions;
  };
  struct Changes {
    std::vector<Episode> opened, closed;
  };
  Changes look(const Look &look);

  // Nothing that was seen before counts (the programs were off meanwhile). Open episodes are closed.
  std::vector<Episode> forget(uint64_t now_ns);

  [[nodiscard]] std::vector<Episode> open() const;
  uint64_t new_id() { return ++last_id_; }
  // Whether a device completes what it is asked, and since when it does: the end of its last stall, 0: there was none.
  struct Service {
    bool serves = true;
    uint64_t since_ns = 0;
  };
  [[nodiscard]] Service service(uint32_t device, uint64_t now_ns) const;
  // A request has been outstanding for a while: the next look should come soon.
  [[nodiscard]] bool suspicious() const { return suspicious_; }

 private:
  struct Interval {
    uint64_t from_ns = 0, to_ns = 0;
    std::array<kernel::Octaves, kernel::kStallOperations> completed{};
    uint64_t requests = 0;
    std::optional<uint64_t> bytes;
    uint32_t inflight = 0;
  };
  struct Device {
    History history;
    bool seen = false;
    kernel::DeviceActivity last;
    uint64_t looked_ns = 0;
    uint64_t idle_ns = 0;                  // last look that saw a completion, or nothing outstanding
    uint64_t idle_from_ns = 0;             // the look before that one: the completion came after it
    uint64_t long_completion_ns = 0;       // last one that is known exactly
    bool ever_idle = false;                // idle_ns is such a look, not just the first one
    std::optional<uint64_t> kernel_bytes;  // when it was read last
    bool kernel_counts = false;            // the kernel's own counters move when requests complete
    std::deque<Interval> window;
    uint64_t recovered_ns = 0;   // end of the last episode
    uint64_t recovering_ns = 0;  // of the open one: first completion since; 0: none
    uint64_t progress_ns = 0;    // of the open one: last look with a completion
    uint64_t slow_seen_ns = 0;   // of the open one: last look with slow requests
    std::optional<Episode> open;
  };

  void look_at(const Look &look, const kernel::DeviceActivity &now, Device *device, Changes *changes);
  [[nodiscard]] static Interval interval_of(const Device &device, const kernel::DeviceActivity &now, uint64_t now_ns);
  [[nodiscard]] static uint64_t freeze_after_ns(const Device &device);
  void look_for_freeze(const Look &look, const kernel::DeviceActivity &now, Device *device, Changes *changes);
  void look_for_recovery(const Look &look, const kernel::DeviceActivity &now, const Interval &interval, Device *device,
                         Changes *changes);
  void look_for_slow(const Look &look, const kernel::DeviceActivity &now, Device *device, Changes *changes);
  void look_for_end_of_slow(const Look &look, const kernel::DeviceActivity &now, Device *device, Changes *changes);
  void open_episode(Kind kind, uint64_t begin_ns, Device *device, Changes *changes);
  static void close_episode(uint64_t end_ns, Device *device, Changes *changes);

  std::map<uint32_t, Device> devices_;
  uint64_t last_id_ = 0;
  bool suspicious_ = false;
};

}  // namespace flushlight::stalls
