// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/disk_stats.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "sidecar/host/block_devices.h"

namespace flushlight {
namespace {

constexpr uint64_t kSectorBytes = 512;

// major minor name, then for reads and writes: completed, merged, sectors, ms; in flight, ms busy, weighted ms;
// discards (5.x: four more), flushes (two more).
bool parse_line(const std::string &line, uint32_t *number, DiskStats *stats) {
  unsigned major = 0, minor = 0;
  unsigned long long reads = 0, read_sectors = 0, writes = 0, written_sectors = 0, inflight = 0, flushes = 0;
  const int got =
      sscanf(line.c_str(), "%u %u %*s %llu %*u %llu %*u %llu %*u %llu %*u %llu %*u %*u %*u %*u %*u %*u %llu", &major,
             &minor, &reads, &read_sectors, &writes, &written_sectors, &inflight, &flushes);
  if (got < 7) return false;
  *number = device_number(major, minor);
  *stats = {reads + writes + flushes, (read_sectors + written_sectors) * kSectorBytes, inflight};
  return true;
}

}  // namespace

AllDiskStats parse_disk_stats(std::string_view text) {
  AllDiskStats all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    uint32_t number = 0;
    DiskStats stats;
    if (parse_line(std::string(text.substr(at, end - at)), &number, &stats)) all[number] = stats;
    at = end + 1;
  }
  return all;
}

AllDiskStats DiskStatsFile::read() {
  if (!fd_) fd_ = UniqueFd(open("/proc/diskstats", O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[8192];
  for (ssize_t got; fd_ && (got = pread(fd_.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  return parse_disk_stats(text);
}

}  // namespace flushlight
