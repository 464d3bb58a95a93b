/* SPDX-License-Identifier: PostgreSQL */
/*
 * Prints the extension's script: one view for each in abi/views.def, with its comments.
 * Runs while building. Argument: install, or upgrade (from 0.0, which had an empty schema).
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct Column
{
	const char *view;
	const char *name;
	const char *type;
	const char *help;
} Column;

typedef struct View
{
	const char *name;
	const char *help;
} View;

#define TYPE_INT "bigint"
#define TYPE_DOUBLE "double precision"
#define TYPE_TEXT "text"
#define TYPE_TIME "timestamptz"
#define TYPE_BOOL "bigint"

static const View views[] = {
#define FL_VIEW(view, help) {#view, help},
#include "abi/views.def"
};

static const Column columns[] = {
#define FL_COLUMN(view, column, type, unit, help) {#view, #column, TYPE_##type, help},
#include "abi/views.def"
};

/* What the daemon cannot know of `replication`, from pg_stat_replication: with the rights of whoever asks. */
#define SENT_UP_TO \
	"CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END"
#define LAG_MS(column) "extract(epoch FROM s." column ")::float8 * 1000"
#define BEHIND(column) "pg_wal_lsn_diff(" SENT_UP_TO ", s." column ")::bigint"

static const struct
{
	const char *name;
	const char *expression;
} of_standbys[] = {
	{"name", "s.application_name"},
	{"client_addr", "host(s.client_addr)"},
	{"session_id", "s.pid::bigint"},
	{"state", "s.state"},
	{"sync_mode", "s.sync_state"},
	{"remote_write_ms", LAG_MS("write_lag")},
	{"remote_flush_ms", LAG_MS("flush_lag")},
	{"remote_apply_ms", LAG_MS("replay_lag")},
	{"unsent_bytes", BEHIND("sent_lsn")},
	{"unflushed_bytes", BEHIND("flush_lsn")},
	{"unapplied_bytes", BEHIND("replay_lsn")},
};
/* No commit waits for an asynchronous standby. */
static const char *const of_synchronous[] = {"commits_waited",     "commit_wait_ms",  "mean_commit_wait_ms",
											 "max_commit_wait_ms", "commits_waiting", "oldest_wait_ms",
											 "stats_since"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void
print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++)
	{
		if (*text == '\'')
			putchar('\'');
		putchar(*text);
	}
	putchar('\'');
}

static void
print_standby_column(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(of_standbys); i++)
		if (strcmp(of_standbys[i].name, name) == 0)
		{
			printf("%s AS %s", of_standbys[i].expression, name);
			return;
		}
	for (i = 0; i < COUNT(of_synchronous); i++)
		if (strcmp(of_synchronous[i], name) == 0)
		{
			printf("CASE WHEN s.sync_state IN ('async', 'potential') THEN NULL ELSE d.%s END AS %s", name,
				   name);
			return;
		}
	printf("d.%s", name);
}

/* One row for each standby, or one of the server without any. */
static void
print_standbys_select(const View *view)
{
	const char *separator = "";
	size_t i;

	for (i = 0; i < COUNT(columns); i++)
	{
		if (strcmp(columns[i].view, view->name) != 0)
			continue;
		printf("%s\n    ", separator);
		print_standby_column(columns[i].name);
		separator = ",";
	}
}

static void
print_view(const View *view)
{
	const char *separator = "";
	bool standbys = strcmp(view->name, "replication") == 0;
	size_t i;

	printf("\nCREATE VIEW flushlight.%s AS\n  SELECT ", view->name);
	if (standbys)
		print_standbys_select(view);
	else
		printf("*");
	printf(" FROM flushlight.view_rows('%s') AS %s(", view->name, standbys ? "d" : "");
	for (i = 0; i < COUNT(columns); i++)
	{
		if (strcmp(columns[i].view, view->name) != 0)
			continue;
		printf("%s\n    %s %s", separator, columns[i].name, columns[i].type);
		separator = ",";
	}
	printf(")%s;\nGRANT SELECT ON flushlight.%s TO PUBLIC;\nCOMMENT ON VIEW flushlight.%s IS ",
		   standbys ? "\n  LEFT JOIN pg_stat_replication AS s ON true" : "", view->name, view->name);
	print_quoted(view->help);
	printf(";\n");
	for (i = 0; i < COUNT(columns); i++)
	{
		if (strcmp(columns[i].view, view->name) != 0)
			continue;
		printf("COMMENT ON COLUMN flushlight.%s.%s IS ", view->name, columns[i].name);
		print_quoted(columns[i].help);
		printf(";\n");
	}
}

static const char head[] =
	"/* Generated from abi/views.def. */\n"
	"\\echo Use \"%s\" to load this file. \\quit\n\n"
	"GRANT USAGE ON SCHEMA flushlight TO PUBLIC;\n\n"
	"CREATE FUNCTION flushlight.view_rows(view text) RETURNS SETOF record\n"
	"  AS 'MODULE_PATHNAME', 'flushlight_view_rows' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;\n"
	"COMMENT ON FUNCTION flushlight.view_rows(text) IS 'rows of a view, as flushlightd computes them; used "
	"by the views';\n\n"
	"CREATE FUNCTION flushlight.reset(userid oid DEFAULT 0, dbid oid DEFAULT 0, queryid bigint DEFAULT 0,\n"
	"                                 minmax_only boolean DEFAULT false) RETURNS void\n"
	"  AS 'MODULE_PATHNAME', 'flushlight_reset' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;\n"
	"COMMENT ON FUNCTION flushlight.reset(oid, oid, bigint, boolean) IS 'forgets statistics: of a user, a "
	"database, a query (0: all)';\n"
	"REVOKE ALL ON FUNCTION flushlight.reset(oid, oid, bigint, boolean) FROM PUBLIC;\n";

int
main(int argc, char **argv)
{
	size_t i;

	if (argc != 2)
		return 1;
	printf(head, strcmp(argv[1], "upgrade") == 0 ? "ALTER EXTENSION flushlight UPDATE"
												 : "CREATE EXTENSION flushlight");
	for (i = 0; i < COUNT(views); i++)
		print_view(&views[i]);
	return 0;
}
