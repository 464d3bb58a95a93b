// SPDX-License-Identifier: GPL-2.0-or-later
// A log: one write after the other, each made durable before the next.
#pragma once
#include "sidecar/probe/governor.h"
#include "sidecar/probe/outcome.h"
#include "sidecar/probe/target.h"

namespace flushlight::probe {

// Fills everything of the outcome but the bulk writer's part. log_bytes: where the log begins again (kLog, kLogBulk)
// or is cut (kLogGrows).
void run_log(const Scratch &log, uint64_t log_bytes, Governor *governor, Outcome *outcome);

}  // namespace flushlight::probe
