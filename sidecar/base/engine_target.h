// SPDX-License-Identifier: GPL-2.0-or-later
// How to reach a server to ask for its settings: "key=value" words of an entry of [engines]. Never a password: that
// stands in a file of its own, or none is needed (Unix socket, the server knows who we are).
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sidecar/base/result.h"

namespace flushlight {

struct EngineTarget {
  std::string instance;                                      // empty: found by the server's process
  std::string password_file;                                 // MariaDB; PostgreSQL has passfile
  std::vector<std::pair<std::string, std::string>> options;  // for the client library
  [[nodiscard]] std::string option(std::string_view name) const;
};

// Keywords of libpq but password, and instance.
Result<EngineTarget> parse_postgresql_target(std::string_view text);
// socket or host and port, user, password_file, database, ssl_ca, and instance.
Result<EngineTarget> parse_mariadb_target(std::string_view text);

}  // namespace flushlight
