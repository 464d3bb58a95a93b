// SPDX-License-Identifier: GPL-2.0-or-later
// advice: what the advisor has found; made once in a while, shown from memory. Statements' texts and roles of others only
// for those who may see all.
#include <algorithm>

#include "sidecar/base/text.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

using advise::Entry;
using advise::State;

// Of a foreign statement neither text nor words of it.
bool is_private(const Entry &entry, const ViewContext &context) {
  return !context.see_all &&
         (entry.advice.kind == advise::Kind::kApplication || entry.advice.scope.starts_with("role "));
}

Cell evidence(const Entry &entry, const ViewContext &context) {
  if (is_private(entry, context)) return text_cell(kHidden);
  if (entry.why.empty()) return text_or_null(entry.advice.evidence);
  return text_cell(entry.why + (entry.advice.evidence.empty() ? "" : "; before: " + entry.advice.evidence));
}

Cell real_or_null(std::optional<double> value) { return value ? double_cell(*value) : null_cell(); }

// At most what a column holds.
Cell bounded(const Cell &cell) {
  constexpr size_t kTextBytes = 1024;
  return cell.type == FL_CELL_TEXT && cell.text.size() > kTextBytes ? text_cell(sanitize_utf8(cell.text, kTextBytes))
                                                                    : cell;
}

std::vector<Column<Entry>> advice_columns() {
  using Row = Entry;
  return {
      {"instance", [](const Row &r, auto &) { return text_or_null(r.instance_name); }},
      {"id", [](const Row &r, auto &) { return count_cell(r.id); }},
      {"state", [](const Row &r, auto &) { return text_cell(state_name(r.state)); }},
      {"kind", [](const Row &r, auto &) { return text_cell(kind_name(r.advice.kind)); }},
      {"rule", [](const Row &r, auto &) { return text_cell(r.advice.rule); }},
      {"scope", [](const Row &r,
                   auto &c) { return is_private(r, c) ? text_cell(kHidden) : bounded(text_or_null(r.advice.scope)); }},
      {"setting", [](const Row &r, auto &) { return text_or_null(r.advice.setting); }},
      {"value_now", [](const Row &r, auto &) { return bounded(text_or_null(r.advice.now)); }},
      {"value_suggested", [](const Row &r, auto &) { return text_or_null(r.advice.suggested); }},
      {"evidence", [](const Row &r, auto &c) { return bounded(evidence(r, c)); }},
      {"effect", [](const Row &r, auto &) { return bounded(text_or_null(r.advice.effect)); }},
      {"predicted_p50_ms", [](const Row &r, auto &) { return real_or_null(r.advice.predicted_p50_ms); }},
      {"predicted_p99_ms", [](const Row &r, auto &) { return real_or_null(r.advice.predicted_p99_ms); }},
      {"measured_p50_ms", [](const Row &r, auto &) { return real_or_null(r.measured_p50_ms); }},
      {"measured_p99_ms", [](const Row &r, auto &) { return real_or_null(r.measured_p99_ms); }},
      {"confidence", [](const Row &r, auto &) { return text_cell(confidence_name(r.advice.confidence)); }},
      {"risk", [](const Row &r, auto &) { return bounded(text_or_null(r.advice.risk)); }},
      {"apply", [](const Row &r,
                   auto &c) { return is_private(r, c) ? null_cell() : bounded(text_or_null(apply_text(r.advice))); }},
      {"revert",
       [](const Row &r, auto &c) { return is_private(r, c) ? null_cell() : bounded(text_or_null(r.advice.undo)); }},
      {"authority", [](const Row &r, auto &) { return text_or_null(r.advice.authority); }},
      {"changed_at", [](const Row &r, auto &c) { return r.changed_ns != 0 ? c.time(r.changed_ns) : null_cell(); }},
  };
}

void each_entry(const ViewContext &context, const TableView<Entry>::Visit &visit) {
  if (context.advisor == nullptr) return;
  std::vector<const Entry *> shown;
  const Instance *asker = context.instance != 0 ? context.find_instance(context.instance) : nullptr;
  for (const Entry &entry : context.advisor->entries())  // of an earlier daemon: by name
    if (entry.instance != 0 ? context.shows(entry.instance)
                            : context.instance == 0 || (asker != nullptr && asker->name == entry.instance_name))
      shown.push_back(&entry);
  std::stable_sort(shown.begin(), shown.end(), [](const Entry *a, const Entry *b) {
    const bool open_a = a->state == State::kOpen, open_b = b->state == State::kOpen;
    return open_a != open_b ? open_a : a->advice.kind < b->advice.kind;
  });
  for (const Entry *entry : shown) visit(*entry);
}

}  // namespace

std::unique_ptr<View> make_advice_view() {
  return std::make_unique<TableView<Entry>>("advice", advice_columns(), each_entry);
}

}  // namespace flushlight
