// SPDX-License-Identifier: GPL-2.0-or-later
// A bare HTTP client for tests: sends bytes, returns what comes back until the server closes.
#pragma once
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <string>

#include "sidecar/base/unique_fd.h"

namespace flushlight::test {

struct HttpClient {
  explicit HttpClient(uint16_t port) : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address);
  }
  void send(std::string_view bytes) {
    pollfd ready{fd.get(), POLLOUT, 0};
    (void)poll(&ready, 1, 5000);
    (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // True: the server has closed. `text` gets what has come.
  bool receive(int wait_ms) {
    pollfd ready{fd.get(), POLLIN, 0};
    if (poll(&ready, 1, wait_ms) <= 0) return false;
    char buffer[16384];
    const ssize_t got = recv(fd.get(), buffer, sizeof buffer, 0);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    return got == 0 || (got < 0 && errno != EAGAIN);
  }
  // Everything until the end; `meanwhile` runs again and again.
  bool finish(const std::function<void()> &meanwhile) {
    for (int i = 0; i < 5000; i++) {
      if (receive(2)) return true;
      meanwhile();
    }
    return false;
  }
  [[nodiscard]] std::string status() const { return text.substr(0, text.find("\r\n")); }
  [[nodiscard]] std::string head() const { return text.substr(0, text.find("\r\n\r\n")); }
  [[nodiscard]] std::string body() const {
    const size_t at = text.find("\r\n\r\n");
    return at == std::string::npos ? "" : text.substr(at + 4);
  }

  UniqueFd fd;
  std::string text;
};

}  // namespace flushlight::test
