// SPDX-License-Identifier: GPL-2.0-or-later
// devices: the kernel side's histograms joined with what the host says about each device.
#include <array>
#include <map>
#include <numeric>

#include "sidecar/serve/latency.h"

namespace flushlight {
namespace {

using kernel::DeviceHistogram;
using kernel::Operation;
using kernel::Stage;

struct DeviceRow {
  uint32_t number = 0;
  BlockDevice facts;    // empty where the host says nothing
  bool traced = false;  // histograms exist
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

std::vector<Column<DeviceRow>> device_columns() {
  using Columns = std::vector<Column<DeviceRow>>;
  Columns columns = {{"name", [](const DeviceRow &r, auto &c) { return text_cell(device_name(r.number, c)); }}};
  static constexpr std::pair<std::string_view, std::string BlockDevice::*> kTexts[] = {
      {"mount_point", &BlockDevice::mount_point}, {"file_system", &BlockDevice::file_system},
      {"transport", &BlockDevice::transport},     {"model", &BlockDevice::model},
      {"scheduler", &BlockDevice::scheduler},     {"write_cache", &BlockDevice::write_cache}};
  for (const auto &[name, member] : kTexts)
    columns.push_back({name, [member = member](const DeviceRow &r, auto &) { return text_or_null(r.facts.*member); }});
  static constexpr std::pair<std::string_view, std::optional<int64_t> BlockDevice::*> kNumbers[] = {
      {"nr_requests", &BlockDevice::nr_requests}, {"nomerges", &BlockDevice::nomerges},
      {"rq_affinity", &BlockDevice::rq_affinity}, {"read_ahead_kb", &BlockDevice::read_ahead_kb},
      {"rotational", &BlockDevice::rotational},   {"fua", &BlockDevice::fua},
      {"wbt_lat_us", &BlockDevice::wbt_lat_us},   {"inflight", &BlockDevice::inflight}};
  for (const auto &[name, member] : kNumbers)
    columns.push_back({name, [member = member](const DeviceRow &r, auto &) { return int_or_null(r.facts.*member); }});
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
    for (const auto &[number, facts] : context.devices)
      if (!facts.mount_point.empty()) rows[number].number = number;
  for (auto &[number, row] : rows) {
    if (const auto facts = context.devices.find(number); facts != context.devices.end()) row.facts = facts->second;
    visit(row);
  }
}

}  // namespace

std::unique_ptr<View> make_devices_view() {
  return std::make_unique<TableView<DeviceRow>>("devices", device_columns(), each_device);
}

}  // namespace flushlight
