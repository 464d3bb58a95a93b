// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/metrics.h"

#include <cmath>
#include <limits>
#include <unordered_set>

#include "sidecar/serve/latency.h"
#include "sidecar/serve/metrics_catalog.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

using Row = MetricsSnapshot::Row;

std::string label_text(const Cell &cell) {
  return cell.type == FL_CELL_TEXT ? cell.text : fmt::to_string(cell.integer);
}

void append_label(std::string_view name, std::string_view value, std::string *labels) {
  if (!labels->empty()) *labels += ',';
  *labels += name;
  *labels += "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') *labels += '\\';
    if (c == '\n')
      *labels += "\\n";
    else
      *labels += c;
  }
  *labels += '"';
}

double number_of(const Cell &cell, double scale) {
  if (cell.type == FL_CELL_DOUBLE) return cell.real * scale;
  if (cell.type == FL_CELL_INT || cell.type == FL_CELL_TIME) return static_cast<double>(cell.integer) * scale;
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<Row> gather_view(const View &view, const ViewContext &context) {
  const auto &metrics = metrics_of(view.name());
  const auto labels = labels_of(view.name()), infos = info_labels_of(view.name());
  std::vector<std::string_view> columns;
  for (const auto *list : {&labels, &infos})
    for (const MetricLabel &label : *list) columns.push_back(label.column);
  for (const Metric &metric : metrics) columns.push_back(metric.column);
  std::vector<Row> rows;
  std::unordered_set<std::string> seen;
  view.each(context, columns, [&](const std::vector<Cell> &cells) {
    Row row;
    size_t at = 0;
    for (const auto &[list, text] : {std::pair{&labels, &row.labels}, std::pair{&infos, &row.info}})
      for (const MetricLabel &label : *list) {
        const Cell &cell = cells[at++];
        if (cell.type != FL_CELL_NULL) append_label(label.label, label_text(cell), text);
      }
    if (!seen.insert(row.labels).second) return;  // a series twice would make all of the answer invalid
    for (const Metric &metric : metrics) row.values.push_back(number_of(cells[at++], metric.scale));
    rows.push_back(std::move(row));
  });
  return rows;
}

MetricsSnapshot::Histogram make_histogram(const LatencyHistogram &from, const ViewContext &context) {
  MetricsSnapshot::Histogram histogram;
  append_label("object", from.object, &histogram.labels);
  if (from.instance != 0)
    if (const Cell name = context.instance_name(from.instance); name.type == FL_CELL_TEXT)
      append_label("instance", name.text, &histogram.labels);
  append_label("operation", from.operation, &histogram.labels);
  append_label("stage", from.stage, &histogram.labels);
  uint32_t bucket = 0;
  for (int bits = kHistogramFirstBits; bits <= kHistogramLastBits; bits++) {
    for (; bucket < FL_HISTOGRAM_BUCKETS && fl_histogram_low(bucket) < (1ull << bits); bucket++)
      histogram.count += from.count_of(bucket);
    histogram.cumulative.push_back(histogram.count);
  }
  for (; bucket < FL_HISTOGRAM_BUCKETS; bucket++) histogram.count += from.count_of(bucket);
  histogram.sum_seconds = static_cast<double>(from.sum_ns) * 1e-9;
  return histogram;
}

}  // namespace

std::shared_ptr<const MetricsSnapshot> gather_metrics(const ViewContext &context) {
  auto snapshot = std::make_shared<MetricsSnapshot>();
  for (const std::string_view name : metric_views()) {
    const auto &metrics = metrics_of(name);
    if (!metrics.empty() && metrics.front().kind == MetricKind::HISTOGRAM) continue;
    if (const View *view = find_view(name)) snapshot->rows[name] = gather_view(*view, context);
  }
  each_latency_histogram(context, [&](const LatencyHistogram &histogram) {
    snapshot->histograms.push_back(make_histogram(histogram, context));
  });
  return snapshot;
}

}  // namespace flushlight
