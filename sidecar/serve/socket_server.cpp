// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/socket_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cstring>

namespace flushlight {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsPerStep = 64;
constexpr int kEventsPerStep = 128;
constexpr uint64_t kAcceptPauseNs = 100'000'000;

sockaddr_un make_address(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

bool somebody_listens(const std::string &path) {
  const sockaddr_un address = make_address(path);
  const UniqueFd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe &&
         (connect(probe.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0 || errno == EAGAIN);
}

Error already_running(const std::string &path) {
  return Error{EADDRINUSE,
               fmt::format("another flushlightd serves {}: stop it first, or give this one another --socket", path)};
}

}  // namespace

SocketServer::~SocketServer() {
  if (listen_) unlink(path_.c_str());  // ours: the lock is held
  if (lock_) unlink((path_ + ".lock").c_str());
}

Result<> SocketServer::lock(const std::string &path) {
  const std::string lock_path = path + ".lock";
  for (;;) {
    lock_.reset(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_) return system_error(errno, "creating " + lock_path);
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      lock_.reset();
      return already_running(path);
    }
    // A daemon that stops removes the file: is the one that we locked still the one with the name?
    struct stat named {
    }, held{};
    if (stat(lock_path.c_str(), &named) == 0 && fstat(lock_.get(), &held) == 0 && named.st_ino == held.st_ino)
      return Ok{};
  }
}

Result<> SocketServer::open(const std::string &path, mode_t mode) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) (void)mkdir(path.substr(0, slash).c_str(), 0755);
  path_ = path;
  if (auto locked = lock(path); !locked) return locked;
  if (somebody_listens(path)) return already_running(path);
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode))
      return Error{EEXIST, path + " exists and is not a socket: remove it, or choose another --socket"};
    if (unlink(path.c_str()) != 0) return system_error(errno, "removing the stale socket " + path);
  }
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(errno, "creating a socket");
  const sockaddr_un address = make_address(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
    return system_error(errno, "binding the socket " + path);
  if (chmod(path.c_str(), mode) != 0 || listen(fd.get(), kBacklog) != 0)
    return system_error(errno, "opening the socket " + path);
  listen_ = std::move(fd);
  reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{EPOLLIN, {.fd = listen_.get()}};
  if (!epoll_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listen_.get(), &event) != 0)
    return system_error(errno, "creating an epoll instance");
  return Ok{};
}

Result<> SocketServer::watch(int fd) {
  epoll_event event{EPOLLIN, {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error(errno, "watching a descriptor");
  watched_ = fd;
  return Ok{};
}

Result<> SocketServer::watch(int fd, std::function<void()> on_readable) {
  epoll_event event{EPOLLIN, {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error(errno, "watching a descriptor");
  callbacks_[fd] = std::move(on_readable);
  return Ok{};
}

bool SocketServer::step(int wait_ms) {
  if (accept_again_ns_ != 0 && clock_.now_ns() >= accept_again_ns_) {
    accept_again_ns_ = 0;
    listen_for(EPOLLIN);
  }
  std::array<epoll_event, kEventsPerStep> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms);
  bool accept = false, watched = false;
  for (int i = 0; i < count; i++) {
    const epoll_event &event = events[i];
    accept |= event.data.fd == listen_.get();
    watched |= event.data.fd == watched_;
    if (const auto callback = callbacks_.find(event.data.fd); callback != callbacks_.end()) callback->second();
    const auto found = connections_.find(event.data.fd);
    if (found == connections_.end()) continue;
    Connection &connection = *found->second;
    if (event.events & EPOLLOUT) flush(connection);
    if (!connection.dead && connection.out.empty() && event.events & (EPOLLIN | EPOLLHUP | EPOLLERR))
      receive(connection);
    else if (event.events & (EPOLLHUP | EPOLLERR))
      connection.dead = true;
    settle(connection);
  }
  if (accept) accept_all();
  return watched;
}

void SocketServer::listen_for(uint32_t events) {
  epoll_event event{events, {.fd = listen_.get()}};
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listen_.get(), &event);
}

// True: somebody was answered.
bool SocketServer::refuse_for_want_of_descriptors() {
  counts_.refused_connections++;
  reserve_.reset();
  const UniqueFd fd(accept4(listen_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) refuse(fd.get(), EAGAIN, "flushlightd has no file descriptors left: raise LimitNOFILE in its unit");
  return static_cast<bool>(fd);
}

void SocketServer::accept_all() {
  for (int i = 0; i < kAcceptsPerStep; i++) {
    UniqueFd fd(accept4(listen_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
      const bool answered = refuse_for_want_of_descriptors();
      reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (answered) continue;
      accept_again_ns_ = clock_.now_ns() + kAcceptPauseNs;  // else the ready socket would keep us busy
      return listen_for(0);
    }
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) continue;
    bool refused = false;
    if (const std::string text = handler_.refuse_peer(peer.uid); !text.empty()) {
      refuse(fd.get(), EACCES, text);
      if (refused_ >= kRefusedMax) continue;
      refused = true;
    }
    auto connection = std::make_unique<Connection>();
    connection->refused = refused;
    connection->peer_uid = peer.uid;
    connection->peer_pid = peer.pid;
    connection->last_heard_ns = clock_.now_ns();
    epoll_event event{EPOLLIN, {.fd = fd.get()}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) continue;
    const int number = fd.get();
    connection->fd = std::move(fd);
    connections_[number] = std::move(connection);
    refused_ += refused;
  }
}

void SocketServer::refuse(int fd, uint32_t status, const std::string &text) {
  const Packet packet = make_end(FL_MESSAGE_REFUSED, status, 0, text);
  (void)::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void SocketServer::receive(Connection &connection) {
  // No room for control data: descriptors that a client sends along are closed by the kernel.
  const ssize_t got = recv(connection.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || connection.refused) {
    connection.dead = true;
    return;
  }
  connection.last_heard_ns = clock_.now_ns();
  if (static_cast<size_t>(got) > buffer_.size()) {
    refuse(connection.fd.get(), EPROTO, fmt::format("a packet of {} bytes: at most {} are taken", got, buffer_.size()));
    connection.dead = true;
    return;
  }
  handler_.on_message(connection, {buffer_.data(), static_cast<size_t>(got)});
}

bool SocketServer::send(Connection &connection, std::vector<Packet> packets) {
  size_t bytes = 0;
  for (const Packet &packet : packets) bytes += packet.size();
  if (out_bytes_ + bytes > kOutBytesMax) return false;
  if (connection.out.empty()) connection.out_since_ns = clock_.now_ns();
  for (Packet &packet : packets) connection.out.push_back(std::move(packet));
  connection.out_bytes += bytes;
  out_bytes_ += bytes;
  return true;
}

Result<> SocketServer::send_descriptors(Connection &connection, const Packet &packet,
                                        std::span<const int> descriptors) {
  iovec part{const_cast<char *>(packet.data()), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  if (sendmsg(connection.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    return system_error(errno, "sending descriptors");
  return Ok{};
}

void SocketServer::flush(Connection &connection) {
  while (!connection.out.empty()) {
    const Packet &packet = connection.out.front();
    const ssize_t sent = ::send(connection.fd.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) connection.dead = true;
      return;
    }
    connection.out_bytes -= packet.size();
    out_bytes_ -= packet.size();
    connection.out.pop_front();
  }
}

void SocketServer::settle(Connection &connection) {
  if (!connection.dead) flush(connection);
  if (connection.dead || (connection.close_when_sent && connection.out.empty()))
    close(connection);
  else
    update_interest(connection);
}

void SocketServer::update_interest(Connection &connection) {
  const uint32_t wanted = connection.out.empty() ? EPOLLIN : EPOLLOUT;
  epoll_event event{wanted, {.fd = connection.fd.get()}};
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
}

void SocketServer::close(Connection &connection) {
  handler_.on_closed(connection);
  out_bytes_ -= connection.out_bytes;
  refused_ -= connection.refused;
  connections_.erase(connection.fd.get());
}

void SocketServer::enforce_deadlines() {
  const uint64_t now_ns = clock_.now_ns();
  std::vector<Connection *> late;
  for (const auto &[fd, connection] : connections_) {
    const bool slow = !connection->out.empty() && now_ns > connection->out_since_ns + kReadDeadlineNs;
    const uint64_t patience_ns = connection->refused ? kRefusedNs : kIdleNs;
    const bool idle = connection->lease == nullptr && now_ns > connection->last_heard_ns + patience_ns;
    counts_.dropped_readers += slow;
    if (slow || idle) late.push_back(connection.get());
  }
  for (Connection *connection : late) close(*connection);
}

}  // namespace flushlight
