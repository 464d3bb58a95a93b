// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/postgresql_change.h"

#include <fmt/format.h>

namespace flushlight::advise {

Advice postgresql_advice(const Facts &facts, const PostgresqlChange &change) {
  Advice advice;
  advice.rule = change.rule;
  advice.kind = change.suggested.empty() ? Kind::kNo : change.kind;
  advice.scope = "server";
  advice.setting = change.setting;
  const EngineSetting *setting = facts.server.setting(change.setting);
  const auto number = facts.server.number(change.setting);
  if (setting != nullptr)
    advice.now = setting->unit == "B" && number && *number > 0    ? bytes_text(*number)
                 : setting->unit == "ms" && number && *number > 0 ? number_text(*number) + " ms"
                                                                  : setting->value;
  advice.suggested = change.suggested;
  advice.evidence = change.evidence;
  advice.effect = change.effect;
  advice.confidence = change.confidence;
  advice.risk = change.risk;
  advice.authority = change.authority;
  if (change.suggested.empty() || setting == nullptr) return advice;
  const std::string restart = setting->needs_restart ? " (a restart)" : "";
  if (facts.server.is_on("allow_alter_system") != false)
    advice.apply.push_back(
        {"sql", fmt::format("ALTER SYSTEM SET {} = '{}';{}", change.setting, change.suggested,
                            setting->needs_restart ? " -- then a restart" : " SELECT pg_reload_conf();")});
  advice.apply.push_back({"postgresql.conf", fmt::format("{} = '{}'{}", change.setting, change.suggested, restart)});
  advice.apply.push_back(
      {"patroni", fmt::format("patronictl edit-config -p {}='{}'", change.setting, change.suggested)});
  advice.apply.push_back(
      {"operator", fmt::format("spec.postgresql.parameters: {{{}: \"{}\"}}", change.setting, change.suggested)});
  if (facts.server.statistic("server.in_recovery") == 1)
    advice.apply.push_back(
        {"replicas",
         "this is a standby: its own settings are its own, except those that must not be less than the primary's"});
  advice.undo = setting->origin == "default" ? fmt::format("ALTER SYSTEM RESET {}{}", change.setting, restart)
                                             : fmt::format("{} = '{}'{}", change.setting, advice.now, restart);
  return advice;
}

}  // namespace flushlight::advise
