/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of an attachment: idle, waiting for a welcome, attached, retired.
 *
 * Owner: the thread that calls flc_configure(), flc_attach_step() and flc_detach(); all state in this file is
 * its own. What other threads see is flc_state.current with its number, and the control page.
 */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LEASE_LOOK_NS 200000000ull

struct flc_state flc_state;

static struct {
	int fd; /* waiting for a welcome; -1: idle */
	uint64_t give_up_ns;
	uint64_t next_try_ns;
	uint64_t attached_ns;
	uint64_t lease_look_ns;
	uint64_t last_number;
	char error[256]; /* why the last attempt failed, or what an attachment lacks */
} owner = {.fd = -1};

void flc_configure(const struct flc_config *config)
{
	size_t length = strlen(config->socket_path);
	struct statfs here;

	if (flc_state.control == NULL) {
		void *page = mmap(NULL, FLC_PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return; /* stays unconfigured: every call says no */
		flc_state.control = page;
		flc_threads_init();
	}
	if (length >= sizeof(flc_state.socket_path))
		length = 0; /* refused by flc_connect() with a message */
	memcpy(flc_state.socket_path, config->socket_path, length);
	flc_state.socket_path[length] = '\0';
	flc_state.hello = config->hello;
	if (!statfs(".", &here))
		flc_state.hello.file_system = (fl_u32)here.f_type;
	if (flc_state.hello.slots_wanted == 0)
		flc_state.hello.slots_wanted = 1;
	if (flc_state.hello.slots_wanted > FLC_SLOTS_MAX)
		flc_state.hello.slots_wanted = FLC_SLOTS_MAX;
	flc_state.configured = true;
}

static bool heartbeat_fresh(uint64_t now_ns)
{
	return now_ns <
	       __atomic_load_n(&flc_state.control->heartbeat_ns, __ATOMIC_RELAXED) + FL_HEARTBEAT_STALE_NS;
}

bool flc_active(uint64_t now_ns)
{
	return __atomic_load_n(&flc_state.current_number, __ATOMIC_ACQUIRE) != 0 && heartbeat_fresh(now_ns) &&
	       __atomic_load_n(&flc_state.control->off, __ATOMIC_RELAXED) == 0;
}

bool flc_texts_wanted(void)
{
	return __atomic_load_n(&flc_state.current_number, __ATOMIC_ACQUIRE) != 0 &&
	       __atomic_load_n(&flc_state.control->query_text, __ATOMIC_RELAXED) != 0;
}

void flc_attach_error(char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", owner.error);
}

static bool guarded(const struct flc_attachment *attachment)
{
	unsigned i;

	for (i = 0; i < FLC_THREADS_MAX; i++)
		if (__atomic_load_n(&flc_threads[i].hazard, __ATOMIC_SEQ_CST) == attachment)
			return true;
	return false;
}

static void free_retired(bool all)
{
	struct flc_attachment **link = &flc_state.retired;

	while (*link != NULL) {
		struct flc_attachment *attachment = *link;

		if (!all && guarded(attachment)) {
			link = &attachment->next_retired;
			continue;
		}
		*link = attachment->next_retired;
		flc_attachment_free(attachment);
	}
}

static void retire(void)
{
	struct flc_attachment *attachment = flc_state.current;

	if (attachment == NULL)
		return;
	__atomic_store_n(&flc_state.current_number, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&flc_state.current, NULL, __ATOMIC_SEQ_CST);
	flc_control_hide();
	close(attachment->lease_fd);
	attachment->lease_fd = -1;
	attachment->next_retired = flc_state.retired;
	flc_state.retired = attachment;
	free_retired(false);
}

/* The daemon never sends on a lease: readable means that it closed its end (or broke the protocol). */
static bool lease_closed(uint64_t now_ns)
{
	struct pollfd entry = {.fd = flc_state.current->lease_fd, .events = POLLIN | POLLRDHUP};

	if (now_ns < owner.lease_look_ns)
		return false;
	owner.lease_look_ns = now_ns + LEASE_LOOK_NS;
	return poll(&entry, 1, 0) > 0;
}

static bool give_up(uint64_t now_ns)
{
	if (owner.fd >= 0)
		close(owner.fd);
	owner.fd = -1;
	owner.next_try_ns = now_ns + FLC_RETRY_NS;
	return false;
}

static bool greet(uint64_t now_ns, uint64_t deadline_ns)
{
	struct fl_hello hello = flc_state.hello;

	owner.fd = flc_connect(flc_state.socket_path, deadline_ns, owner.error, sizeof(owner.error));
	if (owner.fd < 0)
		return give_up(now_ns);
	flc_message_fill(&hello.message, FL_MESSAGE_HELLO, sizeof(hello));
	hello.pid = (fl_u32)getpid();
	if (!flc_send(owner.fd, &hello, sizeof(hello))) {
		snprintf(owner.error, sizeof(owner.error), "cannot greet flushlightd: %s", strerror(errno));
		return give_up(now_ns);
	}
	owner.give_up_ns = now_ns + FLC_WELCOME_NS;
	return true;
}

/* Bytes of the packet, with its descriptors; 0: closed; -1: error. */
static ssize_t receive(int fd, void *packet, size_t capacity, int *descriptors, unsigned *count,
		       bool *truncated)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * FLC_DESCRIPTORS_MAX)];
	} control;
	struct iovec part = {.iov_base = packet, .iov_len = capacity};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header;
	ssize_t got;

	*count = 0;
	do
		got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -1;
	*truncated = (message.msg_flags & MSG_CTRUNC) != 0;
	for (header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
		unsigned here;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		here = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(descriptors + *count, CMSG_DATA(header), here * sizeof(int));
		*count += here; /* together at most FLC_DESCRIPTORS_MAX: there is no room for more */
	}
	return got;
}

/* The token names the process to the kernel side, once; it must not be sent before all is mapped. */
static void bind_process(const struct flc_attachment *attachment, uint64_t token)
{
	char name[16];
	const unsigned digits = FL_NAME_TOKEN_DIGITS;

	if (attachment->slots == NULL)
		return;
	flc_name_number(name, FL_NAME_TOKEN, &token, &digits, 1);
	flc_wear_name(name);
}

static bool welcome(uint64_t now_ns)
{
	union {
		struct fl_message message;
		struct fl_welcome welcome;
		struct fl_end refused;
		char bytes[1024]; /* a newer daemon's welcome may be longer */
	} packet;
	int descriptors[FLC_DESCRIPTORS_MAX];
	unsigned count;
	bool truncated = false;
	ssize_t got = receive(owner.fd, &packet, sizeof(packet), descriptors, &count, &truncated);
	struct flc_attachment *attachment;

	if (got >= (ssize_t)sizeof(packet.message) && flc_message_ok(&packet.message, (size_t)got) &&
	    packet.message.type == FL_MESSAGE_WELCOME) {
		attachment = flc_welcome_accept(&packet.welcome, (size_t)got, descriptors, count, truncated,
						owner.error, sizeof(owner.error));
		if (attachment == NULL)
			return give_up(now_ns);
		attachment->lease_fd = owner.fd;
		attachment->number = ++owner.last_number;
		owner.fd = -1;
		owner.attached_ns = now_ns;
		bind_process(attachment, packet.welcome.token);
		__atomic_store_n(&flc_state.current, attachment, __ATOMIC_SEQ_CST);
		__atomic_store_n(&flc_state.current_number, attachment->number, __ATOMIC_SEQ_CST);
		return true;
	}

	while (count > 0)
		close(descriptors[--count]);
	if (got >= (ssize_t)sizeof(packet.refused) && packet.message.magic == FL_MESSAGE_MAGIC &&
	    packet.message.type == FL_MESSAGE_REFUSED)
		snprintf(owner.error, sizeof(owner.error), "flushlightd refused this server: %.200s",
			 packet.refused.text);
	else if (got <= 0)
		snprintf(owner.error, sizeof(owner.error), "flushlightd closed the connection");
	else
		snprintf(owner.error, sizeof(owner.error),
			 "flushlightd answered in another protocol (known is %u)", FL_PROTOCOL_VERSION);
	return give_up(now_ns);
}

bool flc_attach_step(uint32_t wait_ms)
{
	uint64_t now_ns;
	uint64_t deadline_ns;
	int ready;

	if (!flc_state.configured)
		return false;
	now_ns = flc_now_ns();
	if (flc_state.retired != NULL)
		free_retired(false);
	if (flc_state.current != NULL) {
		if (heartbeat_fresh(now_ns) && !lease_closed(now_ns))
			return true;
		retire();
		snprintf(owner.error, sizeof(owner.error), "flushlightd went away");
		if (owner.next_try_ns < owner.attached_ns + FLC_RETRY_NS)
			owner.next_try_ns = owner.attached_ns + FLC_RETRY_NS;
	}

	deadline_ns = now_ns + wait_ms * 1000000ull;
	if (owner.fd < 0 && (now_ns < owner.next_try_ns || !greet(now_ns, deadline_ns)))
		return false;
	ready = flc_wait(owner.fd, POLLIN, deadline_ns < owner.give_up_ns ? deadline_ns : owner.give_up_ns,
			 NULL);
	now_ns = flc_now_ns();
	if (ready > 0)
		return welcome(now_ns);
	if (ready == 0 && now_ns < owner.give_up_ns)
		return false;
	snprintf(owner.error, sizeof(owner.error), "flushlightd does not answer");
	return give_up(now_ns);
}

void flc_reattach(void)
{
	if (!flc_state.configured)
		return;
	retire();
	if (owner.fd >= 0)
		close(owner.fd);
	owner.fd = -1;
	owner.next_try_ns = 0;
}

void flc_detach(void)
{
	if (!flc_state.configured)
		return;
	retire();
	free_retired(true);
	if (owner.fd >= 0)
		close(owner.fd);
	owner.fd = -1;
	owner.next_try_ns = 0;
}
