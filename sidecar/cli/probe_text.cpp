// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/probe_text.h"

#include <fmt/format.h>

#include <map>

#include "sidecar/cli/layout.h"

namespace flushlight::cli {
namespace {

using Align = TextTable::Align;
using probe::Group;
using probe::Outcome;
using probe::State;

constexpr size_t kBarWidth = 40;
constexpr double kCpuWaitPercent = 10;  // below, the figures are the device's

std::string figure(const std::optional<double> &ms) {
  if (!ms) return "-";
  return fmt::format("{:.{}f}", *ms, *ms < 10 ? 3 : *ms < 1000 ? 2 : 0);
}

struct Section {
  Group group;
  const char *title;
};
constexpr Section kSections[] = {
    {Group::kLog, "Log writes, overwriting (ms)"},
    {Group::kLogGrows, "Log writes to a file that grows: the file system's journal works too (ms)"},
    {Group::kLogBulk, "Log writes beside a writer of 16 KB pages (ms)"},
    {Group::kRead, "Random reads (ms)"},
};

void add_section(const probe::Report &report, const Section &section, std::string *text) {
  TextTable table({{"pattern"},
                   {"operations", Align::kRight},
                   {"per second", Align::kRight},
                   {"p50", Align::kRight},
                   {"p95", Align::kRight},
                   {"p99", Align::kRight},
                   {"p99.9", Align::kRight},
                   {"p99.99", Align::kRight},
                   {"max", Align::kRight},
                   {""}});
  bool any = false;
  for (const Outcome &outcome : report.run.outcomes) {
    if (outcome.pattern.group != section.group) continue;
    any = true;
    const auto &total = outcome.total;
    std::string note = outcome.reason;
    if (section.group == Group::kLogBulk && outcome.ended_ns > outcome.began_ns)
      note = fmt::format("{:.1f} MB/s beside it", static_cast<double>(outcome.bulk_bytes) * 1e3 /
                                                      static_cast<double>(outcome.ended_ns - outcome.began_ns));
    if (const auto waited = outcome.cpu_wait_percent(); waited && *waited >= kCpuWaitPercent)
      note += fmt::format("{}waited {:.0f} % of the time for a CPU", note.empty() ? "" : ", ", *waited);
    const auto rate = outcome.per_second();
    table.add({outcome.pattern.name, total.count() > 0 ? fmt::to_string(total.count()) : "-",
               rate ? fmt::format("{:.0f}", *rate) : "-", figure(total.percentile_ms(0.5)),
               figure(total.percentile_ms(0.95)), figure(total.percentile_ms(0.99)), figure(total.percentile_ms(0.999)),
               figure(total.percentile_ms(0.9999)), figure(total.max_ms()), note});
  }
  if (any) *text += fmt::format("{}\n{}\n", section.title, table.to_string(terminal_width()));
}

void add_ranking(const probe::Report &report, std::string *text) {
  if (report.ranking.methods.empty()) return;
  *text += "PostgreSQL's wal_sync_method, best first (8 KB, ms)\n";
  TextTable table({{"method"},
                   {"p50", Align::kRight},
                   {"p99", Align::kRight},
                   {"beside bulk: p50", Align::kRight},
                   {"p99", Align::kRight},
                   {""}});
  for (const auto &ranked : report.ranking.methods)
    table.add({ranked.method, figure(ranked.p50_ms), figure(ranked.p99_ms), figure(ranked.bulk_p50_ms),
               figure(ranked.bulk_p99_ms), ranked.as_good_as_best ? "as good as the best" : ""});
  *text += table.to_string(terminal_width()) + "  " + report.ranking.text + "\n\n";
}

// One is shown in any case: the one that commits wait for.
bool shows_histogram(const Outcome &outcome, bool all) {
  return outcome.state == State::kMeasured && (all || outcome.pattern.name == "log-8k-fdatasync");
}

std::string place_text(const probe::Report &report) {
  const probe::Place &place = report.run.place;
  std::string text = place.directory;
  if (!place.file_system.empty()) text += fmt::format(" on {} ({})", place.file_system, place.mount_point);
  if (place.devices.empty()) text += ", device not known";
  for (const BlockDevice &device : place.devices)
    text += fmt::format("\n  {}{}{}: scheduler {}, nr_requests {}, write cache {}", device.name,
                        device.model.empty() ? "" : " ", device.model, device.scheduler,
                        device.nr_requests ? fmt::to_string(*device.nr_requests) : "unknown",
                        device.write_cache.empty() ? "unknown" : device.write_cache);
  return text + "\n\n";
}

std::string watch_text(const probe::WatchReport &watch) {
  if (watch.state != "watched") return fmt::format("Commits were not looked after: {}\n", watch.detail);
  return fmt::format("Commits meanwhile: {}, worst p99 {} ms; before {} ms, limit {} ms\n", watch.commits,
                     figure(watch.worst_p99_ms), figure(watch.baseline_p99_ms), figure(watch.limit_ms));
}

}  // namespace

std::string histogram_text(const probe::Times &times) {
  std::map<uint32_t, uint64_t> counts;  // by power of two
  for (uint32_t bucket = 0; bucket < FL_HISTOGRAM_BUCKETS; bucket++)
    if (const uint64_t count = times.histogram().count(bucket)) counts[bucket / FL_HISTOGRAM_SUB] += count;
  if (counts.empty()) return "";
  std::string text = "  low_ms        high_ms       count     percent\n";
  for (uint32_t power = counts.begin()->first; power <= counts.rbegin()->first; power++) {
    const uint32_t bucket = power * FL_HISTOGRAM_SUB;
    const double share = static_cast<double>(counts[power]) / static_cast<double>(times.count());
    const auto high =
        bucket + FL_HISTOGRAM_SUB < FL_HISTOGRAM_BUCKETS
            ? fmt::format("{:.6f}", static_cast<double>(fl_histogram_low(bucket + FL_HISTOGRAM_SUB)) / 1e6)
            : "-";
    text += fmt::format("  {:<12.6f}  {:<12}  {:<8}  {:>7.3f}  {}", static_cast<double>(fl_histogram_low(bucket)) / 1e6,
                        high, counts[power], 100 * share, bar(share, kBarWidth));
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  return text;
}

std::string probe_text(const probe::Report &report, bool all_histograms) {
  std::string text = place_text(report);
  for (const Section &section : kSections) add_section(report, section, &text);
  for (const Outcome &outcome : report.run.outcomes)
    if (shows_histogram(outcome, all_histograms))
      text += fmt::format("{}\n{}\n", outcome.pattern.name, histogram_text(outcome.total));
  add_ranking(report, &text);
  text += fmt::format("Flush: {}: {}\n", probe::flush_state_name(report.flush.state), report.flush.text);
  text += watch_text(report.watch);
  text += fmt::format("{:.1f} s, {} MB written\n", static_cast<double>(report.run.took_ns) / 1e9,
                      report.written_bytes >> 20);
  if (report.run.stopped != probe::Stop::kNone)
    text += fmt::format("Ended early ({}): {}\n", probe::stop_name(report.run.stopped), report.run.stop_detail);
  return text;
}

void print_probe(const probe::Report &report, bool all_histograms) {
  std::fputs(probe_text(report, all_histograms).c_str(), stdout);
}

}  // namespace flushlight::cli
