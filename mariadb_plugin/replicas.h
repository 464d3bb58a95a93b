// SPDX-License-Identifier: GPL-2.0-only
// Replicas that are connected to this server, for FLUSHLIGHT_REPLICATION: what only the engine knows.
#pragma once
#include <cstdint>

namespace flushlight {

struct Replica {
  uint64_t session_id;
  uint32_t server_id;
  bool semi_sync;
  char name[32];
  char address[64];  // empty: local socket
};

constexpr uint32_t kReplicasMax = 64;
struct Replicas {
  uint32_t count;
  Replica list[kReplicasMax];
};

// Takes the server's list of threads for a moment, as SHOW PROCESSLIST does. The first kReplicasMax.
void connected_replicas(Replicas *replicas);

}  // namespace flushlight
