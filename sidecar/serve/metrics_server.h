// SPDX-License-Identifier: GPL-2.0-or-later
// /metrics over HTTP. libmicrohttpd reads, parses and writes in a thread of its own at low priority, so that nothing
// that arrives there costs the main thread more than one gathering a second. Bounded: kConnectionsMax connections
// (the rest waits in the kernel's backlog), kIdleS without a byte, kDeadlineNs for each connection altogether, one
// request on each.
// Owner: main thread, but where said. mutex_ guards what both threads use; it is never held while anything waits
// for a client.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "sidecar/base/clock.h"
#include "sidecar/base/result.h"
#include "sidecar/base/unique_fd.h"
#include "sidecar/serve/metrics.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace flushlight {

class MetricsServer {
 public:
  static constexpr unsigned kConnectionsMax = 32;
  static constexpr unsigned kIdleS = 5;
  static constexpr uint64_t kDeadlineNs = 15'000'000'000;
  static constexpr uint64_t kFreshNs = 1'000'000'000;

  explicit MetricsServer(const Clock &clock) : clock_(clock) {}
  ~MetricsServer();
  MetricsServer(const MetricsServer &) = delete;
  MetricsServer &operator=(const MetricsServer &) = delete;

  // address: 127.0.0.1:9188, [::1]:9188; port 0: any that is free.
  Result<> start(const std::string &address);
  void stop();
  [[nodiscard]] bool running() const { return daemon_ != nullptr; }
  [[nodiscard]] uint16_t port() const { return port_; }

  // Readable when somebody wants figures; then call publish().
  [[nodiscard]] int wanted_fd() const { return wanted_.get(); }
  Result<> prepare();  // makes that descriptor
  void publish(std::shared_ptr<const MetricsSnapshot> snapshot);
  // Ends connections that have had their time; call about once a second.
  void enforce_deadlines();

  // HTTP thread.
  int answer(MHD_Connection *connection, const std::string &path, const std::string &method);
  void on_connection(MHD_Connection *connection, bool begins);

 private:
  struct Text {
    std::shared_ptr<const MetricsSnapshot> of;
    std::shared_ptr<const std::string> text;
  };
  std::shared_ptr<const MetricsSnapshot> fetch();
  std::shared_ptr<const std::string> text_of(const std::shared_ptr<const MetricsSnapshot> &snapshot, bool openmetrics);

  const Clock &clock_;
  MHD_Daemon *daemon_ = nullptr;
  uint16_t port_ = 0;
  UniqueFd wanted_;

  std::mutex mutex_;
  std::condition_variable published_;
  std::shared_ptr<const MetricsSnapshot> snapshot_;
  uint64_t snapshot_ns_ = 0, published_count_ = 0;
  bool stopping_ = false;
  struct Open {
    int fd;
    uint64_t since_ns;
  };
  std::map<MHD_Connection *, Open> open_;

  // HTTP thread.
  void pace();
  Text texts_[2];
  bool lowered_ = false;  // its priority
  int64_t credit_ns_ = 0, paced_ns_ = 0, paced_cpu_ns_ = 0;
};

}  // namespace flushlight
