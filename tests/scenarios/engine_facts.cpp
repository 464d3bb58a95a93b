// SPDX-License-Identifier: GPL-2.0-or-later
// engine_facts ENGINE TARGET [TIMEOUT_MS]: for each line of standard input asks the server once, as the daemon does,
// and prints what it said as one line of JSON.
#include <spdlog/spdlog.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "sidecar/base/clock.h"
#include "sidecar/engines/engines.h"

int main(int argc, char **argv) {
  using namespace flushlight;
  if (argc < 3) return 64;
  spdlog::set_level(spdlog::level::off);  // it would write between the lines of the answer
  const bool maria = std::string_view(argv[1]) == "mariadb";
  const auto target = maria ? parse_mariadb_target(argv[2]) : parse_postgresql_target(argv[2]);
  if (!target) {
    std::cerr << target.error().text << "\n";
    return 2;
  }
  const auto timeout_ms = static_cast<uint32_t>(argc > 3 ? std::stoul(argv[3]) : 2000);
  EngineHistory history((maria ? make_mariadb_reader : make_postgresql_reader)(*target, timeout_ms),
                        maria ? FL_ENGINE_MARIADB : FL_ENGINE_POSTGRESQL, argv[2], target->instance);
  const SystemClock clock;
  for (std::string line; std::getline(std::cin, line);) {
    const uint64_t begin_ns = clock.now_ns();
    const EngineFacts facts = history.read(begin_ns);
    nlohmann::json out = {{"error", facts.error},
                          {"version", facts.version},
                          {"process", facts.server_process},
                          {"refused", facts.refused},
                          {"statistics", facts.statistics},
                          {"took_ms", static_cast<double>(clock.now_ns() - begin_ns) / 1e6}};
    for (const auto &[name, setting] : facts.settings)
      out["settings"][name] = {{"value", setting.value},
                               {"origin", setting.origin},
                               {"needs_restart", setting.needs_restart},
                               {"pending_restart", setting.pending_restart}};
    out["replicas"] = nlohmann::json::array();
    for (const EngineReplica &replica : facts.replicas)
      out["replicas"].push_back({{"name", replica.name}, {"sync_state", replica.sync_state}});
    std::cout << out.dump() << std::endl;
  }
  return 0;
}
