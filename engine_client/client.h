/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The piece of flushlight that lives inside a database process. Plain C, callable from C and C++.
 *
 * Rules: nothing here allocates, locks or waits on the statement path; a thread makes one prctl system call
 * pair the first time it is seen after an attach, and none afterwards. The daemon may be absent, killed,
 * hung or newer: every call then does one comparison and says no.
 *
 * Two ways of attaching:
 *   PostgreSQL: one process, one thread. flc_attach_step(wait_ms) is called by that thread: at session start
 *               with a small wait, later between statements with 0. It keeps its own back-off (1 s).
 *   MariaDB:    flc_attach_step() is called by the plugin's own background thread only (about 5 times a
 *               second); statement threads never call it.
 * Mappings of an old attachment are unmapped only once no thread can read them (flc_thread holds a hazard
 * mark while it is inside a window or a call).
 */
#ifndef FLUSHLIGHT_ENGINE_CLIENT_H
#define FLUSHLIGHT_ENGINE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/attach.h"

#ifdef __cplusplus
extern "C" {
#endif

struct flc_config {
	const char *socket_path; /* copied */
	struct fl_hello hello; /* engine, slots_wanted, state words, instance, versions: filled by the caller;
	                            message header and pid are filled by the library */
};

/* Once, before anything else. Not thread-safe. */
void flc_configure(const struct flc_config *config);

/*
 * Advances attachment: connects, reads the welcome, verifies seals and sizes, maps, binds the token; or
 * notices a stale daemon and detaches. Never waits longer than wait_ms. True when attached afterwards.
 * Only one thread may call it. The calling thread binds the process with the token name.
 */
bool flc_attach_step(uint32_t wait_ms);

/* Lets go of the daemon after flc_configure() changed its path; the next step attaches anew. The attaching
 * thread's; others may be in calls. */
void flc_reattach(void);

/* Lets go of everything (plugin removal, process end). No other call may be running. */
void flc_detach(void);

/* Why the last attempt failed, or what the attachment lacks, for people. The attaching thread's. */
void flc_attach_error(char *text, size_t bytes);

/* CLOCK_MONOTONIC, ns. */
uint64_t flc_now_ns(void);

/* One comparison when not attached. False too when the daemon's heartbeat is stale or flushlight is off. */
bool flc_active(uint64_t now_ns);

struct flc_thread; /* a thread's hold of one ring and, with tracing, one slot */

/*
 * The calling thread's hold; enrols it on the first call after an attach. NULL: not attached, no free slot,
 * or off. The same pointer until the next attach or the thread's end. Released at thread exit.
 */
struct flc_thread *flc_thread_self(void);

/* Number that changes with every attachment: state derived from an attachment is void when it differs. */
uint64_t flc_thread_epoch(const struct flc_thread *thread);

/* True when the kernel side confirmed the thread's slot: accounts will be valid. */
bool flc_thread_traced(const struct flc_thread *thread);

/* A reading of the thread's own slot: the vector includes the time since the last switch-in. */
struct flc_account {
	uint64_t clock_ns; /* when it was read: the reading is exact at this time */
	uint64_t vector_ns[FL_VECTOR_COUNT];
	uint64_t syncs;
	uint64_t inherited_sync_ns;
	uint32_t generation;
	bool valid;   /* false: no slot (tier B) or torn three times; everything but clock_ns is then 0 */
	bool lagging; /* the thread had come onto its CPU unseen: the totals are older than clock_ns */
	uint64_t returned_at_ns; /* the last time that such was noticed (abi/ledger.h), and the totals then */
	uint64_t returned_inherited_sync_ns;
	uint64_t returned_vector_ns[FL_VECTOR_COUNT];
};
void flc_read_account(struct flc_thread *thread, struct flc_account *out);

/*
 * Reads another thread's slot of the same process by its slot index in the range (0-based), for waits that
 * no thread did itself (pool of threads). Valid only while that thread lives.
 */
void flc_read_account_of(uint32_t slot_in_range, struct flc_account *out);
uint32_t flc_thread_slot_in_range(const struct flc_thread *thread);

/*
 * difference = end - begin; valid only if both are and the generation is the same. A lagging begin is put right by what the
 * end knows, where it was noticed in between; a lagging end makes the difference invalid.
 */
void flc_account_difference(const struct flc_account *begin, const struct flc_account *end,
			    struct flc_account *difference);

/* Live state for the `threads` view; plain stores into the ring head. */
void flc_set_session(struct flc_thread *thread, uint64_t session_id);
void flc_set_query(struct flc_thread *thread, uint64_t queryid);
void flc_set_window(struct flc_thread *thread, uint64_t begin_ns);
void flc_count_commit(struct flc_thread *thread);

/*
 * A durable commit of a session that is not observed now: no daemon answers, or no slot is free. The next
 * flc_count_commit() of any thread of the process tells the daemon (fl_ring_head.commits_missed).
 */
void flc_miss_commit(void);

/* Publishes a record (header filled by the caller). False: no room, counted in the ring. */
bool flc_write(struct flc_thread *thread, const void *record);
/* Record made of a fixed part and up to 4 strings that follow it; pads to 8. */
bool flc_write_parts(struct flc_thread *thread, void *record, size_t record_bytes, const char *const *parts,
		     const uint16_t *lengths, unsigned count);

/*
 * True the first time a queryid is asked since the attachment: send its text now. A fixed table per thread:
 * under pressure a text may be asked for again, never missed for good.
 */
bool flc_text_wanted(struct flc_thread *thread, uint64_t queryid);
/* The same question without taking it on: the next flc_text_wanted() of this thread says true too. */
bool flc_text_lacking(struct flc_thread *thread, uint64_t queryid);
/* False when the daemon takes digests only: flc_text_wanted() is then always false. */
bool flc_texts_wanted(void);
void flc_write_text(struct flc_thread *thread, uint64_t queryid, const char *text, size_t length,
		    bool truncated);

/*
 * MariaDB-style (or, with ansi_strings, PostgreSQL-style) normalised text: literals become ?, lists of them
 * collapse, comments are dropped, white space is squeezed. Writes at most capacity bytes, cuts at a character
 * border. Returns the digest of the whole statement even where the text is cut (never 0).
 */
struct flc_tokenizer_options {
	bool ansi_strings;         /* "..." is an identifier, dollar quotes and nested comments exist */
	bool no_backslash_escapes; /* backslash is an ordinary character in strings */
	bool ansi_quotes;          /* MariaDB's ANSI_QUOTES: "..." is an identifier, nothing else changes */
};
uint64_t flc_normalize(const char *query, size_t length, const struct flc_tokenizer_options *options,
		       char *text, size_t capacity, size_t *text_length, bool *truncated);

/* ---- views: may block up to the deadline; never on the statement path of anybody else ---- */

struct flc_cell {
	enum fl_cell_type type;
	int64_t integer; /* INT; TIME: ns since 1970 */
	double real;
	const char *text; /* not terminated; lives as long as the result */
	uint32_t length;
};

struct flc_result; /* malloc'd; free with flc_result_free */

struct flc_query {
	const char *socket_path;
	const char *view;
	const char *instance;
	const char *user_name;
	bool see_all;
	const char *const *columns;
	uint32_t column_count;
	uint32_t deadline_ms;    /* 1000 */
	bool (*cancelled)(void); /* NULL, or asked while waiting: true gives up. Must not jump away. */
};

/* NULL: failed, and error says the cause and the remedy. */
struct flc_result *flc_query_run(const struct flc_query *query, char *error, size_t error_bytes);
/* False: no more rows. cells holds column_count cells. */
bool flc_result_next(struct flc_result *result, struct flc_cell *cells);
void flc_result_free(struct flc_result *result);

/* False: failed, and error says why. */
bool flc_command(const char *socket_path, const struct fl_command *command, uint32_t deadline_ms, char *error,
		 size_t error_bytes);

#ifdef __cplusplus
}
#endif
#endif
