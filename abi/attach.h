/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Unix socket between databases, command line and daemon: SOCK_SEQPACKET, one message per packet,
 * native byte order (one host). Every message starts with struct fl_message. Unknown types are refused
 * with FL_MESSAGE_REFUSED; a longer message than expected is fine (newer peer), a shorter one is refused.
 *
 *   HELLO   -> WELCOME with descriptors [control page, rings, ledger if tracing], or REFUSED.
 *              The connection stays open: it is the lease. When it closes the process is gone.
 *   QUERY   -> ROWS* then END.   The connection may be used again or closed.
 *   COMMAND -> END.
 */
#ifndef FLUSHLIGHT_ABI_ATTACH_H
#define FLUSHLIGHT_ABI_ATTACH_H

#include "ring.h"

#define FL_SOCKET_PATH_DEFAULT "/run/flushlight/flushlight.sock"
#define FL_MESSAGE_MAGIC 0x464c5548u /* "FLUH" */
#define FL_PROTOCOL_VERSION 1u
#define FL_PACKET_BYTES_MAX 65536u

enum fl_message_type {
	FL_MESSAGE_HELLO = 1,
	FL_MESSAGE_WELCOME = 2,
	FL_MESSAGE_REFUSED = 3,
	FL_MESSAGE_QUERY = 4,
	FL_MESSAGE_ROWS = 5,
	FL_MESSAGE_END = 6,
	FL_MESSAGE_COMMAND = 7,
};

struct fl_message {
	fl_u32 magic;
	fl_u16 version; /* FL_PROTOCOL_VERSION of the sender; N and N-1 work together */
	fl_u16 type;
	fl_u32 length; /* of the whole packet */
	fl_u32 reserved;
};

enum fl_engine {
	FL_ENGINE_POSTGRESQL = 1,
	FL_ENGINE_MARIADB = 2,
	FL_ENGINE_PROGRAM = 3, /* a plain program: tests */
};

#define FL_HELLO_FAMILY_SIBLINGS 1u /* background work is done by siblings (PostgreSQL): trace them too */

struct fl_hello {
	struct fl_message message;
	fl_u32 engine;
	fl_u32 slots_wanted; /* threads that may be observed at once; the daemon may grant fewer */
	fl_u32 flags;        /* FL_HELLO_* */
	fl_u32 pid;          /* as the process itself sees it */
	/* address of the state word of the first slot of the range; slot i: base + i * stride. 0: none */
	fl_u64 state_word_address;
	fl_u32 state_word_stride;
	fl_u32 file_system; /* f_type of statfs(2) where the process works, its data folder; 0: not told */
	struct fl_state_rule state_rules[FL_STATE_RULES];
	char instance[64];       /* names the server among all of the host: same for all its processes */
	char engine_version[32]; /* for people */
	char client_version[32]; /* of the plugin or extension */
};

struct fl_welcome {
	struct fl_message message;
	fl_u64 token;        /* for the T name, once; 0 without tracing */
	fl_u64 epoch;
	fl_u32 first_slot;   /* of the range, in the ledger; 0 without tracing (slot 0 is never used) */
	fl_u32 slot_count;   /* slots and rings of this process */
	fl_u32 ledger_slots; /* size of the map: ledger_slots * sizeof(struct fl_slot) bytes */
	fl_u32 ledger_version;
	fl_u32 ring_data_bytes; /* power of two; a ring takes FL_RING_HEAD_BYTES + this */
	fl_u32 descriptors;  /* how many travel with this packet: 2 or 3 */
};

/* REFUSED and END both carry a text for people; END of a QUERY says how many rows came before. */
struct fl_end {
	struct fl_message message;
	fl_u32 status; /* 0 ok; else errno-like: EACCES, ENOENT (no such view), EAGAIN (busy), EPROTO */
	fl_u32 rows;
	char text[256];
};

#define FL_QUERY_SEE_ALL 1u /* the asker has PROCESS / pg_read_all_stats: texts of others are not hidden */

/*
 * Asks for a view. Followed by `column_count` column names, each NUL-terminated, in the order wanted: an
 * older or newer asker gets what it knows, and NULL for a column that the daemon does not know.
 */
struct fl_query {
	struct fl_message message;
	char view[32];
	char instance[64];  /* only rows of this instance; empty: all (command line as root or daemon's user) */
	char user_name[FL_NAME_BYTES_MAX]; /* the asker: own texts are shown */
	fl_u32 flags;       /* FL_QUERY_* */
	fl_u32 column_count;
};

/*
 * ROWS: `rows` rows of the asked columns follow, packed without padding. A cell is one type byte, then:
 *   FL_CELL_NULL nothing; FL_CELL_INT 8 bytes signed; FL_CELL_DOUBLE 8 bytes IEEE;
 *   FL_CELL_TEXT 4 bytes length and UTF-8 bytes; FL_CELL_TIME 8 bytes signed: ns since 1970 UTC.
 */
struct fl_rows {
	struct fl_message message;
	fl_u32 rows;
	fl_u32 reserved;
};

enum fl_cell_type {
	FL_CELL_NULL = 0,
	FL_CELL_INT = 1,
	FL_CELL_DOUBLE = 2,
	FL_CELL_TEXT = 3,
	FL_CELL_TIME = 4,
};

enum fl_command_code {
	FL_COMMAND_OFF = 1,   /* stop all tracing within a second */
	FL_COMMAND_ON = 2,
	FL_COMMAND_RESET = 3, /* statistics; userid, dbid, queryid as filters, 0: all */
	FL_COMMAND_PING = 4,
};
#define FL_RESET_MINMAX_ONLY 1u

struct fl_command {
	struct fl_message message;
	fl_u32 code;
	fl_u32 flags;
	char instance[64]; /* empty: every instance */
	fl_u64 userid, dbid, queryid;
};

FL_STATIC_ASSERT(sizeof(struct fl_message) == 16, "fl_message is a contract");
FL_STATIC_ASSERT(sizeof(struct fl_hello) == 16 + 16 + 16 + 64 + 64 + 32 + 32, "fl_hello is a contract");
FL_STATIC_ASSERT(sizeof(struct fl_welcome) == 56, "fl_welcome is a contract");
FL_STATIC_ASSERT(sizeof(struct fl_end) == 280, "fl_end is a contract");
FL_STATIC_ASSERT(sizeof(struct fl_query) == 16 + 32 + 64 + 192 + 8, "fl_query is a contract");
FL_STATIC_ASSERT(sizeof(struct fl_command) == 112, "fl_command is a contract");

#endif
