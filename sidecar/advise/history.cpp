// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/history.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <memory>

#include "sidecar/base/log.h"

namespace flushlight::advise {

struct History::Database {
  sqlite3 *handle = nullptr;
  ~Database() { sqlite3_close(handle); }
};

namespace {

constexpr const char *kCreateSql =
    "PRAGMA busy_timeout = 1000;"
    "CREATE TABLE IF NOT EXISTS outcomes (id INTEGER PRIMARY KEY AUTOINCREMENT, instance TEXT, rule TEXT, scope TEXT,"
    " setting TEXT, value_before TEXT, value_after TEXT, state TEXT, why TEXT, risk TEXT, changed_unix_ns INTEGER,"
    " predicted_p50_ms REAL, predicted_p99_ms REAL, measured_p50_ms REAL, measured_p99_ms REAL)";

struct TextField {
  const char *name;
  std::string Outcomes::*member;
};
constexpr TextField kTexts[] = {{"instance", &Outcomes::instance},
                                {"rule", &Outcomes::rule},
                                {"scope", &Outcomes::scope},
                                {"setting", &Outcomes::setting},
                                {"value_before", &Outcomes::value_before},
                                {"value_after", &Outcomes::value_after},
                                {"state", &Outcomes::state},
                                {"why", &Outcomes::why},
                                {"risk", &Outcomes::risk}};
struct RealField {
  const char *name;
  std::optional<double> Outcomes::*member;
};
constexpr RealField kReals[] = {{"predicted_p50_ms", &Outcomes::predicted_p50_ms},
                                {"predicted_p99_ms", &Outcomes::predicted_p99_ms},
                                {"measured_p50_ms", &Outcomes::measured_p50_ms},
                                {"measured_p99_ms", &Outcomes::measured_p99_ms}};

struct FinalizeStatement {
  void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

Statement prepare(sqlite3 *handle, const std::string &sql) {
  sqlite3_stmt *statement = nullptr;
  sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr);
  return Statement(statement);
}

std::string column_names() {
  std::string names;
  for (const TextField &field : kTexts) names += std::string(field.name) + ", ";
  for (const RealField &field : kReals) names += std::string(field.name) + ", ";
  return names + "changed_unix_ns";
}

}  // namespace

History::~History() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  delete database_;
}

Result<std::vector<Outcomes>> History::open(const std::string &path) {
  path_ = path;
  auto database = std::make_unique<Database>();
  if (sqlite3_open_v2(path.c_str(), &database->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK ||
      sqlite3_exec(database->handle, kCreateSql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return Error{EIO, fmt::format("{}: {}", path, sqlite3_errmsg(database->handle))};
  std::vector<Outcomes> all;
  const Statement rows = prepare(database->handle, "SELECT " + column_names() + " FROM outcomes ORDER BY id");
  while (rows != nullptr && sqlite3_step(rows.get()) == SQLITE_ROW) {
    Outcomes one;
    int column = 0;
    for (const TextField &field : kTexts) {
      const auto *text = sqlite3_column_text(rows.get(), column++);
      if (text != nullptr) one.*field.member = reinterpret_cast<const char *>(text);
    }
    for (const RealField &field : kReals) {
      if (sqlite3_column_type(rows.get(), column) != SQLITE_NULL)
        one.*field.member = sqlite3_column_double(rows.get(), column);
      column++;
    }
    one.changed_unix_ns = sqlite3_column_int64(rows.get(), column);
    all.push_back(std::move(one));
  }
  database_ = database.release();
  thread_ = std::thread([this] { run(); });
  return all;
}

void History::add(Outcomes outcomes) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) return;
  if (queue_.size() >= kQueueMax) {
    queue_.pop_front();
    lost_++;
  }
  queue_.push_back(std::move(outcomes));
  wake_.notify_all();
}

std::string History::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

uint64_t History::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::string History::write(const Outcomes &outcomes) {
  sqlite3 *handle = database_->handle;
  std::string marks = "?";
  for (size_t i = 0; i < std::size(kTexts) + std::size(kReals); i++) marks += ", ?";
  const Statement insert = prepare(handle, fmt::format("INSERT INTO outcomes ({}) VALUES ({})", column_names(), marks));
  if (insert == nullptr) return sqlite3_errmsg(handle);
  int place = 1;
  for (const TextField &field : kTexts)
    sqlite3_bind_text(insert.get(), place++, (outcomes.*field.member).c_str(), -1, SQLITE_TRANSIENT);
  for (const RealField &field : kReals) {
    const auto &value = outcomes.*field.member;
    value ? sqlite3_bind_double(insert.get(), place, *value) : sqlite3_bind_null(insert.get(), place);
    place++;
  }
  sqlite3_bind_int64(insert.get(), place, outcomes.changed_unix_ns);
  if (sqlite3_step(insert.get()) != SQLITE_DONE) return sqlite3_errmsg(handle);
  const std::string bound =
      fmt::format("DELETE FROM outcomes WHERE id <= (SELECT max(id) FROM outcomes) - {}", kRowsMax);
  if (sqlite3_exec(handle, bound.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return sqlite3_errmsg(handle);
  return "";
}

void History::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;  // stopped, and all is written
    const Outcomes next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::string error = write(next);
    lock.lock();
    if (!error.empty()) {
      if (error_.empty()) spdlog::warn("the history of advice cannot be written: {}: {}", path_, error);
      lost_++;
    }
    error_ = std::move(error);
  }
}

}  // namespace flushlight::advise
