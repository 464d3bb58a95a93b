// SPDX-License-Identifier: GPL-2.0-or-later
// The Unix socket: accepts, receives, sends; knows nothing of what messages mean. No client can stall it:
// everything is non-blocking, what waits to be read by a client is bounded in bytes and time, and a client
// is not heard before it has read its last answer.
// Owner: main thread.
#pragma once
#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/base/result.h"
#include "sidecar/base/unique_fd.h"
#include "sidecar/serve/packets.h"

namespace flushlight {

class Lease;

struct Connection {
  UniqueFd fd;
  uid_t peer_uid = 0;
  pid_t peer_pid = 0;
  Lease *lease = nullptr;  // for the handler
  uint64_t last_heard_ns = 0;
  std::deque<Packet> out;
  size_t out_bytes = 0;
  uint64_t out_since_ns = 0;
  bool close_when_sent = false;
  bool refused = false;  // has its answer; stays for a moment, so that what it sends meets no closed door
  bool dead = false;
};

class ServerHandler {
 public:
  virtual ~ServerHandler() = default;
  // An empty text: welcome. Otherwise the text of the refusal.
  virtual std::string refuse_peer(uid_t uid) = 0;
  virtual void on_message(Connection &connection, std::span<const std::byte> bytes) = 0;
  virtual void on_closed(Connection &connection) = 0;
};

struct ServerCounts {
  uint64_t refused_connections = 0;
  uint64_t dropped_readers = 0;
};

class SocketServer {
 public:
  static constexpr size_t kOutBytesMax = 128u << 20;          // of all connections
  static constexpr uint64_t kReadDeadlineNs = 5'000'000'000;  // for a client to read its answer
  static constexpr uint64_t kRefusedNs = 1'000'000'000;
  static constexpr size_t kRefusedMax = 32;            // strangers must not hold descriptors
  static constexpr uint64_t kIdleNs = 30'000'000'000;  // without a lease

  SocketServer(const Clock &clock, ServerHandler &handler) : clock_(clock), handler_(handler) {}
  ~SocketServer();
  SocketServer(const SocketServer &) = delete;
  SocketServer &operator=(const SocketServer &) = delete;

  // Refuses if another daemon holds the socket; takes over what a killed one left.
  Result<> open(const std::string &path, mode_t mode);
  // Another descriptor to wait for; the handler reads it when step() returns.
  Result<> watch(int fd);
  // And another one, with what is to be done when it is readable. For good.
  Result<> watch(int fd, std::function<void()> on_readable);
  // Waits at most wait_ms, then does what is due. True if a watched descriptor is readable.
  bool step(int wait_ms);
  // Drops connections that are over a deadline; call about once a second.
  void enforce_deadlines();

  // False: too much is waiting to be read already.
  bool send(Connection &connection, std::vector<Packet> packets);
  // Sends now or never, with descriptors.
  Result<> send_descriptors(Connection &connection, const Packet &packet, std::span<const int> descriptors);
  void close_when_sent(Connection &connection) { connection.close_when_sent = true; }

  [[nodiscard]] const ServerCounts &counts() const { return counts_; }
  [[nodiscard]] size_t connections() const { return connections_.size(); }

 private:
  Result<> lock(const std::string &path);
  void accept_all();
  bool refuse_for_want_of_descriptors();
  void listen_for(uint32_t events);
  void refuse(int fd, uint32_t status, const std::string &text);
  void receive(Connection &connection);
  void flush(Connection &connection);
  void update_interest(Connection &connection);
  void settle(Connection &connection);  // flush, close if it is time, else say what is waited for
  void close(Connection &connection);

  const Clock &clock_;
  ServerHandler &handler_;
  UniqueFd epoll_, listen_, lock_;
  std::string path_;
  int watched_ = -1;
  std::map<int, std::function<void()>> callbacks_;  // by descriptor
  std::map<int, std::unique_ptr<Connection>> connections_;
  size_t out_bytes_ = 0;
  size_t refused_ = 0;            // connections of strangers
  UniqueFd reserve_;              // given up for a moment to refuse when there are no descriptors left
  uint64_t accept_again_ns_ = 0;  // not 0: even that failed; not before
  ServerCounts counts_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(FL_PACKET_BYTES_MAX);
};

}  // namespace flushlight
