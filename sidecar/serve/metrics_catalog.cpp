// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/metrics_catalog.h"

#include <algorithm>
#include <map>

#include "sidecar/serve/catalog.h"

namespace flushlight {
namespace {

struct MetricEntry {
  std::string_view view, column;
  MetricKind kind;
};
constexpr MetricEntry kMetrics[] = {
#define FL_METRIC(view, column, kind) {#view, #column, MetricKind::kind},
#include "abi/metrics.def"
};

constexpr MetricLabel kLabels[] = {
#define FL_LABEL(view, column, label) {#view, #column, #label},
#include "abi/metrics.def"
};

constexpr std::string_view kWithout[] = {
#define FL_NO_METRICS(view, why) #view,
#include "abi/metrics.def"
};

// Names of units in columns, and what OpenMetrics makes of them.
struct UnitSuffix {
  std::string_view suffix, unit;
  double scale;
};
constexpr UnitSuffix kSuffixes[] = {{"_ms", "seconds", 1e-3},
                                    {"_us", "seconds", 1e-6},
                                    {"_kb", "bytes", 1024},
                                    {"_percent", "ratio", 1e-2},
                                    {"_bytes", "bytes", 1.0}};

const CatalogColumn *find_column(std::string_view view, std::string_view name) {
  for (const CatalogColumn &column : catalog_columns())
    if (column.view == view && column.name == name) return &column;
  return nullptr;
}

Metric make_metric(const MetricEntry &entry) {
  Metric metric{entry.view, entry.column, entry.kind, "", "", 1, ""};
  std::string stem(entry.column);
  if (stem.starts_with("total_")) stem.erase(0, 6);
  for (const UnitSuffix &suffix : kSuffixes) {
    if (!stem.ends_with(suffix.suffix)) continue;
    stem.resize(stem.size() - suffix.suffix.size());
    metric.unit = suffix.unit;
    metric.scale = suffix.scale;
    break;
  }
  if (const CatalogColumn *column = find_column(entry.view, entry.column)) {
    metric.help = column->help;
    if (column->unit == "RATIO") metric.unit = "ratio";
    if (column->type == FL_CELL_TIME) {
      stem += "_timestamp";
      metric.unit = "seconds";
      metric.scale = 1e-9;
    }
  }
  metric.name = "flushlight_" + std::string(entry.view);
  if (entry.kind == MetricKind::HISTOGRAM)
    metric.unit = "seconds";  // what is observed are times
  else
    metric.name += "_" + stem;
  if (!metric.unit.empty()) metric.name += "_" + std::string(metric.unit);
  return metric;
}

}  // namespace

const std::vector<Metric> &metrics_of(std::string_view view) {
  static const std::map<std::string_view, std::vector<Metric>> all = [] {
    std::map<std::string_view, std::vector<Metric>> found;
    for (const MetricEntry &entry : kMetrics) {
      auto &metrics = found[entry.view];
      if (entry.kind != MetricKind::INFO) metrics.push_back(make_metric(entry));
    }
    return found;
  }();
  static const std::vector<Metric> none;
  const auto found = all.find(view);
  return found != all.end() ? found->second : none;
}

std::vector<MetricLabel> labels_of(std::string_view view) {
  std::vector<MetricLabel> labels;
  for (const MetricLabel &label : kLabels)
    if (label.view == view) labels.push_back(label);
  return labels;
}

std::vector<MetricLabel> info_labels_of(std::string_view view) {
  std::vector<MetricLabel> labels;
  for (const MetricEntry &entry : kMetrics)
    if (entry.view == view && entry.kind == MetricKind::INFO) labels.push_back({view, entry.column, entry.column});
  return labels;
}

std::vector<std::string_view> metric_views() {
  std::vector<std::string_view> views;
  for (const MetricEntry &entry : kMetrics)
    if (std::find(views.begin(), views.end(), entry.view) == views.end()) views.push_back(entry.view);
  return views;
}

std::vector<std::string_view> views_without_metrics() { return {std::begin(kWithout), std::end(kWithout)}; }

}  // namespace flushlight
