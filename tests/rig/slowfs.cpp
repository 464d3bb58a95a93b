// SPDX-License-Identifier: GPL-2.0-or-later
// slowfs MOUNTPOINT BACKING CONTROL [--policy fifo]
//
// A FUSE file system with one file, "disk", that passes through to BACKING and holds operations as the control
// block says. A loop device on that file is a block device whose flushes, writes and reads take as long as one
// likes. BACKING and CONTROL belong on tmpfs, so that this process never waits for a real disk.
//
// Threads: libfuse's workers; each serves one operation and shares only the control block (slow_control.h).
// Runs in the foreground; SIGTERM unmounts.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "held.h"

namespace {

using rig::Kind;

constexpr fuse_ino_t kRoot = FUSE_ROOT_ID;
constexpr fuse_ino_t kDisk = 2;
constexpr const char *kDiskName = "disk";
constexpr double kForever_s = 86400;
constexpr unsigned kRequestBytes = 1 << 20;
constexpr unsigned kWorkers = 64;  // more than the loop device has requests at once (nr_requests is 128, 64 wait)

int backing_fd = -1;
rig::SlowControl *control = nullptr;

struct stat attributes(fuse_ino_t inode) {
  struct stat result {};
  result.st_ino = inode;
  if (inode == kRoot) {
    result.st_mode = S_IFDIR | 0700;
    result.st_nlink = 2;
    return result;
  }
  struct stat backing {};
  fstat(backing_fd, &backing);
  result.st_mode = S_IFREG | 0600;
  result.st_nlink = 1;
  result.st_size = backing.st_size;
  result.st_blksize = 4096;
  result.st_blocks = backing.st_blocks;
  return result;
}

void on_init(void *, fuse_conn_info *connection) {
  connection->want &= ~FUSE_CAP_WRITEBACK_CACHE;  // a write is at the "device" when it is answered
  connection->want |= connection->capable & (FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
  connection->max_read = kRequestBytes;
  connection->max_background = 256;
  connection->congestion_threshold = 256;
  control->ready = 1;
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
  if (parent != kRoot || std::strcmp(name, kDiskName) != 0) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = kDisk;
  entry.attr = attributes(kDisk);
  entry.attr_timeout = entry.entry_timeout = kForever_s;
  fuse_reply_entry(request, &entry);
}

void on_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info *) {
  const struct stat result = attributes(inode);
  fuse_reply_attr(request, &result, kForever_s);
}

void on_setattr(fuse_req_t request, fuse_ino_t inode, struct stat *, int, fuse_file_info *) {
  on_getattr(request, inode, nullptr);
}

void on_open(fuse_req_t request, fuse_ino_t, fuse_file_info *file) {
  file->keep_cache = 1;
  file->noflush = 1;
  fuse_reply_open(request, file);
}

void on_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info *) {
  const rig::Held held(*control, Kind::read, static_cast<uint64_t>(offset), static_cast<uint32_t>(size));
  thread_local std::unique_ptr<char[]> buffer(new char[kRequestBytes]);
  const ssize_t got = pread(backing_fd, buffer.get(), std::min<size_t>(size, kRequestBytes), offset);
  const int error = errno;
  held.log();
  if (got < 0)
    fuse_reply_err(request, error);
  else
    fuse_reply_buf(request, buffer.get(), static_cast<size_t>(got));
}

void on_write(fuse_req_t request, fuse_ino_t, const char *data, size_t size, off_t offset, fuse_file_info *) {
  const rig::Held held(*control, Kind::write, static_cast<uint64_t>(offset), static_cast<uint32_t>(size));
  const ssize_t put = pwrite(backing_fd, data, size, offset);
  const int error = errno;
  held.log();
  if (put < 0)
    fuse_reply_err(request, error);
  else
    fuse_reply_write(request, static_cast<size_t>(put));
}

void on_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info *) {
  const rig::Held held(*control, Kind::flush, 0, 0);
  held.log();
  fuse_reply_err(request, 0);
}

void on_fallocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info *) {
  fuse_reply_err(request, fallocate(backing_fd, mode, offset, length) ? errno : 0);  // discard, write zeroes
}

bool open_files(const char *backing_path, const char *control_path) {
  backing_fd = open(backing_path, O_RDWR | O_CLOEXEC);
  if (backing_fd < 0) {
    std::perror(backing_path);
    return false;
  }
  control = rig::open_control(control_path);
  return control != nullptr;
}

int serve(const char *mountpoint) {
  fuse_lowlevel_ops operations{};
  operations.init = on_init;
  operations.lookup = on_lookup;
  operations.getattr = on_getattr;
  operations.setattr = on_setattr;
  operations.open = on_open;
  operations.read = on_read;
  operations.write = on_write;
  operations.fsync = on_fsync;
  operations.fallocate = on_fallocate;
  char name[] = "slowfs", option[] = "-o", options[] = "fsname=slowfs,max_read=1048576";
  char *arguments[] = {name, option, options};
  fuse_args args = FUSE_ARGS_INIT(3, arguments);
  fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, nullptr);
  if (!session) return 1;
  fuse_set_signal_handlers(session);
  if (fuse_session_mount(session, mountpoint) != 0) return 1;
  fuse_loop_config *config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_clone_fd(config, 0);
  fuse_loop_cfg_set_max_threads(config, kWorkers);
  fuse_loop_cfg_set_idle_threads(config, kWorkers);
  const int status = fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  return status < 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char **argv) {
  const bool fifo = argc == 6 && !std::strcmp(argv[4], "--policy") && !std::strcmp(argv[5], "fifo");
  if (argc != 4 && !fifo) {
    std::fprintf(stderr, "usage: slowfs MOUNTPOINT BACKING CONTROL [--policy fifo]\n");
    return 2;
  }
  if (!open_files(argv[2], argv[3])) return 1;
  rig::prepare_process(fifo);
  return serve(argv[1]);
}
