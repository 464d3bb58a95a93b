// SPDX-License-Identifier: GPL-2.0-only
// INFORMATION_SCHEMA.FLUSHLIGHT_*: asks the daemon and stores what it answers. Columns come from
// abi/views.def; nothing here knows a view by its columns.
//
// Rights as for PROCESSLIST: with PROCESS all texts are shown, without it those of the own user.
// Strings are VARCHAR(1024) at most: longer ones would put the result into a temporary file, on the very
// disk that may be stalled.
//
// Owner: the connection that selects. The daemon gets one second.
#include "tables.h"

#include "probe.h"
#include "replicas.h"

namespace flushlight {
namespace {

constexpr uint32_t kDeadlineMs = 1000;
constexpr uint32_t kColumnsMax = 96;
constexpr uint32_t kNameCharacters = FL_NAME_BYTES_MAX;
constexpr size_t kPathBytes = 108;

enum class ColumnType { INT, DOUBLE, TEXT, TIME, BOOL };
struct ColumnDefinition {
  const char *view;
  const char *name;
  ColumnType type;
};
constexpr ColumnDefinition kColumns[] = {
#define FL_COLUMN(view, column, type, unit, help) {#view, #column, ColumnType::type},
#include "abi/views.def"
};

// Texts that are sentences or statements; all others are names.
constexpr const char *kLongTexts[] = {"query",   "verdict",       "detail",      "worst_query", "stack",
                                      "options", "options_asked", "mount_point", "evidence",    "effect",
                                      "risk",    "apply",         "revert"};

bool is_long_text(const char *name) {
  for (const char *known : kLongTexts)
    if (strcmp(known, name) == 0) return true;
  return false;
}

struct View {
  const char *name;
  ST_FIELD_INFO *fields;  // ends with CEnd
  const char *columns[kColumnsMax];
  uint32_t column_count;
};

ST_FIELD_INFO make_field(const ColumnDefinition &column) {
  switch (column.type) {
    case ColumnType::DOUBLE:
      return Show::Column(column.name, Show::Double(MY_INT64_NUM_DECIMAL_DIGITS), NULLABLE);
    case ColumnType::TEXT:
      return Show::Column(column.name, Show::Varchar(is_long_text(column.name) ? FL_TEXT_BYTES_MAX : kNameCharacters),
                          NULLABLE);
    case ColumnType::TIME:
      return Show::Column(column.name, Show::Datetime(6), NULLABLE);
    default:
      return Show::Column(column.name, Show::SLonglong(MY_INT64_NUM_DECIMAL_DIGITS), NULLABLE);
  }
}

// Once per view, at its first installation; kept for good, as the library is.
void make_view(View *view) {
  if (view->fields) return;
  static const Show::CEnd end;
  void *memory = calloc(kColumnsMax + 1, sizeof(ST_FIELD_INFO));
  if (!memory) return;
  auto *fields = static_cast<ST_FIELD_INFO *>(memory);
  for (const ColumnDefinition &column : kColumns) {
    if (strcmp(column.view, view->name) != 0 || view->column_count == kColumnsMax) continue;
    new (&fields[view->column_count]) ST_FIELD_INFO(make_field(column));
    view->columns[view->column_count++] = column.name;
  }
  new (&fields[view->column_count]) ST_FIELD_INFO(end);
  view->fields = fields;
}

void store_time(THD *thd, Field *field, int64_t unix_ns) {
  MYSQL_TIME time;
  thd->variables.time_zone->gmt_sec_to_TIME(&time, static_cast<my_time_t>(unix_ns / 1000000000));
  time.second_part = static_cast<ulong>(unix_ns % 1000000000 / 1000);
  field->store_time_dec(&time, 6);
}

void store_cell(THD *thd, Field *field, const flc_cell &cell) {
  switch (cell.type) {
    case FL_CELL_INT:
      field->store(static_cast<longlong>(cell.integer), false);
      break;
    case FL_CELL_DOUBLE:
      field->store(cell.real);
      break;
    case FL_CELL_TEXT:
      field->store(cell.text, cell.length, &my_charset_utf8mb4_general_ci);
      break;
    case FL_CELL_TIME:
      store_time(thd, field, cell.integer);
      break;
    default:
      return;  // stays NULL
  }
  field->set_notnull();
}

bool asker_cancelled() {
  const THD *thd = current_thd;
  return thd && thd->killed;
}

void warn(THD *thd, const char *text) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "flushlight: %s", text);
}

flc_cell text_cell(const char *text) {
  flc_cell cell{};
  cell.type = *text ? FL_CELL_TEXT : FL_CELL_NULL;
  cell.text = text;
  cell.length = static_cast<decltype(cell.length)>(strlen(text));
  return cell;
}

flc_cell number_cell(uint64_t value) {
  flc_cell cell{};
  cell.type = FL_CELL_INT;
  cell.integer = static_cast<int64_t>(value);
  return cell;
}

// No commit waits for an asynchronous replica.
constexpr const char *kOfSemiSync[] = {"commits_waited",  "commit_wait_ms", "mean_commit_wait_ms", "max_commit_wait_ms",
                                       "commits_waiting", "oldest_wait_ms", "stats_since"};

// What only the server knows of a replica, in place of what the daemon sent.
void put_replica(const View &view, const Replica &replica, flc_cell *cells) {
  const struct {
    const char *name;
    flc_cell cell;
  } own[] = {
      {"name", text_cell(replica.name)},
      {"client_addr", text_cell(replica.address)},
      {"session_id", number_cell(replica.session_id)},
      {"sync_mode", text_cell(replica.semi_sync ? "semi-sync" : "async")},
  };
  for (uint32_t i = 0; i < view.column_count; i++) {
    for (const auto &[name, cell] : own)
      if (strcmp(view.columns[i], name) == 0) cells[i] = cell;
    for (const char *name : kOfSemiSync)
      if (!replica.semi_sync && strcmp(view.columns[i], name) == 0) cells[i] = {};
  }
}

int store_row(THD *thd, TABLE *table, const View &view, const flc_cell *cells) {
  restore_record(table, s->default_values);
  for (uint32_t i = 0; i < view.column_count; i++) {
    table->field[i]->set_null();
    store_cell(thd, table->field[i], cells[i]);
  }
  return schema_table_store_record(thd, table) ? 1 : 0;
}

// One row for each replica, or one of the server without any.
int store_replicas(THD *thd, TABLE *table, const View &view, const flc_cell *cells, const Replicas &replicas) {
  if (replicas.count == 0) return store_row(thd, table, view, cells);
  int status = 0;
  for (uint32_t i = 0; status == 0 && i < replicas.count; i++) {
    flc_cell row[kColumnsMax];
    memcpy(row, cells, view.column_count * sizeof *cells);
    put_replica(view, replicas.list[i], row);
    status = store_row(thd, table, view, row);
  }
  return status;
}

int fill(THD *thd, TABLE *table, const View &view) {
  if (!probe_enabled.load()) {
    warn(thd, "flushlight_enabled is OFF");
    return 0;
  }
  const Security_context *who = thd->security_ctx;
  char path[kPathBytes];
  attach_socket_path(path, sizeof path);
  flc_query query{};
  query.socket_path = path;
  query.view = view.name;
  query.instance = attach_instance();
  query.user_name = who->user ? who->user : "";
  query.see_all = (who->master_access & PROCESS_ACL) != NO_ACL;
  query.columns = view.columns;
  query.column_count = view.column_count;
  query.deadline_ms = kDeadlineMs;
  query.cancelled = asker_cancelled;
  char error[256] = "";
  flc_result *result = flc_query_run(&query, error, sizeof error);
  if (!result) {
    warn(thd, error);
    return 0;
  }
  // Whose replicas they are, PROCESS tells: as in the process list.
  Replicas replicas;
  replicas.count = 0;
  if (strcmp(view.name, "replication") == 0 && query.see_all) connected_replicas(&replicas);
  flc_cell cells[kColumnsMax];
  int status = 0;
  while (status == 0 && flc_result_next(result, cells)) status = store_replicas(thd, table, view, cells, replicas);
  flc_result_free(result);
  return status;
}

// FLUSH FLUSHLIGHT_STATEMENTS; the server has checked the RELOAD privilege. It is this server's affair: in the binary
// log it would stop every replica that has no plugin.
int reset_statements() {
  if (THD *thd = current_thd) thd->lex->no_write_to_binlog = true;
  fl_command command{};
  command.code = FL_COMMAND_RESET;
  snprintf(command.instance, sizeof command.instance, "%s", attach_instance());
  char path[kPathBytes], error[256] = "";
  attach_socket_path(path, sizeof path);
  if (flc_command(path, &command, kDeadlineMs, error, sizeof error)) return 0;
  my_printf_error(ER_UNKNOWN_ERROR, "flushlight: %s", MYF(0), error);
  return 1;
}

int init_table(void *schema_table, View *view, int (*fill_table)(THD *, TABLE_LIST *, COND *)) {
  if (!server_version_fits()) return 1;
  make_view(view);
  if (!view->fields) return 1;
  auto *table = static_cast<ST_SCHEMA_TABLE *>(schema_table);
  table->fields_info = view->fields;
  table->fill_table = fill_table;
  if (strcmp(view->name, "statements") == 0) table->reset_table = reset_statements;
  return 0;
}

}  // namespace

#define FL_VIEW(view, help)                                                                                      \
  static View view_##view{#view, nullptr, {}, 0};                                                                \
  static int fill_##view(THD *thd, TABLE_LIST *tables, COND *) { return fill(thd, tables->table, view_##view); } \
  int init_table_##view(void *schema_table) { return init_table(schema_table, &view_##view, fill_##view); }
#include "abi/views.def"

}  // namespace flushlight
