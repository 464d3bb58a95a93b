// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/systemd.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "sidecar/base/unique_fd.h"

namespace flushlight {

void notify_service_manager(std::string_view state) {
  const char *path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || path[0] == '\0' || std::strlen(path) >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';  // abstract name
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const UniqueFd socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_fd)
    (void)sendto(socket_fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr *>(&address), length);
}

uint64_t watchdog_interval_ns() {
  const char *usec = std::getenv("WATCHDOG_USEC");
  const char *pid = std::getenv("WATCHDOG_PID");
  if (usec == nullptr || (pid != nullptr && std::atoll(pid) != getpid())) return 0;
  return std::strtoull(usec, nullptr, 10) * 1000 / 2;
}

}  // namespace flushlight
