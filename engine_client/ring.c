/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The producer's side of a ring, and the memory of which texts were sent.
 *
 * Owner: the thread that holds the ring. The head lives in private memory (a daemon cannot confuse the
 * producer by writing into it); of the shared memory only `tail` is read, and an impossible one means "full".
 */
#include "internal.h"

#include <string.h>

static bool record_fits(uint32_t length)
{
	return length >= sizeof(struct fl_record_header) && length <= FL_RECORD_BYTES_MAX && length % 8 == 0;
}

/* Of a ring head's counter only its own thread writes. */
static void grow(fl_u64 *counter, uint64_t by)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

/* Room for `length` bytes in one piece, padding written if it has to start over; NULL: full, counted. */
static char *reserve(const struct flc_attachment *attachment, struct flc_hold *hold,
		     struct fl_ring_head *ring, uint32_t length)
{
	uint64_t capacity = attachment->ring_data_bytes;
	uint64_t used = hold->head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t at = hold->head & (capacity - 1);
	uint64_t pad = capacity - at < length ? capacity - at : 0;
	char *data = (char *)ring + FL_RING_HEAD_BYTES;

	if (used > capacity || capacity - used < length + pad) {
		grow(&ring->dropped, 1);
		return NULL;
	}
	if (pad != 0) {
		struct fl_record_header header = {
			.length = (fl_u32)pad, .type = FL_RECORD_PAD, .version = FL_RING_VERSION};

		memcpy(data + at, &header, sizeof(header));
		hold->head += pad;
		at = 0;
	}
	return data + at;
}

static void publish(struct flc_hold *hold, struct fl_ring_head *ring, uint32_t length)
{
	hold->head += length;
	__atomic_store_n(&ring->head, hold->head, __ATOMIC_RELEASE);
}

bool flc_write_parts(struct flc_thread *thread, void *record, size_t record_bytes, const char *const *parts,
		     const uint16_t *lengths, unsigned count)
{
	struct fl_record_header *header = record;
	struct flc_attachment *attachment;
	size_t bytes = record_bytes;
	size_t padded;
	unsigned i;
	char *to;

	for (i = 0; i < count; i++)
		bytes += lengths[i];
	padded = (bytes + 7) & ~(size_t)7;
	header->length = (fl_u32)padded;
	if (!record_fits(header->length) || (attachment = flc_enter(thread)) == NULL)
		return false;
	to = reserve(attachment, &attachment->holds[thread->slot], flc_ring(attachment, thread->slot),
		     header->length);
	if (to != NULL) {
		char *end = to + padded;

		memcpy(to, record, record_bytes);
		to += record_bytes;
		for (i = 0; i < count; i++) {
			memcpy(to, parts[i], lengths[i]);
			to += lengths[i];
		}
		memset(to, 0, (size_t)(end - to));
		publish(&attachment->holds[thread->slot], flc_ring(attachment, thread->slot), header->length);
	}
	flc_leave(thread);
	return to != NULL;
}

bool flc_write(struct flc_thread *thread, const void *record)
{
	uint32_t length = ((const struct fl_record_header *)record)->length;
	struct flc_attachment *attachment;
	char *to;

	if (!record_fits(length) || (attachment = flc_enter(thread)) == NULL)
		return false;
	to = reserve(attachment, &attachment->holds[thread->slot], flc_ring(attachment, thread->slot),
		     length);
	if (to != NULL) {
		memcpy(to, record, length);
		publish(&attachment->holds[thread->slot], flc_ring(attachment, thread->slot), length);
	}
	flc_leave(thread);
	return to != NULL;
}

/* ---- live state ---- */

#define STORE_LIVE(thread, field, value)                                                      \
	do {                                                                                  \
		struct flc_attachment *attachment = flc_enter(thread);                        \
                                                                                              \
		if (attachment != NULL) {                                                     \
			__atomic_store_n(&flc_ring(attachment, (thread)->slot)->field, value, \
					 __ATOMIC_RELAXED);                                   \
			flc_leave(thread);                                                    \
		}                                                                             \
	} while (0)

void flc_set_session(struct flc_thread *thread, uint64_t session_id)
{
	STORE_LIVE(thread, session_id, session_id);
}

void flc_set_query(struct flc_thread *thread, uint64_t queryid)
{
	STORE_LIVE(thread, queryid, queryid);
}

void flc_set_window(struct flc_thread *thread, uint64_t begin_ns)
{
	STORE_LIVE(thread, window_begin_ns, begin_ns);
}

static uint64_t missed_commits; /* not yet told to a daemon */

void flc_miss_commit(void)
{
	__atomic_fetch_add(&missed_commits, 1, __ATOMIC_RELAXED);
}

void flc_count_commit(struct flc_thread *thread)
{
	struct flc_attachment *attachment = flc_enter(thread);
	struct fl_ring_head *ring;

	if (attachment == NULL) {
		flc_miss_commit();
		return;
	}
	ring = flc_ring(attachment, thread->slot);
	grow(&ring->commits_seen, 1);
	if (__atomic_load_n(&missed_commits, __ATOMIC_RELAXED) != 0)
		grow(&ring->commits_missed, __atomic_exchange_n(&missed_commits, 0, __ATOMIC_RELAXED));
	flc_leave(thread);
}

/* ---- texts: a set-associative table of what was sent ---- */

static uint64_t *text_set(struct flc_hold *hold, uint64_t queryid)
{
	return hold->texts[(queryid ^ (queryid >> 32)) % FLC_TEXT_SETS];
}

static bool text_seen(const uint64_t *set, uint64_t queryid)
{
	unsigned way;

	for (way = 0; way < FLC_TEXT_WAYS; way++)
		if (set[way] == queryid)
			return true;
	return false;
}

bool flc_text_wanted(struct flc_thread *thread, uint64_t queryid)
{
	struct flc_attachment *attachment;
	struct flc_hold *hold;
	uint64_t *set;
	bool wanted;

	if (queryid == 0 || !flc_texts_wanted() || (attachment = flc_enter(thread)) == NULL)
		return false;
	hold = &attachment->holds[thread->slot];
	set = text_set(hold, queryid);
	wanted = !text_seen(set, queryid);
	if (wanted)
		set[hold->next_text_way++ % FLC_TEXT_WAYS] = queryid;
	flc_leave(thread);
	return wanted;
}

bool flc_text_lacking(struct flc_thread *thread, uint64_t queryid)
{
	struct flc_attachment *attachment;
	bool lacking;

	if (queryid == 0 || !flc_texts_wanted() || (attachment = flc_enter(thread)) == NULL)
		return false;
	lacking = !text_seen(text_set(&attachment->holds[thread->slot], queryid), queryid);
	flc_leave(thread);
	return lacking;
}

static void text_forget(struct flc_thread *thread, uint64_t queryid)
{
	struct flc_attachment *attachment = flc_enter(thread);
	uint64_t *set;
	unsigned way;

	if (attachment == NULL)
		return;
	set = text_set(&attachment->holds[thread->slot], queryid);
	for (way = 0; way < FLC_TEXT_WAYS; way++)
		if (set[way] == queryid)
			set[way] = 0;
	flc_leave(thread);
}

void flc_write_text(struct flc_thread *thread, uint64_t queryid, const char *text, size_t length,
		    bool truncated)
{
	struct fl_record_text record = {
		.header = {.type = FL_RECORD_TEXT, .version = FL_RING_VERSION},
		.queryid = queryid,
		.flags = truncated ? FL_TEXT_TRUNCATED : 0,
	};
	uint16_t bytes;

	if (length > FL_TEXT_BYTES_MAX) {
		length = FL_TEXT_BYTES_MAX;
		while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--; /* a character border */
		record.flags = FL_TEXT_TRUNCATED;
	}
	bytes = (uint16_t)length;
	record.text_length = bytes;
	if (!flc_write_parts(thread, &record, sizeof(record), &text, &bytes, 1))
		text_forget(thread, queryid);
}
