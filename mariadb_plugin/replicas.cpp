// SPDX-License-Identifier: GPL-2.0-only
// Owner: the connection that selects.
// clang-format off: the order of the server's headers matters
#include "server.h"
// clang-format on
#include <cstdio>

#include "replicas.h"

extern my_bool rpl_semi_sync_master_enabled;

namespace flushlight {
namespace {

my_bool add_dump_thread(THD *thd, Replicas *found) {
  if (thd->get_command() != COM_BINLOG_DUMP) return 0;
  if (found->count == kReplicasMax) return 1;
  Replica &replica = found->list[found->count++];
  mysql_mutex_lock(&thd->LOCK_thd_data);
  const char *host = thd->security_ctx->ip ? thd->security_ctx->ip : "";
  snprintf(replica.address, sizeof replica.address, "%s", host);
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  replica.session_id = thd->thread_id;
  replica.server_id = static_cast<uint32_t>(thd->variables.server_id);
  replica.semi_sync = thd->semi_sync_slave && rpl_semi_sync_master_enabled;
  snprintf(replica.name, sizeof replica.name, "server %u", replica.server_id);
  return 0;
}

}  // namespace

void connected_replicas(Replicas *replicas) {
  replicas->count = 0;
  server_threads.iterate(add_dump_thread, replicas);
}

}  // namespace flushlight
