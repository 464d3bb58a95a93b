// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/latency.h"

namespace flushlight {
namespace {

using kernel::DeviceHistogram;
using kernel::Operation;
using kernel::Stage;

constexpr std::string_view kOperationNames[] = {"read", "write", "flush", "discard"};
static_assert(std::size(kOperationNames) == static_cast<size_t>(Operation::kCount));

struct BucketRow {
  const LatencyHistogram *histogram = nullptr;
  uint32_t bucket = 0;
  uint64_t count = 0;
};

std::vector<Column<BucketRow>> latency_columns() {
  using R = BucketRow;
  return {
      {"object", [](const R &r, auto &) { return text_cell(r.histogram->object); }},
      {"instance", [](const R &r, auto &c) { return c.instance_name(r.histogram->instance); }},
      {"operation", [](const R &r, auto &) { return text_cell(r.histogram->operation); }},
      {"stage", [](const R &r, auto &) { return text_cell(r.histogram->stage); }},
      {"bucket_low_ms", [](const R &r, auto &) { return ms_cell(fl_histogram_low(r.bucket)); }},
      {"bucket_high_ms",
       [](const R &r, auto &) {
         const auto high = bucket_high_ns(r.bucket);
         return high ? ms_cell(*high) : null_cell();
       }},
      {"observations", [](const R &r, auto &) { return count_cell(r.count); }},
  };
}

std::string_view stage_name(Operation operation, Stage stage) {
  if (stage == Stage::kQueue) return "queue";
  return operation == Operation::kFlush ? "flush" : "device";
}

void each_bucket(const ViewContext &context, const TableView<BucketRow>::Visit &visit) {
  each_latency_histogram(context, [&](const LatencyHistogram &histogram) {
    BucketRow row{&histogram};
    for (row.bucket = 0; row.bucket < FL_HISTOGRAM_BUCKETS; row.bucket++)
      if ((row.count = histogram.count_of(row.bucket)) > 0) visit(row);
  });
}

}  // namespace

std::string device_name(uint32_t number, const ViewContext &context) {
  const auto found = context.devices.find(number);
  return found != context.devices.end() ? found->second.name : fmt::format("{}:{}", number >> 20, number & 0xfffff);
}

void each_latency_histogram(const ViewContext &context, const std::function<void(const LatencyHistogram &)> &visit) {
  for (const auto &[id, histogram] : context.statistics.commit_times())
    if (context.shows(id))
      visit({"commit", id, "commit", "total", histogram.sum_ns(),
             [&histogram](uint32_t bucket) { return histogram.count(bucket); }});
  if (context.kernel == nullptr) return;
  for (const DeviceHistogram &found : context.kernel->histograms()) {
    if (found.operation >= Operation::kCount || found.stage >= Stage::kCount) continue;
    visit({device_name(found.device, context), 0, kOperationNames[static_cast<size_t>(found.operation)],
           stage_name(found.operation, found.stage), found.sum_ns,
           [&found](uint32_t bucket) { return bucket < found.buckets.size() ? found.buckets[bucket] : 0; }});
  }
}

std::unique_ptr<View> make_latency_view() {
  return std::make_unique<TableView<BucketRow>>("latency", latency_columns(), each_bucket);
}

}  // namespace flushlight
