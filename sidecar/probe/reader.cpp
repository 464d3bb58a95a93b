// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "sidecar/probe/buffer.h"
#include "sidecar/probe/io_uring_access.h"

namespace flushlight::probe {
namespace {

struct Job {
  int fd = -1;
  uint64_t blocks = 0;
  unsigned workers = 0;
  Governor *governor = nullptr;
  Outcome *outcome = nullptr;
  Random random{0x5eed};

  off_t next_offset() { return static_cast<off_t>(random.below(blocks) * outcome->pattern.block_bytes); }
  [[nodiscard]] uint64_t now_ns() const { return governor->clock().now_ns(); }
  [[nodiscard]] uint32_t bytes() const { return outcome->pattern.block_bytes; }
};

// An errno; EIO where the file gave fewer bytes than it has.
int read_error(ssize_t result, size_t wanted) {
  if (result < 0) return static_cast<int>(-result);
  return static_cast<size_t>(result) == wanted ? 0 : EIO;
}

void fail(Outcome *outcome, int error) {
  outcome->state = error == EOPNOTSUPP || error == EINVAL ? State::kUnavailable : State::kFailed;
  outcome->reason = system_error(error, std::string(method_name(outcome->pattern))).text;
}

int read_one(int fd, Buffer *buffer, off_t offset) {
  const ssize_t result = pread(fd, buffer->data(), buffer->bytes(), offset);
  return read_error(result < 0 ? -errno : result, buffer->bytes());
}

void run_sync(Job *job) {
  Buffer buffer(job->bytes());
  while (job->governor->pace()) {
    const uint64_t begin = job->now_ns();
    if (const int error = read_one(job->fd, &buffer, job->next_offset())) return fail(job->outcome, error);
    job->outcome->total.add(job->now_ns() - begin);
  }
}

// One submitter, some workers, a queue between them, as io_method=worker: a read's time begins when it is queued.
class WorkerPool {
 public:
  explicit WorkerPool(Job *job) : job_(job) {
    for (unsigned i = 0; i < job->workers; i++) threads_.emplace_back([this] { work(); });
  }
  ~WorkerPool() {
    {
      const std::lock_guard guard(lock_);
      ended_ = true;
    }
    queued_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }
  void put(off_t offset) {
    {
      const std::lock_guard guard(lock_);
      queue_.push_back({offset, job_->now_ns()});
    }
    queued_.notify_one();
  }
  // Waits until a read is done; its errno.
  int take() {
    std::unique_lock guard(lock_);
    done_.wait(guard, [this] { return !results_.empty(); });
    const Done done = results_.front();
    results_.pop_front();
    if (done.error == 0) job_->outcome->total.add(done.took_ns);
    return done.error;
  }

 private:
  struct Queued {
    off_t offset;
    uint64_t begin_ns;
  };
  struct Done {
    uint64_t took_ns;
    int error;
  };
  void work() {
    Buffer buffer(job_->bytes());
    std::unique_lock guard(lock_);
    for (;;) {
      queued_.wait(guard, [this] { return ended_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Queued next = queue_.front();
      queue_.pop_front();
      guard.unlock();
      const int error = read_one(job_->fd, &buffer, next.offset);
      const uint64_t took = job_->now_ns() - next.begin_ns;
      guard.lock();
      results_.push_back({took, error});
      done_.notify_one();
    }
  }

  Job *job_;
  std::mutex lock_;  // all below but threads_
  std::condition_variable queued_, done_;
  std::deque<Queued> queue_;
  std::deque<Done> results_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

void run_worker(Job *job) {
  WorkerPool pool(job);
  uint32_t in_flight = 0;
  int first_error = 0;
  while (first_error == 0 && job->governor->may_go_on()) {
    while (in_flight < job->outcome->pattern.depth && job->governor->pace()) {
      pool.put(job->next_offset());
      in_flight++;
    }
    if (in_flight == 0) break;
    first_error = pool.take();
    in_flight--;
  }
  for (; in_flight > 0; in_flight--)
    if (const int error = pool.take(); first_error == 0) first_error = error;
  if (first_error != 0) fail(job->outcome, first_error);
}

// A ring with its buffers. Reads in flight write into the buffers: it waits for them before they go.
class RingReads {
 public:
  RingReads(Job *job, std::unique_ptr<Ring> ring) : job_(job), ring_(std::move(ring)) {
    for (uint32_t i = 0; i < job->outcome->pattern.depth; i++) {
      slots_.push_back({Buffer(job->bytes()), 0});
      free_.push_back(i);
    }
  }
  // Prepares and submits as many as there is room for; an errno.
  int fill() {
    bool prepared = false;
    while (!free_.empty() && job_->governor->pace()) {
      io_uring_sqe *sqe = io_uring_get_sqe(ring_->get());
      if (sqe == nullptr) break;  // the kernel's thread (SQPOLL) has not taken them yet
      const uint32_t number = free_.back();
      free_.pop_back();
      Slot &slot = slots_[number];
      io_uring_prep_read(sqe, job_->fd, slot.buffer.data(), job_->bytes(), static_cast<uint64_t>(job_->next_offset()));
      sqe->user_data = number;
      slot.begin_ns = job_->now_ns();
      prepared = true;
    }
    return prepared ? ring_->submit() : 0;
  }
  [[nodiscard]] bool idle() const { return free_.size() == slots_.size(); }
  [[nodiscard]] bool broken() const { return broken_; }  // the ring itself failed: nothing more comes
  // Waits for one and takes all that are there; an errno.
  int reap() {
    int error = 0;
    io_uring_cqe *cqe = ring_->wait(&error);
    if (cqe == nullptr) {
      broken_ = true;
      return error;
    }
    do {
      const uint64_t now = job_->now_ns();
      const auto number = static_cast<uint32_t>(cqe->user_data);
      const int failed = read_error(cqe->res, job_->bytes());
      io_uring_cqe_seen(ring_->get(), cqe);
      free_.push_back(number);
      if (failed == 0)
        job_->outcome->total.add(now - slots_[number].begin_ns);
      else if (error == 0)
        error = failed;
    } while (io_uring_peek_cqe(ring_->get(), &cqe) == 0 && cqe != nullptr);
    return error;
  }

 private:
  struct Slot {
    Buffer buffer;
    uint64_t begin_ns;
  };
  Job *job_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  bool broken_ = false;
  std::unique_ptr<Ring> ring_;  // last: gone before the buffers are
};

void run_ring(Job *job) {
  auto made = Ring::create(job->outcome->pattern.depth, job->outcome->pattern.read == ReadMethod::kUringSqpoll);
  if (!made) {
    job->outcome->state = State::kUnavailable;
    job->outcome->reason = made.error().text;
    return;
  }
  RingReads reads(job, std::move(*made));
  int first_error = 0;
  while (first_error == 0 && job->governor->may_go_on()) {
    first_error = reads.fill();
    if (reads.idle()) break;
    if (const int error = reads.reap(); first_error == 0) first_error = error;
  }
  while (!reads.idle() && !reads.broken()) {
    const int error = reads.reap();
    if (first_error == 0) first_error = error;
  }
  if (first_error != 0) fail(job->outcome, first_error);
}

struct Way {
  ReadMethod method;
  void (*run)(Job *);
};
constexpr Way kWays[] = {{ReadMethod::kSync, run_sync},
                         {ReadMethod::kWorker, run_worker},
                         {ReadMethod::kUring, run_ring},
                         {ReadMethod::kUringSqpoll, run_ring}};

}  // namespace

void run_reads(const Scratch &data, uint64_t data_bytes, unsigned workers, Governor *governor, Outcome *outcome) {
  auto file = data.open_again(O_RDONLY | O_DIRECT);
  if (!file) {
    outcome->state = file.error().code == EINVAL ? State::kUnavailable : State::kFailed;
    outcome->reason = file.error().text;
    return;
  }
  Job job;
  job.fd = file->get();
  job.blocks = data_bytes / outcome->pattern.block_bytes;
  job.workers = workers;
  job.governor = governor;
  job.outcome = outcome;
  outcome->began_ns = governor->clock().now_ns();
  for (const Way &way : kWays)
    if (way.method == outcome->pattern.read) way.run(&job);
  outcome->ended_ns = governor->clock().now_ns();
  if (!outcome->reason.empty()) return;
  outcome->state = outcome->total.count() > 0 ? State::kMeasured : State::kNotRun;
  if (outcome->state == State::kNotRun) outcome->reason = "no time was left";
}

}  // namespace flushlight::probe
