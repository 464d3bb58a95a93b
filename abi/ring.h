/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records from a database thread to the daemon, and the control page from the daemon to the databases.
 *
 * A process lease brings one memory file with `slot_count` rings of `ring_bytes` each; ring i belongs to
 * ledger slot first_slot + i and has exactly one producer: the thread that holds the slot. The daemon is
 * the only consumer, polls, and treats everything in it as hostile.
 *
 * A ring is a struct fl_ring_head followed by ring_bytes - FL_RING_HEAD_BYTES bytes of data. Positions
 * (head, tail) count bytes ever written and ever read; data index = position % capacity; capacity is a
 * power of two. A record never wraps: when it does not fit before the end, the producer writes an
 * FL_RECORD_PAD header covering the rest (a gap is always a multiple of 8, so a header fits).
 * Records are published by a release store of `head`: kill -9 at any instruction loses at most the one
 * record being written. When there is no room the record is dropped and counted.
 */
#ifndef FLUSHLIGHT_ABI_RING_H
#define FLUSHLIGHT_ABI_RING_H

#include "ledger.h"

#define FL_RING_VERSION 1u
#define FL_CONTROL_MAGIC 0x464c4354u /* "FLCT" */
#define FL_RING_HEAD_BYTES 4096u     /* data starts on its own page */
#define FL_RING_DATA_BYTES_DEFAULT 32768u
#define FL_HEARTBEAT_INTERVAL_NS 100000000ull
#define FL_HEARTBEAT_STALE_NS 2000000000ull

/* One page, written by the daemon, read-only for databases. */
struct fl_control {
	fl_u32 magic;
	fl_u32 version;      /* FL_RING_VERSION of the daemon */
	fl_u64 epoch;        /* new for every daemon start */
	fl_u64 heartbeat_ns; /* CLOCK_MONOTONIC; stale after FL_HEARTBEAT_STALE_NS: do nothing, re-attach */
	fl_u32 off;          /* not 0: flushlight is switched off, do nothing */
	fl_u32 tracing;      /* not 0: the ledger is being written (tier A) */
	fl_u32 query_text;   /* 0: digests only, send no TEXT records */
	fl_u32 reserved32;
	fl_u64 reserved[10];
};

struct fl_ring_head {
	/* producer's side */
	fl_u64 head;            /* release store */
	fl_u64 dropped;         /* records that found no room */
	fl_u64 commits_seen;    /* durable commits that ended here, recorded or not */
	fl_u64 window_begin_ns; /* commit in progress since; 0: none */
	fl_u64 session_id;      /* the session that this thread works for now; 0: none */
	fl_u64 queryid;         /* its current statement; 0: none or unknown */
	fl_u64 commits_missed;  /* durable commits of sessions that were not observed: no daemon, or no free slot */
	fl_u64 reserved0[9];
	/* consumer's side */
	fl_u64 tail; /* release store by the daemon */
	fl_u64 reserved1[15];
};
FL_STATIC_ASSERT(sizeof(struct fl_ring_head) == 256, "fl_ring_head is a contract");

enum fl_record_type {
	FL_RECORD_PAD = 0,
	FL_RECORD_SESSION = 1,
	FL_RECORD_TEXT = 2,
	FL_RECORD_STATEMENT = 3,
	FL_RECORD_COMMIT = 4,
	FL_RECORD_SESSION_END = 5,
};

struct fl_record_header {
	fl_u32 length; /* of the whole record, header included; multiple of 8; at most FL_RECORD_BYTES_MAX */
	fl_u16 type;   /* enum fl_record_type; unknown types are skipped and counted */
	fl_u16 version;
};

#define FL_RECORD_BYTES_MAX 4096u
#define FL_TEXT_BYTES_MAX 1024u /* normalised text: longer ones are cut at a character border */
#define FL_NAME_BYTES_MAX 192u  /* user, database, application, address: each cut to this */

/*
 * Identity of a session; sent before its first other record, again after re-attaching, and when it
 * changes. Followed by four strings without terminators: user, database, application, client address.
 */
struct fl_record_session {
	struct fl_record_header header;
	fl_u64 session_id;            /* MariaDB connection id, PostgreSQL backend pid */
	fl_u64 userid;                /* PostgreSQL role oid; 0 in MariaDB */
	fl_u64 dbid;                  /* PostgreSQL database oid; 0 in MariaDB */
	fl_u64 backend_start_unix_ns; /* CLOCK_REALTIME */
	fl_u16 user_length, database_length, application_length, address_length;
};

/* Normalised text of a statement: no literals, no comments. Sent once per attachment and queryid. */
struct fl_record_text {
	struct fl_record_header header;
	fl_u64 queryid;
	fl_u32 text_length; /* bytes that follow */
	fl_u32 flags;       /* FL_TEXT_TRUNCATED */
};
#define FL_TEXT_TRUNCATED 1u

struct fl_record_session_end {
	struct fl_record_header header;
	fl_u64 session_id;
};

enum fl_kind {
	FL_KIND_STATEMENT = 0, /* a statement; with a commit: autocommit, it owns the commit */
	FL_KIND_COMMIT = 1,    /* an explicit COMMIT (or XA COMMIT, PREPARE TRANSACTION, COMMIT PREPARED) */
};

#define FL_STATEMENT_NESTED 1u /* not top level: inside a routine */
#define FL_STATEMENT_FAILED 2u

/* A statement ended (whether or not it committed). */
struct fl_record_statement {
	struct fl_record_header header;
	fl_u64 session_id;
	fl_u64 queryid;
	fl_u64 begin_ns;    /* CLOCK_MONOTONIC */
	fl_u64 duration_ns; /* execution, commit included where the statement owns it */
	fl_u64 work;        /* PostgreSQL: WAL bytes; MariaDB: rows changed */
	fl_u32 flags;       /* FL_STATEMENT_* */
	fl_u32 kind;        /* enum fl_kind */
};

#define FL_COMMIT_NESTED 1u
#define FL_COMMIT_ACCOUNTED 2u  /* vector_ns is valid; without it every cause and path is NULL */
#define FL_COMMIT_ATTRIBUTED 4u /* part of the wait had no thread (pool of threads): attributed to the sync
                                   that ended it, not accounted */
#define FL_COMMIT_BINLOG 8u     /* MariaDB: went through the binary log */
#define FL_COMMIT_BINLOG_LED 16u
#define FL_COMMIT_FAILED 32u    /* the statement reported an error though the commit was durable */
#define FL_COMMIT_XA 64u        /* prepare phase or commit of a two-phase transaction */

/* A read-write transaction was committed or prepared: from the first call of the commit to durability. */
struct fl_record_commit {
	struct fl_record_header header;
	fl_u64 session_id;
	fl_u64 queryid;       /* the statement whose row gets the commit (for FL_KIND_COMMIT: COMMIT's own) */
	fl_u64 cause_queryid; /* the statement of the transaction that wrote most; 0 if it is queryid itself */
	fl_u64 begin_ns;      /* CLOCK_MONOTONIC */
	fl_u64 duration_ns;   /* wall time; the causes and the paths each add up to it within 1 % */
	fl_u64 work;          /* of the whole transaction: WAL bytes or rows changed */
	fl_u64 xid;           /* PostgreSQL full transaction id, MariaDB 0 */
	fl_u64 position;      /* PostgreSQL commit LSN, MariaDB binlog position; 0 unknown */
	fl_u64 syncs;         /* completed by the own thread in the window */
	fl_u64 inherited_sync_ns;
	fl_u64 vector_ns[FL_VECTOR_COUNT];
	fl_u32 flags; /* FL_COMMIT_* */
	fl_u32 kind;  /* enum fl_kind */
	fl_u64 attributed_ns; /* with FL_COMMIT_ATTRIBUTED: the part of duration_ns that no thread waited */
};
FL_STATIC_ASSERT(sizeof(struct fl_record_commit) == 216, "fl_record_commit is a contract");
FL_STATIC_ASSERT(sizeof(struct fl_record_statement) == 56, "fl_record_statement is a contract");

#endif
