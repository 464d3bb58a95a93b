// SPDX-License-Identifier: GPL-2.0-or-later
#include <CLI/CLI.hpp>
#include <map>

#include "sidecar/base/config_settings.h"
#include "sidecar/base/version.h"

namespace flushlight {

CommandLine parse_command_line(int argc, char **argv) {
  CommandLine result;
  CLI::App app{"flushlightd: explains, for MariaDB and PostgreSQL, where each millisecond of a commit went"};
  app.set_version_flag("--version", std::string("flushlightd ") + kVersion);
  app.add_option("--config", result.config_path, "configuration file (TOML); flags win over it");
  app.add_flag("--check-config", result.check_only, "read the configuration, say what is wrong with it, and exit");
  app.add_option("--record", result.record_path, "for tests: write what databases send to this file, when stopped");
  std::map<const Setting *, std::string> values;
  std::vector<std::pair<const Setting *, CLI::Option *>> options;
  for (const Setting &setting : settings())
    options.emplace_back(&setting, app.add_option(setting.flag, values[&setting], setting.help));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    std::exit(app.exit(error) == 0 ? 0 : kExitConfig);
  }
  for (const auto &[setting, option] : options)
    if (option->count() > 0) result.overrides.emplace_back(setting->key, values[setting]);
  return result;
}

}  // namespace flushlight
