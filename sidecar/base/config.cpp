// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/config.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <cstdlib>

#include "sidecar/base/config_settings.h"
#include "sidecar/base/engine_target.h"
#include "sidecar/base/listen_address.h"

namespace flushlight {
namespace {

Error bad_value(std::string_view value, std::string_view expected) {
  return Error{EINVAL, fmt::format("'{}' is not {}", value, expected)};
}

template <typename Number>
Result<> set_number(std::string_view text, Number low, Number high, Number *out, int base = 10) {
  const std::string_view given = text;
  if (text.starts_with("0o")) {  // TOML's octal numbers
    text.remove_prefix(2);
    base = 8;
  }
  Number number{};
  std::from_chars_result parsed{};
  if constexpr (std::is_floating_point_v<Number>)
    parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  else
    parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || !(number >= low && number <= high))
    return bad_value(given, fmt::format("a number from {} to {}", low, high));
  *out = number;
  return Ok{};
}

Result<> set_power_of_two(std::string_view text, uint32_t low, uint32_t high, uint32_t *out) {
  uint32_t number = 0;
  if (auto result = set_number(text, low, high, &number); !result) return result;
  if (!std::has_single_bit(number)) return bad_value(text, "a power of two");
  *out = number;
  return Ok{};
}

Result<> set_choice(std::string_view text, std::string_view first, std::string_view second, bool *is_first) {
  if (text != first && text != second) return bad_value(text, fmt::format("{} or {}", first, second));
  *is_first = text == first;
  return Ok{};
}

Result<uid_t> find_uid(const std::string &name) {
  uid_t uid = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), uid);
  if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size()) return uid;
  const passwd *entry = getpwnam(name.c_str());
  if (entry == nullptr)
    return bad_value(name, "a user of this system (use the number if the user lives in a container only)");
  return entry->pw_uid;
}

PeerList own_peers() { return PeerList{false, {0, geteuid()}}; }

Result<> set_peers(std::string_view text, PeerList *out) {
  PeerList peers = own_peers();
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string name(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (name == "any") {
      peers.any = true;
      continue;
    }
    auto uid = find_uid(name);
    if (!uid) return uid.error();
    peers.uids.insert(*uid);
  }
  *out = std::move(peers);
  return Ok{};
}

std::string peers_text(const PeerList &peers) {
  return peers.any ? "any" : fmt::format("{}", fmt::join(peers.uids, ","));
}

Result<> set_log_level_name(std::string_view text, std::string *out) {
  for (const char *level : {"trace", "debug", "info", "warning", "error", "off"}) {
    if (text != level) continue;
    *out = text;
    return Ok{};
  }
  return bad_value(text, "trace, debug, info, warning, error or off");
}

Result<> set_path(std::string_view text, std::string *out) {
  if (text.empty() || text[0] != '/') return bad_value(text, "an absolute path");
  *out = text;
  return Ok{};
}

Result<> set_targets(std::string_view text, Result<EngineTarget> (*parse)(std::string_view),
                     std::vector<std::string> *out) {
  std::vector<std::string> targets;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view target = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (auto parsed = parse(target); !parsed) return parsed.error();
    targets.emplace_back(target);
  }
  *out = std::move(targets);
  return Ok{};
}

Result<> set_names(std::string_view text, std::set<std::string> *out) {
  std::set<std::string> names;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) names.emplace(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  *out = std::move(names);
  return Ok{};
}

Result<> set_listen_address(std::string_view text, std::string *out) {
  if (!text.empty())
    if (const auto parts = split_listen_address(std::string(text)); !parts) return parts.error();
  *out = text;
  return Ok{};
}

const char *on_off(bool on) { return on ? "on" : "off"; }

}  // namespace

const std::vector<Setting> &settings() {
  using C = Config;
  using V = std::string_view;
  // key, flag, reloadable, help, set, get
  static const std::vector<Setting> table = {
      {"socket.path", "--socket", false, "Unix socket that databases and the command line connect to",
       [](V v, C *c) { return set_path(v, &c->socket_path); }, [](const C &c) { return c.socket_path; }},
      {"socket.mode", "--socket-mode", false, "its file mode, octal; who may speak is up to allowed_peers",
       [](V v, C *c) { return set_number<uint32_t>(v, 0, 0777, &c->socket_mode, 8); },
       [](const C &c) { return fmt::format("{:04o}", c.socket_mode); }},
      {"socket.allowed_peers", "--allow-peers", true,
       "users (names or numbers, comma-separated) that may connect, or any; root and the daemon's own always may",
       [](V v, C *c) { return set_peers(v, &c->allowed_peers); },
       [](const C &c) { return peers_text(c.allowed_peers); }},
      {"tracing.enabled", "--tracing", false, "on or off: load the kernel side",
       [](V v, C *c) { return set_choice(v, "on", "off", &c->tracing); },
       [](const C &c) { return std::string(on_off(c.tracing)); }},
      {"tracing.ledger_slots", "--ledger-slots", false, "threads that can be observed at once on this host",
       [](V v, C *c) { return set_power_of_two(v, 64, 1u << 18, &c->ledger_slots); },
       [](const C &c) { return fmt::to_string(c.ledger_slots); }},
      {"tracing.pool_slots", "--pool-slots", false, "of these, kept for background and kernel threads",
       [](V v, C *c) { return set_number<uint32_t>(v, 16, 1u << 17, &c->pool_slots); },
       [](const C &c) { return fmt::to_string(c.pool_slots); }},
      {"tracing.max_cpu_percent", "--max-cpu-percent", true,
       "the brake: above this share of one CPU for 10 s flushlight switches itself off",
       [](V v, C *c) { return set_number(v, 0.1, 10000.0, &c->max_cpu_percent); },
       [](const C &c) { return fmt::to_string(c.max_cpu_percent); }},
      {"tracing.btf_path", "--btf", false, "kernel type information, if not /sys/kernel/btf/vmlinux",
       [](V v, C *c) { return set_path(v, &c->btf_path); }, [](const C &c) { return c.btf_path; }},
      {"rings.data_bytes", "--ring-data-bytes", false, "record memory of a database thread, power of two",
       [](V v, C *c) { return set_power_of_two(v, 8192, 1u << 20, &c->ring_data_bytes); },
       [](const C &c) { return fmt::to_string(c.ring_data_bytes); }},
      {"rings.slots_per_process_max", "--slots-per-process-max", true, "threads observed in one process at most",
       [](V v, C *c) { return set_number<uint32_t>(v, 1, 4095, &c->slots_per_process_max); },
       [](const C &c) { return fmt::to_string(c.slots_per_process_max); }},
      {"rings.memory_max_bytes", "--ring-memory-max-bytes", true, "memory of all rings together at most",
       [](V v, C *c) { return set_number<uint64_t>(v, 1u << 20, 1ull << 40, &c->ring_memory_max_bytes); },
       [](const C &c) { return fmt::to_string(c.ring_memory_max_bytes); }},
      {"statistics.statements_max", "--statements-max", true, "rows of the statements view at most",
       [](V v, C *c) { return set_number<uint32_t>(v, 100, 1'000'000, &c->statements_max); },
       [](const C &c) { return fmt::to_string(c.statements_max); }},
      {"statistics.slow_commit_threshold_ms", "--slow-commit-threshold-ms", true,
       "commits that take longer are kept one by one",
       [](V v, C *c) { return set_number(v, 0.0, 3'600'000.0, &c->slow_commit_threshold_ms); },
       [](const C &c) { return fmt::to_string(c.slow_commit_threshold_ms); }},
      {"statistics.slow_commits_max", "--slow-commits-max", true, "slow commits kept",
       [](V v, C *c) { return set_number<uint32_t>(v, 100, 1'000'000, &c->slow_commits_max); },
       [](const C &c) { return fmt::to_string(c.slow_commits_max); }},
      {"statistics.query_text", "--query-text", true, "full (normalised text, no literals) or digest_only",
       [](V v, C *c) { return set_choice(v, "full", "digest_only", &c->full_query_text); },
       [](const C &c) { return std::string(c.full_query_text ? "full" : "digest_only"); }},
      {"metrics.listen", "--metrics-listen", true, "address and port of /metrics (HTTP); empty: not served",
       [](V v, C *c) { return set_listen_address(v, &c->metrics_listen); },
       [](const C &c) { return c.metrics_listen; }},
      {"metrics.statements_max", "--metrics-statements-max", true,
       "statements with metrics of their own; the rest is summed up for each server",
       [](V v, C *c) { return set_number<uint32_t>(v, 0, 10'000, &c->metrics_statements_max); },
       [](const C &c) { return fmt::to_string(c.metrics_statements_max); }},
      {"engines.postgresql", "--postgresql", false,
       "PostgreSQL servers to ask for settings and statistics, for advice: key=value words of libpq, comma-separated",
       [](V v, C *c) { return set_targets(v, parse_postgresql_target, &c->postgresql_targets); },
       [](const C &c) { return fmt::format("{}", fmt::join(c.postgresql_targets, ",")); }},
      {"engines.mariadb", "--mariadb", false,
       "MariaDB servers to ask: socket= or host= and port=, user=, password_file=, ssl_ca=, comma-separated",
       [](V v, C *c) { return set_targets(v, parse_mariadb_target, &c->mariadb_targets); },
       [](const C &c) { return fmt::format("{}", fmt::join(c.mariadb_targets, ",")); }},
      {"engines.interval_ms", "--engines-interval-ms", false, "how often they are asked",
       [](V v, C *c) { return set_number<uint32_t>(v, 100, 3'600'000, &c->engines_interval_ms); },
       [](const C &c) { return fmt::to_string(c.engines_interval_ms); }},
      {"engines.timeout_ms", "--engines-timeout-ms", false, "how long an answer may take",
       [](V v, C *c) { return set_number<uint32_t>(v, 100, 60'000, &c->engines_timeout_ms); },
       [](const C &c) { return fmt::to_string(c.engines_timeout_ms); }},
      {"advice.window_s", "--advice-window-s", false,
       "advice looks at the commits of so much time, and measures as long after a change",
       [](V v, C *c) { return set_number(v, 1.0, 86'400.0, &c->advice_window_s); },
       [](const C &c) { return fmt::to_string(c.advice_window_s); }},
      {"advice.commits_min", "--advice-commits-min", false, "fewer commits before or after a change prove nothing",
       [](V v, C *c) { return set_number<uint32_t>(v, 10, 100'000'000, &c->advice_commits_min); },
       [](const C &c) { return fmt::to_string(c.advice_commits_min); }},
      {"advice.interval_ms", "--advice-interval-ms", true, "how often advice is made anew",
       [](V v, C *c) { return set_number<uint32_t>(v, 100, 3'600'000, &c->advice_interval_ms); },
       [](const C &c) { return fmt::to_string(c.advice_interval_ms); }},
      {"advice.history", "--advice-history", false,
       "file (SQLite) that keeps what became of changes; empty: only until the daemon stops",
       [](V v, C *c) -> Result<> {
         if (!v.empty()) return set_path(v, &c->advice_history);
         c->advice_history.clear();
         return Ok{};
       },
       [](const C &c) { return c.advice_history; }},
      {"advice.dismissed", "--advice-dismissed", true, "rules that you have decided about, comma-separated",
       [](V v, C *c) { return set_names(v, &c->advice_dismissed); },
       [](const C &c) { return fmt::format("{}", fmt::join(c.advice_dismissed, ",")); }},
      {"advice.power_loss_protected", "--power-loss-protected", true,
       "devices whose cache keeps its content when power is lost, as you know: nothing else can tell",
       [](V v, C *c) { return set_names(v, &c->power_loss_protected); },
       [](const C &c) { return fmt::format("{}", fmt::join(c.power_loss_protected, ",")); }},
      {"log.level", "--log-level", true, "trace, debug, info, warning, error or off",
       [](V v, C *c) { return set_log_level_name(v, &c->log_level); }, [](const C &c) { return c.log_level; }},
      {"log.format", "--log-format", false, "text or json",
       [](V v, C *c) {
         bool json = false;
         auto result = set_choice(v, "json", "text", &json);
         if (result) c->log_format = json ? LogFormat::kJson : LogFormat::kText;
         return result;
       },
       [](const C &c) { return std::string(c.log_format == LogFormat::kJson ? "json" : "text"); }},
  };
  return table;
}

const Setting *find_setting(std::string_view key) {
  for (const Setting &setting : settings())
    if (key == setting.key) return &setting;
  return nullptr;
}

Config default_config() {
  Config config;
  config.allowed_peers = own_peers();
  if (const char *folder = std::getenv("STATE_DIRECTORY"); folder != nullptr && folder[0] == '/')  // of systemd
    config.advice_history = std::string(folder) + "/advice.db";
  for (const char *name : {"mysql", "postgres"})
    if (const passwd *entry = getpwnam(name)) config.allowed_peers.uids.insert(entry->pw_uid);
  return config;
}

std::vector<ConfigChange> compare_configs(const Config &before, const Config &after) {
  std::vector<ConfigChange> changes;
  for (const Setting &setting : settings())
    if (auto from = setting.get(before), to = setting.get(after); from != to)
      changes.push_back({setting.key, std::move(from), std::move(to), setting.reloadable});
  return changes;
}

void apply_reloadable(const Config &from, Config *to) {
  for (const Setting &setting : settings())
    if (setting.reloadable) (void)setting.set(setting.get(from), to);
}

Result<> set_config(const std::string &key, const std::string &value, Config *config) {
  const Setting *setting = find_setting(key);
  if (setting == nullptr) return Error{EINVAL, "there is no setting " + key};
  if (auto result = setting->set(value, config); !result) return Error{EINVAL, key + ": " + result.error().text};
  return Ok{};
}

Result<> check_config(const Config &config) {
  if (config.pool_slots >= config.ledger_slots)
    return Error{EINVAL, fmt::format("tracing.pool_slots ({}) must be less than tracing.ledger_slots ({})",
                                     config.pool_slots, config.ledger_slots)};
  const uint64_t process_bytes = uint64_t{config.slots_per_process_max} * (FL_RING_HEAD_BYTES + config.ring_data_bytes);
  if (process_bytes > config.ring_memory_max_bytes)
    return Error{EINVAL, fmt::format("rings.memory_max_bytes ({}) is less than one process may take ({}): raise it, "
                                     "or lower rings.slots_per_process_max",
                                     config.ring_memory_max_bytes, process_bytes)};
  if (config.socket_path.size() > 100)
    return Error{EINVAL, "socket.path is longer than the 100 bytes that a Unix socket's name may have"};
  return Ok{};
}

Result<Config> load_config(const CommandLine &command_line) {
  Config config = default_config();
  if (!command_line.config_path.empty())
    if (auto result = read_config_file(command_line.config_path, &config); !result) return result.error();
  for (const auto &[key, value] : command_line.overrides)
    if (auto result = set_config(key, value, &config); !result) return result.error();
  if (auto result = check_config(config); !result) return result.error();
  return config;
}

}  // namespace flushlight
