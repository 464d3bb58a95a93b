// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "sidecar/base/text.h"
#include "sidecar/base/unique_fd.h"
#include "sidecar/host/text_files.h"

namespace flushlight {

ThreadFacts read_thread_facts(uint32_t tid) {
  ThreadFacts facts;
  const UniqueFd fd(open(fmt::format("/proc/{}/stat", tid).c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[512];
  const ssize_t got = fd ? read(fd.get(), buffer, sizeof buffer - 1) : -1;
  if (got <= 0) return facts;
  // 1234 (name, which may hold anything) S 1 …
  const std::string_view stat(buffer, static_cast<size_t>(got));
  const size_t open_bracket = stat.find('('), close_bracket = stat.rfind(')');
  if (open_bracket == stat.npos || close_bracket == stat.npos || close_bracket + 4 > stat.size()) return facts;
  facts.name = sanitize_utf8(stat.substr(open_bracket + 1, close_bracket - open_bracket - 1), 64);
  buffer[got] = '\0';
  facts.parent = static_cast<uint32_t>(std::strtoul(buffer + close_bracket + 4, nullptr, 10));
  return facts;
}

std::string read_cgroup_text(uint32_t process) { return read_text_file(fmt::format("/proc/{}/cgroup", process), 4096); }

uint64_t own_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace flushlight
