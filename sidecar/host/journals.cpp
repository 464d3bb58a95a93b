// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/journals.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "sidecar/base/unique_fd.h"
#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

namespace fs = std::filesystem;

constexpr size_t kJournalsMax = 256;
constexpr size_t kTextBytes = 190;
constexpr int64_t kXfsBlock = 512;  // its "basic blocks"

// Of ext4's effective options those that decide what a commit costs.
constexpr std::string_view kTelling[] = {"data=",      "barrier",        "nobarrier",       "commit=", "journal",
                                         "nojournal",  "min_batch_time", "max_batch_time",  "dioread", "delalloc",
                                         "nodelalloc", "auto_da_alloc",  "noauto_da_alloc", "discard", "async"};

void append(std::string_view part, std::string *list) {
  if (list->size() + part.size() + 1 > kTextBytes) return;
  *list += (list->empty() ? "" : ",") + std::string(part);
}

std::string device_name(const std::string &root, uint32_t device) {
  std::error_code error;
  const fs::path target =
      fs::read_symlink(fmt::format("{}/sys/dev/block/{}:{}", root, device >> 20, device & 0xfffff), error);
  return target.filename();
}

// The folder of the file system's journal below /proc/fs/jbd2: named after the device (and inode) that holds it. An
// external journal's name is that of the journal's thread, which the kernel cuts to 15 bytes.
std::string jbd2_folder(const std::string &root, const std::string &name) {
  std::string thread;
  if (const auto task = read_number(fmt::format("{}/sys/fs/ext4/{}/journal_task", root, name)); task && *task > 0)
    thread = read_first_line(fmt::format("{}/proc/{}/comm", root, *task));
  thread = thread.starts_with("jbd2/") ? thread.substr(5) : "";
  std::string external;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(root + "/proc/fs/jbd2", error)) {
    const std::string found = entry.path().filename();
    if (found.starts_with(name + "-")) return found;
    if (!thread.empty() && found.starts_with(thread)) external = found;
  }
  return external;
}

// 12 transactions (10 requested), each up to 8192 blocks / average: / 3ms logging transaction …
void read_jbd2(const std::string &text, JournalFacts *journal) {
  struct Average {
    std::string_view words;
    std::optional<double> JournalFacts::*member;
    double scale;
  };
  static constexpr Average kAverages[] = {
      {"transaction was being locked", &JournalFacts::locking_ms, 1},
      {"flushing data", &JournalFacts::flushing_ms, 1},
      {"logging transaction", &JournalFacts::logging_ms, 1},
      {"average transaction commit time", &JournalFacts::commit_mean_ms, 1e-3},
  };
  for (const std::string_view line : split_lines(text)) {
    const auto words = split_words(line);
    if (words.size() >= 2 && words[1] == "transactions") {
      journal->commits = to_number(words[0]);
      if (words.size() >= 4) journal->requested = to_number(words[2].substr(1));
    }
    for (const Average &average : kAverages)
      if (!words.empty() && line.find(average.words) != std::string_view::npos)
        if (const auto value = to_real(words[0])) journal->*average.member = *value * average.scale;
  }
  if (journal->commits == 0)  // averages of nothing
    for (const Average &average : kAverages) (journal->*average.member).reset();
}

// What no file of procfs tells stands in ext4's superblock, which only root (or the group disk) may read. It is in
// memory: the file system is mounted. Layout: the kernel's Documentation/filesystems/ext4/super.rst.
void read_superblock(const std::string &path, JournalFacts *journal) {
  constexpr size_t kStart = 1024, kBytes = 1024;
  constexpr size_t kMagicAt = 0x38, kCompatibleAt = 0x5C, kJournalInodeAt = 0xE0, kBackupTypeAt = 0xFD,
                   kJournalHighAt = 0x10C + 15 * 4, kJournalSizeAt = 0x10C + 16 * 4;
  constexpr uint16_t kMagic = 0xEF53;
  constexpr uint32_t kFastCommit = 0x400;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  unsigned char block[kBytes];
  if (!fd || pread(fd.get(), block, kBytes, kStart) != static_cast<ssize_t>(kBytes)) return;
  const auto number = [&](size_t at) {
    return uint32_t{block[at]} | uint32_t{block[at + 1]} << 8 | uint32_t{block[at + 2]} << 16 |
           uint32_t{block[at + 3]} << 24;
  };
  if ((number(kMagicAt) & 0xffff) != kMagic) return;
  journal->fast_commit = (number(kCompatibleAt) & kFastCommit) != 0;
  const bool inside = number(kJournalInodeAt) != 0 && block[kBackupTypeAt] == 1;
  if (inside) journal->log_bytes = int64_t{number(kJournalHighAt)} << 32 | number(kJournalSizeAt);
}

void read_ext4(const std::string &root, const Mount & /*mount*/, JournalFacts *journal) {
  const std::string options = read_text_file(fmt::format("{}/proc/fs/ext4/{}/options", root, journal->name), 16384);
  for (const std::string_view option : split_lines(options)) {
    if (option.starts_with("data=")) journal->mode = option.substr(5);
    const bool telling = std::any_of(std::begin(kTelling), std::end(kTelling),
                                     [&](std::string_view known) { return option.starts_with(known); });
    if (telling) append(option, &journal->options);
  }
  const std::string folder = jbd2_folder(root, journal->name);
  if (folder.empty()) {
    if (!options.empty() && journal->mode.empty()) journal->mode = "none";
    return;
  }
  journal->journal_device =
      folder.starts_with(journal->name + "-") ? journal->name : folder.substr(0, folder.find('-'));
  read_superblock(fmt::format("{}/dev/{}", root, journal->name), journal);
  read_jbd2(read_text_file(fmt::format("{}/proc/fs/jbd2/{}/info", root, folder), 16384), journal);
  const std::string fast = read_text_file(fmt::format("{}/proc/fs/ext4/{}/fc_info", root, journal->name), 16384);
  for (const std::string_view line : split_lines(fast)) {
    const auto words = split_words(line);
    if (words.size() != 2) continue;
    if (words[1] == "commits") journal->fast_commits = to_number(words[0]);
    if (words[1] == "ineligible") journal->fast_commits_ineligible = to_number(words[0]);
  }
}

// The first version of XFS' geometry, as in its fs/xfs/libxfs/xfs_fs.h.
struct XfsGeometry {
  uint32_t block_bytes, rt_extent_bytes, ag_blocks, ag_count, log_blocks, sector_bytes, inode_bytes, inodes_max_percent;
  uint64_t data_blocks, rt_blocks, rt_extents, log_start;
  uint8_t uuid[16];
  uint32_t stripe_unit, stripe_width;
  int32_t version;
  uint32_t flags, log_sector_bytes, rt_sector_bytes, directory_block_bytes;
};
static_assert(sizeof(XfsGeometry) == 112);
constexpr unsigned long kXfsGeometry = _IOR('X', 100, XfsGeometry);

std::optional<XfsGeometry> read_geometry(const std::string &mount_point) {
  const UniqueFd fd(open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
  XfsGeometry geometry{};
  if (!fd || ioctl(fd.get(), kXfsGeometry, &geometry) != 0) return std::nullopt;
  return geometry;
}

// Position in the log, "cycle:block", in blocks of 512 bytes.
std::optional<int64_t> read_position(const std::string &path, int64_t log_blocks) {
  const std::string line = read_first_line(path);
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto cycle = to_number(line.substr(0, colon)), block = to_number(line.substr(colon + 1));
  return cycle && block ? std::optional(*cycle * log_blocks + *block) : std::nullopt;
}

void read_xfs(const std::string &root, const Mount &mount, JournalFacts *journal) {
  journal->options = mount.super_options.substr(0, kTextBytes);
  journal->journal_device = journal->name;
  if (const size_t at = mount.super_options.find("logdev="); at != std::string::npos) {
    const std::string path = mount.super_options.substr(at + 7, mount.super_options.find(',', at) - at - 7);
    journal->journal_device = fs::path(path).filename();
  }
  const std::string folder = fmt::format("{}/sys/fs/xfs/{}", root, journal->name);
  if (const auto geometry = read_geometry(root + mount.mount_point)) {
    journal->log_bytes = int64_t{geometry->log_blocks} * geometry->block_bytes;
    const int64_t blocks = *journal->log_bytes / kXfsBlock;
    const auto head = read_position(folder + "/log/log_head_lsn", blocks);
    const auto tail = read_position(folder + "/log/log_tail_lsn", blocks);
    if (head && tail && *head >= *tail) journal->log_used_bytes = (*head - *tail) * kXfsBlock;
  }
  const std::string statistics = read_text_file(folder + "/stats/stats", 16384);
  for (const std::string_view line : split_lines(statistics)) {
    const auto words = split_words(line);
    if (words.size() < 6 || words[0] != "log") continue;
    journal->log_writes = to_number(words[1]);
    if (const auto blocks = to_number(words[2])) journal->log_write_bytes = *blocks * kXfsBlock;
    journal->log_forces = to_number(words[4]);
    journal->log_force_sleeps = to_number(words[5]);
  }
}

}  // namespace

Journals read_journals(const std::string &root) {
  Journals journals;
  for (const Mount &mount : parse_mounts(read_text_file(root + "/proc/self/mountinfo", 4u << 20))) {
    if (mount.file_system != "ext4" && mount.file_system != "xfs") continue;
    const auto known = std::find_if(journals.begin(), journals.end(),
                                    [&](const JournalFacts &other) { return other.device == mount.device; });
    if (known != journals.end()) {
      append(mount.mount_point, &known->mount_point);
      continue;
    }
    if (journals.size() >= kJournalsMax) break;
    JournalFacts journal;
    journal.device = mount.device;
    journal.mount_point = mount.mount_point.substr(0, kTextBytes);
    journal.file_system = mount.file_system;
    journal.options_asked = mount.super_options.substr(0, kTextBytes);
    journal.name = device_name(root, mount.device);
    if (journal.name.empty()) continue;
    struct statvfs space {};
    if (statvfs((root + mount.mount_point).c_str(), &space) == 0)
      journal.free_bytes = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
    (mount.file_system == "xfs" ? read_xfs : read_ext4)(root, mount, &journal);
    journals.push_back(std::move(journal));
  }
  return journals;
}

}  // namespace flushlight
