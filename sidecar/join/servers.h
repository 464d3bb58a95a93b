// SPDX-License-Identifier: GPL-2.0-or-later
// Which attached server the facts about a server's settings belong to.
// Owner: main thread.
#pragma once
#include "sidecar/engines/engine_facts.h"
#include "sidecar/intake/intake.h"

namespace flushlight {

// By the configured name, else by process (PostgreSQL attaches from backends: their parent), else the only server of
// that engine. nullptr: none.
const Instance *find_server(const Intake &intake, const EngineFacts &facts);

}  // namespace flushlight
