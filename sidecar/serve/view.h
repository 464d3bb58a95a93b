// SPDX-License-Identifier: GPL-2.0-or-later
// Views: rows from the daemon's memory, columns from tables keyed by name. Nothing here may touch a disk or
// wait: views must answer during a stall.
// Owner: main thread.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "sidecar/advise/advisor.h"
#include "sidecar/engines/engines.h"
#include "sidecar/host/facts.h"
#include "sidecar/host/kernel_port.h"
#include "sidecar/intake/intake.h"
#include "sidecar/join/texts.h"
#include "sidecar/serve/packets.h"
#include "sidecar/serve/state.h"
#include "sidecar/stalls/monitor.h"
#include "sidecar/stats/statistics.h"
#include "sidecar/stats/top_statements.h"

namespace flushlight {

struct ViewContext {
  const Clock &clock;
  Statistics &statistics;
  const Intake &intake;
  TextStore &texts;
  const SymbolTable &symbols;
  KernelPort *kernel;  // nullptr: no tracing
  const HostReadings &host;
  const DaemonState &state;

  // The asker.
  uint32_t instance = 0;  // 0: all; kNoInstance: one that we have never heard of
  bool see_all = false;
  std::string_view user_name;
  TopStatements *top = nullptr;  // given: rows of these only, and one for the rest of each instance
  const stalls::Monitor *stalls = nullptr;
  const Engines *engines = nullptr;
  const advise::Advisor *advisor = nullptr;

  static constexpr uint32_t kNoInstance = UINT32_MAX;
  [[nodiscard]] bool shows(uint32_t row_instance) const { return instance == 0 || instance == row_instance; }
  [[nodiscard]] bool may_see(Symbol user) const {
    return see_all || (!user_name.empty() && symbols.text(user) == user_name);
  }
  [[nodiscard]] const Instance *find_instance(uint32_t id) const;
  [[nodiscard]] Cell instance_name(uint32_t id) const;
  [[nodiscard]] Cell symbol(Symbol symbol) const { return text_or_null(symbols.text(symbol)); }
  [[nodiscard]] Cell time(uint64_t monotonic_ns) const { return time_cell(clock.to_unix_ns(monotonic_ns)); }
};

// "loop0", or "7:0" where the host does not say.
std::string device_name(uint32_t number, const ViewContext &context);

inline constexpr std::string_view kHidden = "<insufficient privilege>";

class View {
 public:
  virtual ~View() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::vector<std::string_view> columns() const = 0;
  // Calls sink(cells) for every row, in the order of `columns`. Unknown columns become NULL.
  using Sink = std::function<void(const std::vector<Cell> &)>;
  virtual void each(const ViewContext &context, const std::vector<std::string_view> &columns,
                    const Sink &sink) const = 0;
  void run(const ViewContext &context, const std::vector<std::string_view> &columns, RowsWriter *writer) const {
    each(context, columns, [writer](const std::vector<Cell> &cells) {
      for (const Cell &cell : cells) writer->put(cell);
      writer->end_row();
    });
  }
};
const std::vector<std::unique_ptr<View>> &all_views();
const View *find_view(std::string_view name);

template <typename Row>
struct Column {
  std::string_view name;
  std::function<Cell(const Row &, const ViewContext &)> cell;
};

template <typename Row>
class TableView final : public View {
 public:
  using Visit = std::function<void(const Row &)>;
  using EachRow = std::function<void(const ViewContext &, const Visit &)>;
  TableView(std::string_view name, std::vector<Column<Row>> columns, EachRow each_row)
      : name_(name), columns_(std::move(columns)), each_row_(std::move(each_row)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::vector<std::string_view> columns() const override {
    std::vector<std::string_view> names;
    for (const auto &column : columns_) names.push_back(column.name);
    return names;
  }
  void each(const ViewContext &context, const std::vector<std::string_view> &names, const Sink &sink) const override {
    std::vector<const Column<Row> *> asked;
    for (const auto &name : names) asked.push_back(find(name));
    std::vector<Cell> cells(asked.size());
    each_row_(context, [&](const Row &row) {
      for (size_t i = 0; i < asked.size(); i++)
        cells[i] = asked[i] != nullptr ? asked[i]->cell(row, context) : null_cell();
      sink(cells);
    });
  }

 private:
  const Column<Row> *find(std::string_view name) const {
    for (const auto &column : columns_)
      if (column.name == name) return &column;
    return nullptr;
  }
  std::string_view name_;
  std::vector<Column<Row>> columns_;
  EachRow each_row_;
};

// Names of the account's columns: "flush_ms" and so on, causes first.
std::string_view account_column_name(int vector_index);

// Adds the account's columns. vector(row) is a pointer to FL_VECTOR_COUNT sums, or nullptr: not observed.
template <typename Row, typename Vector>
void add_account_columns(std::vector<Column<Row>> *columns, Vector vector) {
  for (int i = 0; i < FL_VECTOR_COUNT; i++)
    columns->push_back({account_column_name(i), [i, vector](const Row &row, const ViewContext &) {
                          const uint64_t *sums = vector(row);
                          return sums != nullptr ? ms_cell(sums[i]) : null_cell();
                        }});
}

// One for each view; view.cpp lists them.
std::unique_ptr<View> make_statements_view();
std::unique_ptr<View> make_statements_recent_view();
std::unique_ptr<View> make_statements_info_view();
std::unique_ptr<View> make_slow_commits_view();
std::unique_ptr<View> make_threads_view();
std::unique_ptr<View> make_devices_view();
std::unique_ptr<View> make_latency_view();
std::unique_ptr<View> make_journals_view();
std::unique_ptr<View> make_pressure_view();
std::unique_ptr<View> make_stalls_view();
std::unique_ptr<View> make_stall_tasks_view();
std::unique_ptr<View> make_slow_requests_view();
std::unique_ptr<View> make_writers_view();
std::unique_ptr<View> make_rings_view();
std::unique_ptr<View> make_replication_view();
std::unique_ptr<View> make_advice_view();
std::unique_ptr<View> make_health_view();

}  // namespace flushlight
