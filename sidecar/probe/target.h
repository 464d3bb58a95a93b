// SPDX-License-Identifier: GPL-2.0-or-later
// Where the probe works: a directory that it may write to, and one file there without a name, so that nothing stays
// whatever ends the probe. Owner: the main thread; descriptors handed out belong to the asker.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sidecar/base/result.h"
#include "sidecar/base/unique_fd.h"
#include "sidecar/host/block_devices.h"
#include "sidecar/probe/governor.h"

namespace flushlight::probe {

struct Space {
  uint64_t total_bytes = 0, free_bytes = 0;  // free: for this user
  bool inodes_left = true;
};

// What the kernel knows of the place.
struct Place {
  std::string directory;  // resolved
  std::string file_system, mount_point, mount_options, source;
  uint32_t device = 0;               // kernel numbering; 0: the file system has no block device
  std::string disk;                  // the disk of that device; empty: none
  std::vector<std::string> disks;    // disks below it, where it is stacked; else it alone
  std::vector<BlockDevice> devices;  // facts of these
};

struct TargetOptions {
  std::string directory;
  uint64_t data_bytes = 256ull << 20;  // random reads and bulk writes go there
  uint64_t log_bytes = 16ull << 20;    // a WAL segment
  double reserve_share = 0.05;         // of the file system, stays free
};

// Refusals, each with cause and remedy.
Result<> check_kind(const std::string &path, mode_t mode);
Result<> check_file_system(const std::string &path, int64_t magic);
Result<> check_space(const std::string &path, const Space &space, uint64_t needed_bytes, double reserve_share);
uint64_t reserve_bytes(const Space &space, double reserve_share);
uint64_t needed_bytes(const TargetOptions &options);

Result<Space> read_space(const std::string &path);
// Everything of the above, in that order; nothing is written.
Result<Place> inspect(const TargetOptions &options);
Place describe_place(const std::string &directory, const std::string &sys = "/sys",
                     const std::string &mount_info_path = "/proc/self/mountinfo");

// An open file without a name, in use by the probe only.
class Scratch {
 public:
  static Result<Scratch> create(const std::string &directory);
  // Written in full with bytes that no device can compress or find twice, and synced.
  Result<> fill(uint64_t bytes, Governor *governor);
  // One more descriptor, with other flags.
  [[nodiscard]] Result<UniqueFd> open_again(int flags) const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit Scratch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// An errno of a write, put into words.
Error write_error(int code, const std::string &directory);

}  // namespace flushlight::probe
