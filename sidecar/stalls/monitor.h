// SPDX-License-Identifier: GPL-2.0-or-later
// Looks at the devices ten times a second (more often when something is odd), keeps the log of stalls, and while one
// lasts asks which tasks are blocked. Nothing here waits for a device.
// Owner: main thread.
#pragma once
#include <deque>
#include <map>

#include "sidecar/base/clock.h"
#include "sidecar/host/block_devices.h"
#include "sidecar/host/disk_stats.h"
#include "sidecar/host/kernel_port.h"
#include "sidecar/intake/intake.h"
#include "sidecar/stalls/journal_watch.h"
#include "sidecar/stalls/look_record.h"
#include "sidecar/stalls/stall_log.h"

namespace flushlight::stalls {

// A slow request with what the host says about it.
struct KnownRequest {
  kernel::SlowRequest request;
  std::string process;  // of the thread that submitted it; empty: not known
};

class Monitor final : public EventSink {
 public:
  static constexpr uint64_t kIntervalNs = 100'000'000;
  static constexpr uint64_t kSuspiciousIntervalNs = 20'000'000;
  static constexpr uint64_t kTasksIntervalNs = 500'000'000;
  static constexpr uint64_t kCrowdIntervalNs = 1'000'000'000;
  static constexpr uint64_t kCrowdNs = 3'000'000'000;  // a commit that ended so long before or after met the same one
  static constexpr uint64_t kCrowdWaitNs = 5'000'000;  // in a journal, before anybody asks who kept it busy
  static constexpr size_t kCrowdsMax = 3600;
  static constexpr size_t kRequestsMax = 5000;
  static constexpr uint64_t kSlowRequestNs = 100'000'000;  // shorter ones are not kept

  using ReadDiskStats = std::function<AllDiskStats()>;
  // kernel: nullptr without tracing.
  Monitor(const Clock &clock, KernelPort *kernel, const Intake &intake, ReadDiskStats read_disk_stats);

  void on_statement(const JoinedStatement &) override {}
  void on_commit(const JoinedCommit &event) override;

  [[nodiscard]] uint64_t next_ns() const { return next_ns_; }
  void step(const BlockDevices &devices);
  // Every look is written down from now on; nullptr: none.
  void set_recorder(Recorder *recorder) { recorder_ = recorder; }
  // For a record that is replayed: looks now, and after the first time only when called.
  void replay_look(const BlockDevices &devices);
  // The programs were off: what was in flight is not known any more.
  void forget();

  [[nodiscard]] const StallLog &log() const { return log_; }
  [[nodiscard]] const std::deque<KnownRequest> &slow_requests() const { return requests_; }
  [[nodiscard]] uint64_t lost_requests() const { return lost_requests_; }
  [[nodiscard]] std::vector<kernel::Writer> writers() const;
  // Who kept the journal busy that most of this commit was spent with; nullptr: nobody, or not known.
  [[nodiscard]] const Culprit *crowd_of(const WaitedCommit &commit) const;

 private:
  struct Taken {
    uint64_t at_ns, bytes;
  };
  // Looked up once a second at most, and only when somebody waited for a journal.
  struct Crowd {
    uint64_t at_ns = 0;
    uint32_t device = 0;
    Culprit culprit;
  };
  void step_now(const BlockDevices &devices, uint64_t now_ns);
  void look(const BlockDevices &devices);
  Detector::Changes look_at_journals(const Detector::Look &look);
  void take_over(const Detector::Changes &changes, uint64_t now_ns, const BlockDevices &devices);
  [[nodiscard]] std::vector<Episode> open() const;
  const Culprit *crowd(uint32_t device, uint64_t now_ns);
  void take_slow_requests(Detector::Look *look);
  void remember_bytes(const AllDiskStats &stats, uint64_t now_ns);
  [[nodiscard]] std::optional<double> usual_bytes_per_second(uint32_t device, uint64_t now_ns) const;
  // All writers, and which processes are databases.
  std::pair<std::vector<kernel::Writer>, std::set<uint32_t>> who_writes();
  void begin(const Episode &episode, const BlockDevices &devices);
  void look_at_tasks();

  const Clock &clock_;
  KernelPort *kernel_;
  kernel::StallSource *source_;
  const Intake &intake_;
  ReadDiskStats read_disk_stats_;
  Recorder *recorder_ = nullptr;
  LookRecord record_;  // of the present look, with a recorder
  Detector detector_;
  JournalWatch journals_;
  std::deque<Crowd> crowds_;
  std::map<uint32_t, uint64_t> next_crowd_ns_;  // by device
  uint64_t journal_waits_ = 0;                  // of commits since the last look, kCrowdWaitNs or more
  StallLog log_;
  std::deque<KnownRequest> requests_;
  uint64_t lost_requests_ = 0;
  std::map<uint32_t, std::deque<Taken>> taken_;  // bytes by device, once a second for a minute
  uint64_t next_ns_, next_tasks_ns_ = 0, next_house_ns_ = 0;
};

}  // namespace flushlight::stalls
