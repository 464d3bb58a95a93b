// SPDX-License-Identifier: GPL-2.0-or-later
// The daemon: puts intake, join, statistics and views behind the socket, keeps the heartbeat and the brake.
// Owner: main thread; nothing here is called from another one.
#pragma once
#include <memory>
#include <set>

#include "sidecar/advise/advisor.h"
#include "sidecar/base/config.h"
#include "sidecar/engines/engines.h"
#include "sidecar/host/facts.h"
#include "sidecar/host/kernel_port.h"
#include "sidecar/intake/intake.h"
#include "sidecar/join/joiner.h"
#include "sidecar/serve/brake.h"
#include "sidecar/serve/metrics_server.h"
#include "sidecar/serve/socket_server.h"
#include "sidecar/serve/state.h"
#include "sidecar/stalls/monitor.h"
#include "sidecar/stats/statistics.h"
#include "sidecar/stats/top_statements.h"

namespace flushlight {

class Daemon final : private ServerHandler {
 public:
  // kernel: nullptr without tracing; tracing_error then says why (empty: by configuration).
  Daemon(
      Config config, const Clock &clock, std::unique_ptr<KernelPort> kernel, std::string tracing_error,
      stalls::Monitor::ReadDiskStats read_disk_stats = [] { return AllDiskStats{}; });
  ~Daemon() override;

  // Opens the socket and makes the control page.
  Result<> start();
  // Waits at most max_wait_ms for something to do and does what is due. True if the watched descriptor
  // became readable.
  bool step(int max_wait_ms);
  Result<> watch(int fd) { return server_.watch(fd); }

  void reload(const Config &wanted);
  // Keeps what intake gets and writes it to this file at the end (tests/replay).
  void record(const std::string &path);
  void replay_look() { stalls_.replay_look(*facts_.latest().devices); }
  void set_off(bool off, const std::string &reason);

  [[nodiscard]] HostFacts &facts() { return facts_; }
  [[nodiscard]] Engines &engines() { return engines_; }
  [[nodiscard]] advise::Advisor &advisor() { return advisor_; }
  [[nodiscard]] DaemonState &state() { return state_; }
  [[nodiscard]] const Intake &intake() const { return intake_; }
  [[nodiscard]] const stalls::Monitor &stalls() const { return stalls_; }
  [[nodiscard]] Statistics &statistics() { return statistics_; }
  [[nodiscard]] const MetricsServer &metrics() const { return metrics_; }

 private:
  std::string refuse_peer(uid_t uid) override;
  void on_message(Connection &connection, std::span<const std::byte> bytes) override;
  void on_closed(Connection &connection) override;

  void on_hello(Connection &connection, std::span<const std::byte> bytes);
  void on_query(Connection &connection, std::span<const std::byte> bytes);
  void on_command(Connection &connection, std::span<const std::byte> bytes);
  void refuse(Connection &connection, uint32_t status, const std::string &text);
  void reply(Connection &connection, std::vector<Packet> packets);
  Result<> welcome(Connection &connection, const fl_hello &hello);
  Result<> run_command(const Connection &connection, const fl_command &command);
  [[nodiscard]] bool is_owner_of_all(uid_t uid) const;
  [[nodiscard]] Result<uint32_t> instance_for(const Connection &connection, const std::string &name) const;

  void beat(uint64_t now_ns);
  void keep_house(uint64_t now_ns);
  void update_control();
  void serve_metrics();    // starts, stops or moves it as configured
  void publish_metrics();  // somebody wants them
  [[nodiscard]] int wait_ms(uint64_t now_ns, int max_wait_ms) const;

  const Clock &clock_;
  Config config_;
  std::unique_ptr<KernelPort> kernel_;
  DaemonState state_;
  SymbolTable symbols_;
  TextStore texts_;
  Statistics statistics_;
  advise::Advisor advisor_;
  EventFan events_;
  Joiner joiner_;
  std::unique_ptr<Recorder> recorder_;
  Intake intake_;
  stalls::Monitor stalls_;
  HostFacts facts_;
  Engines engines_;
  MemoryFile control_;
  uint64_t epoch_ = 0;
  Brake brake_;
  std::set<uid_t> refused_uids_;
  SocketServer server_;
  TopStatements top_statements_;
  MetricsServer metrics_;
  uint64_t metrics_again_ns_ = 0;  // not 0: starting it failed, try again then
  uint64_t next_beat_ns_ = 0, next_drain_ns_ = 0, next_house_ns_ = 0;
};

}  // namespace flushlight
