/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel side of flushlight: one object, one file per family of signals. Read them in this order.
 */
#include "kernel_types.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "maps.bpf.h"
#include "compat.bpf.h"

#include "slots.bpf.h"
#include "account.bpf.h"
#include "settle.bpf.h"
#include "held.bpf.h"
#include "request_table.bpf.h"
#include "files.bpf.h"
#include "slow_requests.bpf.h"
#include "requests.bpf.h"
#include "workers.bpf.h"
#include "past.bpf.h"
#include "wakes.bpf.h"
#include "switches.bpf.h"
#include "enrol.bpf.h"
#include "writers.bpf.h"
#include "syncs.bpf.h"
#include "journals.bpf.h"
#include "blocked.bpf.h"
#include "rings.bpf.h"

char LICENSE[] SEC("license") = "GPL";
