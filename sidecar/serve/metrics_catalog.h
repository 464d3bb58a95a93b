// SPDX-License-Identifier: GPL-2.0-or-later
// abi/metrics.def as tables: which columns of the views are metrics, under which names.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flushlight {

enum class MetricKind { COUNTER, GAUGE, INFO, HISTOGRAM };

struct Metric {
  std::string_view view, column;
  MetricKind kind{};
  std::string name;       // of the family, without _total and the like
  std::string_view unit;  // OpenMetrics' base unit, last part of the name; may be empty
  double scale = 1;       // from the column's unit
  std::string_view help;
};
const std::vector<Metric> &metrics_of(std::string_view view);  // without INFO

struct MetricLabel {
  std::string_view view, column, label;
};
std::vector<MetricLabel> labels_of(std::string_view view);
std::vector<MetricLabel> info_labels_of(std::string_view view);  // label: the column's name

// Views of which metrics are made; all others are in the second list, with a reason.
std::vector<std::string_view> metric_views();
std::vector<std::string_view> views_without_metrics();

}  // namespace flushlight
