// SPDX-License-Identifier: GPL-2.0-or-later
// What /metrics shows: rows of the views as numbers and labels, and histograms, gathered in one go, so that all
// figures are of one moment; and their text.
// Owner: gather_metrics() the main thread (it reads what intake writes); a snapshot does not change and goes to the
// HTTP thread, which does the formatting.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace flushlight {

struct ViewContext;

struct MetricsSnapshot {
  struct Row {
    std::string labels;          // a="b",c="d"
    std::string info;            // the same, of the view's texts
    std::vector<double> values;  // in the order of metrics_of(view); NaN: NULL
  };
  struct Histogram {
    std::string labels;
    std::vector<uint64_t> cumulative;  // at kHistogramBounds
    uint64_t count = 0;
    double sum_seconds = 0;
  };
  std::map<std::string_view, std::vector<Row>> rows;  // by view
  std::vector<Histogram> histograms;                  // of the view latency
};

// Bounds of the buckets: 16 us to 34 s, a factor of two apart. They are bounds of the fine buckets too, so nothing is
// guessed. Times are whole nanoseconds: what is below 2^n ns is at most 2^n - 1.
inline constexpr int kHistogramFirstBits = 14, kHistogramLastBits = 35;

std::shared_ptr<const MetricsSnapshot> gather_metrics(const ViewContext &context);

struct Exposition {
  bool openmetrics = false;
  std::string content_type;
};
// What the client of an Accept header gets, as Prometheus' own exporters decide.
Exposition negotiate(std::string_view accept);
std::string format_metrics(const MetricsSnapshot &snapshot, bool openmetrics);

}  // namespace flushlight
