// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/listen_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>

namespace flushlight {

Result<std::pair<std::string, std::string>> split_listen_address(const std::string &address) {
  const Error error{EINVAL, fmt::format("'{}' is not an address and a port, as 127.0.0.1:9188 or [::1]:9188", address)};
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size() || address.size() - colon > 6)
    return error;
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (port.find_first_not_of("0123456789") != std::string::npos || std::stoul(port) > UINT16_MAX) return error;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_family = bracketed ? AF_INET6 : AF_INET;
  addrinfo *found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return error;
  freeaddrinfo(found);
  return std::pair{host, port};
}

}  // namespace flushlight
