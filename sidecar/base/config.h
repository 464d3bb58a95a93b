// SPDX-License-Identifier: GPL-2.0-or-later
// What an administrator can set. One table (config.cpp) makes the TOML keys, the flags, the help texts and
// what SIGHUP can change; later sources win: defaults, file, flags.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "abi/attach.h"
#include "sidecar/base/log.h"
#include "sidecar/base/result.h"

namespace flushlight {

// Who may connect. Root and the daemon's own user always may.
struct PeerList {
  bool any = false;
  std::set<uid_t> uids;
  [[nodiscard]] bool allows(uid_t uid) const { return any || uids.contains(uid); }
  bool operator==(const PeerList &) const = default;
};

struct Config {
  std::string socket_path = FL_SOCKET_PATH_DEFAULT;
  mode_t socket_mode = 0666;  // who may speak is decided by allowed_peers
  PeerList allowed_peers;

  bool tracing = true;
  uint32_t ledger_slots = 4096;
  uint32_t pool_slots = 1024;
  double max_cpu_percent = 25;  // of one CPU: daemon and BPF programs together
  std::string btf_path;

  uint32_t ring_data_bytes = 2 * FL_RING_DATA_BYTES_DEFAULT;  // 29 ms of 8,000 commits/s by one thread
  uint32_t slots_per_process_max = 1024;
  uint64_t ring_memory_max_bytes = 512ull << 20;

  uint32_t statements_max = 5000;
  double slow_commit_threshold_ms = 10;
  uint32_t slow_commits_max = 10'000;
  bool full_query_text = true;

  std::string metrics_listen = "127.0.0.1:9188";  // empty: not served
  uint32_t metrics_statements_max = 50;

  std::vector<std::string> postgresql_targets, mariadb_targets;  // engine_target.h
  uint32_t engines_interval_ms = 10'000;
  uint32_t engines_timeout_ms = 2000;

  double advice_window_s = 600;
  uint32_t advice_commits_min = 1000;
  uint32_t advice_interval_ms = 10'000;
  std::string advice_history;  // empty: verdicts are not kept over restarts
  std::set<std::string> advice_dismissed, power_loss_protected;

  std::string log_level = "info";
  LogFormat log_format = LogFormat::kText;
};

// The defaults, with the peer list that fits this host.
Config default_config();

// One change that a reload brings.
struct ConfigChange {
  std::string key;  // section.key
  std::string from, to;
  bool reloadable = false;
};
std::vector<ConfigChange> compare_configs(const Config &before, const Config &after);
// Takes over only what can change while the daemon runs.
void apply_reloadable(const Config &from, Config *to);

// Applies a TOML file. Errors carry file and line.
Result<> read_config_file(const std::string &path, Config *config);
Result<> read_config_text(const std::string &text, const std::string &path, Config *config);

// One setting by its key ("section.key") from its text; lists are separated by commas.
Result<> set_config(const std::string &key, const std::string &value, Config *config);

// Checks that span settings.
Result<> check_config(const Config &config);

struct CommandLine {
  std::string config_path;
  bool check_only = false;
  std::string record_path;                                     // not empty: keep what intake gets there
  std::vector<std::pair<std::string, std::string>> overrides;  // key, value
};
// Reads the daemon's command line; exits the process itself for --help and --version and on usage errors.
inline constexpr int kExitConfig = 2;  // of the process: the configuration, or the command line, is wrong
CommandLine parse_command_line(int argc, char **argv);

// Defaults, then the file, then the flags.
Result<Config> load_config(const CommandLine &command_line);

}  // namespace flushlight
