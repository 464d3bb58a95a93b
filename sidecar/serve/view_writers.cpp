// SPDX-License-Identifier: GPL-2.0-or-later
// slow_requests and writers: of the whole host. Files and cgroups only for those who may see all.
#include "sidecar/base/text.h"
#include "sidecar/serve/stall_texts.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

constexpr size_t kNameBytes = 64;
constexpr uint8_t kFlush = 2;
constexpr std::string_view kOperationNames[] = {"read", "write", "flush", "discard"};

Cell file_cell(const kernel::FileName &file, const ViewContext &context) {
  return context.see_all ? text_or_null(file_text(file, context)) : null_cell();
}

struct RequestRow {
  const stalls::KnownRequest *known = nullptr;
  const kernel::SlowRequest &request() const { return known->request; }
};

// The stall of its device that it overlaps.
Cell stall_of(const RequestRow &row, const ViewContext &context) {
  const auto &stalls = context.stalls->log().stalls();
  for (auto stall = stalls.rbegin(); stall != stalls.rend(); ++stall) {
    const stalls::Episode &episode = stall->episode;
    if (episode.device != row.request().device || row.request().complete_ns < episode.begin_ns) continue;
    if (stall->lasts() || row.request().start_ns < episode.end_ns) return count_cell(episode.id);
  }
  return null_cell();
}

std::vector<Column<RequestRow>> request_columns() {
  using Row = RequestRow;
  return {
      {"completed_at", [](const Row &r, auto &c) { return c.time(r.request().complete_ns); }},
      {"device", [](const Row &r, auto &c) { return text_cell(device_name(r.request().device, c)); }},
      {"operation",
       [](const Row &r, auto &) {
         const uint8_t operation = r.request().operation;
         return text_cell(operation < std::size(kOperationNames) ? kOperationNames[operation] : "other");
       }},
      {"sector", [](const Row &r,
                    auto &) { return r.request().operation != kFlush ? count_cell(r.request().sector) : null_cell(); }},
      {"bytes", [](const Row &r,
                   auto &) { return r.request().operation != kFlush ? count_cell(r.request().bytes) : null_cell(); }},
      {"total_ms", [](const Row &r, auto &) { return ms_cell(r.request().complete_ns - r.request().start_ns); }},
      {"queue_ms",
       [](const Row &r, auto &) {
         return r.request().issue_ns != 0 ? ms_cell(r.request().issue_ns - r.request().start_ns) : null_cell();
       }},
      {"device_ms",
       [](const Row &r, auto &) {
         return r.request().issue_ns != 0 ? ms_cell(r.request().complete_ns - r.request().issue_ns) : null_cell();
       }},
      {"process", [](const Row &r, auto &) { return text_or_null(r.known->process); }},
      {"thread_id", [](const Row &r, auto &) { return count_or_null(r.request().tid); }},
      {"file", [](const Row &r, auto &c) { return file_cell(r.request().file, c); }},
      {"stall_id", stall_of},
  };
}

std::vector<Column<kernel::Writer>> writer_columns() {
  using Row = kernel::Writer;
  return {
      {"process", [](const Row &r, auto &) { return text_or_null(sanitize_utf8(r.process, kNameBytes)); }},
      {"process_id", [](const Row &r, auto &) { return count_cell(r.tgid); }},
      {"cgroup", [](const Row &r,
                    auto &c) { return c.see_all ? text_or_null(sanitize_utf8(r.cgroup, kNameBytes)) : null_cell(); }},
      {"device", [](const Row &r, auto &c) { return text_cell(device_name(r.file.device, c)); }},
      {"file", [](const Row &r, auto &c) { return file_cell(r.file, c); }},
      {"writes", [](const Row &r, auto &) { return count_cell(r.writes); }},
      {"bytes", [](const Row &r, auto &) { return count_cell(r.bytes); }},
      {"recent_bytes", [](const Row &r, auto &) { return count_cell(r.recent_bytes); }},
      {"syncs", [](const Row &r, auto &) { return count_cell(r.syncs); }},
      {"sync_ms", [](const Row &r, auto &) { return r.sync_ns ? ms_cell(*r.sync_ns) : null_cell(); }},
      {"last_at", [](const Row &r, auto &c) { return c.time(r.last_ns); }},
  };
}

}  // namespace

std::unique_ptr<View> make_slow_requests_view() {
  return std::make_unique<TableView<RequestRow>>(
      "slow_requests", request_columns(), [](const ViewContext &context, const TableView<RequestRow>::Visit &visit) {
        if (context.stalls == nullptr) return;
        for (const stalls::KnownRequest &known : context.stalls->slow_requests()) visit({&known});
      });
}

std::unique_ptr<View> make_writers_view() {
  return std::make_unique<TableView<kernel::Writer>>(
      "writers", writer_columns(), [](const ViewContext &context, const TableView<kernel::Writer>::Visit &visit) {
        if (context.stalls == nullptr) return;
        for (const kernel::Writer &writer : context.stalls->writers()) visit(writer);
      });
}

}  // namespace flushlight
