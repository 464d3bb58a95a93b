// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "sidecar/probe/buffer.h"

namespace flushlight::probe {
namespace {

constexpr size_t kFillBytes = 1u << 20;
constexpr uint64_t kSyncEveryBytes = 16ull << 20;  // while filling: the databases beside shall not meet one big flush

struct Kind {
  mode_t mode;
  const char *text;
};
constexpr Kind kKinds[] = {
    {S_IFBLK, "is a block device, and writing to it would destroy what is on it"},
    {S_IFCHR, "is a character device"},
    {S_IFREG, "is a file"},
    {S_IFIFO, "is a pipe"},
    {S_IFSOCK, "is a socket"},
};

// File systems with no device below: whatever is measured there says nothing about one.
struct Magic {
  int64_t magic;
  const char *name;
};
constexpr Magic kNoDevice[] = {
    {TMPFS_MAGIC, "tmpfs"},         {RAMFS_MAGIC, "ramfs"},         {HUGETLBFS_MAGIC, "hugetlbfs"},
    {PROC_SUPER_MAGIC, "proc"},     {SYSFS_MAGIC, "sysfs"},         {DEBUGFS_MAGIC, "debugfs"},
    {TRACEFS_MAGIC, "tracefs"},     {CGROUP_SUPER_MAGIC, "cgroup"}, {CGROUP2_SUPER_MAGIC, "cgroup2"},
    {DEVPTS_SUPER_MAGIC, "devpts"}, {BPF_FS_MAGIC, "bpf"},          {SECURITYFS_MAGIC, "securityfs"},
    {SQUASHFS_MAGIC, "squashfs"},   {ISOFS_SUPER_MAGIC, "iso9660"},
};

Error open_error(int code, const std::string &directory) {
  if (code == EACCES || code == EPERM)
    return Error{code,
                 fmt::format("{} cannot be written by user {}: run the probe as the owner of the database's files "
                             "(for example with sudo -u postgres), or give a directory that it may write to",
                             directory, geteuid())};
  if (code == EROFS)
    return Error{code, fmt::format("{} is on a file system that is mounted read-only: give another "
                                   "directory, or mount it read-write",
                                   directory)};
  return write_error(code, directory);
}

}  // namespace

Error write_error(int code, const std::string &directory) {
  if (code == ENOSPC || code == EDQUOT)
    return Error{code,
                 fmt::format("{}: {} while the probe wrote its file: free space there, or ask for less with "
                             "--size-mb",
                             directory, code == EDQUOT ? "the user's quota is used up" : "the file system is full")};
  if (code == EIO)
    return Error{code, fmt::format("{}: the device failed an operation (I/O error): look at the kernel's log before "
                                   "anything else",
                                   directory)};
  if (code == EFBIG)
    return Error{code, fmt::format("{}: a file of that size is not allowed (ulimit -f): ask for less with --size-mb",
                                   directory)};
  return system_error(code, directory);
}

Result<> check_kind(const std::string &path, mode_t mode) {
  if (S_ISDIR(mode)) return Ok{};
  const char *text = "is not a directory";
  for (const Kind &kind : kKinds)
    if ((mode & S_IFMT) == kind.mode) text = kind.text;
  return Error{ENOTDIR, fmt::format("{} {}: give a directory on the file system to be measured", path, text)};
}

Result<> check_file_system(const std::string &path, int64_t magic) {
  for (const Magic &known : kNoDevice)
    if (known.magic == magic)
      return Error{ENODEV, fmt::format("{} is on {}, which has no device that keeps anything: give the database's own "
                                       "directory",
                                       path, known.name)};
  return Ok{};
}

uint64_t reserve_bytes(const Space &space, double reserve_share) {
  return static_cast<uint64_t>(static_cast<double>(space.total_bytes) * reserve_share);
}

Result<> check_space(const std::string &path, const Space &space, uint64_t needed, double reserve_share) {
  if (!space.inodes_left)
    return Error{ENOSPC, fmt::format("the file system of {} has no inode left for one more file: delete files, or give "
                                     "another directory",
                                     path)};
  const uint64_t reserve = reserve_bytes(space, reserve_share);
  if (space.free_bytes >= needed && space.free_bytes - needed >= reserve) return Ok{};
  return Error{ENOSPC,
               fmt::format("the file system of {} has {} MB free; the probe needs {} MB and leaves {} MB ({:.0f} %) "
                           "untouched: free space, or ask for less with --size-mb",
                           path, space.free_bytes >> 20, needed >> 20, reserve >> 20, 100 * reserve_share)};
}

uint64_t needed_bytes(const TargetOptions &options) {
  return options.data_bytes + 2 * options.log_bytes;  // a log that is overwritten, one that grows
}

Result<Space> read_space(const std::string &path) {
  struct statvfs found {};
  if (statvfs(path.c_str(), &found) != 0) return system_error(errno, path);
  Space space;
  space.total_bytes = static_cast<uint64_t>(found.f_blocks) * found.f_frsize;
  space.free_bytes = static_cast<uint64_t>(found.f_bavail) * found.f_frsize;
  space.inodes_left = found.f_files == 0 || found.f_favail > 0;
  return space;
}

Result<Place> inspect(const TargetOptions &options) {
  const std::string &path = options.directory;
  if (path.empty()) return Error{EINVAL, "an empty path: give a directory on the file system to be measured"};
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return Error{ENOENT, fmt::format("{} does not exist: give a directory that does", path)};
    return open_error(errno, path);
  }
  if (auto kind = check_kind(path, status.st_mode); !kind) return kind.error();
  struct statfs file_system {};
  if (statfs(path.c_str(), &file_system) != 0) return system_error(errno, path);
  if (auto known = check_file_system(path, file_system.f_type); !known) return known.error();
  if (access(path.c_str(), W_OK | X_OK) != 0) return open_error(errno, path);
  const auto space = read_space(path);
  if (!space) return space.error();
  if (auto room = check_space(path, *space, needed_bytes(options), options.reserve_share); !room) return room.error();
  return describe_place(path);
}

Result<Scratch> Scratch::create(const std::string &directory) {
  int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  // File systems without O_TMPFILE (NFS, some FUSE, old overlayfs): the name lives for the next line only.
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = directory + "/.flushlight-probe-XXXXXX";
    fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0 && unlink(name.c_str()) != 0) {
      close(fd);
      return system_error(errno, name);
    }
  }
  if (fd < 0) return open_error(errno, directory);
  return Scratch(UniqueFd(fd));
}

Result<UniqueFd> Scratch::open_again(int flags) const {
  // The file has no name of its own, but procfs has one for it.
  const std::string path = fmt::format("/proc/self/fd/{}", fd_.get());
  UniqueFd again(open(path.c_str(), flags | O_CLOEXEC));
  if (again) return again;
  if (errno == ENOENT) return Error{ENOENT, "/proc is not mounted: the probe opens its file through it"};
  return system_error(errno, flags & O_DIRECT ? "O_DIRECT (the file system may not support it)" : "open");
}

Result<> Scratch::fill(uint64_t bytes, Governor *governor) {
  Buffer buffer(kFillBytes);
  for (uint64_t at = 0; at < bytes;) {
    if (!governor->may_prepare()) {
      governor->check_time();
      return Error{ETIME, "stopped while the probe wrote its file: " + governor->detail()};
    }
    buffer.make_unique();
    const size_t want = std::min<uint64_t>(kFillBytes, bytes - at);
    const ssize_t done = pwrite(fd_.get(), buffer.data(), want, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return system_error(done < 0 ? errno : EIO, "write");
    at += static_cast<uint64_t>(done);
    governor->wrote(static_cast<uint64_t>(done));
    if ((at % kSyncEveryBytes == 0 || at >= bytes) && fdatasync(fd_.get()) != 0)
      return system_error(errno, "fdatasync");
  }
  posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
  return Ok{};
}

}  // namespace flushlight::probe
