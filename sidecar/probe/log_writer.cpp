// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/log_writer.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>

#include "sidecar/probe/buffer.h"
#include "sidecar/probe/io_uring_access.h"

namespace flushlight::probe {
namespace {

struct Step {
  int fd = -1;
  Buffer *buffer = nullptr;
  off_t offset = 0;
  Ring *ring = nullptr;
  const Clock *clock = nullptr;
  uint64_t written_ns = 0;  // when the write had returned; 0: write and sync are one call
};

// All return an errno or 0.
int check_length(ssize_t done, size_t wanted) {
  if (done < 0) return errno;
  return static_cast<size_t>(done) == wanted ? 0 : ENOSPC;
}

int write_alone(Step *step) {
  return check_length(pwrite(step->fd, step->buffer->data(), step->buffer->bytes(), step->offset),
                      step->buffer->bytes());
}

template <int (*sync)(int)>
int write_and_sync(Step *step) {
  if (const int error = write_alone(step)) return error;
  step->written_ns = step->clock->now_ns();
  return sync(step->fd) == 0 ? 0 : errno;
}

int write_rwf_dsync(Step *step) {
  const iovec part{step->buffer->data(), step->buffer->bytes()};
  return check_length(pwritev2(step->fd, &part, 1, step->offset, RWF_DSYNC), step->buffer->bytes());
}

int write_linked(Step *step) {
  io_uring_sqe *write = io_uring_get_sqe(step->ring->get());
  io_uring_sqe *sync = write != nullptr ? io_uring_get_sqe(step->ring->get()) : nullptr;
  if (sync == nullptr) return EBUSY;
  const auto bytes = static_cast<unsigned>(step->buffer->bytes());
  io_uring_prep_write(write, step->fd, step->buffer->data(), bytes, static_cast<uint64_t>(step->offset));
  write->flags |= IOSQE_IO_LINK;
  write->user_data = bytes;  // the result that means success
  io_uring_prep_fsync(sync, step->fd, IORING_FSYNC_DATASYNC);
  sync->user_data = 0;
  if (const int error = step->ring->submit()) return error;
  int first_error = 0;
  for (int left = 2; left > 0; left--) {
    int error = 0;
    io_uring_cqe *done = step->ring->wait(&error);
    if (done == nullptr) return error;
    if (done->res < 0)
      error = -done->res;
    else if (static_cast<uint64_t>(done->res) != done->user_data)
      error = ENOSPC;
    if (first_error == 0 || first_error == ECANCELED) first_error = error != 0 ? error : first_error;
    io_uring_cqe_seen(step->ring->get(), done);
  }
  return first_error;
}

struct Way {
  LogMethod method;
  int open_flags;
  int (*step)(Step *);
};
constexpr Way kWays[] = {
    {LogMethod::kFdatasync, 0, write_and_sync<fdatasync>},
    {LogMethod::kFsync, 0, write_and_sync<fsync>},
    {LogMethod::kOpenDatasync, O_DSYNC, write_alone},
    {LogMethod::kOpenSync, O_SYNC, write_alone},
    {LogMethod::kRwfDsync, 0, write_rwf_dsync},
    {LogMethod::kUringLinked, 0, write_linked},
};

const Way &way_of(LogMethod method) {
  for (const Way &way : kWays)
    if (way.method == method) return way;
  return kWays[0];
}

State state_of(int error) { return error == EOPNOTSUPP || error == EINVAL ? State::kUnavailable : State::kFailed; }

void give_up(Outcome *outcome, State state, std::string reason) {
  outcome->state = state;
  outcome->reason = std::move(reason);
}

// Where the next write goes. A log that grows begins anew, outside the timed part, when it is as long as allowed.
int advance(const Pattern &pattern, uint64_t log_bytes, Step *step) {
  step->offset += pattern.block_bytes;
  if (static_cast<uint64_t>(step->offset) + pattern.block_bytes <= log_bytes) return 0;
  step->offset = 0;
  if (pattern.group != Group::kLogGrows) return 0;
  return ftruncate(step->fd, 0) == 0 && fsync(step->fd) == 0 ? 0 : errno;
}

}  // namespace

void run_log(const Scratch &log, uint64_t log_bytes, Governor *governor, Outcome *outcome) {
  const Pattern &pattern = outcome->pattern;
  const Way &way = way_of(pattern.log);
  auto file = log.open_again(O_RDWR | way.open_flags);
  if (!file) return give_up(outcome, State::kFailed, file.error().text);
  std::unique_ptr<Ring> ring;
  if (row_of(pattern.log).uring) {
    auto made = Ring::create(4, false);
    if (!made) return give_up(outcome, State::kUnavailable, made.error().text);
    ring = std::move(*made);
  }
  Buffer buffer(pattern.block_bytes);
  Step step{file->get(), &buffer, 0, ring.get(), &governor->clock()};
  bool warm = false;  // the first operation also finds the file's blocks and makes the ring's workers
  while (governor->pace()) {
    buffer.make_unique();
    step.written_ns = 0;
    const uint64_t begin = governor->clock().now_ns();
    const int error = way.step(&step);
    const uint64_t end = governor->clock().now_ns();
    if (error != 0)
      return give_up(outcome, state_of(error), system_error(error, std::string(method_name(pattern))).text);
    governor->wrote(pattern.block_bytes);
    if (warm) {
      outcome->total.add(end - begin);
      if (step.written_ns != 0) {
        outcome->write.add(step.written_ns - begin);
        outcome->sync.add(end - step.written_ns);
      }
      outcome->ended_ns = end;
    } else {
      outcome->began_ns = end;
      warm = true;
    }
    if (const int failed = advance(pattern, log_bytes, &step))
      return give_up(outcome, State::kFailed, system_error(failed, "beginning the log anew").text);
  }
  if (outcome->total.count() > 0)
    outcome->state = State::kMeasured;
  else
    give_up(outcome, State::kNotRun, warm ? "its share of the time was over after one operation" : "no time was left");
}

}  // namespace flushlight::probe
