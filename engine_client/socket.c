/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's end of the Unix socket: connect, wait and send, none of them past its deadline, none of them
 * able to raise SIGPIPE or to leave a descriptor on 0, 1 or 2 (a server may run with those closed).
 * Any thread; no shared state.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUSY_RETRY_NS 5000000ull /* the daemon's backlog is full */

uint64_t flc_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void flc_message_fill(struct fl_message *message, uint16_t type, size_t bytes)
{
	message->magic = FL_MESSAGE_MAGIC;
	message->version = FL_PROTOCOL_VERSION;
	message->type = type;
	message->length = (fl_u32)bytes;
	message->reserved = 0;
}

/* Versions N-1, N and N+1 understand each other: packets only grow at their end. */
bool flc_message_ok(const struct fl_message *message, size_t packet_bytes)
{
	return packet_bytes >= sizeof(*message) && message->magic == FL_MESSAGE_MAGIC &&
	       message->length == packet_bytes && message->version + 1u >= FL_PROTOCOL_VERSION &&
	       message->version <= FL_PROTOCOL_VERSION + 1u;
}

/* Descriptors 0 to 2 belong to the server even when it has closed them. */
static int away_from_standard(int fd)
{
	int moved;

	if (fd < 0 || fd > 2)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return moved;
}

/* 1: ready, 0: deadline, -1: error or cancelled (errno ECANCELED). */
int flc_wait(int fd, short events, uint64_t deadline_ns, bool (*cancelled)(void))
{
	struct pollfd entry = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now_ns = flc_now_ns();
		uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		int timeout_ms = left_ns > 3600000000000ull ? 3600000 : (int)((left_ns + 999999) / 1000000);
		int ready;

		/* a signal that came before poll() would be slept through: look again every 100 ms */
		if (cancelled != NULL) {
			if (cancelled()) {
				errno = ECANCELED;
				return -1;
			}
			if (timeout_ms > 100)
				timeout_ms = 100;
		}
		ready = poll(&entry, fd >= 0 ? 1 : 0, timeout_ms);
		if (ready > 0)
			return 1;
		if (ready < 0 && errno != EINTR)
			return -1;
		if (flc_now_ns() >= deadline_ns)
			return 0;
	}
}

/* A connected, non-blocking, close-on-exec socket, or -1. A full backlog is waited for until the deadline. */
int flc_connect(const char *path, uint64_t deadline_ns, char *error, size_t error_bytes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(path);
	int fd;
	int code;

	if (length == 0 || length >= sizeof(address.sun_path)) {
		snprintf(error, error_bytes, "the socket path has %zu bytes, allowed are 1 to %zu", length,
			 sizeof(address.sun_path) - 1);
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, length);

	fd = away_from_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0) {
		code = errno;
		snprintf(error, error_bytes, "cannot make a socket: %s", strerror(code));
		errno = code;
		return -1;
	}
	for (;;) {
		uint64_t now_ns;

		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
			return fd;
		code = errno;
		now_ns = flc_now_ns();
		if (code == EINTR)
			continue;
		if (code != EAGAIN || now_ns >= deadline_ns)
			break;
		now_ns += BUSY_RETRY_NS;
		flc_wait(-1, 0, now_ns < deadline_ns ? now_ns : deadline_ns, NULL);
	}
	close(fd);
	snprintf(error, error_bytes,
		 "cannot reach flushlightd at %s: %s (is it running, and does the socket path match?)", path,
		 strerror(code));
	errno = code;
	return -1;
}

bool flc_send(int fd, const void *packet, size_t bytes)
{
	ssize_t sent;

	do
		sent = send(fd, packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)bytes;
}
