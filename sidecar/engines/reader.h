// SPDX-License-Identifier: GPL-2.0-or-later
// Asks one server. Keeps its connection between readings, opens a new one when that broke, and never waits longer than
// its time-out for any answer.
// Owner: one thread for each reader (engines.h).
#pragma once
#include <memory>

#include "sidecar/base/engine_target.h"
#include "sidecar/engines/engine_facts.h"

namespace flushlight {

class EngineReader {
 public:
  virtual ~EngineReader() = default;
  // Fills what the server says (not: error, times, earlier).
  virtual Result<EngineFacts> read() = 0;
};

std::unique_ptr<EngineReader> make_postgresql_reader(EngineTarget target, uint32_t timeout_ms);
std::unique_ptr<EngineReader> make_mariadb_reader(EngineTarget target, uint32_t timeout_ms);

// The process at the other end of a Unix socket: who called listen(). 0: not known.
uint32_t peer_process(int fd);

// PostgreSQL's figure in its unit ("8kB", "min") → base units; the text as it is where there is nothing to convert.
EngineSetting in_base_unit(std::string value, const std::string &unit);

}  // namespace flushlight
