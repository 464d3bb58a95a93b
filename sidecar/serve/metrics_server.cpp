// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/metrics_server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <ctime>

#include "sidecar/base/listen_address.h"
#include "sidecar/base/log.h"

namespace flushlight {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kRequestBytesMax = 16 * 1024;  // memory of one connection
constexpr auto kGatherPatience = std::chrono::seconds(2);
constexpr int kNice = 10;
constexpr double kCpuShare = 0.05;
constexpr int64_t kCpuBurstNs = 500'000'000;
constexpr int64_t kPauseMaxNs = 500'000'000;

constexpr const char *kHomePage = "flushlight: metrics are at /metrics\n";

struct ResponseDeleter {
  void operator()(MHD_Response *response) const { MHD_destroy_response(response); }
};
using Response = std::unique_ptr<MHD_Response, ResponseDeleter>;

int send(MHD_Connection *connection, unsigned status, std::string_view text, const char *content_type) {
  const Response response(
      MHD_create_response_from_buffer(text.size(), const_cast<char *>(text.data()), MHD_RESPMEM_MUST_COPY));
  if (!response) return MHD_NO;
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONNECTION, "close");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  return MHD_queue_response(connection, status, response.get());
}

int send_text(MHD_Connection *connection, unsigned status, std::string_view text) {
  return send(connection, status, text, "text/plain; charset=utf-8");
}

extern "C" {

MHD_Result fl_on_request(void *server, MHD_Connection *connection, const char *path, const char *method,
                         const char * /*version*/, const char * /*upload*/, size_t *upload_size, void **state) {
  static char seen;
  if (*state == nullptr || *upload_size != 0) {
    *state = &seen;  // the headers only, or a part of a body that nobody wants: the answer follows the end of it
    *upload_size = 0;
    return MHD_YES;
  }
  try {
    return static_cast<MHD_Result>(static_cast<MetricsServer *>(server)->answer(connection, path, method));
  } catch (const std::exception &error) {
    spdlog::warn("a request for metrics failed: {}", error.what());
    return MHD_NO;
  }
}

void fl_on_connection(void *server, MHD_Connection *connection, void ** /*state*/,
                      MHD_ConnectionNotificationCode code) {
  try {
    static_cast<MetricsServer *>(server)->on_connection(connection, code == MHD_CONNECTION_NOTIFY_STARTED);
  } catch (const std::exception &error) {
    spdlog::warn("a connection for metrics failed: {}", error.what());
  }
}

void fl_say_nothing(void *, const char *, va_list) {}  // what a stranger sends is no news

}  // extern "C"

struct AddressDeleter {
  void operator()(addrinfo *list) const { freeaddrinfo(list); }
};

Result<UniqueFd> listen_on(const std::string &address, uint16_t *port) {
  const auto parts = split_listen_address(address);
  if (!parts) return parts.error();
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo *found = nullptr;
  const char *host = parts->first.empty() ? nullptr : parts->first.c_str();
  if (const int code = getaddrinfo(host, parts->second.c_str(), &hints, &found); code != 0)
    return Error{EINVAL, fmt::format("'{}' is not an address to listen on: {}", address, gai_strerror(code))};
  const std::unique_ptr<addrinfo, AddressDeleter> list(found);
  UniqueFd fd(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(errno, "creating a socket for the metrics");
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return system_error(errno, fmt::format("serving metrics on {} (metrics.listen)", address));
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  (void)getsockname(fd.get(), reinterpret_cast<sockaddr *>(&bound), &length);
  *port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&bound)->sin6_port
                                            : reinterpret_cast<sockaddr_in *>(&bound)->sin_port);
  return fd;
}

}  // namespace

MetricsServer::~MetricsServer() { stop(); }

Result<> MetricsServer::prepare() {
  wanted_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wanted_) return system_error(errno, "creating an eventfd");
  return Ok{};
}

Result<> MetricsServer::start(const std::string &address) {
  stop();
  uint16_t port = 0;
  auto fd = listen_on(address, &port);
  if (!fd) return fd.error();
  stopping_ = false;
  daemon_ = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, nullptr, nullptr, fl_on_request, this,
                             MHD_OPTION_LISTEN_SOCKET, fd->get(), MHD_OPTION_CONNECTION_LIMIT, kConnectionsMax,
                             MHD_OPTION_CONNECTION_TIMEOUT, kIdleS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                             kRequestBytesMax, MHD_OPTION_NOTIFY_CONNECTION, fl_on_connection, this,
                             MHD_OPTION_EXTERNAL_LOGGER, fl_say_nothing, nullptr, MHD_OPTION_END);
  if (daemon_ == nullptr)
    return Error{EIO, fmt::format("the HTTP server for the metrics on {} did not start", address)};
  fd->release();  // the server closes it
  port_ = port;
  return Ok{};
}

void MetricsServer::stop() {
  if (daemon_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  published_.notify_all();
  MHD_stop_daemon(daemon_);
  daemon_ = nullptr;
  lowered_ = false;
  paced_cpu_ns_ = 0;
  port_ = 0;
}

void MetricsServer::publish(std::shared_ptr<const MetricsSnapshot> snapshot) {
  uint64_t ignored = 0;
  (void)!read(wanted_.get(), &ignored, sizeof ignored);
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = std::move(snapshot);
    snapshot_ns_ = clock_.now_ns();
    published_count_++;
  }
  published_.notify_all();
}

// A slow client is cut off by shutdown(): its thread then finds the connection broken.
void MetricsServer::enforce_deadlines() {
  const uint64_t now_ns = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  for (const auto &[connection, open] : open_)
    if (now_ns > open.since_ns + kDeadlineNs) (void)shutdown(open.fd, SHUT_RDWR);
}

// A flood of requests must not become CPU time of the daemon, which its brake would count: above kCpuShare of a CPU
// this thread sleeps, and its clients wait.
void MetricsServer::pace() {
  if (!std::exchange(lowered_, true)) (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  const auto read_ns = [](clockid_t id) {
    timespec time{};
    clock_gettime(id, &time);
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  const int64_t cpu_ns = read_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = read_ns(CLOCK_MONOTONIC);
  const auto earned_ns = static_cast<int64_t>(static_cast<double>(now_ns - paced_ns_) * kCpuShare);
  credit_ns_ = std::min(kCpuBurstNs, credit_ns_ + earned_ns) - (cpu_ns - paced_cpu_ns_);
  paced_ns_ = now_ns;
  paced_cpu_ns_ = cpu_ns;
  if (credit_ns_ >= 0) return;
  const auto owed_ns = static_cast<int64_t>(static_cast<double>(-credit_ns_) / kCpuShare);
  const timespec pause{0, std::min<int64_t>(owed_ns, kPauseMaxNs)};
  nanosleep(&pause, nullptr);
}

void MetricsServer::on_connection(MHD_Connection *connection, bool begins) {
  if (begins) pace();
  const std::lock_guard lock(mutex_);
  if (!begins) {
    open_.erase(connection);
    return;
  }
  if (const auto *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD))
    open_[connection] = {info->connect_fd, clock_.now_ns()};
}

// Figures at most kFreshNs old, from the main thread; nullptr: it did not answer in time.
std::shared_ptr<const MetricsSnapshot> MetricsServer::fetch() {
  std::unique_lock lock(mutex_);
  const auto fresh = [this] { return snapshot_ != nullptr && clock_.now_ns() < snapshot_ns_ + kFreshNs; };
  if (!fresh()) {
    const uint64_t one = 1;
    (void)!write(wanted_.get(), &one, sizeof one);
    const uint64_t before = published_count_;
    published_.wait_for(lock, kGatherPatience, [&] { return stopping_ || published_count_ != before; });
    if (stopping_ || published_count_ == before) return nullptr;
  }
  return snapshot_;
}

std::shared_ptr<const std::string> MetricsServer::text_of(const std::shared_ptr<const MetricsSnapshot> &snapshot,
                                                          bool openmetrics) {
  Text &kept = texts_[openmetrics ? 1 : 0];
  if (kept.of != snapshot)
    kept = {snapshot, std::make_shared<const std::string>(format_metrics(*snapshot, openmetrics))};
  return kept.text;
}

int MetricsServer::answer(MHD_Connection *connection, const std::string &path, const std::string &method) {
  pace();
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
    return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n");
  if (path == "/") return send_text(connection, MHD_HTTP_OK, kHomePage);
  if (path != "/metrics") return send_text(connection, MHD_HTTP_NOT_FOUND, kHomePage);
  const auto snapshot = fetch();
  if (snapshot == nullptr)
    return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "flushlightd is busy: try again\n");
  const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
  const Exposition exposition = negotiate(accept != nullptr ? accept : "");
  const auto text = text_of(snapshot, exposition.openmetrics);
  return send(connection, MHD_HTTP_OK, *text, exposition.content_type.c_str());
}

}  // namespace flushlight
