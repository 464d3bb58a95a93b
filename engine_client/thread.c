/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread's hold of one ring and one ledger slot: taken at the first call after an attach, given back by the
 * thread's end. The thread introduces itself to the kernel side by wearing a name for a moment.
 *
 * Owners: struct flc_thread belongs to its thread (only `hazard` is read by the attach owner, `taken` by
 * all). Locks: none; a hold changes hands by compare-and-swap of its state.
 */
#include "internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SLOT_TRIES_MAX 8u

struct flc_thread flc_threads[FLC_THREADS_MAX];

static __thread struct flc_thread *self;
static pthread_key_t end_key;
static bool end_key_made;
static uint32_t next_thread;
static uint64_t nonce_counter;

/* mark, kind, then each value in base 64, most significant digit first; 16 bytes with the terminator */
void flc_name_number(char *name, char kind, const uint64_t *values, const unsigned *digits, unsigned count)
{
	unsigned at = 0;
	unsigned i;

	name[at++] = FL_NAME_MARK;
	name[at++] = kind;
	for (i = 0; i < count; i++) {
		unsigned left = digits[i];

		while (left-- > 0)
			name[at++] = (char)(FL_NAME_DIGIT_BASE + ((values[i] >> (6 * left)) & 63));
	}
	name[at] = '\0';
}

void flc_wear_name(const char *name)
{
	char old[17] = "";

	if (prctl(PR_GET_NAME, old) != 0)
		return;
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_NAME, old);
}

/* Not a secret: only tells this thread's slot from a stale one. 30 bits, not 0. */
static uint32_t make_nonce(const struct flc_thread *thread)
{
	uint64_t mix = __atomic_add_fetch(&nonce_counter, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED);

	mix ^= flc_now_ns() ^ ((uint64_t)getpid() << 32) ^ (uint64_t)(uintptr_t)thread;
	mix = (mix ^ (mix >> 30)) * 0xbf58476d1ce4e5b9ull;
	mix = (mix ^ (mix >> 27)) * 0x94d049bb133111ebull;
	mix ^= mix >> 31;
	return (uint32_t)(mix & 0x3fffffff) | 1u;
}

static void enrol(struct flc_thread *thread, const struct flc_attachment *attachment)
{
	const unsigned digits[2] = {FL_NAME_SLOT_DIGITS, FL_NAME_NONCE_DIGITS};
	const struct fl_slot *slot;
	uint64_t values[2];
	char name[16];

	thread->traced = false;
	thread->try_again_ns = UINT64_MAX;
	if (attachment->slots == NULL)
		return;
	slot = &attachment->slots[thread->slot];
	if (__atomic_load_n(&flc_state.control->tracing, __ATOMIC_RELAXED) != 0) {
		thread->nonce = make_nonce(thread);
		values[0] = attachment->first_slot + thread->slot;
		values[1] = thread->nonce;
		flc_name_number(name, FL_NAME_SLOT, values, digits, 2);
		flc_wear_name(name);
		thread->generation = __atomic_load_n(&slot->generation, __ATOMIC_RELAXED);
		thread->traced = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == FL_SLOT_LIVE &&
				 __atomic_load_n(&slot->nonce, __ATOMIC_RELAXED) == thread->nonce &&
				 thread->generation != 0;
		if (thread->traced)
			return;
		thread->slot_tries++;
	}
	/* tracing is off now, or the kernel side refused (and counted): ask again later, not for ever */
	if (thread->slot_tries < SLOT_TRIES_MAX)
		thread->try_again_ns = flc_now_ns() + (FLC_RETRY_NS << thread->slot_tries);
}

static bool hold_is_free(const struct flc_attachment *attachment, uint32_t i)
{
	uint32_t state = __atomic_load_n(&attachment->holds[i].state, __ATOMIC_ACQUIRE);

	if (state == FLC_HOLD_TAKEN)
		return false;
	/* the former holder's last switch comes after its end in user space */
	return attachment->slots == NULL ||
	       __atomic_load_n(&attachment->slots[i].state, __ATOMIC_ACQUIRE) == FL_SLOT_FREE;
}

static bool claim(struct flc_thread *thread, struct flc_attachment *attachment)
{
	uint32_t start = __atomic_fetch_add(&attachment->next_hold, 1, __ATOMIC_RELAXED);
	uint32_t i;

	for (i = 0; i < attachment->slot_count; i++) {
		uint32_t slot = (start + i) % attachment->slot_count;
		uint32_t *state = &attachment->holds[slot].state;
		uint32_t seen = __atomic_load_n(state, __ATOMIC_RELAXED);

		if (hold_is_free(attachment, slot) && seen != FLC_HOLD_TAKEN &&
		    __atomic_compare_exchange_n(state, &seen, FLC_HOLD_TAKEN, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			thread->slot = slot;
			return true;
		}
	}
	return false;
}

static void clear_live_state(struct fl_ring_head *ring)
{
	__atomic_store_n(&ring->window_begin_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->queryid, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->session_id, 0, __ATOMIC_RELAXED);
}

static void thread_ends(void *argument)
{
	struct flc_thread *thread = argument;
	struct flc_attachment *attachment = flc_enter(thread);

	if (attachment != NULL) {
		clear_live_state(flc_ring(attachment, thread->slot));
		__atomic_store_n(&attachment->holds[thread->slot].state, FLC_HOLD_LEAVING, __ATOMIC_RELEASE);
		flc_leave(thread);
	}
	self = NULL;
	thread->attachment = NULL;
	thread->number = 0;
	thread->refused_number = 0;
	__atomic_store_n(&thread->taken, 0, __ATOMIC_RELEASE);
}

void flc_threads_init(void)
{
	end_key_made = pthread_key_create(&end_key, thread_ends) == 0;
}

/* This thread's structure; NULL when more than FLC_THREADS_MAX threads live. */
static struct flc_thread *introduce(void)
{
	uint32_t start = __atomic_fetch_add(&next_thread, 1, __ATOMIC_RELAXED);
	uint32_t i;

	if (!end_key_made)
		return NULL;
	for (i = 0; i < FLC_THREADS_MAX; i++) {
		struct flc_thread *thread = &flc_threads[(start + i) % FLC_THREADS_MAX];
		uint32_t seen = 0;

		if (__atomic_load_n(&thread->taken, __ATOMIC_RELAXED) != 0 ||
		    !__atomic_compare_exchange_n(&thread->taken, &seen, 1, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		if (pthread_setspecific(end_key, thread) != 0) {
			__atomic_store_n(&thread->taken, 0, __ATOMIC_RELEASE);
			return NULL;
		}
		self = thread;
		return thread;
	}
	return NULL;
}

/* As flc_enter(), but of whatever is current. */
static struct flc_attachment *enter_current(struct flc_thread *thread)
{
	for (;;) {
		struct flc_attachment *attachment = __atomic_load_n(&flc_state.current, __ATOMIC_SEQ_CST);

		__atomic_store_n(&thread->hazard, attachment, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&flc_state.current, __ATOMIC_SEQ_CST) == attachment)
			return attachment;
	}
}

static struct flc_thread *take_hold(struct flc_thread *thread, uint64_t number)
{
	struct flc_attachment *attachment;
	bool held = false;

	if (thread == NULL && (thread = introduce()) == NULL)
		return NULL;
	if (thread->refused_number == number && flc_now_ns() < thread->try_again_ns)
		return NULL;
	attachment = enter_current(thread);
	if (attachment != NULL) {
		held = thread->number == attachment->number;
		if (!held && claim(thread, attachment)) {
			held = true;
			thread->attachment = attachment;
			thread->number = attachment->number;
			thread->slot_tries = 0;
			clear_live_state(flc_ring(attachment, thread->slot));
		}
		if (held) {
			enrol(thread, attachment);
			thread->refused_number = 0;
		} else {
			thread->refused_number = attachment->number;
			thread->try_again_ns = flc_now_ns() + FLC_RETRY_NS;
		}
	}
	flc_leave(thread);
	return held ? thread : NULL;
}

struct flc_thread *flc_thread_self(void)
{
	struct flc_thread *thread = self;
	uint64_t number = __atomic_load_n(&flc_state.current_number, __ATOMIC_ACQUIRE);

	if (number == 0 || __atomic_load_n(&flc_state.control->off, __ATOMIC_RELAXED) != 0)
		return NULL;
	if (thread != NULL && thread->number == number &&
	    (thread->traced || thread->try_again_ns == UINT64_MAX || flc_now_ns() < thread->try_again_ns))
		return thread;
	return take_hold(thread, number);
}

struct flc_thread *flc_thread_held(void)
{
	return self;
}

uint64_t flc_thread_epoch(const struct flc_thread *thread)
{
	return thread->number;
}

uint32_t flc_thread_slot_in_range(const struct flc_thread *thread)
{
	return thread->slot;
}

bool flc_thread_traced(const struct flc_thread *thread)
{
	return thread->traced;
}
