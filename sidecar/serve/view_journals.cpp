// SPDX-License-Identifier: GPL-2.0-or-later
// journals: what the host says about each mounted ext4 or XFS, joined with what the kernel side saw of its commits.
#include <numeric>

#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

using kernel::JournalCommits;

struct Row {
  const JournalFacts *facts = nullptr;
  const JournalCommits *seen = nullptr;  // nullptr: nothing seen
  uint64_t commits_seen = 0;
  std::optional<double> share;
};
using Columns = std::vector<Column<Row>>;

Cell real_or_null(std::optional<double> value) { return value ? double_cell(*value) : null_cell(); }

// The kernel side's figure where it saw commits, else the file system's own.
Cell per_commit(const Row &row, uint64_t sum_ns, std::optional<double> told_ms) {
  if (row.commits_seen == 0) return real_or_null(told_ms);
  return ms_cell(static_cast<double>(sum_ns) / static_cast<double>(row.commits_seen));
}

void add_times(Columns *columns) {
  static constexpr std::pair<std::string_view, double> kPercentiles[] = {
      {"commit_p50_ms", 0.5}, {"commit_p95_ms", 0.95}, {"commit_p99_ms", 0.99}};
  for (const auto &[name, q] : kPercentiles)
    columns->push_back({name, [q = q](const Row &r, auto &) {
                          if (r.seen == nullptr) return null_cell();
                          return ms_or_null(percentile_ns(std::span<const uint64_t>(r.seen->buckets), q));
                        }});
  columns->push_back({"commit_mean_ms", [](const Row &r, auto &) {
                        return per_commit(r, r.seen ? r.seen->sum_ns : 0, r.facts->commit_mean_ms);
                      }});
  struct Phase {
    std::string_view name;
    JournalCommits::Phase phase;
    std::optional<double> JournalFacts::*told;
  };
  static constexpr Phase kPhases[] = {{"starting_ms", JournalCommits::kStarting, nullptr},
                                      {"locking_ms", JournalCommits::kLocking, &JournalFacts::locking_ms},
                                      {"flushing_ms", JournalCommits::kFlushing, &JournalFacts::flushing_ms},
                                      {"logging_ms", JournalCommits::kLogging, &JournalFacts::logging_ms}};
  for (const Phase &phase : kPhases)
    columns->push_back({phase.name, [phase](const Row &r, auto &) {
                          return per_commit(r, r.seen ? r.seen->phase_ns[phase.phase] : 0,
                                            phase.told != nullptr ? r.facts->*phase.told : std::nullopt);
                        }});
  columns->push_back({"commit_age_ms", [](const Row &r, auto &c) {
                        const uint64_t now_ns = c.clock.now_ns();
                        if (r.seen == nullptr || r.seen->in_progress_ns == 0 || r.seen->in_progress_ns > now_ns)
                          return null_cell();
                        return ms_cell(now_ns - r.seen->in_progress_ns);
                      }});
}

Columns journal_columns() {
  Columns columns;
  static constexpr std::pair<std::string_view, std::string JournalFacts::*> kTexts[] = {
      {"name", &JournalFacts::name},
      {"mount_point", &JournalFacts::mount_point},
      {"file_system", &JournalFacts::file_system},
      {"journal_device", &JournalFacts::journal_device},
      {"mode", &JournalFacts::mode},
      {"options", &JournalFacts::options},
      {"options_asked", &JournalFacts::options_asked}};
  for (const auto &[name, member] : kTexts)
    columns.push_back({name, [member = member](const Row &r, auto &) { return text_or_null(r.facts->*member); }});
  static constexpr std::pair<std::string_view, std::optional<int64_t> JournalFacts::*> kNumbers[] = {
      {"log_used_bytes", &JournalFacts::log_used_bytes},
      {"commits", &JournalFacts::commits},
      {"requested", &JournalFacts::requested},
      {"fast_commits", &JournalFacts::fast_commits},
      {"fast_commits_ineligible", &JournalFacts::fast_commits_ineligible},
      {"log_writes", &JournalFacts::log_writes},
      {"log_write_bytes", &JournalFacts::log_write_bytes},
      {"log_forces", &JournalFacts::log_forces},
      {"log_force_sleeps", &JournalFacts::log_force_sleeps}};
  for (const auto &[name, member] : kNumbers)
    columns.push_back({name, [member = member](const Row &r, auto &) { return int_or_null(r.facts->*member); }});
  columns.push_back({"log_bytes", [](const Row &r, auto &) {
                       return r.seen && r.seen->log_bytes ? count_cell(r.seen->log_bytes)
                                                          : int_or_null(r.facts->log_bytes);
                     }});
  add_times(&columns);
  columns.push_back(
      {"checkpoints", [](const Row &r, auto &) { return r.seen ? count_cell(r.seen->checkpoints) : null_cell(); }});
  columns.push_back({"flushes_per_commit", [](const Row &r, auto &) {
                       if (r.commits_seen == 0) return null_cell();
                       return double_cell(static_cast<double>(r.seen->flushes) / static_cast<double>(r.commits_seen));
                     }});
  columns.push_back({"commit_share", [](const Row &r, auto &) { return real_or_null(r.share); }});
  return columns;
}

// Of the commit time of all statements that the asker may see.
std::optional<double> journal_share(const ViewContext &context) {
  double journal = 0, all = 0;
  const auto add = [&](const Aggregate &figures) {
    journal += static_cast<double>(figures.vector_ns[FL_VECTOR_PATH(FL_PATH_JOURNAL)]);
    for (int path = 0; path < FL_PATH_COUNT; path++)
      all += static_cast<double>(figures.vector_ns[FL_VECTOR_PATH(path)]);
  };
  for (const auto &[key, row] : context.statistics.statements().rows())
    if (context.shows(key.instance)) add(row.figures);
  for (const auto &[instance, row] : context.statistics.statements().evicted())
    if (context.shows(instance)) add(row.figures);
  return all > 0 ? std::optional(journal / all) : std::nullopt;
}

void each_journal(const ViewContext &context, const TableView<Row>::Visit &visit) {
  const auto seen = context.kernel != nullptr ? context.kernel->journals() : std::vector<JournalCommits>{};
  std::vector<Row> rows;
  size_t at_work = 0;
  for (const JournalFacts &facts : *context.host.journals) {
    Row &row = rows.emplace_back();
    row.facts = &facts;
    for (const JournalCommits &commits : seen)
      if (commits.device == facts.device) row.seen = &commits;
    if (row.seen != nullptr)
      row.commits_seen = std::accumulate(row.seen->buckets.begin(), row.seen->buckets.end(), uint64_t{0});
    at_work += row.commits_seen > 0;
  }
  for (Row &row : rows) {
    // An account knows that a journal did the work, not whose: with several at work nobody can tell.
    if (at_work == 1 && row.commits_seen > 0) row.share = journal_share(context);
    visit(row);
  }
}

}  // namespace

std::unique_ptr<View> make_journals_view() {
  return std::make_unique<TableView<Row>>("journals", journal_columns(), each_journal);
}

}  // namespace flushlight
