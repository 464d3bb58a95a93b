// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "sidecar/base/log.h"
#include "sidecar/base/text.h"
#include "sidecar/host/process.h"

namespace flushlight {
namespace {

constexpr uint64_t kHouseIntervalNs = 1'000'000'000;
// Between two short sessions a server is still there.
constexpr uint64_t kFollowIdleNs = 60'000'000'000;
constexpr uint64_t kMetricsAgainNs = 10'000'000'000;
constexpr size_t kTextsPerRow = 2;
constexpr size_t kRefusedUidsMax = 1000;

IntakeLimits intake_limits(const Config &config) {
  return {config.ring_data_bytes, config.slots_per_process_max, config.ring_memory_max_bytes};
}

StatisticsLimits statistics_limits(const Config &config) {
  return {config.statements_max, static_cast<uint64_t>(config.slow_commit_threshold_ms * 1e6), config.slow_commits_max};
}

template <typename Field>
void store(Field &field, Field value) {
  std::atomic_ref<Field>(field).store(value, std::memory_order_release);
}

}  // namespace

Daemon::Daemon(Config config, const Clock &clock, std::unique_ptr<KernelPort> kernel, std::string tracing_error,
               stalls::Monitor::ReadDiskStats read_disk_stats)
    : clock_(clock),
      config_(std::move(config)),
      kernel_(std::move(kernel)),
      texts_(config_.statements_max * kTextsPerRow),
      statistics_(clock, statistics_limits(config_)),
      advisor_(clock, config_),
      events_({&statistics_, &stalls_, &advisor_.window()}),
      joiner_(events_, texts_),
      intake_(clock, symbols_, joiner_, intake_limits(config_)),
      stalls_(clock, kernel_.get(), intake_, std::move(read_disk_stats)),
      epoch_(static_cast<uint64_t>(clock.unix_ns())),
      server_(clock, *this),
      top_statements_(config_.metrics_statements_max),
      metrics_(clock) {
  state_.started_ns = clock.now_ns();
  state_.tracing_wanted = config_.tracing;
  state_.tracing_error = std::move(tracing_error);
  state_.max_cpu_percent = config_.max_cpu_percent;
  joiner_.keep_texts(config_.full_query_text);
}

Daemon::~Daemon() {
  if (recorder_ == nullptr) return;
  intake_.drain();
  if (kernel_ != nullptr) recorder_->histograms(kernel_->histograms());
  intake_.set_recorder(nullptr);
  stalls_.set_recorder(nullptr);
  if (auto finished = recorder_->finish(); !finished) spdlog::error("{}", finished.error().text);
}

void Daemon::record(const std::string &path) {
  recorder_ = std::make_unique<Recorder>(clock_, path);
  intake_.set_recorder(recorder_.get());
  stalls_.set_recorder(recorder_.get());
}

Result<> Daemon::start() {
  auto control = MemoryFile::create("flushlight-control", static_cast<size_t>(sysconf(_SC_PAGESIZE)),
                                    MemoryFile::Access::kReadOnlyThere);
  if (!control) return control.error();
  control_ = std::move(*control);
  auto *page = static_cast<fl_control *>(control_.data());
  page->version = FL_RING_VERSION;
  page->epoch = epoch_;
  page->magic = FL_CONTROL_MAGIC;
  update_control();
  beat(clock_.now_ns());
  if (auto opened = server_.open(config_.socket_path, config_.socket_mode); !opened) return opened;
  if (auto prepared = metrics_.prepare(); !prepared) return prepared;
  if (auto watched = server_.watch(metrics_.wanted_fd(), [this] { publish_metrics(); }); !watched) return watched;
  serve_metrics();
  return Ok{};
}

// Without metrics commits are observed all the same, so a port that is taken is no reason to stop; it may be free
// later.
void Daemon::serve_metrics() {
  const bool said = !state_.metrics_error.empty();
  state_.metrics_listen = config_.metrics_listen;
  state_.metrics_error.clear();
  metrics_again_ns_ = 0;
  metrics_.stop();
  if (config_.metrics_listen.empty()) return;
  if (auto started = metrics_.start(config_.metrics_listen); !started) {
    state_.metrics_error = started.error().text;
    metrics_again_ns_ = clock_.now_ns() + kMetricsAgainNs;
    if (!said) spdlog::warn("no metrics: {}", state_.metrics_error);
    return;
  }
  spdlog::info("metrics at http://{}/metrics", config_.metrics_listen);
}

void Daemon::update_control() {
  auto *page = static_cast<fl_control *>(control_.data());
  if (page == nullptr) return;
  store(page->off, fl_u32{state_.off});
  store(page->tracing, fl_u32{kernel_ != nullptr && kernel_->enabled()});
  store(page->query_text, fl_u32{config_.full_query_text});
}

void Daemon::beat(uint64_t now_ns) {
  store(static_cast<fl_control *>(control_.data())->heartbeat_ns, fl_u64{now_ns});
  next_beat_ns_ = now_ns + FL_HEARTBEAT_INTERVAL_NS;
  if (kernel_ != nullptr) kernel_->tick();
}

int Daemon::wait_ms(uint64_t now_ns, int max_wait_ms) const {
  uint64_t due_ns = std::min({next_beat_ns_, next_house_ns_, stalls_.next_ns()});
  if (!intake_.leases().empty()) due_ns = std::min(due_ns, next_drain_ns_);
  const uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
  return static_cast<int>(std::min<uint64_t>((wait_ns + 999'999) / 1'000'000, static_cast<uint64_t>(max_wait_ms)));
}

bool Daemon::step(int max_wait_ms) {
  const bool watched = server_.step(wait_ms(clock_.now_ns(), max_wait_ms));
  const uint64_t now_ns = clock_.now_ns();
  if (now_ns >= next_beat_ns_) beat(now_ns);
  if (now_ns >= next_drain_ns_) {
    intake_.drain();
    next_drain_ns_ = clock_.now_ns() + intake_.interval_ns();
  }
  if (now_ns >= stalls_.next_ns()) stalls_.step(*facts_.latest().devices);
  if (now_ns >= next_house_ns_) keep_house(now_ns);
  return watched;
}

void Daemon::keep_house(uint64_t now_ns) {
  next_house_ns_ = now_ns + kHouseIntervalNs;
  server_.enforce_deadlines();
  metrics_.enforce_deadlines();
  std::vector<Followed> followed;
  for (const auto &[name, instance] : intake_.instances()) {
    const bool in_use = instance->attached > 0 || now_ns < instance->detached_ns + kFollowIdleNs;
    if (!in_use) instance->cgroup.clear();  // the server may come back in another one
    if (!instance->cgroup.empty()) followed.push_back({instance->id, instance->cgroup, instance->server_process});
  }
  facts_.follow(std::move(followed));
  if (metrics_again_ns_ != 0 && now_ns >= metrics_again_ns_) serve_metrics();
  advisor_.step({intake_, symbols_, texts_, facts_.latest(), kernel_.get(), stalls_, engines_});
  state_.refused_connections = server_.counts().refused_connections;
  state_.dropped_readers = server_.counts().dropped_readers;
  const auto costs = kernel_ != nullptr && kernel_->enabled() ? kernel_->costs() : std::vector<kernel::ProgramCost>{};
  const bool too_much = brake_.sample(now_ns, own_cpu_ns(), costs, config_.max_cpu_percent);
  state_.own_cpu_percent = brake_.own_percent();
  state_.kernel_cpu_percent = brake_.kernel_percent();
  if (kernel_ != nullptr) kernel_->measure(brake_.wants_measuring(config_.max_cpu_percent));
  if (too_much && !state_.off)
    set_off(true, fmt::format("switched itself off: daemon {:.1f} % and BPF programs {:.1f} % of a CPU, together above "
                              "tracing.max_cpu_percent ({}) for 10 s; `flushlight on` switches it on again",
                              brake_.own_percent().value_or(0), brake_.kernel_percent().value_or(0),
                              config_.max_cpu_percent));
}

void Daemon::set_off(bool off, const std::string &reason) {
  if (off == state_.off) return;
  state_.off = off;
  state_.off_reason = off ? reason : "";
  if (off) update_control();  // databases stop first
  if (kernel_ != nullptr)
    if (auto result = kernel_->set_enabled(!off); !result)
      spdlog::error("switching the programs {} failed: {}", off ? "off" : "on", result.error().text);
  stalls_.forget();
  update_control();
  brake_.forget();
  spdlog::warn("flushlight is {}{}{}", off ? "off" : "on", off ? ": " : "", state_.off_reason);
}

void Daemon::reload(const Config &wanted) {
  for (const ConfigChange &change : compare_configs(config_, wanted)) {
    if (change.reloadable)
      spdlog::info("{}: {} -> {}", change.key, change.from, change.to);
    else
      spdlog::warn("{}: {} -> {} takes effect after a restart of flushlightd only", change.key, change.from, change.to);
  }
  const bool metrics_move = wanted.metrics_listen != config_.metrics_listen;
  apply_reloadable(wanted, &config_);
  if (metrics_move) serve_metrics();
  top_statements_.set_max(config_.metrics_statements_max);
  set_log_level(config_.log_level);
  advisor_.set_options(config_);
  state_.max_cpu_percent = config_.max_cpu_percent;
  intake_.set_limits(intake_limits(config_));
  statistics_.set_limits(statistics_limits(config_));
  texts_.set_capacity(config_.statements_max * kTextsPerRow);
  joiner_.keep_texts(config_.full_query_text);
  refused_uids_.clear();
  update_control();
}

bool Daemon::is_owner_of_all(uid_t uid) const { return uid == 0 || uid == geteuid(); }

std::string Daemon::refuse_peer(uid_t uid) {
  if (config_.allowed_peers.allows(uid)) return "";
  state_.refused_peers++;
  const std::string text = fmt::format(
      "user {} may not use flushlight: add it to allowed_peers in the section [socket] of the configuration, then "
      "`systemctl reload flushlightd`",
      uid);
  if (refused_uids_.size() < kRefusedUidsMax && refused_uids_.insert(uid).second)
    spdlog::warn("connection refused (said once for each user): {}", text);
  return text;
}

void Daemon::on_closed(Connection &connection) {
  if (connection.lease == nullptr) return;
  const kernel::Lease range = connection.lease->range();
  intake_.detach(connection.lease);
  connection.lease = nullptr;
  if (kernel_ != nullptr && range.slot_count > 0) kernel_->revoke(range);
}

}  // namespace flushlight
