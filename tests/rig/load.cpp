// SPDX-License-Identifier: GPL-2.0-or-later
// rig-load: K sessions that commit, each timing its own COMMIT (CLOCK_MONOTONIC, around the round trip).
//
// Warms up, says "ready", waits for a line on standard input if asked to (the caller then resets statistics),
// loads for S seconds, writes all windows as pairs of 64-bit nanoseconds (begin, end) to --windows and a JSON
// summary to standard output.
//
// Threads: one for each session; a session's windows belong to its thread until it is joined. Nothing is
// allocated between ready and the end (the client libraries' own buffers excepted).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "slow_control.h"
#include "sql_client.h"

namespace {

using rig::monotonic_ns;

struct Options {
  rig::Address address{.engine = "", .socket = "", .database = "rig", .user = "rig"};
  unsigned sessions = 1;
  double seconds = 5;
  unsigned warmup = 5;
  bool binary = false;
  bool autocommit = false;
  bool insert = false;
  bool wait = false;
  unsigned row_bytes = 0;
  unsigned think_us = 0;
  std::string windows_file;
};

struct Window {
  uint64_t begin_ns;
  uint64_t end_ns;
};

constexpr size_t kWindowsPerSecond = 20'000;  // of one session: more than a round trip through a socket allows
constexpr size_t kWindowsInAll = 16'000'000;  // 256 MB; a load that would need more ends early and says so

struct Load {
  const Options &options;
  std::barrier<> ready, go;
  std::atomic<uint64_t> deadline_ns{0};
  std::atomic<bool> failed{false};
  explicit Load(const Options &o) : options(o), ready(o.sessions + 1), go(o.sessions + 1) {}
};

// A statement of a session, text or prepared.
class Step {
 public:
  Step(rig::Session &session, bool binary, std::string sql)
      : session_(session),
        sql_(std::move(sql)),
        prepared_(binary ? session.prepare(sql_.c_str()) : 0),
        binary_(binary) {}
  void operator()() const {
    if (binary_)
      session_.run(prepared_);
    else
      session_.execute(sql_.c_str());
  }

 private:
  rig::Session &session_;
  std::string sql_;
  size_t prepared_;
  bool binary_;
};

std::string work_sql(const Options &options, unsigned session) {
  const std::string id = std::to_string(session + 1);
  if (options.row_bytes) {  // nothing that an engine can compress
    std::string hex(2 * static_cast<size_t>(options.row_bytes), '0');
    std::mt19937 random(session);
    for (char &digit : hex) digit = "0123456789abcdef"[random() % 16];
    const bool mariadb = options.address.engine == "mariadb";
    return "INSERT INTO rig_big (data) VALUES (" + (mariadb ? "X'" + hex + "'" : "'\\x" + hex + "'") + ")";
  }
  return options.insert ? "INSERT INTO rig_log (session, v) VALUES (" + id + ", 1)"
                        : "UPDATE rig_load SET v = v + 1 WHERE id = " + id;
}

Window timed(const Step &step) {
  const uint64_t begin = monotonic_ns();
  step();
  return {begin, monotonic_ns()};
}

void run_session(Load &load, unsigned number, std::vector<Window> &windows) {
  const Options &options = load.options;
  size_t used = 0;
  bool armed = false;  // has passed both barriers
  try {
    auto session = rig::connect(options.address);
    const Step begin(*session, options.binary && options.address.engine == "postgresql", "BEGIN");
    const Step work(*session, options.binary, work_sql(options, number));
    const Step commit(*session, options.binary, "COMMIT");
    const auto once = [&]() -> Window {
      if (options.autocommit) return timed(work);
      begin();
      work();
      return timed(commit);
    };
    for (unsigned i = 0; i < options.warmup; ++i) once();
    load.ready.arrive_and_wait();
    load.go.arrive_and_wait();
    armed = true;
    while (monotonic_ns() < load.deadline_ns && used < windows.size()) {
      windows[used++] = once();
      if (options.think_us) std::this_thread::sleep_for(std::chrono::microseconds(options.think_us));
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "rig-load: session %u: %s\n", number, error.what());
    load.failed = true;
    if (!armed) {
      load.ready.arrive_and_drop();
      load.go.arrive_and_drop();
    }
  }
  if (used == windows.size()) {
    std::fprintf(stderr, "rig-load: session %u: no room for more windows: load for a shorter time\n", number);
    load.failed = true;
  }
  windows.resize(used);
}

// Nearest rank.
double percentile_ms(const std::vector<uint64_t> &sorted, double share) {
  const size_t rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[std::max<size_t>(rank, 1) - 1]) / 1e6;
}

nlohmann::ordered_json summary(const std::vector<Window> &windows) {
  std::vector<uint64_t> sorted;
  for (const Window &window : windows) sorted.push_back(window.end_ns - window.begin_ns);
  std::sort(sorted.begin(), sorted.end());
  nlohmann::ordered_json result;
  result["commits"] = sorted.size();
  if (sorted.empty()) return result;
  double sum = 0;
  for (const uint64_t duration : sorted) sum += static_cast<double>(duration);
  result["mean_ms"] = sum / static_cast<double>(sorted.size()) / 1e6;
  for (const auto &[name, share] :
       {std::pair{"p50_ms", 0.5}, {"p95_ms", 0.95}, {"p99_ms", 0.99}, {"p999_ms", 0.999}, {"max_ms", 1.0}})
    result[name] = percentile_ms(sorted, share);
  return result;
}

void set_up(const Options &options) {
  auto session = rig::connect(options.address);
  const bool mariadb = options.address.engine == "mariadb";
  session->execute("CREATE TABLE IF NOT EXISTS rig_load (id INT PRIMARY KEY, v BIGINT NOT NULL)");
  session->execute(
      mariadb ? "CREATE TABLE IF NOT EXISTS rig_log (id BIGINT AUTO_INCREMENT PRIMARY KEY, session INT, v BIGINT)"
              : "CREATE TABLE IF NOT EXISTS rig_log (id BIGSERIAL PRIMARY KEY, session INT, v BIGINT)");
  session->execute(mariadb ? "CREATE TABLE IF NOT EXISTS rig_big (id BIGINT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB)"
                           : "CREATE TABLE IF NOT EXISTS rig_big (id BIGSERIAL PRIMARY KEY, data BYTEA)");
  if (!mariadb) session->execute("ALTER TABLE rig_big ALTER data SET STORAGE EXTERNAL");
  std::string rows;
  for (unsigned id = 1; id <= options.sessions; ++id) rows += (id > 1 ? ", (" : "(") + std::to_string(id) + ", 0)";
  session->execute(((mariadb ? "INSERT IGNORE INTO rig_load VALUES " : "INSERT INTO rig_load VALUES ") + rows +
                    (mariadb ? "" : " ON CONFLICT DO NOTHING"))
                       .c_str());
}

bool write_windows(const std::string &path, const std::vector<Window> &windows) {
  FILE *file = std::fopen(path.c_str(), "wb");
  const bool written = file && std::fwrite(windows.data(), sizeof(Window), windows.size(), file) == windows.size();
  return file && std::fclose(file) == 0 && written;
}

int run(const Options &options) {
  set_up(options);
  Load load(options);
  std::vector<std::vector<Window>> windows(options.sessions);
  const auto wanted = static_cast<size_t>(options.seconds * kWindowsPerSecond) + 1;
  for (auto &mine : windows) mine.resize(std::min(wanted, kWindowsInAll / options.sessions));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.sessions; ++i)
    threads.emplace_back(run_session, std::ref(load), i, std::ref(windows[i]));
  load.ready.arrive_and_wait();
  std::puts("ready");
  std::fflush(stdout);
  char line[16];
  if (options.wait && !std::fgets(line, sizeof line, stdin)) std::fprintf(stderr, "rig-load: nobody waits: going on\n");
  const uint64_t begin = monotonic_ns();
  load.deadline_ns = begin + static_cast<uint64_t>(options.seconds * 1e9);
  load.go.arrive_and_wait();
  for (std::thread &thread : threads) thread.join();
  std::vector<Window> all;
  for (const auto &mine : windows) all.insert(all.end(), mine.begin(), mine.end());
  auto result = summary(all);
  result["begin_ns"] = begin;
  result["end_ns"] = monotonic_ns();
  std::puts(result.dump().c_str());
  if (!options.windows_file.empty() && !write_windows(options.windows_file, all)) {
    std::perror(options.windows_file.c_str());
    return 1;
  }
  return load.failed ? 1 : 0;
}

}  // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Sessions that commit and time their COMMIT");
  app.add_option("--engine", options.address.engine, "postgresql or mariadb")->required();
  app.add_option("--socket", options.address.socket, "PostgreSQL: folder, MariaDB: file")->required();
  app.add_option("--database", options.address.database);
  app.add_option("--user", options.address.user);
  app.add_option("--sessions", options.sessions)->check(CLI::Range(1, 1024));
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "transactions of each session before the timed part");
  app.add_option("--think-us", options.think_us, "pause after each transaction");
  app.add_option("--windows", options.windows_file, "file for the COMMIT windows");
  app.add_flag("--binary", options.binary, "prepared statements");
  app.add_flag("--autocommit", options.autocommit, "single statements, timed whole");
  app.add_flag("--insert", options.insert, "insert rows instead of updating one for each session");
  app.add_option("--row-bytes", options.row_bytes, "insert rows of this size")->check(CLI::Range(0, 1 << 20));
  app.add_flag("--wait", options.wait, "wait for a line on standard input before the timed part");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "rig-load: %s\n", error.what());
    return 1;
  }
}
