/* SPDX-License-Identifier: PostgreSQL */
/*
 * This backend's attachment to the daemon, and who it is: user, database, application, address.
 *
 * fl_session_thread() is called on the statement path and in commit windows: it touches no catalog, allocates
 * nothing and cannot fail. Names that need the catalog are looked up by fl_session_look(), between statements.
 */
#include "flushlight.h"

#include <unistd.h>

#include "mb/pg_wchar.h"
#include "commands/dbcommands.h"
#include "postmaster/postmaster.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

typedef struct SessionName
{
	uint16 length;
	char text[FL_NAME_BYTES_MAX];
} SessionName;

static bool configured;
static bool reconfigure;
static uint64 known_epoch; /* of the attachment that knows who we are; 0: none */
static Oid known_role = InvalidOid;
static SessionName names[4]; /* user, database, application, address */

enum
{
	NAME_USER,
	NAME_DATABASE,
	NAME_APPLICATION,
	NAME_ADDRESS
};

void
fl_instance_name(char *name, size_t bytes)
{
	char host[64] = "";

	if (fl_instance != NULL && fl_instance[0] != '\0')
		snprintf(name, bytes, "%s", fl_instance);
	else if (cluster_name != NULL && cluster_name[0] != '\0')
		snprintf(name, bytes, "%s", cluster_name);
	else
	{
		gethostname(host, sizeof(host) - 1);
		snprintf(name, bytes, "postgresql:%.40s:%d", host, PostPortNumber);
	}
}

/*
 * The kernel side reads this backend's wait event when it is switched out: two kinds of sleep that no kernel
 * event explains.
 */
static const struct fl_state_rule state_rules[FL_STATE_RULES] = {
	{.mask = 0xffffffff, .value = WAIT_EVENT_SYNC_REP, .cause = FL_CAUSE_REPLICATION},
	{.mask = 0xff000000, .value = PG_WAIT_CLIENT, .cause = FL_CAUSE_IDLE},
	{.mask = 0xff000000, .value = PG_WAIT_ACTIVITY, .cause = FL_CAUSE_IDLE},
};

static void
configure(void)
{
	struct flc_config config;

	memset(&config, 0, sizeof(config));
	config.socket_path = fl_socket;
	config.hello.engine = FL_ENGINE_POSTGRESQL;
	config.hello.slots_wanted = 1;
	config.hello.flags = FL_HELLO_FAMILY_SIBLINGS;
	config.hello.state_word_address = (uint64)(uintptr_t)my_wait_event_info;
	memcpy(config.hello.state_rules, state_rules, sizeof(state_rules));
	fl_instance_name(config.hello.instance, sizeof(config.hello.instance));
	snprintf(config.hello.engine_version, sizeof(config.hello.engine_version), "%s", PG_VERSION);
	snprintf(config.hello.client_version, sizeof(config.hello.client_version), "%s", FLUSHLIGHT_VERSION);
	flc_configure(&config);
	configured = true;
	reconfigure = false;
}

void
fl_session_reconfigure(void)
{
	reconfigure = true;
}

/* UTF-8, cut at a character border. */
static void
set_name(SessionName *name, const char *text)
{
	const char *utf8 = text;
	int length = strlen(text);

	if (GetDatabaseEncoding() != PG_UTF8 && IsTransactionState())
		utf8 = fl_convert(text, &length, GetDatabaseEncoding(), PG_UTF8);
	length = pg_encoding_mbcliplen(PG_UTF8, utf8, length, FL_NAME_BYTES_MAX);
	memcpy(name->text, utf8, length);
	name->length = length;
	if (utf8 != text)
		pfree(unconstify(char *, utf8));
}

static const char *
client_address(void)
{
	if (MyProcPort == NULL || MyProcPort->remote_host == NULL || MyProcPort->raddr.addr.ss_family == AF_UNIX)
		return "";
	return MyProcPort->remote_host;
}

static void
session_ends(int code, Datum argument)
{
	struct fl_record_session_end record = {
		.header = {.length = sizeof(record), .type = FL_RECORD_SESSION_END, .version = FL_RING_VERSION},
		.session_id = MyProcPid,
	};
	struct flc_thread *thread;

	(void)code;
	(void)argument;
	if (known_epoch == 0 || !flc_active(flc_now_ns()) || (thread = flc_thread_self()) == NULL)
		return;
	flc_set_session(thread, 0);
	flc_write(thread, &record);
}

void
fl_session_start(uint32 wait_ms)
{
	configure();
	before_shmem_exit(session_ends, 0);
	known_role = InvalidOid;
	if (MyProcPort != NULL)
	{
		set_name(&names[NAME_USER], MyProcPort->user_name ? MyProcPort->user_name : "");
		set_name(&names[NAME_DATABASE], MyProcPort->database_name ? MyProcPort->database_name : "");
	}
	set_name(&names[NAME_APPLICATION], application_name ? application_name : "");
	set_name(&names[NAME_ADDRESS], client_address());
	if (fl_enabled)
		flc_attach_step(wait_ms);
}

static int64
backend_start_unix_ns(void)
{
	const int64 epoch_usecs = (int64)(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return (MyStartTimestamp + epoch_usecs) * 1000;
}

static void
introduce(struct flc_thread *thread)
{
	struct fl_record_session record = {
		.header = {.type = FL_RECORD_SESSION, .version = FL_RING_VERSION},
		.session_id = MyProcPid,
		.userid = OidIsValid(known_role) ? known_role : GetSessionUserId(),
		.dbid = MyDatabaseId,
		.backend_start_unix_ns = backend_start_unix_ns(),
		.user_length = names[NAME_USER].length,
		.database_length = names[NAME_DATABASE].length,
		.application_length = names[NAME_APPLICATION].length,
		.address_length = names[NAME_ADDRESS].length,
	};
	const char *parts[4];
	uint16_t lengths[4];
	int i;

	for (i = 0; i < 4; i++)
	{
		parts[i] = names[i].text;
		lengths[i] = names[i].length;
	}
	flc_set_session(thread, MyProcPid);
	known_epoch =
		flc_write_parts(thread, &record, sizeof(record), parts, lengths, 4) ? flc_thread_epoch(thread) : 0;
}

/*
 * Our hold of ring and slot, the daemon knowing who we are; NULL: not observed now. While the daemon is away
 * this costs a clock reading, and one attempt to connect each second.
 */
struct flc_thread *
fl_session_thread(uint64 now_ns)
{
	struct flc_thread *thread;

	if (!fl_enabled || !IsUnderPostmaster || IsParallelWorker())
		return NULL;
	if (!configured || reconfigure)
	{
		if (configured)
		{
			flc_detach();
			configure();
		}
		else
			fl_session_start(0);
	}
	if (!flc_active(now_ns) && (!flc_attach_step(0) || !flc_active(now_ns)))
		return NULL;
	thread = flc_thread_self();
	if (thread != NULL && flc_thread_epoch(thread) != known_epoch)
		introduce(thread);
	return thread;
}

/*
 * The same where the statement's begin has looked at the clock already: a heartbeat that went stale since then is
 * noticed at the next begin, and records that nobody reads do no harm.
 */
struct flc_thread *
fl_session_thread_again(void)
{
	struct flc_thread *thread = fl_enabled ? flc_thread_self() : NULL;

	if (thread != NULL && flc_thread_epoch(thread) == known_epoch && !reconfigure)
		return thread;
	return fl_session_thread(flc_now_ns());
}

/*
 * Notices that the session became another: SET ROLE, SET application_name. Called where a statement begins, in
 * a transaction, so that the catalog may be read.
 */
void
fl_session_look(void)
{
	Oid role;

	if (!configured)
		return;
	role = GetOuterUserId();
	if (!OidIsValid(role))
		role = GetSessionUserId();
	if (role != known_role && IsTransactionState())
	{
		/* the first time the name is known already, unless this is a background worker */
		if (OidIsValid(known_role) || MyProcPort == NULL || role != GetSessionUserId())
		{
			char *name = GetUserNameFromId(role, true);

			set_name(&names[NAME_USER], name ? name : "");
			known_epoch = 0;
		}
		if (MyProcPort == NULL && OidIsValid(MyDatabaseId))
		{
			char *name = get_database_name(MyDatabaseId);

			set_name(&names[NAME_DATABASE], name ? name : "");
		}
		known_role = role;
	}
	if (application_name != NULL)
	{
		const SessionName *known = &names[NAME_APPLICATION];

		if (strncmp(application_name, known->text, known->length) != 0 ||
			(application_name[known->length] != '\0' && known->length < FL_NAME_BYTES_MAX - 4))
		{
			set_name(&names[NAME_APPLICATION], application_name);
			known_epoch = 0;
		}
	}
}
