/* SPDX-License-Identifier: PostgreSQL */
/*
 * flushlight: settings and start. Works from session_preload_libraries and a reload (no restart), from
 * shared_preload_libraries, and from LOAD.
 */
#include "flushlight.h"

FL_MODULE_MAGIC;

#define START_WAIT_MS \
	100 /* a hung daemon delays a login by this at most; usual are 1 ms, 25 ms on a busy machine */

char *fl_socket;
char *fl_instance;
bool fl_enabled;
int fl_track;

static const struct config_enum_entry track_options[] = {
	{"top", FL_TRACK_TOP, false},
	{"all", FL_TRACK_ALL, false},
	{NULL, 0, false},
};

static void
assign_and_reconfigure(const char *value, void *extra)
{
	(void)value;
	(void)extra;
	fl_session_reconfigure();
}

static void
define_settings(void)
{
	DefineCustomStringVariable("flushlight.socket", "Socket of flushlightd.",
							   "A change takes effect at the next statement.", &fl_socket,
							   FL_SOCKET_PATH_DEFAULT, PGC_SIGHUP, 0, NULL, assign_and_reconfigure, NULL);
	DefineCustomStringVariable("flushlight.instance", "Name of this server in flushlight's views.",
							   "Empty: cluster_name, or host name and port.", &fl_instance, "", PGC_SIGHUP, 0,
							   NULL, assign_and_reconfigure, NULL);
	DefineCustomBoolVariable("flushlight.enabled", "Observes this session.", NULL, &fl_enabled, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("flushlight.track", "Which statements are recorded.",
							 "top: those that clients send; all: those inside functions too.", &fl_track,
							 FL_TRACK_TOP, track_options, PGC_SUSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("flushlight");
}

void
_PG_init(void)
{
	define_settings();
	EnableQueryId();
	fl_transaction_init();
	fl_statements_init();
	/* in the postmaster there is nothing to attach; a backend that inherits us attaches at its first statement */
	if (IsUnderPostmaster && !IsParallelWorker())
		fl_session_start(START_WAIT_MS);
}
