/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wait ledger: what the kernel side writes, and what a database thread reads twice per commit.
 *
 * One slot per traced thread in an array map that the kernel side alone can write (the map is frozen).
 * A slot holds only ever-growing nanosecond totals on CLOCK_MONOTONIC. The account of a commit is the
 * difference of two readings of the thread's own slot.
 *
 * Writers: the CPU that switches the thread out and in (under `seq`), nobody else.
 * Readers: the thread itself (never torn for longer than one switch), and the daemon (retries on `seq`).
 *
 * The same header serves BPF (which brings its own integer types) and user space.
 */
#ifndef FLUSHLIGHT_ABI_LEDGER_H
#define FLUSHLIGHT_ABI_LEDGER_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t fl_u8;
typedef uint16_t fl_u16;
typedef uint32_t fl_u32;
typedef uint64_t fl_u64;
typedef int32_t fl_s32;
typedef int64_t fl_s64;
#else
typedef __u8 fl_u8;
typedef __u16 fl_u16;
typedef __u32 fl_u32;
typedef __u64 fl_u64;
typedef __s32 fl_s32;
typedef __s64 fl_s64;
#endif

#ifdef __cplusplus
#define FL_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define FL_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#define FL_LEDGER_VERSION 1u

/* Causes: every nanosecond of a traced thread is charged to exactly one. X(ENUM, name, help) */
#define FL_CAUSES(X)                                                                                         \
	X(ONCPU, oncpu, "running on a CPU")                                                                  \
	X(FLUSH, flush, "waiting for a cache flush of the device (of a journal commit: pre- and postflush)") \
	X(WRITE, write, "waiting for a write that is at the device")                                         \
	X(READ, read, "waiting for a read that is at the device")                                         \
	X(QUEUE, queue, "waiting for a request that the kernel has not issued yet (tags, scheduler, WBT)")   \
	X(THROTTLE, throttle, "held by a cgroup I/O limit, dirty-page throttling or direct reclaim")         \
	X(CPU, cpu, "runnable, waiting for a CPU")                                                           \
	X(REPLICATION, replication, "waiting for a replica, as the engine says")                             \
	X(LOCK, lock, "waiting for a thread that was itself running: lock holder or group leader at work")   \
	X(IDLE, idle, "waiting for the client")                                                              \
	X(OTHER, other, "none of these: measured, never a computed remainder")

/* Paths: who did the work that was waited for. Every nanosecond is on exactly one. */
#define FL_PATHS(X)                                                              \
	X(SELF, self, "the thread itself")                                       \
	X(JOURNAL, journal, "the file system's journal or log")                  \
	X(PEER, peer, "another session's or a background thread's work")

enum fl_cause {
#define FL_X(ENUM, name, help) FL_CAUSE_##ENUM,
	FL_CAUSES(FL_X)
#undef FL_X
	FL_CAUSE_COUNT
};

enum fl_path {
#define FL_X(ENUM, name, help) FL_PATH_##ENUM,
	FL_PATHS(FL_X)
#undef FL_X
	FL_PATH_COUNT
};

/* A vector holds the causes, then the paths. Both halves grow by the same total. */
#define FL_VECTOR_COUNT ((int)FL_CAUSE_COUNT + (int)FL_PATH_COUNT)
#define FL_VECTOR_PATH(path) ((int)FL_CAUSE_COUNT + (int)(path))

enum fl_slot_state {
	FL_SLOT_FREE = 0,
	FL_SLOT_LIVE = 1,
	FL_SLOT_DRAINING = 2, /* its thread is gone, a request of its generation is still in flight */
};

/* 320 bytes: five cache lines; a switch touches the first two. */
struct fl_slot {
	fl_u32 seq;        /* odd while a switch is being written */
	fl_u32 state;      /* enum fl_slot_state */
	fl_u32 generation; /* grows with every thread that takes the slot; never 0 while live */
	fl_u32 nonce;      /* the thread's own number from its enrolment name: proof that the slot is its */
	fl_u64 on_at_ns;   /* last switch-in; 0 while the thread is off CPU */
	fl_u64 vector_ns[FL_VECTOR_COUNT]; /* up to the last switch; while running add (now - on_at_ns) to
	                                      oncpu and self */
	fl_u64 syncs;             /* file syncs (fsync, fdatasync, O_DSYNC) that this thread completed */
	fl_u64 inherited_sync_ns; /* device and queue time inherited from another thread's sync */
	/*
	 * A thread may come onto its CPU unseen: on_at_ns is 0 although it runs, and its totals lag behind until that is
	 * noticed. These are the totals of the moment in which it was noticed last. The thread ran all the time from
	 * any lagging reading to returned_at_ns, so what follows such a reading can be told (flc_account_difference).
	 */
	fl_u64 returned_at_ns; /* 0: never */
	fl_u64 returned_inherited_sync_ns;
	fl_u64 reserved[3];
	fl_u64 returned_vector_ns[FL_VECTOR_COUNT];
	fl_u64 reserved_end[2];
};
FL_STATIC_ASSERT(sizeof(struct fl_slot) == 320, "fl_slot is a contract");

/*
 * Enrolment. A thread gives itself one of two names for a moment with prctl(PR_SET_NAME); the kernel side
 * sees the rename in the thread's own context, so PID namespaces do not matter. Names are at most 15 bytes.
 *
 *   first thread of a process:  "\x7f" "T" + 11 digits: the 64-bit token from WELCOME
 *                               (binds the process to its slot range and takes slot first_slot)
 *   every thread:               "\x7f" "S" + 3 digits: slot number + 5 digits: 30-bit nonce, not 0
 *                               (takes that slot if it is in the process's range and free)
 *
 * A digit is one of 64 characters, value 0 to 63, from '0' (0x30) upwards: 0x30 + value. Most significant
 * digit first. The token name carries no nonce and takes no slot: the same thread then sends an S name.
 */
#define FL_NAME_MARK 0x7f
#define FL_NAME_TOKEN 'T'
#define FL_NAME_SLOT 'S'
#define FL_NAME_DIGIT_BASE 0x30
#define FL_NAME_TOKEN_DIGITS 11
#define FL_NAME_SLOT_DIGITS 3
#define FL_NAME_NONCE_DIGITS 5

/*
 * State words. A thread may register the address of one 32-bit word of its own memory that the kernel side
 * reads when the thread is switched out. The first rule whose (word & mask) == value decides the whole
 * sleep: it is charged to `cause`. mask 0 ends the list.
 */
#define FL_STATE_RULES 4
#define FL_STATE_UNEXPLAINED 1u /* charges only what nothing else explains of the sleep */
struct fl_state_rule {
	fl_u32 mask;
	fl_u32 value;
	fl_u32 cause; /* enum fl_cause */
	fl_u32 flags; /* FL_STATE_* */
};

#endif
