// SPDX-License-Identifier: GPL-2.0-or-later
// devices: the kernel side's histograms joined with what the host says about each device.
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "sidecar/serve/latency.h"

namespace flushlight {
namespace {

using kernel::DeviceHistogram;
using kernel::Operation;
using kernel::Stage;

struct DeviceRow {
  uint32_t number = 0;
  BlockDevice facts;                          // empty where the host says nothing
  bool traced = false;                        // histograms exist
  std::optional<kernel::InFlight> in_flight;  // as the kernel side sees it now
  std::map<std::pair<Operation, Stage>, const std::vector<uint64_t> *> histograms;
  std::vector<uint64_t> queue;  // of all operations
};

const std::vector<uint64_t> *histogram(const DeviceRow &row, Operation operation) {
  const auto found = row.histograms.find({operation, Stage::kDevice});
  return found != row.histograms.end() ? found->second : nullptr;
}

Cell requests(const DeviceRow &row, Operation operation) {
  if (!row.traced) return null_cell();
  const auto *buckets = histogram(row, operation);
  return count_cell(buckets ? std::accumulate(buckets->begin(), buckets->end(), uint64_t{0}) : 0);
}

Cell percentile(const std::vector<uint64_t> *buckets, double q) {
  return buckets ? ms_or_null(percentile_ns(std::span<const uint64_t>(*buckets), q)) : null_cell();
}

Cell real_or_null(std::optional<double> value) { return value ? double_cell(*value) : null_cell(); }

// A request that seems to be older than this has most likely ended unseen, if the device says that it has none.
constexpr uint64_t kUnlikelyNs = 30'000'000'000;

Cell oldest_request(const DeviceRow &row, const ViewContext &context) {
  const uint64_t now_ns = context.clock.now_ns();
  if (!row.in_flight || row.in_flight->oldest_ns == 0 || row.in_flight->oldest_ns > now_ns) return null_cell();
  const uint64_t age_ns = now_ns - row.in_flight->oldest_ns;
  if (age_ns > kUnlikelyNs && row.facts.inflight == 0) return null_cell();
  return ms_cell(age_ns);
}

Cell stalls(const DeviceRow &row, const ViewContext &context) {
  if (context.kernel == nullptr || context.stalls == nullptr) return null_cell();
  return count_cell(context.stalls->log().totals(row.number).count);
}

Cell stall_time(const DeviceRow &row, const ViewContext &context) {
  if (context.kernel == nullptr || context.stalls == nullptr) return null_cell();
  const stalls::StallTotals totals = context.stalls->log().totals(row.number);
  const uint64_t now_ns = context.clock.now_ns();
  const uint64_t lasts_ns = totals.lasts_since_ns != 0 ? now_ns - std::min(totals.lasts_since_ns, now_ns) : 0;
  return ms_cell(totals.ns + lasts_ns);
}

std::vector<Column<DeviceRow>> device_columns() {
  using Columns = std::vector<Column<DeviceRow>>;
  Columns columns = {{"name", [](const DeviceRow &r, auto &c) { return text_cell(device_name(r.number, c)); }}};
  static constexpr std::pair<std::string_view, std::string BlockDevice::*> kTexts[] = {
      {"mount_point", &BlockDevice::mount_point}, {"file_system", &BlockDevice::file_system},
      {"transport", &BlockDevice::transport},     {"model", &BlockDevice::model},
      {"firmware", &BlockDevice::firmware},       {"leaf_devices", &BlockDevice::leaves},
      {"scheduler", &BlockDevice::scheduler},     {"write_cache", &BlockDevice::write_cache}};
  for (const auto &[name, member] : kTexts)
    columns.push_back({name, [member = member](const DeviceRow &r, auto &) { return text_or_null(r.facts.*member); }});
  static constexpr std::pair<std::string_view, std::optional<int64_t> BlockDevice::*> kNumbers[] = {
      {"nr_requests", &BlockDevice::nr_requests}, {"tag_depth", &BlockDevice::tag_depth},
      {"hw_queues", &BlockDevice::hw_queues},     {"nomerges", &BlockDevice::nomerges},
      {"rq_affinity", &BlockDevice::rq_affinity}, {"read_ahead_kb", &BlockDevice::read_ahead_kb},
      {"rotational", &BlockDevice::rotational},   {"fua", &BlockDevice::fua},
      {"wbt_lat_us", &BlockDevice::wbt_lat_us}};
  for (const auto &[name, member] : kNumbers)
    columns.push_back({name, [member = member](const DeviceRow &r, auto &) { return int_or_null(r.facts.*member); }});
  static constexpr std::pair<std::string_view, std::optional<double> BlockRates::*> kRates[] = {
      {"read_rate", &BlockRates::reads},       {"write_rate", &BlockRates::writes},
      {"flush_rate", &BlockRates::flushes},    {"discard_rate", &BlockRates::discards},
      {"merge_rate", &BlockRates::merges},     {"read_mean_bytes", &BlockRates::read_mean_bytes},
      {"queue_mean", &BlockRates::queue_mean}, {"write_mean_bytes", &BlockRates::write_mean_bytes}};
  for (const auto &[name, member] : kRates)
    columns.push_back(
        {name, [member = member](const DeviceRow &r, auto &) { return real_or_null(r.facts.rates.*member); }});
  columns.push_back({"cpu_top_share", [](const DeviceRow &r, auto &) { return real_or_null(r.facts.interrupts.top); }});
  columns.push_back(
      {"cross_node_share", [](const DeviceRow &r, auto &) { return real_or_null(r.facts.interrupts.cross_node); }});
  columns.push_back({"inflight", [](const DeviceRow &r, auto &) {
                       return r.in_flight ? count_cell(r.in_flight->requests) : int_or_null(r.facts.inflight);
                     }});
  columns.push_back({"oldest_request_ms", [](const DeviceRow &r, auto &c) { return oldest_request(r, c); }});
  columns.push_back({"stalls", [](const DeviceRow &r, auto &c) { return stalls(r, c); }});
  columns.push_back({"stall_ms", [](const DeviceRow &r, auto &c) { return stall_time(r, c); }});
  struct Timed {
    Operation operation;
    std::string_view count, p50, p99;
  };
  static constexpr Timed kTimed[] = {{Operation::kRead, "reads", "read_p50_ms", "read_p99_ms"},
                                     {Operation::kWrite, "writes", "write_p50_ms", "write_p99_ms"},
                                     {Operation::kFlush, "flushes", "flush_p50_ms", "flush_p99_ms"}};
  for (const Timed &timed : kTimed) {
    const Operation operation = timed.operation;
    columns.push_back({timed.count, [operation](const DeviceRow &r, auto &) { return requests(r, operation); }});
    columns.push_back(
        {timed.p50, [operation](const DeviceRow &r, auto &) { return percentile(histogram(r, operation), 0.5); }});
    columns.push_back(
        {timed.p99, [operation](const DeviceRow &r, auto &) { return percentile(histogram(r, operation), 0.99); }});
  }
  columns.push_back({"queue_p50_ms", [](const DeviceRow &r, auto &) { return percentile(&r.queue, 0.5); }});
  columns.push_back({"queue_p99_ms", [](const DeviceRow &r, auto &) { return percentile(&r.queue, 0.99); }});
  return columns;
}

// Devices that make no requests of their own are shown with those that they stand on.
void add_stacked(const ViewContext &context, std::map<uint32_t, DeviceRow> *rows) {
  std::set<std::string> names;
  for (const auto &[number, row] : *rows) names.insert(device_name(number, context));
  for (const auto &[number, facts] : *context.host.devices) {
    if (facts.leaves.empty() || facts.mount_point.empty()) continue;
    std::string_view leaves = facts.leaves;
    while (!leaves.empty()) {
      const size_t comma = std::min(leaves.find(','), leaves.size());
      if (names.contains(std::string(leaves.substr(0, comma)))) (*rows)[number].number = number;
      leaves.remove_prefix(std::min(comma + 1, leaves.size()));
    }
  }
}

void each_device(const ViewContext &context, const TableView<DeviceRow>::Visit &visit) {
  const auto histograms = context.kernel != nullptr ? context.kernel->histograms() : std::vector<DeviceHistogram>{};
  std::map<uint32_t, DeviceRow> rows;
  for (const DeviceHistogram &found : histograms) {
    if (std::accumulate(found.buckets.begin(), found.buckets.end(), uint64_t{0}) == 0) continue;
    DeviceRow &row = rows[found.device];
    row.number = found.device;
    row.traced = true;
    row.histograms[{found.operation, found.stage}] = &found.buckets;
    if (found.stage != Stage::kQueue) continue;
    row.queue.resize(std::max(row.queue.size(), found.buckets.size()));
    for (size_t i = 0; i < found.buckets.size(); i++) row.queue[i] += found.buckets[i];
  }
  if (context.kernel == nullptr)  // nothing was observed: at least say what is mounted
    for (const auto &[number, facts] : *context.host.devices)
      if (!facts.mount_point.empty()) rows[number].number = number;
  add_stacked(context, &rows);
  if (context.kernel != nullptr)
    for (const kernel::InFlight &found : context.kernel->in_flight())
      if (const auto row = rows.find(found.device); row != rows.end()) row->second.in_flight = found;
  for (auto &[number, row] : rows) {
    if (const auto facts = context.host.devices->find(number); facts != context.host.devices->end())
      row.facts = facts->second;
    visit(row);
  }
}

}  // namespace

std::unique_ptr<View> make_devices_view() {
  return std::make_unique<TableView<DeviceRow>>("devices", device_columns(), each_device);
}

}  // namespace flushlight
