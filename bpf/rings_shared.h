/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel side tells the daemon about io_uring instances. Private to one build, as bpf/shared.h.
 */
#ifndef FLUSHLIGHT_BPF_RINGS_SHARED_H
#define FLUSHLIGHT_BPF_RINGS_SHARED_H

#include "shared.h"

#define FL_URINGS 4096
#define FL_URING_REQUESTS 16384 /* places for requests whose time is taken; a power of two */
#define FL_URING_REQUEST_BITS 14
/* Histogram of times: one bucket for so many of abi/histogram.h (four for each power of two, 19 to 25 % wide). */
#define FL_URING_COARSE 8
#define FL_URING_BUCKETS ((FL_HISTOGRAM_BUCKETS + FL_URING_COARSE - 1) / FL_URING_COARSE)
#define FL_URING_REGISTERED 16 /* descriptors without a file that a task may have (IO_RINGFD_REG_MAX) */

enum fl_sq_thread_state {
	FL_SQ_THREAD_NONE = 0,
	FL_SQ_THREAD_SLEEPS = 1,
	FL_SQ_THREAD_RUNS = 2,
	FL_SQ_THREAD_WAITS = 3, /* runnable without a CPU */
};

/*
 * One io_uring instance. Events are counted as they come; what the ring itself counts is copied whenever the daemon
 * looks for open rings (fl_ring_files).
 */
struct fl_uring {
	fl_u64 counted_ns; /* events are counted since; its creation, if `created` */
	fl_u64 sweep;      /* number of the daemon's last look that found it */
	fl_u64 owner_start_ns;
	fl_u32 owner_tgid;
	fl_u32 user_tgid; /* process of the last completion; 0: none seen */
	char owner_comm[16];
	char user_comm[16];
	fl_u32 created;    /* its creation was seen */
	fl_u32 descriptor; /* of the owner; all bits: none */

	/* events */
	fl_u64 punts, failed, overflows;
	fl_u64 timed, time_ns;

	/* as of the last look */
	fl_u32 flags, sq_entries, cq_entries;
	fl_u32 sq_head, cq_tail; /* the kernel's own, which wrap */
	fl_u32 sq_pending, cq_pending;
	fl_u32 sq_dropped, cq_dropped;
	fl_u32 sq_tid, sq_cpu, sq_state;
	fl_u64 submitted, posted; /* sq_head and cq_tail, without the wrap */
	fl_u64 sq_run_ns, sq_wait_ns;

	fl_u32 buckets[FL_URING_BUCKETS];
	fl_u32 sq_wait_known; /* the kernel counts it */
	fl_u32 reserved[(FL_URING_BUCKETS + 1) & 1];
};

/* A request that was submitted and has not completed: direct-mapped, the later one stays. */
struct fl_uring_request {
	fl_u64 address; /* 0: free */
	fl_u64 begin_ns;
};

#endif
