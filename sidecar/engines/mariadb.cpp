// SPDX-License-Identifier: GPL-2.0-or-later
// MariaDB through libmariadb, with time-outs on every step. Settings and status need no privilege at all; PROCESS adds
// InnoDB's own counters.
#include <fmt/format.h>
#include <mysql.h>

#include <charconv>

#include "sidecar/base/text.h"
#include "sidecar/engines/reader.h"
#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

constexpr size_t kErrorBytes = 300;
constexpr size_t kPasswordBytes = 1024;

// SYSTEM_VARIABLES tells who set a value: an effective value that nobody set and that is not the default is a fallback.
constexpr const char *kSettingsSql =
    "SELECT LOWER(VARIABLE_NAME), GLOBAL_VALUE, GLOBAL_VALUE_ORIGIN, READ_ONLY, DEFAULT_VALUE"
    " FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME IN ("
    "'AUTOCOMMIT','BINLOG_COMMIT_WAIT_COUNT','BINLOG_COMMIT_WAIT_USEC','BINLOG_CACHE_SIZE','BINLOG_FORMAT','DATADIR',"
    "'BINLOG_LARGE_COMMIT_THRESHOLD','INNODB_BUFFER_POOL_SIZE','INNODB_DATA_FILE_WRITE_THROUGH',"
    "'INNODB_DATA_FILE_BUFFERING','INNODB_DOUBLEWRITE','INNODB_FLUSH_LOG_AT_TIMEOUT','INNODB_FLUSH_LOG_AT_TRX_COMMIT',"
    "'INNODB_FLUSH_METHOD','INNODB_FLUSH_NEIGHBORS','INNODB_IO_CAPACITY','INNODB_IO_CAPACITY_MAX',"
    "'INNODB_LOG_BUFFER_SIZE','INNODB_LOG_FILE_BUFFERING','INNODB_LOG_FILE_SIZE','INNODB_LOG_FILE_WRITE_THROUGH',"
    "'INNODB_LOG_WRITE_AHEAD_SIZE','INNODB_LOG_FILE_MMAP','INNODB_LINUX_AIO','INNODB_PAGE_SIZE',"
    "'INNODB_READ_IO_THREADS','INNODB_WRITE_IO_THREADS','INNODB_USE_NATIVE_AIO','INNODB_MAX_DIRTY_PAGES_PCT','LOG_BIN',"
    "'LOG_SLAVE_UPDATES','MAX_CONNECTIONS','READ_ONLY','RPL_SEMI_SYNC_MASTER_ENABLED','RPL_SEMI_SYNC_MASTER_TIMEOUT',"
    "'RPL_SEMI_SYNC_MASTER_WAIT_POINT','SYNC_BINLOG','THREAD_HANDLING','WSREP_ON','WSREP_CLUSTER_ADDRESS',"
    "'SLAVE_PARALLEL_THREADS')";

struct Statistic {
  const char *status;  // as SHOW GLOBAL STATUS names it
  const char *name;
};
constexpr Statistic kStatistics[] = {
    {"Uptime", "server.uptime_s"},
    {"Com_commit", "server.commits"},
    {"Com_insert", "server.inserts"},
    {"Threads_running", "server.threads_running"},
    {"Slaves_connected", "replication.replicas"},
    {"Slaves_running", "replication.sources"},
    {"Innodb_os_log_fsyncs", "redo.syncs"},
    {"Innodb_os_log_written", "redo.bytes"},
    {"Innodb_log_waits", "redo.buffer_waits"},
    {"Innodb_log_writes", "redo.writes"},
    {"Innodb_checkpoint_age", "redo.checkpoint_age"},
    {"Innodb_checkpoint_max_age", "redo.checkpoint_age_max"},
    {"Innodb_data_fsyncs", "data.syncs"},
    {"Innodb_data_writes", "data.writes"},
    {"Innodb_data_reads", "data.reads"},
    {"Innodb_dblwr_writes", "data.doublewrites"},
    {"Innodb_buffer_pool_pages_dirty", "pool.dirty_pages"},
    {"Innodb_buffer_pool_pages_total", "pool.pages"},
    {"Innodb_buffer_pool_wait_free", "pool.free_waits"},
    {"Innodb_buffer_pool_pages_flushed", "pool.flushed_pages"},
    {"Binlog_commits", "binlog.commits"},
    {"Binlog_group_commits", "binlog.groups"},
    {"Binlog_group_commit_trigger_count", "binlog.triggers_count"},
    {"Binlog_group_commit_trigger_timeout", "binlog.triggers_timeout"},
    {"Binlog_group_commit_trigger_lock_wait", "binlog.triggers_lock_wait"},
    {"Rpl_semi_sync_master_clients", "semi_sync.replicas"},
    {"Rpl_semi_sync_master_no_tx", "semi_sync.not_waited"},
    {"Rpl_semi_sync_master_yes_tx", "semi_sync.waited"},
    {"wsrep_cluster_size", "galera.nodes"},
};

constexpr const char *kMetricsSql =
    "SELECT NAME, COUNT FROM information_schema.INNODB_METRICS"
    " WHERE NAME IN ('buffer_flush_sync_waits', 'buffer_flush_sync', 'log_checkpoints')";

// ER_SPECIFIC_ACCESS_DENIED_ERROR
constexpr unsigned kRefusedCode = 1227;

struct CloseConnection {
  void operator()(MYSQL *connection) const { mysql_close(connection); }
};
struct FreeResult {
  void operator()(MYSQL_RES *result) const { mysql_free_result(result); }
};
using Rows = std::unique_ptr<MYSQL_RES, FreeResult>;

class MariadbReader final : public EngineReader {
 public:
  MariadbReader(EngineTarget target, uint32_t timeout_ms) : target_(std::move(target)), timeout_ms_(timeout_ms) {}

  Result<EngineFacts> read() override {
    auto facts = read_once();
    if (!facts) connection_.reset();
    return facts;
  }

 private:
  [[nodiscard]] Error error(std::string_view what) const {
    return Error{mysql_errno(connection_.get()) == kRefusedCode ? EACCES : EIO,
                 fmt::format("{}: {}", what, sanitize_utf8(mysql_error(connection_.get()), kErrorBytes))};
  }

  Result<> connect() {
    std::string password;
    if (!target_.password_file.empty()) {
      password = read_text_file(target_.password_file, kPasswordBytes);
      password.resize(std::min(password.find('\n'), password.size()));
      if (password.empty()) return Error{EACCES, "no password in " + target_.password_file};
    }
    connection_.reset(mysql_init(nullptr));
    if (connection_ == nullptr) return Error{ENOMEM, "no memory for a connection"};
    const unsigned seconds = std::max(1u, (timeout_ms_ + 999) / 1000);
    for (const mysql_option option : {MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT, MYSQL_OPT_WRITE_TIMEOUT})
      mysql_options(connection_.get(), option, &seconds);
    if (const std::string authority = target_.option("ssl_ca"); !authority.empty())
      mysql_ssl_set(connection_.get(), nullptr, nullptr, authority.c_str(), nullptr, nullptr);
    mysql_options4(connection_.get(), MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "flushlightd");
    const auto given = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
    const std::string socket = target_.option("socket"), host = target_.option("host"), user = target_.option("user"),
                      database = target_.option("database"), port = target_.option("port");
    const auto number = static_cast<unsigned>(to_number(port).value_or(0));
    const bool opened = mysql_real_connect(connection_.get(), socket.empty() ? given(host) : "localhost", given(user),
                                           given(password), given(database), number, given(socket), 0) != nullptr;
    explicit_bzero(password.data(), password.size());
    if (!opened) return error("connecting");
    return Ok{};
  }

  Result<Rows> ask(std::string_view sql) {
    if (mysql_real_query(connection_.get(), sql.data(), sql.size()) != 0) return error("asking");
    Rows rows(mysql_store_result(connection_.get()));
    if (rows == nullptr) return error("asking");
    return rows;
  }

  Result<EngineFacts> read_once() {
    if (connection_ == nullptr)
      if (auto connected = connect(); !connected) return connected.error();
    EngineFacts facts;
    facts.version = static_cast<int>(mysql_get_server_version(connection_.get()));
    facts.version_text = sanitize_utf8(mysql_get_server_info(connection_.get()), 64);
    facts.server_process = peer_process(static_cast<int>(mysql_get_socket(connection_.get())));
    if (auto done = read_settings(&facts); !done) return done.error();
    if (auto done = read_statistics(&facts); !done) return done.error();
    if (auto done = read_metrics(&facts); !done) return done.error();
    return facts;
  }

  Result<> read_settings(EngineFacts *facts) {
    auto rows = ask(kSettingsSql);
    if (!rows) return rows.error();
    while (MYSQL_ROW row = mysql_fetch_row(rows->get())) {
      if (row[0] == nullptr || row[1] == nullptr) continue;
      EngineSetting setting;
      setting.value = sanitize_utf8(row[1], 1024);
      setting.origin = row[2] != nullptr ? row[2] : "";
      setting.needs_restart = row[3] != nullptr && std::string_view(row[3]) == "YES";
      facts->settings.emplace(row[0], std::move(setting));
    }
    return Ok{};
  }

  Result<> read_statistics(EngineFacts *facts) {
    std::string names;
    for (const Statistic &statistic : kStatistics)
      names += fmt::format("{}'{}'", names.empty() ? "" : ",", statistic.status);
    auto rows = ask(fmt::format("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names));
    if (!rows) return rows.error();
    while (MYSQL_ROW row = mysql_fetch_row(rows->get())) {
      if (row[0] == nullptr || row[1] == nullptr) continue;
      const std::string_view status(row[0]);
      for (const Statistic &statistic : kStatistics)
        if (status == statistic.status)
          if (const auto value = to_real(row[1])) facts->statistics.emplace(statistic.name, *value);
    }
    return Ok{};
  }

  Result<> read_metrics(EngineFacts *facts) {
    auto rows = ask(kMetricsSql);
    if (!rows) {
      if (rows.error().code != EACCES) return rows.error();
      facts->refused.emplace_back("InnoDB's metrics (the user lacks PROCESS)");
      return Ok{};
    }
    while (MYSQL_ROW row = mysql_fetch_row(rows->get()))
      if (row[0] != nullptr && row[1] != nullptr)
        if (const auto value = to_real(row[1])) facts->statistics.emplace(fmt::format("innodb.{}", row[0]), *value);
    return Ok{};
  }

  EngineTarget target_;
  uint32_t timeout_ms_;
  std::unique_ptr<MYSQL, CloseConnection> connection_;
};

}  // namespace

std::unique_ptr<EngineReader> make_mariadb_reader(EngineTarget target, uint32_t timeout_ms) {
  return std::make_unique<MariadbReader>(std::move(target), timeout_ms);
}

}  // namespace flushlight
