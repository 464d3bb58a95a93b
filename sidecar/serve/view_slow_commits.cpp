// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/join/verdict.h"
#include "sidecar/serve/stall_texts.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

struct Row {
  const SlowCommit *commit = nullptr;
  const Instance *instance = nullptr;
  const StatementText *text = nullptr;
  bool visible = false;
  const stalls::Stall *stall = nullptr;
  const stalls::Culprit *crowd = nullptr;  // of the journal that it waited for
};

std::span<const uint64_t, FL_VECTOR_COUNT> vector_of(const Row &row) {
  return std::span<const uint64_t, FL_VECTOR_COUNT>(row.commit->record.vector_ns);
}

// Roles in words, in the order of enum Role.
constexpr const char *kRoleNames[] = {nullptr, "led", "followed", "unsynced"};

Cell log_position(const Row &row) {
  const uint64_t position = row.commit->record.position;
  if (position == 0 || row.instance == nullptr) return null_cell();
  if (row.instance->is(FL_ENGINE_POSTGRESQL))
    return text_cell(fmt::format("{:X}/{:X}", position >> 32, position & UINT32_MAX));
  return text_cell(fmt::to_string(position));
}

std::vector<Column<Row>> slow_commit_columns() {
  std::vector<Column<Row>> columns = {
      {"instance", [](const Row &r, auto &) { return r.instance ? text_cell(r.instance->name) : null_cell(); }},
      {"ended_at", [](const Row &r, auto &c) { return c.time(r.commit->end_ns()); }},
      {"duration_ms", [](const Row &r, auto &) { return ms_cell(r.commit->record.duration_ns); }},
      {"session_id", [](const Row &r, auto &) { return count_or_null(r.commit->record.session_id); }},
      {"backend_start",
       [](const Row &r, auto &) {
         const auto start = static_cast<int64_t>(r.commit->backend_start_unix_ns);
         return start > 0 && r.visible ? time_cell(start) : null_cell();
       }},
      {"user_name", [](const Row &r, auto &c) { return c.symbol(r.commit->key.user); }},
      {"db_name", [](const Row &r, auto &c) { return c.symbol(r.commit->key.database); }},
      {"application_name", [](const Row &r, auto &) { return text_or_null(r.commit->application); }},
      {"client_addr", [](const Row &r, auto &) { return r.visible ? text_or_null(r.commit->address) : null_cell(); }},
      {"queryid", [](const Row &r, auto &) { return r.visible ? count_or_null(r.commit->key.queryid) : null_cell(); }},
      {"kind",
       [](const Row &r, auto &) { return text_cell(r.commit->key.kind == FL_KIND_COMMIT ? "commit" : "statement"); }},
      {"query",
       [](const Row &r, auto &) {
         if (!r.visible) return text_cell(kHidden);
         return r.text ? text_cell(r.text->text) : null_cell();
       }},
      {"query_truncated", [](const Row &r, auto &) { return r.text ? int_cell(r.text->truncated) : null_cell(); }},
      {"xid", [](const Row &r, auto &) { return count_or_null(r.commit->record.xid); }},
      {"log_position", [](const Row &r, auto &) { return log_position(r); }},
      {"role",
       [](const Row &r, auto &) {
         const char *name = kRoleNames[static_cast<int>(r.commit->role)];
         return name ? text_cell(name) : null_cell();
       }},
      {"syncs",
       [](const Row &r, auto &) { return r.commit->accounted() ? count_cell(r.commit->record.syncs) : null_cell(); }},
      {"cause",
       [](const Row &r, auto &) {
         return r.commit->accounted() ? text_cell(cause_name(largest_cause(vector_of(r)))) : null_cell();
       }},
      {"path",
       [](const Row &r, auto &) {
         return r.commit->accounted() ? text_cell(path_name(largest_path(vector_of(r)))) : null_cell();
       }},
      {"stall_id", [](const Row &r, auto &) { return r.stall ? count_cell(r.stall->episode.id) : null_cell(); }},
      {"verdict",
       [](const Row &r, auto &c) {
         const std::string sentence = verdict(r.commit->record.duration_ns, vector_of(r), r.commit->accounted());
         if (r.stall != nullptr) return text_cell(sentence + "; " + stall_words(*r.stall, c));
         return text_cell(r.crowd != nullptr ? sentence + "; " + crowd_words(*r.crowd, c) : sentence);
       }},
  };
  add_account_columns<Row>(&columns, [](const Row &row) -> const uint64_t * {
    return row.commit->accounted() ? row.commit->record.vector_ns : nullptr;
  });
  return columns;
}

}  // namespace

std::unique_ptr<View> make_slow_commits_view() {
  return std::make_unique<TableView<Row>>(
      "slow_commits", slow_commit_columns(), [](const ViewContext &context, const TableView<Row>::Visit &visit) {
        context.statistics.slow_commits().for_each([&](const SlowCommit &commit) {
          if (!context.shows(commit.key.instance)) return;
          Row row{&commit, context.find_instance(commit.key.instance), nullptr, context.may_see(commit.key.user)};
          if (context.stalls != nullptr) {
            const auto waited = stalls::waited_commit(commit.record, commit.key);
            row.stall = context.stalls->log().stall_of(waited, context.clock.now_ns());
            row.crowd = context.stalls->crowd_of(waited);
          }
          if (row.visible) row.text = context.texts.find(commit.key.instance, commit.key.queryid);
          visit(row);
        });
      });
}

}  // namespace flushlight
