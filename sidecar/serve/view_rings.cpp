// SPDX-License-Identifier: GPL-2.0-or-later
// rings: io_uring instances that are open now, of the whole host. Whose they are is told to those who may see all, and to
// the server that they belong to.
#include "sidecar/base/text.h"
#include "sidecar/serve/families.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

using kernel::Ring;

constexpr size_t kNameBytes = 64;

struct Row {
  const Ring *ring = nullptr;
  const Instance *instance = nullptr;
  bool visible = false;  // to the asker: which process
};
using Columns = std::vector<Column<Row>>;

// IORING_SETUP_*, by bit.
constexpr std::string_view kFlagNames[] = {"IOPOLL",        "SQPOLL",        "SQ_AFF",     "CQSIZE",
                                           "CLAMP",         "ATTACH_WQ",     "R_DISABLED", "SUBMIT_ALL",
                                           "COOP_TASKRUN",  "TASKRUN_FLAG",  "SQE128",     "CQE32",
                                           "SINGLE_ISSUER", "DEFER_TASKRUN", "NO_MMAP",    "REGISTERED_FD_ONLY",
                                           "NO_SQARRAY",    "HYBRID_IOPOLL", "CQE_MIXED"};

std::string flags_text(uint32_t flags) {
  std::string text;
  for (uint32_t bit = 0; bit < 32; bit++) {
    if ((flags >> bit & 1) == 0) continue;
    if (!text.empty()) text += ", ";
    text += bit < std::size(kFlagNames) ? std::string(kFlagNames[bit]) : fmt::format("bit {}", bit);
  }
  return text;
}

Cell poller_state(const Ring &ring) {
  static constexpr std::string_view kStates[] = {"", "sleeps", "runs", "waits for a CPU"};
  const auto state = static_cast<size_t>(ring.poller);
  return state < std::size(kStates) ? text_or_null(kStates[state]) : null_cell();
}

Cell process_name(const Row &row, const std::string &name) {
  if (!row.visible) return text_cell(kHidden);
  return text_or_null(sanitize_utf8(name, kNameBytes));
}

Cell percentile(const Ring &ring, double q) {
  return ring.timed ? ms_or_null(percentile_ns(std::span<const uint64_t>(ring.buckets), q)) : null_cell();
}

void add_process(Columns *columns) {
  columns->insert(
      columns->end(),
      {{"instance", [](const Row &r, auto &) { return r.instance ? text_cell(r.instance->name) : null_cell(); }},
       {"process", [](const Row &r, auto &) { return process_name(r, r.ring->owner_name); }},
       {"process_id", [](const Row &r, auto &) { return r.visible ? count_or_null(r.ring->owner) : null_cell(); }},
       {"descriptor",
        [](const Row &r, auto &) {
          return r.visible && r.ring->descriptor ? count_cell(*r.ring->descriptor) : null_cell();
        }},
       {"used_by",
        [](const Row &r, auto &) { return r.ring->user ? process_name(r, r.ring->user_name) : null_cell(); }},
       {"used_by_id", [](const Row &r, auto &) { return r.visible ? count_or_null(r.ring->user) : null_cell(); }},
       {"created_at", [](const Row &r, auto &c) { return r.ring->created ? c.time(r.ring->counted_ns) : null_cell(); }},
       {"counted_since", [](const Row &r, auto &c) { return c.time(r.ring->counted_ns); }},
       {"setup_flags", [](const Row &r, auto &) { return text_or_null(flags_text(r.ring->flags)); }}});
}

Columns ring_columns() {
  Columns columns;
  add_process(&columns);
  static constexpr std::pair<std::string_view, uint32_t Ring::*> kNumbers[] = {
      {"sq_entries", &Ring::sq_entries},          {"cq_entries", &Ring::cq_entries},
      {"sq_pending", &Ring::sq_pending},          {"cq_pending", &Ring::cq_pending},
      {"dropped_submissions", &Ring::sq_dropped}, {"dropped_completions", &Ring::cq_dropped}};
  for (const auto &[name, member] : kNumbers)
    columns.push_back({name, [member = member](const Row &r, auto &) { return count_cell(r.ring->*member); }});
  static constexpr std::pair<std::string_view, uint64_t Ring::*> kTotals[] = {{"submissions", &Ring::submitted},
                                                                              {"completions", &Ring::posted}};
  for (const auto &[name, member] : kTotals)
    columns.push_back({name, [member = member](const Row &r, auto &) { return count_cell(r.ring->*member); }});
  static constexpr std::pair<std::string_view, std::optional<uint64_t> Ring::*> kEvents[] = {
      {"failed_submissions", &Ring::failed},
      {"worker_punts", &Ring::punts},
      {"cq_overflows", &Ring::overflows},
      {"timed_requests", &Ring::timed}};
  for (const auto &[name, member] : kEvents)
    columns.push_back({name, [member = member](const Row &r, auto &) {
                         return r.ring->*member ? count_cell(*(r.ring->*member)) : null_cell();
                       }});
  columns.push_back({"mean_ms", [](const Row &r, auto &) {
                       if (r.ring->timed.value_or(0) == 0) return null_cell();
                       return ms_cell(static_cast<double>(r.ring->time_ns) / static_cast<double>(*r.ring->timed));
                     }});
  static constexpr std::pair<std::string_view, double> kPercentiles[] = {{"p50_ms", 0.5}, {"p99_ms", 0.99}};
  for (const auto &[name, q] : kPercentiles)
    columns.push_back({name, [q = q](const Row &r, auto &) { return percentile(*r.ring, q); }});
  columns.insert(
      columns.end(),
      {{"sqpoll", [](const Row &r, auto &) { return poller_state(*r.ring); }},
       {"sqpoll_thread_id",
        [](const Row &r, auto &) { return r.visible ? count_or_null(r.ring->poller_tid) : null_cell(); }},
       {"sqpoll_cpu",
        [](const Row &r, auto &) { return r.ring->poller_cpu ? count_cell(*r.ring->poller_cpu) : null_cell(); }},
       {"sqpoll_run_ms",
        [](const Row &r, auto &) {
          return r.ring->poller != Ring::Poller::kNone ? ms_cell(r.ring->poller_run_ns) : null_cell();
        }},
       {"sqpoll_starved_ms",
        [](const Row &r, auto &) { return r.ring->poller_wait_ns ? ms_cell(*r.ring->poller_wait_ns) : null_cell(); }}});
  return columns;
}

}  // namespace

std::unique_ptr<View> make_rings_view() {
  return std::make_unique<TableView<Row>>(
      "rings", ring_columns(), [](const ViewContext &context, const TableView<Row>::Visit &visit) {
        if (context.kernel == nullptr || context.instance == ViewContext::kNoInstance) return;
        const SlotLeases leases(context.intake);
        const Families families(leases, context.kernel->threads());
        for (const Ring &ring : context.kernel->rings()) {
          Row row{&ring, families.find(ring.owner), context.see_all};
          row.visible |= row.instance != nullptr && context.shows(row.instance->id);
          visit(row);
        }
      });
}

}  // namespace flushlight
