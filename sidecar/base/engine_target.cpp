// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/engine_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace flushlight {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kMariadbKeys[] = {"socket", "host", "port", "user", "database", "ssl_ca"};
// What a monitoring connection may need; not what runs programs or changes how it behaves (service, options).
constexpr std::string_view kPostgresqlKeys[] = {"host",     "hostaddr", "port",        "user",    "dbname",
                                                "passfile", "sslmode",  "sslrootcert", "sslcert", "sslkey"};

Result<EngineTarget> parse(std::string_view text, std::span<const std::string_view> keys) {
  EngineTarget target;
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return Error{EINVAL, fmt::format("'{}' is not of the form key=value", word)};
    const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "password")  // never repeated: this text may go to a log
      return Error{EINVAL,
                   "a password does not belong here: name a file (PostgreSQL: passfile, MariaDB: password_file)"};
    if (key == "instance") {
      target.instance = value;
    } else if (key == "password_file" && keys.data() == kMariadbKeys) {
      target.password_file = value;
    } else if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      target.options.emplace_back(key, value);
    } else {
      return Error{EINVAL, fmt::format("there is no key '{}' here, only instance, {}", key, fmt::join(keys, ", "))};
    }
  }
  if (target.options.empty())
    return Error{EINVAL, "an entry says how to reach the server, at least its socket or host"};
  return target;
}

}  // namespace

std::string EngineTarget::option(std::string_view name) const {
  for (const auto &[key, value] : options)
    if (key == name) return value;
  return "";
}

Result<EngineTarget> parse_postgresql_target(std::string_view text) { return parse(text, kPostgresqlKeys); }
Result<EngineTarget> parse_mariadb_target(std::string_view text) { return parse(text, kMariadbKeys); }

}  // namespace flushlight
