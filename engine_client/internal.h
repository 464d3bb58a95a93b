/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of engine_client share: the attachment, a thread's hold of it, and the hazard mark.
 *
 * Owners: the attachment is made, published, retired and unmapped by the one thread that calls
 * flc_attach_step(). Any thread may look at it, but only between flc_enter() and flc_leave().
 * Locks: none. A thread that enters stores its hazard mark and then looks whether the attachment is still
 * current; the owner first takes the attachment away and then looks for marks (both sequentially
 * consistent), so one of the two always sees the other.
 */
#ifndef FLUSHLIGHT_ENGINE_CLIENT_INTERNAL_H
#define FLUSHLIGHT_ENGINE_CLIENT_INTERNAL_H

#include "client.h"

#define FLC_PAGE_BYTES 4096u
#define FLC_THREADS_MAX 4096u
#define FLC_SLOTS_MAX 4096u                  /* of one process */
#define FLC_LEDGER_SLOTS_MAX (64u * 64 * 64) /* three digits of a slot name */
#define FLC_RING_BYTES_MIN 8192u             /* two records of the largest size */
#define FLC_RING_BYTES_MAX (1u << 22)
#define FLC_RETRY_NS 1000000000ull   /* back-off between attempts to attach */
#define FLC_WELCOME_NS 2000000000ull /* patience with a daemon that took our HELLO */
#define FLC_TEXT_WAYS 4u
#define FLC_TEXT_SETS 128u
#define FLC_DESCRIPTORS_MAX 3u

#define FLC_HIDDEN __attribute__((visibility("hidden")))

enum flc_hold_state {
	FLC_HOLD_FREE = 0,
	FLC_HOLD_TAKEN = 1,
	FLC_HOLD_LEAVING = 2, /* its thread ended: free once the ledger says so */
};

/* One ring and one slot, private side. Passed on from thread to thread. */
struct flc_hold {
	uint32_t state; /* enum flc_hold_state */
	uint32_t next_text_way;
	uint64_t head; /* of the ring: the shared copy is only for the reader */
	uint64_t texts[FLC_TEXT_SETS][FLC_TEXT_WAYS];
};

struct flc_attachment {
	struct flc_attachment *next_retired;
	uint64_t number; /* never twice in a process */
	int lease_fd;
	uint32_t first_slot;
	uint32_t slot_count;
	uint32_t ring_data_bytes;
	uint32_t next_hold; /* where to look for a free one */
	char *rings;
	size_t rings_bytes;
	void *ledger_pages; /* the pages that hold our range; NULL: no tracing */
	size_t ledger_bytes;
	const struct fl_slot *slots; /* slot_count of them, or NULL */
	struct flc_hold *holds;
	size_t holds_bytes;
};

struct flc_thread {
	struct flc_attachment *hazard; /* the attachment that this thread looks at now */
	struct flc_attachment *attachment;
	uint64_t number;         /* of that attachment: 0 without a hold */
	uint64_t refused_number; /* the attachment that had no room for this thread */
	uint64_t try_again_ns;   /* for a hold, or for a slot */
	uint32_t taken;
	uint32_t slot; /* index in the range */
	uint32_t nonce;
	uint32_t generation;
	uint32_t slot_tries;
	bool traced; /* the kernel side confirmed the slot */
} __attribute__((aligned(64)));

struct flc_state {
	bool configured;
	char socket_path[108];
	struct fl_hello hello;
	struct flc_attachment *current;
	uint64_t current_number;
	const struct fl_control *control; /* one page at a fixed address: zeros while not attached */
	struct flc_attachment *retired;   /* owner only */
};
extern FLC_HIDDEN struct flc_state flc_state;
extern FLC_HIDDEN struct flc_thread flc_threads[FLC_THREADS_MAX];

/* thread.c */
FLC_HIDDEN void flc_threads_init(void);
FLC_HIDDEN void flc_name_number(char *name, char kind, const uint64_t *values, const unsigned *digits,
				unsigned count);
FLC_HIDDEN void flc_wear_name(const char *name);
FLC_HIDDEN struct flc_thread *flc_thread_held(void); /* NULL: this thread never had a hold */

/* The attachment of the thread's hold while it is current, guarded until flc_leave(); NULL: gone. */
static inline struct flc_attachment *flc_enter(struct flc_thread *thread)
{
	struct flc_attachment *attachment = thread->attachment;

	if (attachment == NULL)
		return NULL;
	__atomic_store_n(&thread->hazard, attachment, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&flc_state.current, __ATOMIC_SEQ_CST) == attachment &&
	    attachment->number == thread->number)
		return attachment;
	__atomic_store_n(&thread->hazard, NULL, __ATOMIC_RELEASE);
	return NULL;
}

static inline void flc_leave(struct flc_thread *thread)
{
	__atomic_store_n(&thread->hazard, NULL, __ATOMIC_RELEASE);
}

static inline struct fl_ring_head *flc_ring(const struct flc_attachment *attachment, uint32_t slot)
{
	return (struct fl_ring_head *)(attachment->rings +
				       (size_t)slot * (FL_RING_HEAD_BYTES + attachment->ring_data_bytes));
}

/* welcome.c: checks a WELCOME against every bound and maps what it brought. Takes the descriptors in any
 * case. NULL: refused, and error says why. */
FLC_HIDDEN struct flc_attachment *flc_welcome_accept(const struct fl_welcome *welcome, size_t packet_bytes,
						     int *descriptors, unsigned count, bool truncated,
						     char *error, size_t error_bytes);
FLC_HIDDEN bool flc_control_show(int descriptor);
FLC_HIDDEN void flc_control_hide(void);
FLC_HIDDEN void flc_attachment_free(struct flc_attachment *attachment);

/* socket.c */
FLC_HIDDEN int flc_connect(const char *path, uint64_t deadline_ns, char *error, size_t error_bytes);
FLC_HIDDEN int flc_wait(int fd, short events, uint64_t deadline_ns, bool (*cancelled)(void));
FLC_HIDDEN bool flc_send(int fd, const void *packet, size_t bytes);
FLC_HIDDEN bool flc_message_ok(const struct fl_message *message, size_t packet_bytes);
FLC_HIDDEN void flc_message_fill(struct fl_message *message, uint16_t type, size_t bytes);

#endif
