/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Views and commands: one connection for each question, everything under one deadline. What the daemon sends
 * is checked cell by cell against the packet's end; the total is bounded.
 * Any thread; no shared state.
 */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESULT_BYTES_MAX (64u << 20)
#define FIRST_BYTES 65536u

struct flc_result {
	uint32_t column_count;
	char *bytes; /* the cells of all packets, one after the other */
	size_t length;
	size_t capacity;
	size_t at; /* reader */
	uint32_t rows;
	uint32_t rows_read;
};

/* Adds the cells of one ROWS packet. */
static bool keep(struct flc_result *result, const char *packet, size_t bytes)
{
	const struct fl_rows *rows = (const struct fl_rows *)packet;
	size_t cells = bytes - sizeof(*rows);

	if (cells > RESULT_BYTES_MAX - result->length)
		return false;
	if (result->length + cells > result->capacity) {
		size_t capacity = result->capacity != 0 ? result->capacity : FIRST_BYTES;
		char *grown;

		while (capacity < result->length + cells)
			capacity *= 2;
		grown = realloc(result->bytes, capacity);
		if (grown == NULL)
			return false;
		result->bytes = grown;
		result->capacity = capacity;
	}
	if (cells > 0)
		memcpy(result->bytes + result->length, packet + sizeof(*rows), cells);
	result->length += cells;
	result->rows += rows->rows;
	return true;
}

/* The next packet, complete and of this protocol; 0 and an error text otherwise. */
static size_t receive(int fd, char *packet, uint64_t deadline_ns, bool (*cancelled)(void), char *error,
		      size_t error_bytes)
{
	ssize_t got;
	int ready;

	do {
		ready = flc_wait(fd, POLLIN, deadline_ns, cancelled);
		if (ready <= 0) {
			snprintf(error, error_bytes, "%s",
				 ready == 0           ? "flushlightd did not answer in time"
				 : errno == ECANCELED ? "cancelled"
						      : "cannot wait for flushlightd");
			return 0;
		}
		got = recv(fd, packet, FL_PACKET_BYTES_MAX, MSG_DONTWAIT | MSG_TRUNC);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got > 0 && (size_t)got <= FL_PACKET_BYTES_MAX &&
	    flc_message_ok((const struct fl_message *)packet, (size_t)got))
		return (size_t)got;
	snprintf(error, error_bytes, "%s",
		 got <= 0 ? "flushlightd closed the connection" : "flushlightd answered in another protocol");
	return 0;
}

/* 1: the end, all well; 0: it was not the end; -1: an error. */
static int is_end(const char *packet, size_t bytes, char *error, size_t error_bytes)
{
	const struct fl_end *end = (const struct fl_end *)packet;

	if (end->message.type != FL_MESSAGE_END && end->message.type != FL_MESSAGE_REFUSED)
		return 0;
	if (bytes < sizeof(*end)) {
		snprintf(error, error_bytes, "flushlightd's answer is too short");
		return -1;
	}
	if (end->message.type == FL_MESSAGE_END && end->status == 0)
		return 1;
	if (end->text[0] != '\0')
		snprintf(error, error_bytes, "flushlightd: %.*s", (int)sizeof(end->text) - 1, end->text);
	else
		snprintf(error, error_bytes, "flushlightd: %s", strerror((int)end->status));
	return -1;
}

static void copy_name(char *to, size_t capacity, const char *from)
{
	size_t length = from != NULL ? strlen(from) : 0;

	if (length >= capacity)
		length = capacity - 1;
	if (length > 0)
		memcpy(to, from, length);
	memset(to + length, 0, capacity - length);
}

/* The QUERY packet in `packet`; its bytes, or 0 when the columns do not fit. */
static size_t build(const struct flc_query *query, char *packet)
{
	struct fl_query *head = (struct fl_query *)packet;
	size_t at = sizeof(*head);
	uint32_t i;

	copy_name(head->view, sizeof(head->view), query->view);
	copy_name(head->instance, sizeof(head->instance), query->instance);
	copy_name(head->user_name, sizeof(head->user_name), query->user_name);
	head->flags = query->see_all ? FL_QUERY_SEE_ALL : 0;
	head->column_count = query->column_count;
	for (i = 0; i < query->column_count; i++) {
		size_t length = strlen(query->columns[i]) + 1;

		if (length > FL_PACKET_BYTES_MAX - at)
			return 0;
		memcpy(packet + at, query->columns[i], length);
		at += length;
	}
	flc_message_fill(&head->message, FL_MESSAGE_QUERY, at);
	return at;
}

static bool collect(int fd, char *packet, struct flc_result *result, const struct flc_query *query,
		    uint64_t deadline_ns, char *error, size_t error_bytes)
{
	for (;;) {
		size_t bytes = receive(fd, packet, deadline_ns, query->cancelled, error, error_bytes);
		const struct fl_message *message = (const struct fl_message *)packet;
		int end;

		if (bytes == 0)
			return false;
		end = is_end(packet, bytes, error, error_bytes);
		if (end != 0)
			return end > 0;
		if (message->type != FL_MESSAGE_ROWS || bytes < sizeof(struct fl_rows) ||
		    !keep(result, packet, bytes)) {
			snprintf(error, error_bytes, "flushlightd's answer is broken or too large");
			return false;
		}
	}
}

struct flc_result *flc_query_run(const struct flc_query *query, char *error, size_t error_bytes)
{
	uint64_t deadline_ns = flc_now_ns() + query->deadline_ms * 1000000ull;
	struct flc_result *result = calloc(1, sizeof(*result));
	char *packet = malloc(FL_PACKET_BYTES_MAX);
	size_t bytes;
	int fd = -1;
	bool good = false;

	if (result == NULL || packet == NULL) {
		snprintf(error, error_bytes, "out of memory");
	} else if ((bytes = build(query, packet)) == 0) {
		snprintf(error, error_bytes, "too many columns");
	} else if ((fd = flc_connect(query->socket_path, deadline_ns, error, error_bytes)) >= 0) {
		result->column_count = query->column_count;
		if (!flc_send(fd, packet, bytes))
			snprintf(error, error_bytes, "cannot ask flushlightd: %s", strerror(errno));
		else
			good = collect(fd, packet, result, query, deadline_ns, error, error_bytes);
	}
	if (fd >= 0)
		close(fd);
	free(packet);
	if (good)
		return result;
	flc_result_free(result);
	return NULL;
}

static bool take(struct flc_result *result, void *to, size_t bytes)
{
	if (result->length - result->at < bytes)
		return false;
	memcpy(to, result->bytes + result->at, bytes);
	result->at += bytes;
	return true;
}

static bool take_cell(struct flc_result *result, struct flc_cell *cell)
{
	uint8_t type;

	memset(cell, 0, sizeof(*cell));
	if (!take(result, &type, 1))
		return false;
	cell->type = (enum fl_cell_type)type;
	switch (type) {
	case FL_CELL_NULL:
		return true;
	case FL_CELL_INT:
	case FL_CELL_TIME:
		return take(result, &cell->integer, sizeof(cell->integer));
	case FL_CELL_DOUBLE:
		return take(result, &cell->real, sizeof(cell->real));
	case FL_CELL_TEXT:
		if (!take(result, &cell->length, sizeof(cell->length)) ||
		    result->length - result->at < cell->length)
			return false;
		cell->text = result->bytes + result->at;
		result->at += cell->length;
		return true;
	default:
		return false;
	}
}

bool flc_result_next(struct flc_result *result, struct flc_cell *cells)
{
	uint32_t i;

	if (result->rows_read >= result->rows)
		return false;
	for (i = 0; i < result->column_count; i++)
		if (!take_cell(result, &cells[i])) {
			result->rows_read = result->rows; /* broken: no more rows */
			return false;
		}
	result->rows_read++;
	return true;
}

void flc_result_free(struct flc_result *result)
{
	if (result == NULL)
		return;
	free(result->bytes);
	free(result);
}

bool flc_command(const char *socket_path, const struct fl_command *command, uint32_t deadline_ms, char *error,
		 size_t error_bytes)
{
	uint64_t deadline_ns = flc_now_ns() + deadline_ms * 1000000ull;
	struct fl_command packet = *command;
	char *answer = malloc(FL_PACKET_BYTES_MAX);
	size_t bytes;
	bool good = false;
	int fd;
	int end;

	if (answer == NULL) {
		snprintf(error, error_bytes, "out of memory");
		return false;
	}
	fd = flc_connect(socket_path, deadline_ns, error, error_bytes);
	if (fd >= 0) {
		flc_message_fill(&packet.message, FL_MESSAGE_COMMAND, sizeof(packet));
		if (!flc_send(fd, &packet, sizeof(packet))) {
			snprintf(error, error_bytes, "cannot ask flushlightd: %s", strerror(errno));
		} else if ((bytes = receive(fd, answer, deadline_ns, NULL, error, error_bytes)) != 0) {
			end = is_end(answer, bytes, error, error_bytes);
			if (end == 0)
				snprintf(error, error_bytes, "flushlightd answered out of order");
			good = end > 0;
		}
		close(fd);
	}
	free(answer);
	return good;
}
