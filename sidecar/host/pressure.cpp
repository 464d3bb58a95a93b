// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/pressure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "sidecar/base/text.h"
#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

constexpr size_t kFollowedMax = 256;  // cgroups read in one pass

std::optional<int64_t> times(std::optional<int64_t> value, int64_t factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

// some avg10=1.23 avg60=1.50 avg300=2.05 total=23073476
void parse_stalled(std::string_view text, Stalled *some, Stalled *full) {
  for (const std::string_view line : split_lines(text)) {
    const auto words = split_words(line);
    if (words.empty()) continue;
    Stalled *into = words[0] == "some" ? some : words[0] == "full" ? full : nullptr;
    if (into == nullptr) continue;
    for (const std::string_view word : words) {
      if (word.starts_with("avg10=")) into->percent = to_real(word.substr(6));
      if (word.starts_with("total=")) into->total_us = to_number(word.substr(6));
    }
  }
}

void read_stalled(const std::string &folder, const char *suffix, Pressure *row) {
  parse_stalled(read_text_file(folder + "/cpu" + suffix), &row->cpu_some, &row->cpu_full);
  parse_stalled(read_text_file(folder + "/io" + suffix), &row->io_some, &row->io_full);
  parse_stalled(read_text_file(folder + "/memory" + suffix), &row->memory_some, &row->memory_full);
}

void read_vmstat(const NamedNumbers &vm, Pressure *row) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  row->dirty_bytes = times(number_named(vm, "nr_dirty"), page);
  row->writeback_bytes = times(number_named(vm, "nr_writeback"), page);
  row->dirty_limit_bytes = times(number_named(vm, "nr_dirty_threshold"), page);
  row->dirty_background_bytes = times(number_named(vm, "nr_dirty_background_threshold"), page);
  row->direct_reclaim_bytes = times(number_named(vm, "pgsteal_direct"), page);
  row->compaction_stalls = number_named(vm, "compact_stall");
  row->swap_in_bytes = times(number_named(vm, "pswpin"), page);
  for (const auto &[name, value] : vm)  // one for each zone
    if (name.starts_with("allocstall")) row->direct_reclaims = row->direct_reclaims.value_or(0) + value;
}

// Limits in the kernel's own words, one device after the other. v1: "8:0 1048576" in a file for each kind.
std::string io_limits(const std::string &unified, const std::string &blkio) {
  std::string limits;
  const auto add = [&limits](std::string_view text) {
    if (limits.size() + text.size() < 180) limits += (limits.empty() ? "" : "; ") + std::string(text);
  };
  if (!unified.empty()) {
    const std::string text = read_text_file(unified + "/io.max", 4096);
    for (const std::string_view line : split_lines(text)) add(line);
  }
  if (blkio.empty()) return limits;
  for (const char *kind : {"read_bps", "write_bps", "read_iops", "write_iops"}) {
    const std::string text = read_text_file(fmt::format("{}/blkio.throttle.{}_device", blkio, kind), 4096);
    for (const std::string_view line : split_lines(text)) {
      const auto words = split_words(line);
      if (words.size() == 2) add(fmt::format("{} {}={}", words[0], kind, words[1]));
    }
  }
  return limits;
}

// A cgroup's folder, from its path and where its hierarchy is mounted here; empty: outside what is mounted.
std::string folder_of(std::string_view path, const Mount &mount) {
  if (path.starts_with("/..")) return "";  // of another container
  if (mount.root == "/") return mount.mount_point + std::string(path == "/" ? "" : path);
  if (!path.starts_with(mount.root)) return "";
  return mount.mount_point + std::string(path.substr(mount.root.size()));
}

bool has_word(std::string_view list, std::string_view word) {
  return ("," + std::string(list) + ",").find("," + std::string(word) + ",") != std::string::npos;
}

}  // namespace

Pressures PressureReader::read(const std::vector<Followed> &followed) {
  Pressures rows;
  rows.push_back(read_host());
  std::erase_if(cgroups_, [&](const auto &entry) {
    return std::none_of(followed.begin(), followed.end(), [&](const Followed &f) { return f.instance == entry.first; });
  });
  for (const Followed &one : followed) {
    if (rows.size() > kFollowedMax) break;
    resolve(one);
    if (const auto found = cgroups_.find(one.instance); found != cgroups_.end())
      rows.push_back(read_cgroup(one.instance, found->second));
  }
  return rows;
}

Pressure PressureReader::read_host() {
  Pressure host;
  read_stalled(root_ + "/proc/pressure", "", &host);
  read_vmstat(parse_named_numbers(read_text_file(root_ + "/proc/vmstat")), &host);
  read_proc_stat(&host);
  const std::string load_line = read_first_line(root_ + "/proc/loadavg");
  const auto load = split_words(load_line);
  if (!load.empty()) host.load_1m = to_real(load[0]);
  return host;
}

// cpu0 user nice system idle iowait irq softirq steal guest guest_nice (guest is part of user)
void PressureReader::read_proc_stat(Pressure *host) {
  const std::string text = read_text_file(root_ + "/proc/stat");
  for (const std::string_view line : split_lines(text)) {
    const auto words = split_words(line);
    if (words.size() >= 2 && words[0] == "procs_running") host->runnable_tasks = to_number(words[1]);
    if (words.size() >= 2 && words[0] == "procs_blocked") host->blocked_tasks = to_number(words[1]);
    if (words.size() < 9 || !words[0].starts_with("cpu")) continue;
    const int cpu = words[0].size() == 3 ? -1 : static_cast<int>(to_number(words[0].substr(3)).value_or(-1));
    CpuTimes now;
    for (size_t i = 1; i <= 8; i++) now.total += to_number(words[i]).value_or(0);
    now.softirq = to_number(words[7]).value_or(0);
    now.steal = to_number(words[8]).value_or(0);
    const auto before = last_cpus_.find(cpu);
    if (before != last_cpus_.end() && now.total > before->second.total) {
      const auto passed = static_cast<double>(now.total - before->second.total);
      if (cpu < 0) {
        host->steal_percent =
            100 * static_cast<double>(std::max<int64_t>(0, now.steal - before->second.steal)) / passed;
      } else {
        const double percent =
            100 * static_cast<double>(std::max<int64_t>(0, now.softirq - before->second.softirq)) / passed;
        if (percent > host->softirq_top_percent.value_or(-1)) {
          host->softirq_top_percent = percent;
          host->softirq_top_cpu = cpu;
        }
      }
    }
    last_cpus_[cpu] = now;
  }
}

Pressure PressureReader::read_cgroup(uint32_t instance, const Cgroup &cgroup) const {
  Pressure row;
  row.instance = instance;
  row.name = cgroup.name;
  if (!cgroup.unified.empty()) read_stalled(cgroup.unified, ".pressure", &row);
  const bool v1_memory = !cgroup.memory.empty();
  const auto memory =
      parse_named_numbers(read_text_file((v1_memory ? cgroup.memory : cgroup.unified) + "/memory.stat"));
  const int64_t page = sysconf(_SC_PAGESIZE);
  row.dirty_bytes = number_named(memory, v1_memory ? "total_dirty" : "file_dirty");
  row.writeback_bytes = number_named(memory, v1_memory ? "total_writeback" : "file_writeback");
  row.direct_reclaim_bytes = times(number_named(memory, "pgsteal_direct"), page);
  row.swap_in_bytes = times(number_named(memory, "pswpin"), page);
  const auto cpu =
      parse_named_numbers(read_text_file((cgroup.cpu.empty() ? cgroup.unified : cgroup.cpu) + "/cpu.stat"));
  row.cpu_throttled = number_named(cpu, "nr_throttled");
  row.cpu_throttled_us = number_named(cpu, "throttled_usec");
  if (const auto ns = number_named(cpu, "throttled_time")) row.cpu_throttled_us = *ns / 1000;  // v1
  row.io_limit = sanitize_utf8(io_limits(cgroup.unified, cgroup.blkio), 190);
  return row;
}

// 0::/system.slice/postgresql.service, or for v1 4:memory:/…; both at once where hierarchies are mixed.
void PressureReader::resolve(const Followed &followed) {
  if (const auto known = cgroups_.find(followed.instance);
      known != cgroups_.end() && known->second.text == followed.cgroup)
    return;
  if (followed.cgroup.empty()) return;
  const auto mounts = parse_mounts(read_text_file(root_ + "/proc/self/mountinfo"));
  Cgroup cgroup;
  cgroup.text = followed.cgroup;
  for (const std::string_view line : split_lines(cgroup.text)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const bool v2 = controllers.empty();
    if (cgroup.name.empty() || path.size() > cgroup.name.size()) cgroup.name = sanitize_utf8(path, 190);
    for (const Mount &mount : mounts) {
      if (v2 && mount.file_system == "cgroup2") cgroup.unified = root_ + folder_of(path, mount);
      if (v2 || mount.file_system != "cgroup") continue;
      static constexpr std::pair<std::string_view, std::string Cgroup::*> kControllers[] = {
          {"memory", &Cgroup::memory}, {"cpu", &Cgroup::cpu}, {"blkio", &Cgroup::blkio}};
      for (const auto &[controller, folder] : kControllers)
        if (has_word(controllers, controller) && has_word(mount.super_options, controller))
          cgroup.*folder = root_ + folder_of(path, mount);
    }
  }
  for (auto folder : {&Cgroup::unified, &Cgroup::memory, &Cgroup::cpu, &Cgroup::blkio})
    if (cgroup.*folder == root_) (cgroup.*folder).clear();
  cgroups_[followed.instance] = std::move(cgroup);
}

}  // namespace flushlight
