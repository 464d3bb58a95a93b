// SPDX-License-Identifier: GPL-2.0-or-later
// Random reads past the page cache, some of them in flight at any time.
#pragma once
#include "sidecar/probe/governor.h"
#include "sidecar/probe/outcome.h"
#include "sidecar/probe/target.h"

namespace flushlight::probe {

// workers: threads that do the reads of way `worker`, as PostgreSQL's io_workers.
void run_reads(const Scratch &data, uint64_t data_bytes, unsigned workers, Governor *governor, Outcome *outcome);

}  // namespace flushlight::probe
