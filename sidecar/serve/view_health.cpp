// SPDX-License-Identifier: GPL-2.0-or-later
// health: what works, what does not and why, what is lost, what it costs.
#include <algorithm>

#include "sidecar/base/version.h"
#include "sidecar/host/layers.h"
#include "sidecar/join/servers.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

struct Row {
  const Instance *instance = nullptr;
  std::string component;
  std::string state = "ok";
  std::string detail;
  std::string tier;
  std::optional<double> coverage, cost_percent;
  std::optional<uint64_t> lost, evicted, unattached, missed;
  std::string version;
  std::optional<uint64_t> reset_at_ns;

  void worse(std::string_view to, std::string_view why) {
    if (state == "ok") state = to;
    detail += (detail.empty() ? "" : "; ") + std::string(why);
  }
};

Cell real_or_null(std::optional<double> value) { return value ? double_cell(*value) : null_cell(); }
Cell count_or_none(std::optional<uint64_t> value) { return value ? count_cell(*value) : null_cell(); }

std::vector<Column<Row>> health_columns() {
  return {
      {"instance", [](const Row &r, auto &) { return r.instance ? text_cell(r.instance->name) : null_cell(); }},
      {"component", [](const Row &r, auto &) { return text_cell(r.component); }},
      {"state", [](const Row &r, auto &) { return text_cell(r.state); }},
      {"detail", [](const Row &r, auto &) { return text_or_null(std::string_view(r.detail).substr(0, 1024)); }},
      {"tier", [](const Row &r, auto &) { return text_or_null(r.tier); }},
      {"coverage", [](const Row &r, auto &) { return real_or_null(r.coverage); }},
      {"lost", [](const Row &r, auto &) { return count_or_none(r.lost); }},
      {"evicted", [](const Row &r, auto &) { return count_or_none(r.evicted); }},
      {"unattached", [](const Row &r, auto &) { return count_or_none(r.unattached); }},
      {"missed", [](const Row &r, auto &) { return count_or_none(r.missed); }},
      {"cost_percent", [](const Row &r, auto &) { return real_or_null(r.cost_percent); }},
      {"version", [](const Row &r, auto &) { return text_or_null(r.version); }},
      {"reset_at", [](const Row &r, auto &c) { return r.reset_at_ns ? c.time(*r.reset_at_ns) : null_cell(); }},
  };
}

Row daemon_row(const ViewContext &context) {
  const DaemonState &state = context.state;
  Row row;
  row.component = "daemon";
  row.version = kVersion;
  row.cost_percent = state.own_cpu_percent;
  row.reset_at_ns = state.started_ns;
  if (state.off) row.worse("off", state.off_reason);
  if (!state.memory_lock_error.empty())
    row.worse("degraded", "memory is not locked, so a stalled disk may delay answers: " + state.memory_lock_error);
  const std::pair<uint64_t, const char *> counts[] = {
      {state.refused_peers, "connections refused because of their user (socket.allowed_peers)"},
      {state.refused_connections, "connections refused for want of descriptors"},
      {state.refused_messages, "messages that made no sense"},
      {state.dropped_readers, "connections dropped because they did not read their answer"}};
  for (const auto &[count, words] : counts)
    if (count > 0) row.detail += fmt::format("{}{} {}", row.detail.empty() ? "" : "; ", count, words);
  return row;
}

// What the time of a cause consists of, as far as the kernel side can tell: named after the cause (bpf/shared.h).
bool tells_causes(const kernel::Counter &counter) {
  const auto begins = [&](std::string_view cause) { return counter.name.rfind(cause, 0) == 0; };
  return begins("queue_") || begins("throttle_") || begins("cpu_");
}

Row causes_row(const ViewContext &context) {
  Row row;
  row.component = "causes";
  for (const auto &counter : context.kernel->counters())
    if (counter.value > 0 && tells_causes(counter))
      row.detail += fmt::format("{}{} {:.3f} ms", row.detail.empty() ? "" : "; ", counter.help,
                                static_cast<double>(counter.value) / 1e6);
  return row;
}

Row tracing_row(const ViewContext &context) {
  const DaemonState &state = context.state;
  Row row;
  row.component = "tracing";
  if (context.kernel == nullptr) {
    row.tier = "B";
    if (!state.tracing_wanted)
      row.worse("off", "switched off by configuration (tracing.enabled); causes are NULL");
    else
      row.worse("failed", state.tracing_error + "; causes are NULL; `flushlight doctor` says what is missing");
    return row;
  }
  row.tier = "A";
  row.cost_percent = state.kernel_cpu_percent;
  uint64_t lost = 0;
  if (!context.kernel->enabled()) row.worse("off", state.off ? state.off_reason : "programs are detached");
  std::string missing;  // nothing required, or it would not be loaded: said, but not wrong
  for (const auto &feature : context.kernel->features())
    if (!feature.present)
      missing += fmt::format("{}{} is missing ({}): {}", missing.empty() ? "" : "; ", feature.name, feature.detail,
                             feature.cost);
  uint64_t misses = 0;
  for (const auto &cost : context.kernel->costs()) misses += cost.misses;
  if (misses > 0)
    row.worse("degraded", fmt::format("{} runs of programs refused by the kernel's recursion guard", misses));
  lost += misses;
  std::string others;
  for (const auto &counter : context.kernel->counters()) {
    if (counter.value == 0 || tells_causes(counter)) continue;
    if (counter.is_loss) {
      lost += counter.value;
      row.worse("degraded", fmt::format("{} {}", counter.value, counter.help));
    } else {
      others += fmt::format("{}{} {}", others.empty() ? "" : "; ", counter.value, counter.help);
    }
  }
  if (!missing.empty()) row.detail += (row.detail.empty() ? "" : "; ") + missing;
  if (!others.empty()) row.detail += (row.detail.empty() ? "" : "; ") + others;
  row.lost = lost;
  return row;
}

// Nothing wrong, but to be known: where the figures of a stacked device are found.
Row devices_row(const ViewContext &context) {
  Row row;
  row.component = "devices";
  row.detail = describe_layers(*context.host.devices);
  return row;
}

Row statements_row(const ViewContext &context) {
  const StatementTable &table = context.statistics.statements();
  Row row;
  row.component = "statements";
  row.evicted = table.dealloc();
  row.detail = fmt::format("{} of {} rows used", table.rows().size(), table.rows_max());
  row.reset_at_ns = context.statistics.reset_at_ns(context.instance);
  if (table.dealloc() > 0) row.detail += "; the least used are folded into <evicted>: raise statistics.statements_max";
  return row;
}

Row slow_commits_row(const ViewContext &context) {
  Row row;
  row.component = "slow_commits";
  row.evicted = context.instance == 0 ? context.statistics.slow_commits().suppressed()
                                      : context.statistics.slow_commits().suppressed(context.instance);
  if (*row.evicted > 0)
    row.detail =
        fmt::format("{} suppressed in storms: leaders and each query's worst per second were kept", *row.evicted);
  return row;
}

// File systems whose journal or log the kernel side does not know. (An overlay lies on another, which it may.)
struct Uncovered {
  uint32_t type;  // f_type of statfs(2)
  const char *name;
};
constexpr Uncovered kUncovered[] = {{0x9123683E, "btrfs"},    {0xF2F52010, "f2fs"}, {0x2FC12FC1, "zfs"},
                                    {0xCA451A4E, "bcachefs"}, {0x6969, "nfs"},      {0xFF534D42, "cifs"},
                                    {0x65735546, "fuse"},     {0x3153464A, "jfs"}};

Row metrics_row(const ViewContext &context) {
  const DaemonState &state = context.state;
  Row row;
  row.component = "metrics";
  if (state.metrics_listen.empty())
    row.detail = "not served (metrics.listen is empty)";
  else if (!state.metrics_error.empty())
    row.worse("failed", state.metrics_error + "; tried again every 10 s");
  else
    row.detail = fmt::format("http://{}/metrics", state.metrics_listen);
  return row;
}

constexpr const char *kEngineNames[] = {"unknown", "postgresql", "mariadb", "program"};
constexpr double kGoodCoverage = 0.99;
constexpr uint64_t kCoverageMatters = 100;  // commits: before, single ones decide

Row instance_row(const ViewContext &context, const Instance &instance) {
  Row row;
  row.instance = &instance;
  row.component = kEngineNames[instance.engine < std::size(kEngineNames) ? instance.engine : 0];
  row.version = fmt::format("{} (server {})", instance.client_version, instance.engine_version);
  row.reset_at_ns = context.statistics.reset_at_ns(instance.id);
  row.unattached = instance.not_attached;
  row.missed = instance.commits_missed;
  row.lost = instance.dropped + instance.bad_records + instance.unknown_records;
  row.detail =
      instance.attached > 0 ? fmt::format("{} processes attached", instance.attached) : "no process attached now";
  const bool traced = context.kernel != nullptr && instance.traced > 0 && instance.traced == instance.attached;
  if (instance.attached > 0) row.tier = traced ? "A" : "B";
  if (instance.commits_seen > 0)
    row.coverage =
        std::min(1.0, static_cast<double>(instance.commits_accounted) / static_cast<double>(instance.commits_seen));
  if (context.state.off) row.worse("off", context.state.off_reason);
  if (instance.attached > 0 && !traced)
    row.worse("degraded", fmt::format("{} of them without a range of the ledger: causes are NULL",
                                      instance.attached - (context.kernel != nullptr ? instance.traced : 0)));
  for (const Uncovered &uncovered : kUncovered)
    if (instance.file_system == uncovered.type)
      row.worse("degraded", fmt::format("not covered: its data lies on {}; waits for that file system's own work count "
                                        "as other, and nobody leads or follows (ext4 and XFS are covered)",
                                        uncovered.name));
  const std::pair<uint64_t, const char *> losses[] = {
      {instance.dropped, "records found no room in their ring (raise rings.data_bytes)"},
      {instance.bad_records, "records made no sense"},
      {instance.unknown_records, "records of unknown types (the plugin or extension is newer than the daemon)"},
      {instance.implausible, "accounts were implausible and taken as not observed"},
      {instance.orphans, "records of sessions that had not introduced themselves"},
      {instance.not_attached, "attachments refused or without a ledger range"}};
  for (const auto &[count, words] : losses)
    if (count > 0) row.worse("degraded", fmt::format("{} {}", count, words));
  if (row.coverage && *row.coverage < kGoodCoverage && instance.commits_seen >= kCoverageMatters)
    row.worse("degraded",
              fmt::format("{} of {} commits have no account",
                          instance.commits_seen - std::min(instance.commits_seen, instance.commits_accounted),
                          instance.commits_seen));
  return row;
}

// A server that is asked for its settings. One that nobody attached from belongs to no instance: for all-seeing eyes.
Row settings_row(const Instance *instance, const EngineFacts &facts) {
  Row row;
  row.instance = instance;
  row.component = "settings";
  row.version = facts.version_text;
  if (!facts.error.empty())
    row.worse("failed", facts.error + "; without its settings there is no advice about them");
  else if (!facts.known())
    row.detail = "not read yet";
  else
    row.detail = fmt::format("{} settings, {} statistics", facts.settings.size(), facts.statistics.size());
  for (const std::string &refused : facts.refused) row.worse("degraded", "not allowed to see " + refused);
  row.detail += " (" + facts.target + ")";
  return row;
}

void each_settings_row(const ViewContext &context, const TableView<Row>::Visit &visit) {
  if (context.engines == nullptr) return;
  for (const auto &facts : context.engines->latest()) {
    const Instance *instance = find_server(context.intake, *facts);
    if (instance != nullptr ? context.shows(instance->id) : context.instance == 0)
      visit(settings_row(instance, *facts));
  }
}

void each_row(const ViewContext &context, const TableView<Row>::Visit &visit) {
  visit(daemon_row(context));
  visit(tracing_row(context));
  if (context.kernel != nullptr) visit(causes_row(context));
  visit(devices_row(context));
  visit(statements_row(context));
  visit(slow_commits_row(context));
  visit(metrics_row(context));
  for (const auto &[name, instance] : context.intake.instances())
    if (context.shows(instance->id)) visit(instance_row(context, *instance));
  each_settings_row(context, visit);
  if (context.advisor == nullptr || context.advisor->history_error().empty()) return;
  Row row;
  row.component = "advice";
  row.worse("degraded", "verdicts are not kept over restarts: " + context.advisor->history_error());
  row.lost = context.advisor->history().lost();
  visit(row);
}

}  // namespace

std::unique_ptr<View> make_health_view() {
  return std::make_unique<TableView<Row>>("health", health_columns(), each_row);
}

}  // namespace flushlight
