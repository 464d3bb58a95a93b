// SPDX-License-Identifier: GPL-2.0-or-later
// The text of the iterator over blocked tasks (bpf/blocked.bpf.h), read.
// Any thread.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "sidecar/kernel/stalls.h"

namespace flushlight::kernel {

// One line of text, without its end; advances *at. False: no more.
inline bool next_text_line(const std::string &text, size_t *at, std::string *line) {
  if (*at >= text.size()) return false;
  const size_t end = std::min(text.find('\n', *at), text.size());
  *line = text.substr(*at, end - *at);
  *at = end + 1;
  return true;
}

inline std::vector<BlockedTask> parse_blocked_tasks(const std::string &text) {
  std::vector<BlockedTask> tasks;
  std::string line;
  for (size_t at = 0; next_text_line(text, &at, &line);) {
    unsigned tid = 0, tgid = 0, iowait = 0, is_kernel = 0;
    unsigned long long blocked = 0, names[2] = {};
    if (sscanf(line.c_str(), "T %u %u %u %u %llu %llx %llx", &tid, &tgid, &iowait, &is_kernel, &blocked, &names[0],
               &names[1]) == 7) {
      BlockedTask &task = tasks.emplace_back();
      task.tid = tid;
      task.tgid = tgid;
      task.in_iowait = iowait != 0;
      task.is_kernel = is_kernel != 0;
      task.blocked_ns = blocked;
      const char *name = reinterpret_cast<const char *>(names);
      task.name.assign(name, strnlen(name, sizeof names));
    } else if (line.starts_with("S ") && !tasks.empty()) {
      // "folio_wait_bit_common+0x12f/0x320 [module]"
      tasks.back().stack.push_back(line.substr(2, line.find('+') - 2));
    }
  }
  return tasks;
}

}  // namespace flushlight::kernel
