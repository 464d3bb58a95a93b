// SPDX-License-Identifier: GPL-2.0-or-later
// rig-uring: io_uring in trouble, by its own count. Works, prints one line of JSON with what it did, and keeps the ring open
// until its standard input ends.
//
//   overflow  a completion queue of 2 that gets more than it can hold
//   failed    submissions that the kernel refuses, among others
//   punts     requests that the kernel must give to a worker: fsync, and what asks for one
//   latency   timeouts of a known length
//   starved   SQPOLL: a neighbour at SCHED_FIFO spins on the thread's CPU, again and again; --count 0: until a line comes
//
// Every number is counted here: from completions, or from this program's own clock, never from what the kernel says of rings.
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace {

using nlohmann::json;

struct Options {
  std::string mode;
  std::string folder = "/tmp";
  unsigned count = 1000;
  unsigned ms = 200;
  unsigned cpu = 1;
};

[[noreturn]] void fail(const std::string &what, int code) {
  std::fprintf(stderr, "rig-uring: %s: %s\n", what.c_str(), std::strerror(code));
  std::_Exit(1);
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Neither thread nor lock: one ring, used by the main thread.
class Ring {
 public:
  explicit Ring(unsigned entries, io_uring_params params = {}) {
    if (const int code = io_uring_queue_init_params(entries, &ring_, &params); code < 0) fail("io_uring_setup", -code);
  }
  ~Ring() { io_uring_queue_exit(&ring_); }
  Ring(const Ring &) = delete;
  Ring &operator=(const Ring &) = delete;

  io_uring_sqe *next() {
    io_uring_sqe *entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) fail("no free entry", EAGAIN);
    return entry;
  }
  // All of them: the kernel stops behind one that it refuses.
  void submit(unsigned entries) {
    for (unsigned done = 0; done < entries;) {
      const int code = io_uring_submit(&ring_);
      if (code < 0) fail("io_uring_enter", -code);
      done += static_cast<unsigned>(code);
    }
    submitted_ += entries;
  }
  unsigned in_queue() { return io_uring_cq_ready(&ring_); }
  int take() {
    io_uring_cqe *completion = nullptr;
    if (const int code = io_uring_wait_cqe(&ring_, &completion); code < 0) fail("io_uring_enter", -code);
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    taken_++;
    return result;
  }
  json counts() const { return {{"submissions", submitted_}, {"completions", taken_}}; }

 private:
  io_uring ring_{};
  unsigned long submitted_ = 0, taken_ = 0;
};

json overflow(const Options &options, Ring *ring) {
  constexpr unsigned kBatch = 8;
  unsigned long beyond = 0;
  for (unsigned done = 0; done < options.count; done += kBatch) {
    for (unsigned i = 0; i < kBatch; i++) {  // one by one: as many entries as completions at most
      io_uring_prep_nop(ring->next());
      ring->submit(1);
    }
    beyond += kBatch - ring->in_queue();
    for (unsigned i = 0; i < kBatch; i++) ring->take();
  }
  return {{"cq_overflows", beyond}};
}

json failed(const Options &options, Ring *ring) {
  unsigned long refused = 0;
  for (unsigned done = 0; done < options.count; done++) {
    for (unsigned i = 0; i < 3; i++) io_uring_prep_nop(ring->next());
    io_uring_sqe *entry = ring->next();
    io_uring_prep_nop(entry);
    entry->opcode = 255;
    ring->submit(4);
    for (unsigned i = 0; i < 4; i++) refused += ring->take() == -EINVAL;
  }
  return {{"failed_submissions", refused}};
}

json punts(const Options &options, Ring *ring) {
  std::string path = options.folder + "/uring.XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) fail(path, errno);
  unlink(path.c_str());
  unsigned long given = 0;
  for (unsigned done = 0; done < options.count; done++) {
    io_uring_prep_fsync(ring->next(), fd, 0);  // never inline
    io_uring_sqe *asked = ring->next();
    io_uring_prep_nop(asked);
    io_uring_sqe_set_flags(asked, IOSQE_ASYNC);
    io_uring_prep_nop(ring->next());  // inline
    ring->submit(3);
    for (unsigned i = 0; i < 3; i++)
      if (const int result = ring->take(); result < 0) fail("fsync", -result);
    given += 2;
  }
  close(fd);
  return {{"worker_punts", given}};
}

json latency(const Options &options, Ring *ring) {
  double total_ms = 0;
  for (unsigned i = 0; i < options.count; i++) {
    __kernel_timespec time{options.ms / 1000, static_cast<long long>(options.ms % 1000) * 1000000};
    io_uring_prep_timeout(ring->next(), &time, 0, 0);
    const double begin = now_ms();
    ring->submit(1);
    ring->take();
    total_ms += now_ms() - begin;
  }
  return {{"mean_ms", total_ms / options.count}};
}

void bind_to(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity", errno);
}

void be_prompt() {
  const sched_param priority{10};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) fail("SCHED_FIFO", errno);
}

// Spins for a time when told to. Owner: its own thread; `begin` and `spinning` are atomic.
class Hog {
 public:
  Hog(unsigned cpu, double ms) : thread_([this, cpu, ms] { run(cpu, ms); }) {
    while (!ready_) std::this_thread::yield();
  }
  ~Hog() {
    go(-1);
    thread_.join();
  }
  Hog(const Hog &) = delete;
  Hog &operator=(const Hog &) = delete;
  void go(int command = 1) {
    command_ = command;
    command_.notify_one();
  }
  [[nodiscard]] bool spins() const { return spins_; }
  // When the last round was over, by its own clock.
  [[nodiscard]] double ended_ms() const { return ended_ms_; }

 private:
  void run(unsigned cpu, double ms) {
    bind_to(cpu);
    be_prompt();
    ready_ = true;
    for (;;) {
      command_.wait(0);
      if (command_.exchange(0) < 0) return;
      spins_ = true;
      for (const double until = now_ms() + ms; now_ms() < until;) {
      }
      ended_ms_ = now_ms();
      spins_ = false;
    }
  }
  std::atomic<int> command_ = 0;
  std::atomic<bool> ready_ = false, spins_ = false;
  std::atomic<double> ended_ms_ = 0;
  std::thread thread_;
};

bool told_to_end() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}

// The polling thread sleeps between the rounds, so that it wants the CPU only while the hog has it. It is starved from the
// submission that wakes it up to the hog's end; what this program then waits for a CPU itself is not its starvation.
json starved(const Options &options, Ring *ring) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  bind_to(options.cpu == 0 ? 1 : 0);
  be_prompt();
  Hog hog(options.cpu, options.ms);
  double waited_ms = 0, longest_ms = 0;
  for (unsigned i = 0; options.count == 0 ? !told_to_end() : i < options.count; i++) {
    std::this_thread::sleep_for(kPause);
    hog.go();
    while (!hog.spins()) std::this_thread::yield();
    io_uring_prep_nop(ring->next());
    const double begin = now_ms();
    ring->submit(1);
    ring->take();
    while (hog.spins()) std::this_thread::yield();
    const double took_ms = std::max(hog.ended_ms() - begin, 0.0);
    waited_ms += took_ms;
    longest_ms = std::max(longest_ms, took_ms);
  }
  return {{"sqpoll_starved_ms", waited_ms}, {"longest_ms", longest_ms}};
}

struct Mode {
  std::function<json(const Options &, Ring *)> run;
  unsigned entries = 8;
  unsigned completions = 0;  // 0: as the kernel likes
  bool polled = false;
};
const std::map<std::string, Mode> kModes = {{"overflow", {overflow, 8, 2}},
                                            {"failed", {failed}},
                                            {"punts", {punts}},
                                            {"latency", {latency}},
                                            {"starved", {starved, 8, 0, true}}};

}  // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("io_uring in trouble");
  app.add_option("mode", options.mode)->required()->check(CLI::IsMember(&kModes));
  app.add_option("--folder", options.folder, "for files (punts)");
  app.add_option("--count", options.count, "rounds, or completions (overflow)");
  app.add_option("--ms", options.ms, "length of a timeout (latency) or of a round (starved)");
  app.add_option("--cpu", options.cpu, "of the polling thread (starved)");
  CLI11_PARSE(app, argc, argv);
  const Mode &mode = kModes.at(options.mode);
  io_uring_params params{};
  if (mode.completions != 0) {
    params.flags |= IORING_SETUP_CQSIZE;
    params.cq_entries = mode.completions;
  }
  if (mode.polled) {
    params.flags |= IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
    params.sq_thread_cpu = options.cpu;
    params.sq_thread_idle = 1;
  }
  Ring ring(mode.completions != 0 ? mode.completions : mode.entries, params);
  json result = mode.run(options, &ring);
  result.update(ring.counts());
  result["pid"] = getpid();
  std::printf("%s\n", result.dump().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
