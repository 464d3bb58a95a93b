// SPDX-License-Identifier: GPL-2.0-or-later
// flushlightd: configuration, signals, service manager; the work is in serve/daemon.h.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>

#include "sidecar/base/config.h"
#include "sidecar/base/systemd.h"
#include "sidecar/base/version.h"
#include "sidecar/serve/daemon.h"

namespace flushlight {
namespace {

constexpr int kExitFailure = 1;
constexpr int kStepMs = 100;

// A database connection each: as many descriptors as we may have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// What is mapped now is brought in and kept; what comes later is kept once touched (a thread's whole stack
// need not be). Empty: it worked.
std::string lock_memory() {
  if (mlockall(MCL_CURRENT) != 0 || mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
    const int error = errno;
    (void)munlockall();  // else later allocations fail at the limit
    return fmt::format("{} (raise LimitMEMLOCK)", std::strerror(error));
  }
  return "";
}

// When CPUs are short, records must still be read before their rings are full. The daemon sleeps nearly all the
// time, and the brake bounds it.
void raise_priority() {
  constexpr int kNice = -10;
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && now > kNice) (void)setpriority(PRIO_PROCESS, 0, kNice);
}

UniqueFd make_signal_fd() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// True: stop.
bool handle_signals(int fd, const CommandLine &command_line, Daemon *daemon) {
  signalfd_siginfo info{};
  while (read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGHUP) {
      spdlog::info("stopping on signal {}", info.ssi_signo);
      return true;
    }
    notify_service_manager("RELOADING=1");
    if (const auto config = load_config(command_line)) {
      daemon->reload(*config);
      spdlog::info("configuration read again");
    } else {
      spdlog::error("configuration not taken over: {}", config.error().text);
    }
    notify_service_manager("READY=1");
  }
  return false;
}

int serve(const CommandLine &command_line, const Config &config) {
  const UniqueFd signals = make_signal_fd();  // before any thread is made
  start_logging(config.log_level, config.log_format);
  raise_descriptor_limit();
  raise_priority();
  std::unique_ptr<KernelPort> kernel;
  std::string tracing_error;
  if (config.tracing) {
    auto loaded = load_kernel_side(
        {.ledger_slots = config.ledger_slots, .pool_slots = config.pool_slots, .btf_path = config.btf_path});
    if (loaded)
      kernel = std::move(*loaded);
    else
      tracing_error = loaded.error().text;
    if (!tracing_error.empty()) spdlog::warn("no kernel side, commits have no causes: {}", tracing_error);
  }
  const SystemClock clock;
  DiskStatsFile disk_stats;
  Daemon daemon(config, clock, std::move(kernel), std::move(tracing_error), [&] { return disk_stats.read(); });
  if (!command_line.record_path.empty()) daemon.record(command_line.record_path);
  auto started = daemon.start();
  if (started) started = daemon.watch(signals.get());
  if (!started) {
    spdlog::error("{}", started.error().text);
    return kExitFailure;
  }
  daemon.facts().start();
  daemon.engines().start(config);
  daemon.advisor().open_history();
  daemon.state().memory_lock_error = lock_memory();
  if (!daemon.state().memory_lock_error.empty())
    spdlog::warn("memory is not locked: {}", daemon.state().memory_lock_error);
  spdlog::info("flushlightd {} serves {}", kVersion, config.socket_path);
  notify_service_manager("READY=1");

  const uint64_t watchdog_ns = watchdog_interval_ns();
  uint64_t next_watchdog_ns = 0;
  for (;;) {
    if (daemon.step(kStepMs) && handle_signals(signals.get(), command_line, &daemon)) break;
    if (watchdog_ns == 0 || clock.now_ns() < next_watchdog_ns) continue;
    notify_service_manager("WATCHDOG=1");
    next_watchdog_ns = clock.now_ns() + watchdog_ns;
  }
  notify_service_manager("STOPPING=1");
  return 0;
}

int run(int argc, char **argv) {
  const CommandLine command_line = parse_command_line(argc, argv);
  const auto config = load_config(command_line);
  if (!config) {
    std::fprintf(stderr, "flushlightd: %s\n", config.error().text.c_str());
    return kExitConfig;
  }
  if (command_line.check_only) {
    std::printf("the configuration is good\n");
    return 0;
  }
  const int code = serve(command_line, *config);
  stop_logging();
  return code;
}

}  // namespace
}  // namespace flushlight

int main(int argc, char **argv) {
  try {
    return flushlight::run(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "flushlightd: %s\n", error.what());
    return 1;
  }
}
