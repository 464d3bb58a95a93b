// SPDX-License-Identifier: GPL-2.0-or-later
// One interface over libpq and libmariadb, as little as the load client and the query tool need.
// A Session belongs to one thread.
#pragma once
#include <libpq-fe.h>
#include <mysql.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace rig {

struct Address {
  std::string engine;  // postgresql or mariadb
  std::string socket;  // PostgreSQL: the folder, MariaDB: the file
  std::string database;
  std::string user;
};

enum class ColumnType { text, integer, real };
struct Column {
  std::string name;
  ColumnType type;
};
using Row = std::vector<std::optional<std::string>>;

// Throws std::runtime_error with the server's words: a session that fails ends its program.
class Session {
 public:
  virtual ~Session() = default;
  virtual void execute(const char *sql) = 0;  // text protocol, result dropped
  virtual size_t prepare(const char *sql) = 0;
  virtual void run(size_t prepared) = 0;  // binary protocol, no parameters, result dropped
  virtual std::vector<Column> query(const char *sql, const std::function<void(Row)> &row) = 0;
};

class PostgresqlSession final : public Session {
 public:
  explicit PostgresqlSession(const Address &address) {
    const char *names[] = {"host", "dbname", "user", "application_name", nullptr};
    const char *values[] = {address.socket.c_str(), address.database.c_str(), address.user.c_str(), "rig", nullptr};
    connection_.reset(PQconnectdbParams(names, values, 0));
    if (PQstatus(connection_.get()) != CONNECTION_OK) fail();
    PQsetNoticeProcessor(
        connection_.get(), [](void *, const char *) {}, nullptr);
  }
  void execute(const char *sql) override { check(PQexec(connection_.get(), sql)); }
  size_t prepare(const char *sql) override {
    names_.push_back("p" + std::to_string(names_.size()));
    check(PQprepare(connection_.get(), names_.back().c_str(), sql, 0, nullptr));
    return names_.size() - 1;
  }
  void run(size_t prepared) override {
    check(PQexecPrepared(connection_.get(), names_[prepared].c_str(), 0, nullptr, nullptr, nullptr, 1));
  }
  std::vector<Column> query(const char *sql, const std::function<void(Row)> &row) override {
    Result result = check(PQexec(connection_.get(), sql));
    std::vector<Column> columns;
    for (int c = 0; c < PQnfields(result.get()); ++c)
      columns.push_back({PQfname(result.get(), c), type_of(PQftype(result.get(), c))});
    for (int r = 0; r < PQntuples(result.get()); ++r) {
      Row values;
      for (int c = 0; c < PQnfields(result.get()); ++c)
        values.push_back(PQgetisnull(result.get(), r, c) ? std::nullopt
                                                         : std::optional<std::string>(PQgetvalue(result.get(), r, c)));
      row(std::move(values));
    }
    return columns;
  }

 private:
  struct Delete {
    void operator()(PGconn *connection) const { PQfinish(connection); }
    void operator()(PGresult *result) const { PQclear(result); }
  };
  using Result = std::unique_ptr<PGresult, Delete>;
  Result check(PGresult *raw) {
    Result result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail();
    return result;
  }
  [[noreturn]] void fail() { throw std::runtime_error(PQerrorMessage(connection_.get())); }
  static ColumnType type_of(Oid oid) {  // pg_type.dat: int2, int4, int8, oid; float4, float8, numeric
    switch (oid) {
      case 20:
      case 21:
      case 23:
      case 26:
        return ColumnType::integer;
      case 700:
      case 701:
      case 1700:
        return ColumnType::real;
      default:
        return ColumnType::text;
    }
  }
  std::unique_ptr<PGconn, Delete> connection_;
  std::vector<std::string> names_;
};

class MariadbSession final : public Session {
 public:
  explicit MariadbSession(const Address &address) : connection_(mysql_init(nullptr)) {
    const unsigned protocol = MYSQL_PROTOCOL_SOCKET;
    mysql_options(connection_.get(), MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options4(connection_.get(), MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "rig");
    if (!mysql_real_connect(connection_.get(), nullptr, address.user.c_str(), nullptr, address.database.c_str(), 0,
                            address.socket.c_str(), CLIENT_MULTI_STATEMENTS))
      fail();
  }
  void execute(const char *sql) override {
    if (mysql_real_query(connection_.get(), sql, std::char_traits<char>::length(sql)) != 0) fail();
    for (int more = 0; more == 0; more = mysql_next_result(connection_.get())) {
      mysql_free_result(mysql_store_result(connection_.get()));
      if (mysql_errno(connection_.get())) fail();
    }
    if (mysql_errno(connection_.get())) fail();
  }
  size_t prepare(const char *sql) override {
    Statement statement(mysql_stmt_init(connection_.get()));
    if (mysql_stmt_prepare(statement.get(), sql, std::char_traits<char>::length(sql)) != 0) fail();
    statements_.push_back(std::move(statement));
    return statements_.size() - 1;
  }
  void run(size_t prepared) override {
    if (mysql_stmt_execute(statements_[prepared].get()) != 0)
      throw std::runtime_error(mysql_stmt_error(statements_[prepared].get()));
  }
  std::vector<Column> query(const char *sql, const std::function<void(Row)> &row) override {
    if (mysql_real_query(connection_.get(), sql, std::char_traits<char>::length(sql)) != 0) fail();
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> result(mysql_store_result(connection_.get()),
                                                                    mysql_free_result);
    std::vector<Column> columns;
    if (!result) {
      if (mysql_errno(connection_.get())) fail();
      return columns;
    }
    const unsigned count = mysql_num_fields(result.get());
    for (unsigned c = 0; c < count; ++c)
      columns.push_back(
          {mysql_fetch_field_direct(result.get(), c)->name, type_of(mysql_fetch_field_direct(result.get(), c)->type)});
    while (MYSQL_ROW raw = mysql_fetch_row(result.get())) {
      Row values;
      for (unsigned c = 0; c < count; ++c) values.push_back(raw[c] ? std::optional<std::string>(raw[c]) : std::nullopt);
      row(std::move(values));
    }
    return columns;
  }

 private:
  struct Delete {
    void operator()(MYSQL *connection) const { mysql_close(connection); }
    void operator()(MYSQL_STMT *statement) const { mysql_stmt_close(statement); }
  };
  using Statement = std::unique_ptr<MYSQL_STMT, Delete>;
  [[noreturn]] void fail() { throw std::runtime_error(mysql_error(connection_.get())); }
  static ColumnType type_of(enum_field_types type) {
    switch (type) {
      case MYSQL_TYPE_TINY:
      case MYSQL_TYPE_SHORT:
      case MYSQL_TYPE_LONG:
      case MYSQL_TYPE_LONGLONG:
      case MYSQL_TYPE_INT24:
        return ColumnType::integer;
      case MYSQL_TYPE_FLOAT:
      case MYSQL_TYPE_DOUBLE:
      case MYSQL_TYPE_DECIMAL:
      case MYSQL_TYPE_NEWDECIMAL:
        return ColumnType::real;
      default:
        return ColumnType::text;
    }
  }
  std::unique_ptr<MYSQL, Delete> connection_;
  std::vector<Statement> statements_;  // closed before the connection
};

inline std::unique_ptr<Session> connect(const Address &address) {
  if (address.engine == "mariadb") return std::make_unique<MariadbSession>(address);
  if (address.engine == "postgresql") return std::make_unique<PostgresqlSession>(address);
  throw std::runtime_error("engine: postgresql or mariadb");
}

}  // namespace rig
