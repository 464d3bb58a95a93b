// SPDX-License-Identifier: GPL-2.0-or-later
// The text of the metrics: OpenMetrics 1.0, and Prometheus' older format for those who do not ask for that.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "sidecar/serve/metrics.h"
#include "sidecar/serve/metrics_catalog.h"

namespace flushlight {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr const char *kTypes[] = {"counter", "gauge", "info", "histogram"};
constexpr const char *kSuffixes[] = {"_total", "", "_info", ""};
constexpr const char *kOldTypes[] = {"counter", "gauge", "gauge", "histogram"};  // it has no info

struct Writer {
  std::string text;
  bool openmetrics = false;

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(Out(text), format, std::forward<Args>(args)...);
  }
  // The older format names a family as its samples.
  void head(std::string_view family, MetricKind kind, std::string_view unit, std::string_view help) {
    const auto at = static_cast<size_t>(kind);
    const std::string name = openmetrics ? std::string(family) : std::string(family) + kSuffixes[at];
    put("# HELP {} ", name);
    for (const char c : help) {
      if (c == '\\' || (openmetrics && c == '"')) text += '\\';
      text += c;
    }
    put("\n# TYPE {} {}\n", name, openmetrics ? kTypes[at] : kOldTypes[at]);
    if (openmetrics && !unit.empty()) put("# UNIT {} {}\n", name, unit);
  }
};

std::string braces(const std::string &labels) { return labels.empty() ? "" : "{" + labels + "}"; }

void put_view(std::string_view view, const std::vector<MetricsSnapshot::Row> &rows, Writer *out) {
  const auto &metrics = metrics_of(view);
  for (size_t i = 0; i < metrics.size(); i++) {
    const Metric &metric = metrics[i];
    bool any = false;
    for (const auto &row : rows) {
      if (std::isnan(row.values[i])) continue;
      if (!std::exchange(any, true)) out->head(metric.name, metric.kind, metric.unit, metric.help);
      out->put("{}{}{} {}\n", metric.name, kSuffixes[static_cast<size_t>(metric.kind)], braces(row.labels),
               row.values[i]);
    }
  }
  if (rows.empty() || info_labels_of(view).empty()) return;
  const std::string name = fmt::format("flushlight_{}", view);
  out->head(name, MetricKind::INFO, "", fmt::format("what is said in words of each row of the view {}", view));
  for (const auto &row : rows)
    out->put("{}_info{} 1\n", name,
             braces(row.labels + (row.labels.empty() || row.info.empty() ? "" : ",") + row.info));
}

void put_histograms(const std::vector<MetricsSnapshot::Histogram> &histograms, Writer *out) {
  if (histograms.empty()) return;
  const Metric &metric = metrics_of("latency").front();
  out->head(metric.name, metric.kind, metric.unit, "times of commits and of requests at devices and in their queues");
  for (const auto &histogram : histograms) {
    for (size_t i = 0; i < histogram.cumulative.size(); i++)
      out->put("{}_bucket{{{},le=\"{:.9f}\"}} {}\n", metric.name, histogram.labels,
               static_cast<double>((1ull << (kHistogramFirstBits + i)) - 1) * 1e-9, histogram.cumulative[i]);
    out->put("{}_bucket{{{},le=\"+Inf\"}} {}\n", metric.name, histogram.labels, histogram.count);
    out->put("{}_sum{{{}}} {}\n", metric.name, histogram.labels, histogram.sum_seconds);
    out->put("{}_count{{{}}} {}\n", metric.name, histogram.labels, histogram.count);
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The part before the separator, which goes together with it.
std::string_view cut(std::string_view *text, char separator) {
  const size_t at = text->find(separator);
  const std::string_view part = trim(text->substr(0, at));
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return part;
}

// 0 to 1000; what makes no sense counts as absent.
int quality(std::string_view text) {
  if (text.empty() || (text[0] != '0' && text[0] != '1')) return 1000;
  if (text[0] == '1') return 1000;
  int value = 0, weight = 100;
  for (size_t i = 2; i < std::min<size_t>(text.size(), 5) && text[i] >= '0' && text[i] <= '9'; i++, weight /= 10)
    value += (text[i] - '0') * weight;
  return value;
}

constexpr const char *kOldType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

Exposition negotiate(std::string_view accept) {
  Exposition best{false, kOldType};
  int best_quality = 0;
  while (!accept.empty()) {
    std::string_view choice = cut(&accept, ',');
    const std::string_view type = cut(&choice, ';');
    std::string_view version;
    int q = 1000;
    while (!choice.empty()) {
      std::string_view parameter = cut(&choice, ';');
      const std::string_view name = cut(&parameter, '=');
      if (name == "q") q = quality(parameter);
      if (name == "version") version = trim(parameter);
    }
    if (q <= best_quality) continue;
    if (type == "application/openmetrics-text" && (version.empty() || version == "1.0.0" || version == "0.0.1")) {
      best = {true, fmt::format("application/openmetrics-text; version={}; charset=utf-8",
                                version.empty() ? "1.0.0" : version)};
      best_quality = q;
    } else if (type == "*/*" || type == "text/*" || (type == "text/plain" && (version.empty() || version == "0.0.4"))) {
      best = {false, kOldType};
      best_quality = q;
    }
  }
  return best;
}

std::string format_metrics(const MetricsSnapshot &snapshot, bool openmetrics) {
  Writer out{{}, openmetrics};
  for (const auto &[view, rows] : snapshot.rows) put_view(view, rows, &out);
  put_histograms(snapshot.histograms, &out);
  if (openmetrics) out.text += "# EOF\n";
  return std::move(out.text);
}

}  // namespace flushlight
