// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/join/servers.h"

#include "sidecar/host/process.h"

namespace flushlight {

const Instance *find_server(const Intake &intake, const EngineFacts &facts) {
  if (!facts.instance.empty()) return intake.instance(facts.instance);
  const Instance *only = nullptr;
  int of_engine = 0;
  for (const auto &[name, instance] : intake.instances()) {
    if (!instance->is(facts.engine)) continue;
    only = instance.get();
    of_engine++;
    if (facts.server_process == 0 || instance->process == 0) continue;
    if (instance->process == facts.server_process) return only;
    // The parent of a backend that has ended is not known: the server's last answer is.
    if (instance->server_process == facts.server_process) return only;
  }
  return of_engine == 1 && facts.server_process == 0 ? only : nullptr;
}

}  // namespace flushlight
