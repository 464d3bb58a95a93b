// SPDX-License-Identifier: GPL-2.0-or-later
// PostgreSQL through libpq, without ever blocking longer than the time-out. pg_monitor is all that it needs.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <charconv>
#include <iterator>

#include "sidecar/base/clock.h"
#include "sidecar/base/text.h"
#include "sidecar/engines/reader.h"

namespace flushlight {
namespace {

constexpr size_t kErrorBytes = 300;
constexpr size_t kReplicasMax = 64;

// Asked for by name: what advice is about, and what its evidence needs.
constexpr const char *kSettingsSql =
    "SELECT name, setting, coalesce(unit, ''), source, context, pending_restart FROM pg_settings WHERE name IN ("
    "'bgwriter_delay','bgwriter_lru_maxpages','block_size','checkpoint_completion_target','checkpoint_flush_after',"
    "'checkpoint_timeout','commit_delay','commit_siblings','data_directory','data_sync_retry','default_transaction_"
    "isolation','effective_io_concurrency','fsync','full_page_writes','io_combine_limit','io_max_concurrency',"
    "'io_method','io_workers','log_checkpoints','max_connections','max_wal_senders','max_wal_size','min_wal_size',"
    "'recovery_prefetch','session_preload_libraries','shared_buffers','synchronous_commit',"
    "'synchronous_standby_names','track_io_timing','track_wal_io_timing','wal_block_size','wal_buffers',"
    "'wal_compression','wal_init_zero','wal_level','wal_recycle','wal_segment_size','wal_sync_method',"
    "'wal_writer_delay','wal_writer_flush_after','huge_pages','allow_alter_system')";

// One row each: its columns become statistics "<prefix>.<column>".
struct Question {
  int from, below;  // server versions, in thousands of server_version_num's last four digits: 15 is 15.x
  const char *prefix;
  const char *sql;
};
constexpr int kAny = 1000;
constexpr Question kQuestions[] = {
    {0, kAny, "server",
     "SELECT extract(epoch FROM now() - pg_postmaster_start_time()) AS uptime_s, pg_is_in_recovery()::int AS "
     "in_recovery,"
     " CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') END AS wal_position,"
     " (SELECT sum(xact_commit) FROM pg_stat_database) AS commits,"
     " (SELECT count(*) FROM pg_replication_slots WHERE active) AS active_slots"},
    {0, 17, "checkpoints",
     "SELECT checkpoints_timed AS timed, checkpoints_req AS requested, checkpoint_write_time AS write_ms,"
     " checkpoint_sync_time AS sync_ms, buffers_checkpoint AS buffers, buffers_backend_fsync AS backend_fsyncs,"
     " extract(epoch FROM now() - stats_reset) AS age_s FROM pg_stat_bgwriter"},
    {17, kAny, "checkpoints",
     "SELECT num_timed AS timed, num_requested AS requested, write_time AS write_ms, sync_time AS sync_ms,"
     " buffers_written AS buffers, extract(epoch FROM now() - stats_reset) AS age_s FROM pg_stat_checkpointer"},
    {14, kAny, "wal",
     "SELECT wal_records AS records, wal_fpi AS full_page_images, wal_bytes AS bytes, wal_buffers_full AS buffers_full,"
     " extract(epoch FROM now() - stats_reset) AS age_s FROM pg_stat_wal"},
    // A time of 0 is not a time: it was not tracked.
    {14, 18, "wal_io",
     "SELECT wal_write AS writes, wal_sync AS syncs, nullif(wal_write_time, 0) AS write_ms,"
     " nullif(wal_sync_time, 0) AS sync_ms FROM pg_stat_wal"},
    {18, kAny, "wal_io",
     "SELECT sum(writes) AS writes, sum(fsyncs) AS syncs, nullif(sum(write_time), 0) AS write_ms,"
     " nullif(sum(fsync_time), 0) AS sync_ms FROM pg_stat_io WHERE object = 'wal'"},
    {16, kAny, "reads",
     "SELECT sum(reads) AS blocks, nullif(sum(read_time), 0) AS read_ms FROM pg_stat_io WHERE object = 'relation'"},
    {0, kAny, "wal_folder", "SELECT sum(size) AS bytes, count(*) AS files FROM pg_ls_waldir()"},
};

constexpr const char *kReplicasSql =
    "SELECT application_name, coalesce(sync_state, ''), extract(epoch FROM write_lag) * 1000,"
    " extract(epoch FROM flush_lag) * 1000, extract(epoch FROM replay_lag) * 1000 FROM pg_stat_replication";

// insufficient_privilege
constexpr std::string_view kRefusedState = "42501";

struct FreeConnection {
  void operator()(PGconn *connection) const { PQfinish(connection); }
};
struct FreeResult {
  void operator()(PGresult *result) const { PQclear(result); }
};
using Rows = std::unique_ptr<PGresult, FreeResult>;

std::optional<double> to_double(const char *text) {
  double value = 0;
  const auto parsed = std::from_chars(text, text + std::strlen(text), value);
  return parsed.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

class PostgresqlReader final : public EngineReader {
 public:
  PostgresqlReader(EngineTarget target, uint32_t timeout_ms) : target_(std::move(target)), timeout_ms_(timeout_ms) {}

  Result<EngineFacts> read() override {
    auto facts = read_once();
    if (!facts) connection_.reset();  // whatever state it is in: a new one next time
    return facts;
  }

 private:
  [[nodiscard]] Error error(std::string_view what) const {
    std::string text = connection_ != nullptr ? PQerrorMessage(connection_.get()) : "";
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return Error{EIO, fmt::format("{}: {}", what, sanitize_utf8(text, kErrorBytes))};
  }

  // False: the time is up.
  bool wait(short events, uint64_t until_ns) const {
    for (;;) {
      const uint64_t now_ns = clock_.now_ns();
      if (now_ns >= until_ns) return false;
      pollfd fd{PQsocket(connection_.get()), events, 0};
      const int ready = poll(&fd, 1, static_cast<int>((until_ns - now_ns) / 1'000'000) + 1);
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }
  [[nodiscard]] uint64_t deadline() const { return clock_.now_ns() + uint64_t{timeout_ms_} * 1'000'000; }
  [[nodiscard]] Error late() const {
    return Error{ETIMEDOUT, fmt::format("no answer within {} ms (engines.timeout_ms)", timeout_ms_)};
  }

  Result<> connect() {
    std::vector<const char *> keys, values;
    for (const auto &[key, value] : target_.options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    if (target_.option("dbname").empty()) {
      keys.push_back("dbname");
      values.push_back("postgres");
    }
    for (const auto &[key, value] :
         {std::pair("application_name", "flushlightd"), std::pair("client_encoding", "UTF8")}) {
      keys.push_back(key);
      values.push_back(value);
    }
    keys.push_back(nullptr);
    values.push_back(nullptr);
    const uint64_t until_ns = deadline();
    connection_.reset(PQconnectStartParams(keys.data(), values.data(), 0));
    if (connection_ == nullptr) return Error{ENOMEM, "no memory for a connection"};
    for (PostgresPollingStatusType state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;) {
      if (state == PGRES_POLLING_FAILED || PQstatus(connection_.get()) == CONNECTION_BAD) return error("connecting");
      if (!wait(state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ns)) return late();
      state = PQconnectPoll(connection_.get());
    }
    // Ours is a guest: never in the way of a lock or a long query. Errors are then those of the questions.
    auto set = ask("SET statement_timeout = 1000; SET lock_timeout = 200; SET default_transaction_read_only = on");
    return set ? Result<>(Ok{}) : set.error();
  }

  // The last result. One that says FATAL or an error is an Error with code EACCES where rights are lacking.
  Result<Rows> ask(const char *sql) {
    const uint64_t until_ns = deadline();
    if (PQsendQuery(connection_.get(), sql) == 0) return error("asking");
    Rows last;
    for (;;) {
      while (PQflush(connection_.get()) == 1)
        if (!wait(POLLOUT, until_ns)) return late();
      while (PQisBusy(connection_.get()) != 0) {
        if (!wait(POLLIN, until_ns)) return late();
        if (PQconsumeInput(connection_.get()) == 0) return error("asking");
      }
      PGresult *result = PQgetResult(connection_.get());
      if (result == nullptr) break;
      if (last == nullptr || PQresultStatus(last.get()) != PGRES_FATAL_ERROR)
        last.reset(result);
      else
        PQclear(result);
    }
    const ExecStatusType status = last != nullptr ? PQresultStatus(last.get()) : PGRES_FATAL_ERROR;
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return last;
    const char *state = last != nullptr ? PQresultErrorField(last.get(), PG_DIAG_SQLSTATE) : nullptr;
    Error failed = error("asking");
    failed.code = state != nullptr && kRefusedState == state ? EACCES : EIO;
    return failed;
  }

  Result<EngineFacts> read_once() {
    if (connection_ == nullptr || PQstatus(connection_.get()) != CONNECTION_OK)
      if (auto connected = connect(); !connected) return connected.error();
    EngineFacts facts;
    facts.version = PQserverVersion(connection_.get());
    const char *version = PQparameterStatus(connection_.get(), "server_version");
    facts.version_text = version != nullptr ? sanitize_utf8(version, 64) : "";
    facts.server_process = peer_process(PQsocket(connection_.get()));
    if (auto done = read_settings(&facts); !done) return done.error();
    for (const Question &question : kQuestions) {
      const int major = facts.version / 10'000;
      if (major < question.from || major >= question.below) continue;
      if (auto done = read_statistics(question, &facts); !done) return done.error();
    }
    if (auto done = read_replicas(&facts); !done) return done.error();
    if (auto done = read_rights(&facts); !done) return done.error();
    return facts;
  }

  Result<> read_settings(EngineFacts *facts) {
    auto rows = ask(kSettingsSql);
    if (!rows) return rows.error();
    for (int i = 0; i < PQntuples(rows->get()); i++) {
      const auto cell = [&](int column) { return std::string(PQgetvalue(rows->get(), i, column)); };
      EngineSetting setting = in_base_unit(cell(1), cell(2));
      setting.value = sanitize_utf8(setting.value, 1024);
      setting.origin = cell(3);
      setting.needs_restart = cell(4) == "postmaster" || cell(4) == "internal";
      setting.pending_restart = cell(5) == "t";
      facts->settings.emplace(cell(0), std::move(setting));
    }
    return Ok{};
  }

  Result<> read_statistics(const Question &question, EngineFacts *facts) {
    auto rows = ask(question.sql);
    if (!rows) {
      if (rows.error().code != EACCES) return rows.error();
      facts->refused.emplace_back(question.prefix);
      return Ok{};
    }
    if (PQntuples(rows->get()) != 1) return Ok{};
    for (int column = 0; column < PQnfields(rows->get()); column++)
      if (PQgetisnull(rows->get(), 0, column) == 0)
        if (const auto value = to_double(PQgetvalue(rows->get(), 0, column)))
          facts->statistics.emplace(fmt::format("{}.{}", question.prefix, PQfname(rows->get(), column)), *value);
    return Ok{};
  }

  Result<> read_replicas(EngineFacts *facts) {
    auto rows = ask(kReplicasSql);
    if (!rows) return rows.error();
    for (int i = 0; i < PQntuples(rows->get()) && facts->replicas.size() < kReplicasMax; i++) {
      EngineReplica replica;
      replica.name = sanitize_utf8(PQgetvalue(rows->get(), i, 0), 64);
      replica.sync_state = sanitize_utf8(PQgetvalue(rows->get(), i, 1), 32);
      const auto lag = [&](int column) {
        return PQgetisnull(rows->get(), i, column) != 0 ? std::nullopt : to_double(PQgetvalue(rows->get(), i, column));
      };
      replica.write_lag_ms = lag(2);
      replica.flush_lag_ms = lag(3);
      replica.replay_lag_ms = lag(4);
      facts->replicas.push_back(std::move(replica));
    }
    return Ok{};
  }

  // Without the role much is NULL and nothing says why.
  Result<> read_rights(EngineFacts *facts) {
    auto rows = ask("SELECT pg_has_role(current_user, 'pg_monitor', 'USAGE')");
    if (!rows) return rows.error();
    if (PQntuples(rows->get()) == 1 && *PQgetvalue(rows->get(), 0, 0) != 't')
      facts->refused.emplace_back("replicas and file names (the role lacks pg_monitor)");
    return Ok{};
  }

  EngineTarget target_;
  uint32_t timeout_ms_;
  SystemClock clock_;
  std::unique_ptr<PGconn, FreeConnection> connection_;
};

}  // namespace

std::unique_ptr<EngineReader> make_postgresql_reader(EngineTarget target, uint32_t timeout_ms) {
  return std::make_unique<PostgresqlReader>(std::move(target), timeout_ms);
}

}  // namespace flushlight
