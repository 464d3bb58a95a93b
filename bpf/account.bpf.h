/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Charging a sleep to the thread's own outstanding requests, piece by piece.
 *
 * Any CPU may start, issue or complete a request of the thread, so a piece is claimed by moving mark_ns
 * forward with a compare-and-swap: each nanosecond is charged once, by whoever moved the mark over it.
 */
#ifndef FLUSHLIGHT_ACCOUNT_BPF_H
#define FLUSHLIGHT_ACCOUNT_BPF_H

static __always_inline void charge_piece(struct fl_scratch *x, __u64 ns)
{
	__u64 outstanding = x->outstanding;

	if (!outstanding)
		return;
	if (outstanding >> 48)
		__sync_fetch_and_add(&x->own_ns[FL_WAIT_FLUSH], ns);
	else if (outstanding >> 32)
		__sync_fetch_and_add(&x->own_ns[FL_WAIT_WRITE], ns);
	else if (outstanding >> 16)
		__sync_fetch_and_add(&x->own_ns[FL_WAIT_READ], ns);
	else
		__sync_fetch_and_add(&x->own_ns[FL_WAIT_QUEUE], ns);
}

/* Charges up to now, before the set of outstanding requests changes. */
static __always_inline void charge(struct fl_scratch *x, __u64 now)
{
	__u64 mark = x->mark_ns;

	if (!mark || now <= mark)
		return;
	if (__sync_val_compare_and_swap(&x->mark_ns, mark, now) != mark)
		return;
	charge_piece(x, now - mark);
}

/* Charges up to now and ends the sleep's charging. */
static __always_inline void charge_last(struct fl_scratch *x, __u64 now)
{
	__u64 mark = __sync_lock_test_and_set(&x->mark_ns, 0);

	if (mark && now > mark)
		charge_piece(x, now - mark);
}

static __noinline int slot_drained(__u32 index)
{
	struct fl_slot *slot = slot_of(index);
	struct fl_scratch *x = scratch_of(index);

	if (slot && x && slot->state == FL_SLOT_DRAINING)
		slot_release(index, slot, x);
	return 0;
}

/* The thread goes on, so what it waited for is over, seen or not: none of its open requests counts any more. */
static __always_inline void forget_requests(struct fl_scratch *x)
{
	x->request_generation++;
	x->outstanding = 0;
	count(FL_COUNTER_REQUEST_FORGOTTEN);
}

/* A request changes from one wait to another (FL_WAIT_NONE: appears, or is done). */
static __always_inline void request_moves(struct fl_request *r, __u32 wait, __u64 now)
{
	__u32 index = r->slot;
	__u32 from = r->wait;
	struct fl_scratch *x;
	__u64 change = 0;

	r->wait = wait;
	if (!index || from == wait)
		return;
	x = scratch_of(index);
	if (!x || x->request_generation != r->generation)
		return;
	charge(x, now);
	if (from < FL_WAIT_NONE)
		change -= 1ull << ((from & 3) * 16);
	if (wait < FL_WAIT_NONE)
		change += 1ull << ((wait & 3) * 16);
	change = __sync_fetch_and_add(&x->outstanding, change) + change;
	if (change & FL_WAIT_NEGATIVE)
		forget_requests(x); /* it had been forgotten between our look and our change */
	if (wait == FL_WAIT_NONE && !change) {
		struct fl_slot *slot = slot_of(index);

		if (slot && slot->state == FL_SLOT_DRAINING)
			slot_drained(index);
	}
}

#endif
