/* SPDX-License-Identifier: PostgreSQL */
/*
 * What the files of the extension share. One backend, one thread: nothing here needs a lock.
 *
 * Reading direction: flushlight.c (settings, start) -> session.c (attachment, identity) -> transaction.c
 * (commit windows, records) -> statements.c (hooks) -> text.c (normalised texts); views.c stands apart.
 */
#ifndef FLUSHLIGHT_PG_H
#define FLUSHLIGHT_PG_H

#include "compat.h"
#include "engine_client/client.h"

#define FLUSHLIGHT_VERSION "0.1"

typedef enum FlTrack
{
	FL_TRACK_TOP,
	FL_TRACK_ALL
} FlTrack;

/* settings */
extern char *fl_socket;
extern char *fl_instance;
extern bool fl_enabled;
extern int fl_track;

/* session.c */
extern void fl_session_start(uint32 wait_ms);
extern void fl_session_reconfigure(void);
extern struct flc_thread *fl_session_thread(uint64 now_ns);
extern struct flc_thread *fl_session_thread_again(void);
extern void fl_session_look(void);
extern void fl_instance_name(char *name, size_t bytes);

/* transaction.c: what statements did, and the window of their commit */
typedef struct FlStatement
{
	uint64 queryid;
	uint64 begin_ns;
	uint64 run_ns; /* without the time between two fetches */
	uint64 wal_bytes;
	uint32 kind; /* enum fl_kind */
	bool nested;
	bool failed;
} FlStatement;

extern void fl_transaction_init(void);
extern uint64 fl_wal_bytes(void);
extern void fl_statement_begins(uint64 queryid, uint64 now_ns);
extern void fl_statement_ended(const FlStatement *statement);
extern uint64 fl_routine_enter(uint64 queryid);
extern void fl_routine_leave(uint64 outer_queryid);
extern void fl_prepared_commit_begins(void);
extern void fl_prepared_commit_ended(uint64 queryid);

/* statements.c */
extern void fl_statements_init(void);
extern void fl_statements_forget(SubTransactionId from);

/* text.c */
extern uint64 fl_utility_text(const char *source, int location, int length, uint64 core_queryid);
extern void fl_query_text(const char *source, int location, int length, uint64 queryid,
						  const JumbleState *jstate, int params);
extern void fl_core_normalises(uint64 queryid);

/* encoding.c */
extern char *fl_convert(const char *text, int *length, int from, int to);

#endif
