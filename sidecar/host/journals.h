// SPDX-License-Identifier: GPL-2.0-or-later
// What procfs, sysfs and the mount table say about the journals of ext4 and the logs of XFS.
// Files are read by whoever calls; see facts.h for who does so.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flushlight {

struct JournalFacts {
  uint32_t device = 0;  // of the file system, kernel numbering
  std::string name, mount_point, file_system;
  std::string journal_device;  // empty: not known
  std::string mode;            // ext4: ordered, journal, writeback, none; empty: not known
  std::string options, options_asked;
  std::optional<int64_t> log_bytes, log_used_bytes;
  std::optional<int64_t> free_bytes;  // of the file system
  std::optional<bool> fast_commit;    // ext4: the file system has the feature; nothing: the superblock may not be read
  // ext4, since it was mounted
  std::optional<int64_t> commits, requested, fast_commits, fast_commits_ineligible;
  std::optional<double> commit_mean_ms, locking_ms, flushing_ms, logging_ms;  // of one commit; to a jiffy
  // XFS, since it was mounted
  std::optional<int64_t> log_writes, log_write_bytes, log_forces, log_force_sleeps;
};
using Journals = std::vector<JournalFacts>;

// root: of the file system, "" but for tests.
Journals read_journals(const std::string &root);

}  // namespace flushlight
