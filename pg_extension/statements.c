/* SPDX-License-Identifier: PostgreSQL */
/*
 * The hooks that tell where statements begin and end, what they cost and whether they run inside another.
 *
 * Statements that are open live in a table of fixed size (a backend rarely has more than three): no allocation.
 * Entries whose executor was never shut down leave with their (sub)transaction.
 */
#include "flushlight.h"

#include "nodes/nodes.h"
#include "optimizer/planner.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"

#define OPEN_MAX 64

typedef struct OpenStatement
{
	QueryDesc *query; /* NULL: free */
	SubTransactionId subid;
	bool running; /* inside the executor: at abort it failed */
	FlStatement statement;
} OpenStatement;

static OpenStatement open_statements[OPEN_MAX];
static int open_count; /* entries below this may be in use */
static int level;      /* 0: what the client sent; more: run by it */

static post_parse_analyze_hook_type next_post_parse_analyze;
static planner_hook_type next_planner;
static ExecutorStart_hook_type next_ExecutorStart;
static ExecutorRun_hook_type next_ExecutorRun;
static ExecutorFinish_hook_type next_ExecutorFinish;
static ExecutorEnd_hook_type next_ExecutorEnd;
static ProcessUtility_hook_type next_ProcessUtility;

/* ---- open statements ---- */

static OpenStatement *
find_open(const QueryDesc *query)
{
	int i;

	for (i = open_count - 1; i >= 0; i--)
		if (open_statements[i].query == query)
			return &open_statements[i];
	return NULL;
}

static OpenStatement *
make_open(QueryDesc *query)
{
	OpenStatement *entry = find_open(query); /* a dead one at the same address */
	int i;

	for (i = 0; entry == NULL && i < OPEN_MAX; i++)
		if (open_statements[i].query == NULL)
			entry = &open_statements[i];
	if (entry == NULL)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	entry->query = query;
	if (entry - open_statements >= open_count)
		open_count = entry - open_statements + 1;
	return entry;
}

static void
close_open(OpenStatement *entry)
{
	entry->query = NULL;
	while (open_count > 0 && open_statements[open_count - 1].query == NULL)
		open_count--;
}

/* A transaction (InvalidSubTransactionId) or subtransaction was aborted: what it had open is gone. */
void
fl_statements_forget(SubTransactionId from)
{
	int i;

	for (i = open_count - 1; i >= 0; i--)
	{
		OpenStatement *entry = &open_statements[i];

		if (entry->query == NULL || (from != InvalidSubTransactionId && entry->subid < from))
			continue;
		entry->statement.failed = entry->running;
		if (entry->running && !entry->statement.nested)
			entry->statement.run_ns = flc_now_ns() - entry->statement.begin_ns;
		fl_statement_ended(&entry->statement);
		close_open(entry);
	}
}

/* Deferred triggers run in a commit, outside any portal: not what the client sent. */
static bool
is_nested(void)
{
	return level > 0 || ActivePortal == NULL;
}

/* ---- executor ---- */

static void
post_parse_analyze(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (next_post_parse_analyze)
		next_post_parse_analyze(pstate, query, jstate);

	if (!fl_enabled || jstate == NULL || jstate->clocations_count == 0 || FL_QUERY_ID(query) == 0)
		return;
	if (query->utilityStmt != NULL)
		fl_core_normalises(FL_QUERY_ID(query));
	else if (level == 0 || fl_track == FL_TRACK_ALL)
		fl_query_text(pstate->p_sourcetext, query->stmt_location, query->stmt_len, FL_QUERY_ID(query), jstate,
					  0);
}

static PlannedStmt *
planner(Query *parse, const char *query_string, int cursor_options, ParamListInfo bound_params)
{
	PlannedStmt *result;

	/* functions that are evaluated while planning may run statements */
	level++;
	PG_TRY();
	{
		if (next_planner)
			result = next_planner(parse, query_string, cursor_options, bound_params);
		else
			result = standard_planner(parse, query_string, cursor_options, bound_params);
	}
	PG_FINALLY();
	{
		level--;
	}
	PG_END_TRY();
	return result;
}

static bool
wanted(bool nested)
{
	return fl_enabled && !IsParallelWorker() && (!nested || fl_track == FL_TRACK_ALL);
}

static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	bool nested = is_nested();

	if (wanted(nested) && !(eflags & EXEC_FLAG_EXPLAIN_ONLY))
	{
		const PlannedStmt *plan = queryDesc->plannedstmt;
		uint64 queryid = FL_QUERY_ID(plan);
		uint64 now_ns = flc_now_ns();
		OpenStatement *entry;

		if (!nested)
			fl_statement_begins(queryid, now_ns);
		entry = make_open(queryDesc);
		if (entry != NULL)
		{
			entry->subid = GetCurrentSubTransactionId();
			entry->running = true;
			entry->statement.queryid = queryid;
			entry->statement.begin_ns = now_ns;
			entry->statement.kind = FL_KIND_STATEMENT;
			entry->statement.nested = nested;
			/* parsed before the daemon came (prepared statements): it still needs the text */
			fl_query_text(queryDesc->sourceText, plan->stmt_location, plan->stmt_len, queryid, NULL,
						  queryDesc->params ? queryDesc->params->numParams : 0);
		}
	}

	if (next_ExecutorStart)
		next_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

typedef struct Stretch
{
	uint64 begin_ns;
	uint64 wal_bytes;
} Stretch;

static void
stretch_begins(const QueryDesc *query, Stretch *stretch)
{
	OpenStatement *entry = find_open(query);

	stretch->begin_ns = 0;
	if (entry == NULL)
		return;
	entry->running = true;
	stretch->wal_bytes = fl_wal_bytes();
	stretch->begin_ns = flc_now_ns();
}

static void
stretch_ends(const QueryDesc *query, const Stretch *stretch)
{
	OpenStatement *entry = stretch->begin_ns != 0 ? find_open(query) : NULL;

	if (entry == NULL)
		return;
	entry->running = false;
	entry->statement.run_ns += flc_now_ns() - stretch->begin_ns;
	entry->statement.wal_bytes += fl_wal_bytes() - stretch->wal_bytes;
}

static void
executor_run(FL_EXECUTOR_RUN_ARGS)
{
	Stretch stretch;

	stretch_begins(queryDesc, &stretch);
	level++;
	PG_TRY();
	{
		if (next_ExecutorRun)
			next_ExecutorRun(FL_EXECUTOR_RUN_PASS);
		else
			standard_ExecutorRun(FL_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		level--;
	}
	PG_END_TRY();
	stretch_ends(queryDesc, &stretch);
}

static void
executor_finish(QueryDesc *queryDesc)
{
	Stretch stretch = {0};

	/* a plain SELECT has nothing to finish */
	if (queryDesc->operation != CMD_SELECT || queryDesc->plannedstmt->hasModifyingCTE)
		stretch_begins(queryDesc, &stretch);
	level++;
	PG_TRY();
	{
		if (next_ExecutorFinish)
			next_ExecutorFinish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		level--;
	}
	PG_END_TRY();
	stretch_ends(queryDesc, &stretch);
}

static void
executor_end(QueryDesc *queryDesc)
{
	OpenStatement *entry = find_open(queryDesc);

	if (entry != NULL)
	{
		FlStatement statement = entry->statement;

		close_open(entry);
		fl_statement_ended(&statement);
	}
	if (next_ExecutorEnd)
		next_ExecutorEnd(queryDesc);
	else
		standard_ExecutorEnd(queryDesc);
}

/* ---- utility statements ---- */

typedef enum UtilityClass
{
	UTILITY_PASS, /* nothing of its own to record */
	UTILITY_PLAIN,
	UTILITY_ENDS, /* COMMIT, PREPARE TRANSACTION: ends with the transaction */
	UTILITY_COMMIT_PREPARED,
} UtilityClass;

static UtilityClass
classify(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_ExecuteStmt: /* its plan is the statement */
		case T_PrepareStmt:
		case T_DeallocateStmt:
			return UTILITY_PASS;
		case T_TransactionStmt:
			switch (((const TransactionStmt *)node)->kind)
			{
				case TRANS_STMT_COMMIT:
				case TRANS_STMT_PREPARE:
					return UTILITY_ENDS;
				case TRANS_STMT_COMMIT_PREPARED:
					return UTILITY_COMMIT_PREPARED;
				case TRANS_STMT_ROLLBACK_PREPARED:
					return UTILITY_PLAIN;
				default:
					return UTILITY_PASS;
			}
		default:
			return UTILITY_PLAIN;
	}
}

#define UTILITY_ARGS                                                                               \
	PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context, \
		ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc
#define UTILITY_PASS_ON pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc

static void
run_utility(UTILITY_ARGS)
{
	if (next_ProcessUtility)
		next_ProcessUtility(UTILITY_PASS_ON);
	else
		standard_ProcessUtility(UTILITY_PASS_ON);
}

static void
observe_utility(UtilityClass class, FlStatement *statement, UTILITY_ARGS)
{
	uint64 wal_base = fl_wal_bytes();
	uint64 outer = fl_routine_enter(statement->queryid);
	volatile bool done = false;

	statement->begin_ns = flc_now_ns();
	level++;
	PG_TRY();
	{
		if (class == UTILITY_COMMIT_PREPARED)
			fl_prepared_commit_begins();
		run_utility(UTILITY_PASS_ON);
		if (class == UTILITY_COMMIT_PREPARED)
			fl_prepared_commit_ended(statement->queryid);
		done = true;
	}
	PG_FINALLY();
	{
		level--;
		fl_routine_leave(outer);
		statement->run_ns = flc_now_ns() - statement->begin_ns;
		statement->wal_bytes = fl_wal_bytes() - wal_base;
		if (!done)
		{
			if (class == UTILITY_COMMIT_PREPARED)
				fl_prepared_commit_ended(0);
			statement->failed = true;
			fl_statement_ended(statement);
		}
	}
	PG_END_TRY();
	fl_statement_ended(statement);
}

static void
process_utility(UTILITY_ARGS)
{
	bool nested = is_nested();
	UtilityClass class = wanted(nested) ? classify(pstmt->utilityStmt) : UTILITY_PASS;
	FlStatement statement;

	if (class == UTILITY_PASS || context == PROCESS_UTILITY_SUBCOMMAND)
	{
		run_utility(UTILITY_PASS_ON);
		return;
	}
	memset(&statement, 0, sizeof(statement));
	statement.nested = nested;
	statement.kind = class == UTILITY_PLAIN ? FL_KIND_STATEMENT : FL_KIND_COMMIT;
	if (!nested)
		fl_session_look();
	statement.queryid =
		fl_utility_text(queryString, pstmt->stmt_location, pstmt->stmt_len, FL_QUERY_ID(pstmt));
	if (!nested)
		fl_statement_begins(statement.queryid, flc_now_ns());
	observe_utility(class, &statement, UTILITY_PASS_ON);
}

void
fl_statements_init(void)
{
	next_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = post_parse_analyze;
	next_planner = planner_hook;
	planner_hook = planner;
	next_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	next_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	next_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	next_ExecutorEnd = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
