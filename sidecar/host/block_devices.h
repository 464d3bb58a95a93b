// SPDX-License-Identifier: GPL-2.0-or-later
// What sysfs and the mount table say about block devices. Files are read by whoever calls; see facts.h for
// who does so.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/host/interrupts.h"
#include "sidecar/host/text_files.h"

namespace flushlight {

// Over the last ten seconds or so.
struct BlockRates {
  std::optional<double> reads, writes, flushes, discards, merges;  // per second
  std::optional<double> read_mean_bytes, write_mean_bytes, queue_mean;
};

struct BlockDevice {
  uint32_t number = 0;
  std::string name;
  std::string mount_point;  // of it or its partitions; several are separated by commas
  std::string file_system;
  std::string transport, model, firmware, scheduler, write_cache;  // empty: not known
  std::string leaves;           // devices that a stacked one consists of, separated by commas
  std::vector<uint32_t> parts;  // disks that a stacked device lies on (layers.h)
  bool stacked = false;         // it makes no requests: all that is observed of it is its parts'
  std::optional<int64_t> nr_requests, tag_depth, hw_queues, nomerges, rq_affinity, read_ahead_kb, rotational, fua,
      wbt_lat_us, inflight;
  BlockRates rates;
  InterruptShares interrupts;
};

using BlockDevices = std::map<uint32_t, BlockDevice>;

// sys: "/sys" (a test brings its own tree); mount_info: text of /proc/self/mountinfo.
BlockDevices read_block_devices(const std::string &sys, const std::string &mount_info);

// Reads again and again, and so knows rates.
// Owner: one thread (facts.h).
class BlockDeviceReader {
 public:
  static constexpr uint64_t kWindowNs = 10'000'000'000;
  static constexpr int kInterruptsEvery = 10;  // readings: the table is big on big hosts

  explicit BlockDeviceReader(std::string root = "") : root_(std::move(root)), interrupts_(root_) {}
  BlockDevices read(uint64_t now_ns);

 private:
  struct Sample {
    uint64_t at_ns = 0;
    std::vector<int64_t> figures;  // of /sys/block/NAME/stat
  };
  BlockRates rates_of(const std::string &name, uint64_t now_ns);

  std::string root_;
  Interrupts interrupts_;
  int readings_ = 0;
  std::map<std::string, std::deque<Sample>> samples_;
};

// "none [mq-deadline] kyber" → "mq-deadline".
std::string active_choice(const std::string &choices);

}  // namespace flushlight
