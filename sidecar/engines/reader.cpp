// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/engines/reader.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <charconv>
#include <utility>

namespace flushlight {

uint32_t peer_process(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid < 0) return 0;
  return static_cast<uint32_t>(peer.pid);
}

EngineSetting in_base_unit(std::string value, const std::string &unit) {
  struct Unit {
    std::string_view name, base;
    double factor;
  };
  static constexpr Unit kUnits[] = {{"kB", "B", 1024},       {"MB", "B", 1048576}, {"GB", "B", 1073741824},
                                    {"us", "ms", 1e-3},      {"ms", "ms", 1},      {"s", "ms", 1000},
                                    {"min", "ms", 60 * 1000}};
  double number = 0, multiple = 1;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size()) return {std::move(value), "", ""};
  // "8kB": a unit of eight of them
  const auto times = std::from_chars(unit.data(), unit.data() + unit.size(), multiple);
  const std::string_view name(times.ptr, static_cast<size_t>(unit.data() + unit.size() - times.ptr));
  if (name == "B") return {std::move(value), "B", ""};
  for (const Unit &known : kUnits)
    if (name == known.name)  // -1 means 'by itself', 0 'never'
      return {number < 0 ? value : fmt::format("{:.15g}", number * multiple * known.factor), std::string(known.base),
              ""};
  return {std::move(value), "", ""};
}

}  // namespace flushlight
