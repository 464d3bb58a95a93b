// SPDX-License-Identifier: GPL-2.0-or-later
// slowctl CONTROL COMMAND...: sets faults of a slow device and reads its log. Commands, in any number:
//   flush=MS write=MS read=MS   hold each of these so long (0: not)
//   range=OFFSET:LENGTH         reads and writes only where they touch these bytes (0:0: everywhere)
//   freeze=MS                   hold everything from now on for so long (0: end a freeze)
//   off                         all of these off
//   ready                       exit 1 unless slowfs has mounted
//   logged                      print the number of operations logged so far
//   log[=NUMBER]                print operations from that number on: kind begin released end offset length asked
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "slow_control.h"

namespace {

uint64_t milliseconds(const std::string &text) {
  return static_cast<uint64_t>(std::strtod(text.c_str(), nullptr) * 1e6);
}

void all_off(rig::SlowControl &control) {
  for (auto &delay : control.delay_ns) delay = 0;
  control.frozen_until_ns = 0;
  control.range_offset_bytes = control.range_length_bytes = 0;
}

void set_range(rig::SlowControl &control, const std::string &value) {
  char *rest = nullptr;
  const uint64_t offset = std::strtoull(value.c_str(), &rest, 0);
  control.range_offset_bytes = offset;
  control.range_length_bytes = *rest == ':' ? std::strtoull(rest + 1, nullptr, 0) : 0;
}

// False: some operations were overwritten before they could be printed.
bool print_log(const rig::SlowControl &control, uint64_t from) {
  const uint64_t end = control.logged;
  bool complete = true;
  if (end > rig::kLogEntries && from < end - rig::kLogEntries) {
    from = end - rig::kLogEntries;
    complete = false;
  }
  for (uint64_t number = from; number < end; ++number) {
    const rig::Operation &entry = control.log[number % rig::kLogEntries];
    if (entry.sequence.load(std::memory_order_acquire) != number + 1)
      continue;  // still being written: it has not been answered yet
    std::printf("%s %lu %lu %lu %lu %u %lu\n", rig::kKindNames[static_cast<unsigned>(entry.kind)], entry.begin_ns,
                entry.released_ns, entry.end_ns, entry.offset_bytes, entry.length_bytes, entry.asked_ns);
  }
  return complete;
}

// 0: done, 1: the answer is no, 2: not understood.
int apply(rig::SlowControl &control, const std::string &command) {
  const size_t equals = command.find('=');
  const std::string_view name = std::string_view(command).substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : command.substr(equals + 1);
  if (equals != std::string::npos)
    for (unsigned kind = 0; kind < rig::kKinds; ++kind)
      if (name == rig::kKindNames[kind]) {
        control.delay_ns[kind] = milliseconds(value);
        return 0;
      }
  if (name == "range")
    set_range(control, value);
  else if (name == "freeze")
    control.frozen_until_ns = milliseconds(value) ? rig::monotonic_ns() + milliseconds(value) : 0;
  else if (name == "off")
    all_off(control);
  else if (name == "ready")
    return control.ready ? 0 : 1;
  else if (name == "logged")
    std::printf("%lu\n", control.logged.load());
  else if (name == "log")
    return print_log(control, std::strtoull(value.c_str(), nullptr, 0)) ? 0 : 1;
  else
    return 2;
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: slowctl CONTROL COMMAND... (see the head of slowctl.cpp)\n");
    return 2;
  }
  const int fd = open(argv[1], O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    std::perror(argv[1]);
    return 1;
  }
  if (static_cast<size_t>(status.st_size) < sizeof(rig::SlowControl)) return 1;  // slowfs is just being started
  void *memory = mmap(nullptr, sizeof(rig::SlowControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  auto &control = *static_cast<rig::SlowControl *>(memory);
  if (control.magic != rig::kMagic) return 1;
  for (int i = 2; i < argc; ++i) {
    const int result = apply(control, argv[i]);
    if (result == 2) std::fprintf(stderr, "slowctl: not understood: %s\n", argv[i]);
    if (result) return result;
  }
  return 0;
}
