// SPDX-License-Identifier: GPL-2.0-only
// Is this the server that the plugin was built for? First by its version, then by touching a THD through the
// server's own functions and looking whether our headers see the same. Fields of THD moved even between
// 10.11.18 and 10.11.19.
//
// Owner: the thread that installs the plugin, or the first connection's.
#include <mysql_version.h>

#include "probe.h"

#ifndef FLUSHLIGHT_BUILT_FOR  // a test builds a library that must be refused
#define FLUSHLIGHT_BUILT_FOR MYSQL_SERVER_VERSION
#endif

extern "C" MYSQL_THD thd_increment_pending_ops(MYSQL_THD thd);
extern "C" void thd_decrement_pending_ops(void *thd);
extern "C" unsigned long thd_get_thread_id(const MYSQL_THD thd);
extern "C" LEX_STRING *thd_query_string(MYSQL_THD thd);

namespace flushlight {
namespace {

size_t version_length(const char *version) { return strcspn(version, "-"); }

bool pending_operations_move(THD *thd) {
  const int before = pending_operations(thd);
  if (!thd_increment_pending_ops(thd)) return false;
  const int between = pending_operations(thd);
  thd_decrement_pending_ops(thd);
  return between == before + 1 && pending_operations(thd) == before;
}

}  // namespace

bool server_version_fits() {
  static bool told;
  const char *built_for = FLUSHLIGHT_BUILT_FOR;
  const size_t length = version_length(built_for);
  if (version_length(server_version) == length && strncmp(server_version, built_for, length) == 0) return true;
  if (!told)
    sql_print_error(
        "flushlight: this plugin is built for server %.*s, the server is %s: not installed. Build or "
        "install the plugin for exactly this version.",
        static_cast<int>(length), built_for, server_version);
  told = true;
  return false;
}

bool layout_fits(THD *thd) {
  const char *moved = nullptr;
  if (static_cast<unsigned long>(thd->thread_id) != thd_get_thread_id(thd))
    moved = "thread_id";
  else if (static_cast<void *>(thd_query_string(thd)) != static_cast<void *>(&thd->query_string))
    moved = "query_string";
  else if (!pending_operations_move(thd))
    moved = "async_state";
  if (!moved) return true;
  sql_print_error(
      "flushlight: THD::%s is not where the headers of %s have it: nothing is observed. Build the plugin "
      "with the headers of exactly this server.",
      moved, MYSQL_SERVER_VERSION);
  return false;
}

}  // namespace flushlight
