/* SPDX-License-Identifier: PostgreSQL */
/*
 * Commit windows and records.
 *
 * A window opens at PRE_COMMIT (or PRE_PREPARE) of a transaction that has an id, and closes at COMMIT (or
 * PREPARE): between them lie the WAL flush and the wait for standbys. A transaction without an id never waits
 * for its WAL, even where it wrote some (pruning), so it has no window. Inside a window nothing allocates,
 * reports or makes a system call.
 *
 * Who gets the commit:
 *	 COMMIT, PREPARE TRANSACTION, COMMIT PREPARED	a row of its own, kind commit; the statement that wrote most WAL is
 *													its cause
 *	 inside CALL, DO, VACUUM, ...					a row of kind commit, nested, under that command
 *	 otherwise										the statement; of several in one implicit transaction the
 *													one that wrote most
 */
#include "flushlight.h"

typedef struct Writer
{
	uint64 queryid;
	uint64 wal_bytes;
} Writer;

/* the transaction in progress */
static struct
{
	uint64 wal_base;     /* pgWalUsage when the last one ended */
	Writer writer;       /* of the client's statements, the one that wrote most */
	FlStatement pending; /* ends together with the transaction */
	bool has_pending;
} transaction;

static struct
{
	bool open;
	bool missed;  /* a commit is in progress that nobody observes */
	uint64 epoch; /* of the attachment that it began under */
	uint64 xid;
	uint64 wal_base;
	struct flc_account begin;
} window;

static uint64 routine_queryid; /* the client's command that may commit inside; 0: none runs */

uint64
fl_wal_bytes(void)
{
	return pgWalUsage.wal_bytes;
}

static void
write_statement(const FlStatement *statement)
{
	struct fl_record_statement record;
	struct flc_thread *thread = fl_session_thread_again();

	if (thread == NULL)
		return;
	memset(&record, 0, sizeof(record));
	record.header.length = sizeof(record);
	record.header.type = FL_RECORD_STATEMENT;
	record.header.version = FL_RING_VERSION;
	record.session_id = MyProcPid;
	record.queryid = statement->queryid;
	record.begin_ns = statement->begin_ns;
	record.duration_ns = statement->run_ns;
	record.work = statement->wal_bytes;
	record.kind = statement->kind;
	record.flags =
		(statement->nested ? FL_STATEMENT_NESTED : 0) | (statement->failed ? FL_STATEMENT_FAILED : 0);
	flc_write(thread, &record);
}

static void
flush_pending(void)
{
	if (!transaction.has_pending)
		return;
	transaction.has_pending = false;
	write_statement(&transaction.pending);
}

static void
consider_writer(Writer *writer, const FlStatement *statement)
{
	if (statement->wal_bytes > writer->wal_bytes)
	{
		writer->queryid = statement->queryid;
		writer->wal_bytes = statement->wal_bytes;
	}
}

/* The client's statement starts. */
void
fl_statement_begins(uint64 queryid, uint64 now_ns)
{
	struct flc_thread *thread;

	fl_session_look();
	thread = fl_session_thread(now_ns);
	if (thread != NULL)
		flc_set_query(thread, queryid);
}

/*
 * A statement ended. Outside a transaction block the client's statement is held back until its transaction
 * ends, because that commit is its own.
 */
void
fl_statement_ended(const FlStatement *statement)
{
	if (statement->nested)
	{
		if (fl_track == FL_TRACK_ALL)
			write_statement(statement);
		return;
	}
	flush_pending();
	if (statement->kind == FL_KIND_STATEMENT)
		consider_writer(&transaction.writer, statement);
	if (statement->failed || (IsTransactionBlock() && statement->kind == FL_KIND_STATEMENT))
	{
		write_statement(statement);
		return;
	}
	transaction.pending = *statement;
	transaction.has_pending = true;
}

uint64
fl_routine_enter(uint64 queryid)
{
	uint64 outer_queryid = routine_queryid;

	if (outer_queryid == 0)
		routine_queryid = queryid;
	return outer_queryid;
}

void
fl_routine_leave(uint64 outer_queryid)
{
	routine_queryid = outer_queryid;
}

static void
open_window(uint64 xid)
{
	struct flc_thread *thread = fl_session_thread_again();

	window.open = false;
	window.missed = thread == NULL && fl_enabled;
	if (thread == NULL)
		return;
	window.xid = xid;
	window.wal_base = transaction.wal_base;
	window.epoch = flc_thread_epoch(thread);
	flc_read_account(thread, &window.begin);
	flc_set_window(thread, window.begin.clock_ns);
	window.open = true;
}

/* The thread if the window is still of this attachment. */
static struct flc_thread *
window_thread(void)
{
	struct flc_thread *thread;

	if (!window.open)
		return NULL;
	thread = flc_thread_self();
	return thread != NULL && flc_thread_epoch(thread) == window.epoch ? thread : NULL;
}

static void
drop_window(void)
{
	struct flc_thread *thread = window_thread();

	if (thread != NULL)
		flc_set_window(thread, 0);
	window.open = false;
	window.missed = false;
}

/* Decides whose row gets the commit. */
static void
attribute(struct fl_record_commit *record)
{
	if (routine_queryid != 0)
	{
		record->queryid = routine_queryid;
		record->kind = FL_KIND_COMMIT;
		record->flags |= FL_COMMIT_NESTED;
	}
	else if (transaction.has_pending && transaction.pending.kind == FL_KIND_COMMIT)
	{
		record->queryid = transaction.pending.queryid;
		record->kind = FL_KIND_COMMIT;
		record->cause_queryid = transaction.writer.queryid;
	}
	else
	{
		record->queryid = transaction.writer.queryid;
		if (record->queryid == 0 && transaction.has_pending)
			record->queryid = transaction.pending.queryid;
		record->kind = FL_KIND_STATEMENT;
	}
	if (record->cause_queryid == record->queryid)
		record->cause_queryid = 0;
}

/* Fills and writes the commit's record; false: no window was open, or the daemon went away meanwhile. */
static bool
close_window(struct fl_record_commit *record, uint64 position)
{
	struct flc_thread *thread = window_thread();
	struct flc_account end;
	struct flc_account account;

	if (thread == NULL)
	{
		window.open = false;
		flc_miss_commit();
		return false;
	}
	flc_read_account(thread, &end);
	flc_set_window(thread, 0);
	flc_set_query(thread, 0);
	window.open = false;
	flc_account_difference(&window.begin, &end, &account);

	record->header.length = sizeof(*record);
	record->header.type = FL_RECORD_COMMIT;
	record->header.version = FL_RING_VERSION;
	record->session_id = MyProcPid;
	record->begin_ns = window.begin.clock_ns;
	record->duration_ns = account.clock_ns;
	record->work = fl_wal_bytes() - window.wal_base;
	record->xid = window.xid;
	record->position = position;
	if (account.valid)
	{
		record->flags |= FL_COMMIT_ACCOUNTED;
		record->syncs = account.syncs;
		record->inherited_sync_ns = account.inherited_sync_ns;
		memcpy(record->vector_ns, account.vector_ns, sizeof(record->vector_ns));
	}
	flc_count_commit(thread);
	flc_write(thread, record);
	return true;
}

static void
transaction_ends(void)
{
	transaction.wal_base = fl_wal_bytes();
	memset(&transaction.writer, 0, sizeof(transaction.writer));
}

static void
committed(bool prepared)
{
	struct fl_record_commit record;

	memset(&record, 0, sizeof(record));
	if (window.missed)
		flc_miss_commit();
	window.missed = false;
	if (window.open)
	{
		if (prepared)
			record.flags |= FL_COMMIT_XA;
		attribute(&record);
		if (close_window(&record, prepared ? ProcLastRecPtr : XactLastCommitEnd))
		{
			if (record.flags & FL_COMMIT_NESTED)
			{
				FlStatement nested_commit = {
					.queryid = record.queryid,
					.begin_ns = record.begin_ns,
					.run_ns = record.duration_ns,
					.wal_bytes = record.work,
					.kind = FL_KIND_COMMIT,
					.nested = true,
				};

				write_statement(&nested_commit);
			}
			else if (transaction.has_pending)
				transaction.pending.run_ns += record.duration_ns;
		}
	}
	flush_pending();
	transaction_ends();
}

static void
aborted(void)
{
	drop_window();
	fl_statements_forget(InvalidSubTransactionId);
	if (transaction.has_pending)
	{
		transaction.pending.failed = true;
		flush_pending();
	}
	transaction_ends();
}

static void
transaction_event(XactEvent event, void *argument)
{
	FullTransactionId xid;

	(void)argument;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			xid = GetTopFullTransactionIdIfAny();
			if (FullTransactionIdIsValid(xid))
				open_window(U64FromFullTransactionId(xid));
			break;
		case XACT_EVENT_COMMIT:
			committed(false);
			break;
		case XACT_EVENT_PREPARE:
			committed(true);
			break;
		case XACT_EVENT_ABORT:
			aborted();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break; /* the leader commits */
	}
}

static void
subtransaction_event(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *argument)
{
	(void)parent;
	(void)argument;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		fl_statements_forget(subid);
}

/* COMMIT PREPARED flushes inside its command: the transaction around it has no id. */
void
fl_prepared_commit_begins(void)
{
	open_window(0);
	window.wal_base = fl_wal_bytes();
}

void
fl_prepared_commit_ended(uint64 queryid)
{
	struct fl_record_commit record;

	if (queryid == 0)
	{
		drop_window();
		return;
	}
	memset(&record, 0, sizeof(record));
	record.queryid = queryid;
	record.kind = FL_KIND_COMMIT;
	record.flags = FL_COMMIT_XA;
	close_window(&record, XactLastRecEnd);
}

void
fl_transaction_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
	RegisterSubXactCallback(subtransaction_event, NULL);
}
