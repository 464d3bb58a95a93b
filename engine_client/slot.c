/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading a slot of the ledger: sequence, clock, slot, sequence; at most three retries.
 *
 * A running thread's own slot changes only while it is switched out, so a torn read means one preemption
 * in between, and the retry starts right after a switch-in. Every field is loaded with acquire order, which
 * keeps the second look at the sequence behind them (ThreadSanitizer knows no fences).
 */
#include "internal.h"

#include <string.h>

#define READ_TRIES 4

/* Copied only while it can matter to a commit: rare. */
#define RETURN_MATTERS_NS 600000000000ull

static void read_return(const struct fl_slot *slot, struct flc_account *out)
{
	int i;

	out->returned_at_ns = __atomic_load_n(&slot->returned_at_ns, __ATOMIC_ACQUIRE);
	if (out->returned_at_ns == 0 || out->clock_ns - out->returned_at_ns > RETURN_MATTERS_NS) {
		out->returned_at_ns = 0;
		return;
	}
	out->returned_inherited_sync_ns =
		__atomic_load_n(&slot->returned_inherited_sync_ns, __ATOMIC_ACQUIRE);
	for (i = 0; i < FL_VECTOR_COUNT; i++)
		out->returned_vector_ns[i] = __atomic_load_n(&slot->returned_vector_ns[i], __ATOMIC_ACQUIRE);
}

/* `running`: it is the calling thread's own slot. A thread that runs without a switch-in on record came onto its CPU
 * unseen: its totals lag behind. */
static bool read_once(const struct fl_slot *slot, bool running, struct flc_account *out)
{
	uint32_t before = __atomic_load_n(&slot->seq, __ATOMIC_ACQUIRE);
	uint64_t on_at_ns;
	int i;

	if ((before & 1) != 0)
		return false;
	out->clock_ns = flc_now_ns();
	on_at_ns = __atomic_load_n(&slot->on_at_ns, __ATOMIC_ACQUIRE);
	for (i = 0; i < FL_VECTOR_COUNT; i++)
		out->vector_ns[i] = __atomic_load_n(&slot->vector_ns[i], __ATOMIC_ACQUIRE);
	out->syncs = __atomic_load_n(&slot->syncs, __ATOMIC_ACQUIRE);
	out->inherited_sync_ns = __atomic_load_n(&slot->inherited_sync_ns, __ATOMIC_ACQUIRE);
	out->generation = __atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE);
	out->valid = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == FL_SLOT_LIVE && out->generation != 0;
	if (__atomic_load_n(&slot->seq, __ATOMIC_RELAXED) != before)
		return false;
	out->lagging = running && on_at_ns == 0;
	read_return(slot, out);
	if (on_at_ns != 0 && out->clock_ns > on_at_ns) {
		out->vector_ns[FL_CAUSE_ONCPU] += out->clock_ns - on_at_ns;
		out->vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += out->clock_ns - on_at_ns;
	}
	return true;
}

static void invalidate(struct flc_account *out)
{
	uint64_t clock_ns = out->clock_ns;

	memset(out, 0, sizeof(*out));
	out->clock_ns = clock_ns;
}

static void read_slot(const struct fl_slot *slot, bool running, struct flc_account *out)
{
	int tries;

	for (tries = 0; tries < READ_TRIES; tries++)
		if (read_once(slot, running, out)) {
			if (!out->valid)
				invalidate(out);
			return;
		}
	out->clock_ns = flc_now_ns();
	invalidate(out);
}

void flc_read_account(struct flc_thread *thread, struct flc_account *out)
{
	struct flc_attachment *attachment = thread->traced ? flc_enter(thread) : NULL;
	const struct fl_slot *slot;

	if (attachment == NULL) {
		out->clock_ns = flc_now_ns();
		invalidate(out);
		return;
	}
	slot = &attachment->slots[thread->slot];
	read_slot(slot, true, out);
	if (out->valid && (out->generation != thread->generation ||
			   __atomic_load_n(&slot->nonce, __ATOMIC_RELAXED) != thread->nonce)) {
		thread->traced = false; /* the slot is no longer ours: tracing was stopped in between */
		thread->try_again_ns = 0;
		invalidate(out);
	}
	flc_leave(thread);
}

void flc_read_account_of(uint32_t slot_in_range, struct flc_account *out)
{
	struct flc_thread *thread = flc_thread_held();
	struct flc_attachment *attachment = thread != NULL ? flc_enter(thread) : NULL;

	if (attachment != NULL && attachment->slots != NULL && slot_in_range < attachment->slot_count) {
		read_slot(&attachment->slots[slot_in_range], false, out);
	} else {
		out->clock_ns = flc_now_ns();
		invalidate(out);
	}
	if (attachment != NULL)
		flc_leave(thread);
}

void flc_account_difference(const struct flc_account *begin, const struct flc_account *end,
			    struct flc_account *difference)
{
	const uint64_t *from = begin->vector_ns;
	uint64_t inherited_from = begin->inherited_sync_ns, ran_ns = 0;
	int i;

	memset(difference, 0, sizeof(*difference));
	difference->clock_ns = end->clock_ns - begin->clock_ns;
	if (!begin->valid || !end->valid || begin->generation != end->generation || end->lagging)
		return;
	if (begin->lagging) {
		if (end->returned_at_ns <= begin->clock_ns)
			return; /* nobody noticed meanwhile */
		from = end->returned_vector_ns;
		inherited_from = end->returned_inherited_sync_ns;
		ran_ns = end->returned_at_ns - begin->clock_ns;
	}
	for (i = 0; i < FL_VECTOR_COUNT; i++) {
		if (end->vector_ns[i] < from[i]) {
			memset(difference->vector_ns, 0, sizeof(difference->vector_ns));
			return; /* totals only grow: this slot is broken */
		}
		difference->vector_ns[i] = end->vector_ns[i] - from[i];
	}
	difference->vector_ns[FL_CAUSE_ONCPU] += ran_ns;
	difference->vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += ran_ns;
	difference->syncs = end->syncs - begin->syncs;
	difference->inherited_sync_ns = end->inherited_sync_ns - inherited_from;
	difference->generation = end->generation;
	difference->valid = true;
}
