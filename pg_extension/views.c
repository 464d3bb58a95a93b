/* SPDX-License-Identifier: PostgreSQL */
/*
 * The views: rows that the daemon computed, asked for over the socket with a deadline.
 *
 * flushlight.view_rows(view) returns a set of records; its columns are those that the calling view names, so a
 * view of an older or newer script gets what the daemon knows and NULL for the rest. Without a daemon: one
 * warning and no rows. Errors never leave the client library by a jump, so its result is freed in every case.
 */
#include "flushlight.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "nodes/execnodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#define DEADLINE_MS 900               /* the promise is a second */
#define RESULT_KILOBYTES (128 * 1024) /* never a temporary file: the disk may be what stalls */
#define ERROR_BYTES 512

PG_FUNCTION_INFO_V1(flushlight_view_rows);
PG_FUNCTION_INFO_V1(flushlight_reset);

static bool
cancel_asked(void)
{
	return QueryCancelPending || ProcDiePending;
}

/* From the daemon's UTF-8; what the database's encoding does not know becomes '?'. */
static Datum
text_datum(const char *text, int length)
{
	char *server = fl_convert(text, &length, PG_UTF8, GetDatabaseEncoding());

	return PointerGetDatum(cstring_to_text_with_len(server, length));
}

static TimestampTz
time_of(int64 unix_ns)
{
	return unix_ns / 1000 - (int64)(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

/* False: NULL, or not of the column's type. */
static bool
cell_datum(const struct flc_cell *cell, Oid type, Datum *datum)
{
	switch (cell->type)
	{
		case FL_CELL_NULL:
			return false;
		case FL_CELL_INT:
			*datum = type == FLOAT8OID ? Float8GetDatum((double)cell->integer) : Int64GetDatum(cell->integer);
			return type == INT8OID || type == FLOAT8OID;
		case FL_CELL_DOUBLE:
			*datum = Float8GetDatum(cell->real);
			return type == FLOAT8OID;
		case FL_CELL_TEXT:
			if (type != TEXTOID)
				return false;
			*datum = text_datum(cell->text, cell->length);
			return true;
		case FL_CELL_TIME:
			*datum = TimestampTzGetDatum(time_of(cell->integer));
			return type == TIMESTAMPTZOID;
	}
	return false;
}

static void
store_rows(struct flc_result *result, TupleDesc columns, Tuplestorestate *store)
{
	struct flc_cell *cells = palloc(sizeof(*cells) * columns->natts);
	Datum *values = palloc(sizeof(*values) * columns->natts);
	bool *nulls = palloc(sizeof(*nulls) * columns->natts);
	MemoryContext row_context =
		AllocSetContextCreate(CurrentMemoryContext, "flushlight row", ALLOCSET_SMALL_SIZES);
	MemoryContext context = MemoryContextSwitchTo(row_context);
	int i;

	while (flc_result_next(result, cells))
	{
		CHECK_FOR_INTERRUPTS();
		for (i = 0; i < columns->natts; i++)
			nulls[i] = !cell_datum(&cells[i], TupleDescAttr(columns, i)->atttypid, &values[i]);
		tuplestore_putvalues(store, columns, values, nulls);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(context);
}

/* The daemon's words may be in any bytes; a message must be in the server's encoding. */
static const char *
printable(char *error)
{
	char *c;

	for (c = error; *c; c++)
		if (IS_HIGHBIT_SET(*c) || (unsigned char)*c < ' ')
			*c = '?';
	return error;
}

static struct flc_result *
ask(const char *view, TupleDesc columns, char *error)
{
	const char **names = palloc(sizeof(*names) * columns->natts);
	char instance[64];
	char *user_name = GetUserNameFromId(GetUserId(), true);
	struct flc_query query;
	int i;

	for (i = 0; i < columns->natts; i++)
		names[i] = NameStr(TupleDescAttr(columns, i)->attname);
	fl_instance_name(instance, sizeof(instance));
	memset(&query, 0, sizeof(query));
	query.socket_path = fl_socket;
	query.view = view;
	query.instance = instance;
	query.user_name = user_name ? user_name : "";
	query.see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	query.columns = names;
	query.column_count = columns->natts;
	query.deadline_ms = DEADLINE_MS;
	query.cancelled = cancel_asked;
	return flc_query_run(&query, error, ERROR_BYTES);
}

Datum
flushlight_view_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *info = (ReturnSetInfo *)fcinfo->resultinfo;
	char *view = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char error[ERROR_BYTES] = "";
	struct flc_result *result;
	MemoryContext context;
	TupleDesc columns;
	Tuplestorestate *store;

	if (info == NULL || !IsA(info, ReturnSetInfo) || info->expectedDesc == NULL ||
		!(info->allowedModes & SFRM_Materialize))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("flushlight.view_rows must be called in FROM, with a column definition list")));
	context = MemoryContextSwitchTo(info->econtext->ecxt_per_query_memory);
	columns = CreateTupleDescCopy(info->expectedDesc);
	store = tuplestore_begin_heap((info->allowedModes & SFRM_Materialize_Random) != 0, false,
								  Max(work_mem, RESULT_KILOBYTES));
	MemoryContextSwitchTo(context);
	info->returnMode = SFRM_Materialize;
	info->setResult = store;
	info->setDesc = columns;

	result = ask(view, columns, error);
	if (result == NULL)
	{
		CHECK_FOR_INTERRUPTS();
		ereport(WARNING, (errmsg("flushlight has no rows: %s", printable(error))));
		return (Datum)0;
	}
	PG_TRY();
	{
		store_rows(result, columns, store);
	}
	PG_FINALLY();
	{
		flc_result_free(result);
	}
	PG_END_TRY();
	return (Datum)0;
}

Datum
flushlight_reset(PG_FUNCTION_ARGS)
{
	struct fl_command command;
	char error[ERROR_BYTES] = "";

	memset(&command, 0, sizeof(command));
	command.code = FL_COMMAND_RESET;
	command.userid = PG_GETARG_OID(0);
	command.dbid = PG_GETARG_OID(1);
	command.queryid = (uint64)PG_GETARG_INT64(2);
	command.flags = PG_GETARG_BOOL(3) ? FL_RESET_MINMAX_ONLY : 0;
	fl_instance_name(command.instance, sizeof(command.instance));
	if (!flc_command(fl_socket, &command, DEADLINE_MS, error, sizeof(error)))
		ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
						errmsg("flushlight was not reset: %s", printable(error))));
	PG_RETURN_VOID();
}
