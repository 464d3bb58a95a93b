// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/tuning.h"

#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "sidecar/base/unique_fd.h"
#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigBytesMax = 4u << 20;
constexpr size_t kServersMax = 256;

// Each of these was seen, or is documented, to cost on the way of every write or sync.
constexpr std::string_view kCostly[] = {
    "CONFIG_EXT4_DEBUG",    "CONFIG_JBD2_DEBUG",       "CONFIG_XFS_DEBUG",      "CONFIG_PROVE_LOCKING",
    "CONFIG_LOCK_STAT",     "CONFIG_DEBUG_LOCK_ALLOC", "CONFIG_KASAN",          "CONFIG_KCSAN",
    "CONFIG_KMEMLEAK",      "CONFIG_DEBUG_PAGEALLOC",  "CONFIG_SLUB_DEBUG_ON",  "CONFIG_DEBUG_ATOMIC_SLEEP",
    "CONFIG_DEBUG_OBJECTS", "CONFIG_DEBUG_MUTEXES",    "CONFIG_DEBUG_SPINLOCK", "CONFIG_FAIL_MAKE_REQUEST",
    "CONFIG_DEBUG_KOBJECT"};

std::string read_gzip(const std::string &path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rbe");
  if (file == nullptr) return text;
  char buffer[16384];
  for (int got = 0; text.size() < kConfigBytesMax && (got = gzread(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  gzclose(file);
  return text;
}

void read_kernel(const std::string &root, HostTuning *tuning) {
  tuning->kernel_release = read_first_line(root + "/proc/sys/kernel/osrelease");
  const size_t dot = tuning->kernel_release.find('.');
  if (dot == std::string::npos) return;
  const auto major = to_number(tuning->kernel_release), minor = to_number(tuning->kernel_release.substr(dot + 1));
  if (major && minor) tuning->kernel = static_cast<int>(*major * 1000 + *minor);
  std::string config = read_gzip(root + "/proc/config.gz");
  if (config.empty()) config = read_text_file(root + "/boot/config-" + tuning->kernel_release, kConfigBytesMax);
  tuning->kernel_options_known = !config.empty();
  tuning->costly_options = costly_kernel_options(config);
}

void read_memory(const std::string &root, HostTuning *tuning) {
  const std::string text = read_text_file(root + "/proc/meminfo", 65536);
  for (const std::string_view line : split_lines(text)) {
    const auto words = split_words(line);
    if (words.size() < 2) continue;
    const auto kb = to_number(words[1]);
    if (words[0] == "MemTotal:" && kb) tuning->memory_bytes = *kb * 1024;
    if (words[0] == "SwapTotal:" && kb) tuning->swap_bytes = *kb * 1024;
  }
  static constexpr std::pair<const char *, std::optional<int64_t> HostTuning::*> kNumbers[] = {
      {"vm/dirty_ratio", &HostTuning::dirty_ratio},
      {"vm/dirty_background_ratio", &HostTuning::dirty_background_ratio},
      {"vm/dirty_bytes", &HostTuning::dirty_bytes},
      {"vm/dirty_background_bytes", &HostTuning::dirty_background_bytes},
      {"vm/dirty_expire_centisecs", &HostTuning::dirty_expire_cs},
      {"vm/dirty_writeback_centisecs", &HostTuning::dirty_writeback_cs},
      {"vm/swappiness", &HostTuning::swappiness},
      {"vm/overcommit_memory", &HostTuning::overcommit_memory},
      {"kernel/io_uring_disabled", &HostTuning::io_uring_disabled}};
  for (const auto &[file, member] : kNumbers) tuning->*member = read_number(root + "/proc/sys/" + file);
}

void read_processors(const std::string &root, HostTuning *tuning) {
  const std::string text = read_text_file(root + "/proc/stat");
  for (const std::string_view line : split_lines(text))
    if (line.starts_with("cpu") && line.size() > 3 && line[3] != ' ') tuning->cpus++;
  std::error_code error;
  int64_t nodes = 0;
  for (const auto &entry : fs::directory_iterator(root + "/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9') nodes++;
  }
  if (!error) tuning->memory_nodes = nodes;
  tuning->irqbalance = fs::exists(root + "/run/irqbalance", error) || fs::exists(root + "/run/irqbalance.pid", error);
}

// Max locked memory       8388608              8388608              bytes
void read_process(const std::string &folder, ServerLimits *limits) {
  const std::string text = read_text_file(folder + "/limits", 8192), state = read_text_file(folder + "/status", 8192);
  constexpr std::string_view kMemlock = "Max locked memory";
  for (const std::string_view line : split_lines(text)) {
    if (!line.starts_with(kMemlock)) continue;
    const auto words = split_words(line.substr(kMemlock.size()));
    if (words.empty()) continue;
    limits->memlock_bytes =
        words[0] == "unlimited" ? std::optional(std::numeric_limits<int64_t>::max()) : to_number(words[0]);
  }
  for (const std::string_view line : split_lines(state)) {
    if (!line.starts_with("Seccomp:")) continue;
    const auto words = split_words(line.substr(8));
    std::string digits = words.empty() ? "" : std::string(words[0]);
    limits->seccomp = to_number(digits);
  }
}

// Quota over period, as CPUs; "max" or -1: no limit.
std::optional<double> cpu_limit(const fs::path &folder, bool v2) {
  const std::string quota = read_first_line(folder / (v2 ? "cpu.max" : "cpu.cfs_quota_us"));
  const auto words = split_words(quota);
  if (words.empty()) return std::nullopt;
  const int64_t micros = to_number(words[0]).value_or(0);
  const auto period = words.size() == 2 ? to_number(words[1]) : read_number(folder / "cpu.cfs_period_us");
  const int64_t period_us = period.value_or(0);
  if (micros <= 0 || period_us <= 0) return std::nullopt;
  return static_cast<double>(micros) / static_cast<double>(period_us);
}

// The least of a cgroup's and its parents': the folder is below `top`, which has no limits of its own.
void read_cgroup(const std::string &root, const std::string &text, ServerLimits *limits) {
  const auto mounts = parse_mounts(read_text_file(root + "/proc/self/mountinfo"));
  const auto lower = [](auto *into, auto value) {
    if (!*into || value < **into) *into = value;
  };
  for (const std::string_view line : split_lines(text)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (path.starts_with("/..")) continue;  // of another container
    const bool v2 = controllers.empty();
    for (const Mount &mount : mounts) {
      if (v2 ? mount.file_system != "cgroup2"
             : mount.file_system != "cgroup" || mount.super_options.find(controllers) == std::string::npos)
        continue;
      for (fs::path at = root + mount.mount_point + path; at.string().size() > (root + mount.mount_point).size();
           at = at.parent_path()) {
        const auto memory = read_number(at / (v2 ? "memory.max" : "memory.limit_in_bytes"));
        if (memory && *memory < (int64_t{1} << 60)) lower(&limits->memory_bytes, *memory);
        if (const auto cpus = cpu_limit(at, v2)) lower(&limits->cpus, *cpus);
        if (!at.has_relative_path()) break;
      }
    }
  }
}

}  // namespace

int try_io_uring() {
  io_uring_params params{};
  const long fd = syscall(__NR_io_uring_setup, 1, &params);
  if (fd < 0) return errno;
  const UniqueFd ring(static_cast<int>(fd));
  return 0;
}

std::vector<std::string> costly_kernel_options(const std::string &config) {
  std::vector<std::string> found;
  for (const std::string_view line : split_lines(config)) {
    if (!line.ends_with("=y")) continue;
    const std::string_view name = line.substr(0, line.size() - 2);
    if (std::find(std::begin(kCostly), std::end(kCostly), name) != std::end(kCostly))
      found.emplace_back(name.substr(std::string_view("CONFIG_").size()));
  }
  return found;
}

HostTuning read_tuning(const std::string &root, const std::vector<Followed> &followed, int (*try_io_uring)()) {
  HostTuning tuning;
  read_kernel(root, &tuning);
  read_memory(root, &tuning);
  read_processors(root, &tuning);
  tuning.io_uring_error = try_io_uring();
  for (const Followed &one : followed) {
    if (tuning.servers.size() >= kServersMax) break;
    ServerLimits &limits = tuning.servers[one.instance];
    read_process(fmt::format("{}/proc/{}", root, one.process), &limits);
    read_cgroup(root, one.cgroup, &limits);
  }
  return tuning;
}

}  // namespace flushlight
