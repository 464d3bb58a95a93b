// SPDX-License-Identifier: GPL-2.0-only
// The plugins of this library: one AUDIT plugin (the probe) and an INFORMATION_SCHEMA plugin for each view.
// Every half checks the server's exact version first: a half that is refused must not leave another one active.
//
// Owner: the thread that runs INSTALL or UNINSTALL SONAME; the server runs one at a time.
#include "probe.h"
// keep this order
#include <array>

#include "tables.h"

namespace flushlight {
namespace {

char *variable_socket;
char *variable_instance;
my_bool variable_enabled;

void update_enabled(MYSQL_THD, st_mysql_sys_var *, void *to, const void *from) {
  const my_bool value = *static_cast<const my_bool *>(from);
  *static_cast<my_bool *>(to) = value;
  probe_enabled.store(value != 0);
}

// What the server's own update of such a string does (MEMALLOC: it frees the last one), and ours.
void update_socket(MYSQL_THD, st_mysql_sys_var *, void *to, const void *from) {
  auto *place = static_cast<char **>(to);
  const char *value = *static_cast<char *const *>(from);
  char *before = *place;
  *place = value ? my_strdup(PSI_NOT_INSTRUMENTED, value, MYF(0)) : nullptr;
  my_free(before);
  attach_change_path(*place);
}

MYSQL_SYSVAR_BOOL(enabled, variable_enabled, PLUGIN_VAR_RQCMDARG,
                  "OFF: nothing is observed and the tables are empty. The daemon's own switch is 'flushlight off'",
                  nullptr, update_enabled, 1);
MYSQL_SYSVAR_STR(socket, variable_socket, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                 "Socket of flushlightd; a new value attaches anew", nullptr, update_socket, FL_SOCKET_PATH_DEFAULT);
MYSQL_SYSVAR_STR(instance, variable_instance, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                 "Name of this server among all of the host; empty: made from its socket", nullptr, nullptr, "");

st_mysql_sys_var *variables[] = {MYSQL_SYSVAR(enabled), MYSQL_SYSVAR(socket), MYSQL_SYSVAR(instance), nullptr};

int init_probe(void *) {
  if (!server_version_fits()) return 1;
  probe_enabled.store(variable_enabled != 0);
  if (!attach_start(variable_socket, variable_instance)) return 1;
  if (probe_start()) return 0;
  attach_stop();
  return 1;
}

int deinit_probe(void *) {
  probe_stop();
  attach_stop();
  return 0;
}

st_mysql_audit audit = {MYSQL_AUDIT_INTERFACE_VERSION,
                        nullptr,
                        audit_event,
                        {MYSQL_AUDIT_GENERAL_CLASSMASK | MYSQL_AUDIT_CONNECTION_CLASSMASK}};
st_mysql_information_schema information_schema = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

constexpr unsigned kVersion = 0x0001;
constexpr char kAuthor[] = "flushlight";

// FLUSHLIGHT_STATEMENTS of statements
template <size_t kSize>
constexpr std::array<char, kSize> upper(const char (&name)[kSize]) {
  std::array<char, kSize> result{};
  for (size_t i = 0; i < kSize; i++)
    result[i] = name[i] >= 'a' && name[i] <= 'z' ? static_cast<char>(name[i] - 'a' + 'A') : name[i];
  return result;
}
#define FL_VIEW(view, help) constexpr auto name_##view = upper("flushlight_" #view);
#include "abi/views.def"

}  // namespace
}  // namespace flushlight

using namespace flushlight;

// what the server looks for by name; all else is hidden
#pragma GCC visibility push(default)

maria_declare_plugin(flushlight){MYSQL_AUDIT_PLUGIN,
                                 &audit,
                                 "FLUSHLIGHT",
                                 kAuthor,
                                 "Where the time of commits goes",
                                 PLUGIN_LICENSE_GPL,
                                 init_probe,
                                 deinit_probe,
                                 kVersion,
                                 nullptr,
                                 variables,
                                 FLUSHLIGHT_VERSION,
                                 MariaDB_PLUGIN_MATURITY_GAMMA}
#define FL_VIEW(view, help)                                                                                       \
  , {                                                                                                             \
    MYSQL_INFORMATION_SCHEMA_PLUGIN, &information_schema, name_##view.data(), kAuthor, help, PLUGIN_LICENSE_GPL,  \
        init_table_##view, nullptr, kVersion, nullptr, nullptr, FLUSHLIGHT_VERSION, MariaDB_PLUGIN_MATURITY_GAMMA \
  }
#include "abi/views.def"
maria_declare_plugin_end;
#pragma GCC visibility pop
