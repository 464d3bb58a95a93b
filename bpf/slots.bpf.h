/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Life of a slot: taken at enrolment, freed at the thread's final switch, used again only when no request of
 * its generation is in flight.
 */
#ifndef FLUSHLIGHT_SLOTS_BPF_H
#define FLUSHLIGHT_SLOTS_BPF_H

/* The last one out: gives the slot back. Called when the thread is gone and nothing is outstanding. */
static __always_inline void slot_release(__u32 index, struct fl_slot *slot, struct fl_scratch *x)
{
	__u32 pooled = x->pooled;

	if (__sync_val_compare_and_swap(&slot->state, FL_SLOT_DRAINING, FL_SLOT_FREE) != FL_SLOT_DRAINING)
		return;
	if (pooled)
		bpf_map_push_elem(&pool, &index, 0);
}

static __always_inline void slot_retire(__u32 index, struct fl_slot *slot, struct fl_scratch *x)
{
	x->mark_ns = 0;
	x->off_at_ns = 0;
	slot->on_at_ns = 0;
	if (__sync_val_compare_and_swap(&slot->state, FL_SLOT_LIVE, FL_SLOT_DRAINING) != FL_SLOT_LIVE)
		return;
	x->retired_at_ns = bpf_ktime_get_ns();
	if (!x->outstanding)
		slot_release(index, slot, x);
}

/* A free slot, or one whose last requests should have ended long ago: their end was not seen. They are of an older
 * generation then and change nothing. */
static __always_inline bool slot_take(struct fl_slot *slot, struct fl_scratch *x)
{
	if (__sync_val_compare_and_swap(&slot->state, FL_SLOT_FREE, FL_SLOT_LIVE) == FL_SLOT_FREE)
		return true;
	if (slot->state != FL_SLOT_DRAINING || bpf_ktime_get_ns() - x->retired_at_ns < FL_DRAIN_NS)
		return false;
	return __sync_val_compare_and_swap(&slot->state, FL_SLOT_DRAINING, FL_SLOT_LIVE) == FL_SLOT_DRAINING;
}

/* The slot must have been made LIVE by the caller's compare-and-swap. */
static __always_inline void slot_begin(__u32 index, struct fl_slot *slot, struct fl_scratch *x,
				       struct task_struct *task, __u32 kind, __u32 nonce, bool running)
{
	struct fl_history *past = history_of(index);
	__u32 generation = slot->generation + 1;
	__u64 now = bpf_ktime_get_ns();

	if (!generation)
		generation = 1;
	slot->seq++;
	barrier();
	for (int i = 0; i < FL_VECTOR_COUNT; i++)
		slot->vector_ns[i] = 0;
	slot->syncs = 0;
	slot->inherited_sync_ns = 0;
	slot->returned_at_ns = 0;
	slot->generation = generation;
	slot->on_at_ns = running ? now : 0;
	barrier();
	slot->seq++;
	slot->nonce = nonce;

	x->off_at_ns = 0;
	x->wake_at_ns = 0;
	x->early_wake_ns = 0;
	x->ran_from_ns = now;
	x->mark_ns = 0;
	x->outstanding = 0;
	x->request_generation++;
	x->generation = generation;
	x->kind = kind;
	x->tid = task->pid;
	x->tgid = task->tgid;
	x->state_cause = FL_CAUSE_COUNT;
	x->state_word = 0;
	x->hint = 0;
	x->detail = 0;
	x->waker_slot = 0;
	x->waker_at_ns = 0;
	x->work_from_ns = 0;
	x->idle_ns = 0;
	bpf_probe_read_kernel(x->comm, sizeof(x->comm), task->comm);
	for (int i = 0; i < FL_STATE_RULES; i++)
		x->rules[i].mask = 0;
	/* The past begins here, in every ring: an empty vector. */
	for (int r = 0; r < FL_RINGS && past; r++) {
		past->snapshot_at_ns[r] = now;
		past->position[r] = 0;
		for (int i = 1; i < FL_RING_SNAPSHOTS; i++)
			past->ring[r][i].in_at_ns = 0;
		past->ring[r][0].in_at_ns = now;
		past->ring[r][0].off_at_ns = now;
		for (int i = 0; i < FL_VECTOR_COUNT; i++)
			past->ring[r][0].vector_ns[i] = 0;
	}
}

/* Takes a slot from the pool for a kernel or background thread. Never from a sched_* program: creating task
 * storage allocates. */
static __always_inline struct fl_task *enrol_pooled(struct task_struct *task, __u32 kind, bool running)
{
	struct fl_task *t;
	struct fl_slot *slot;
	struct fl_scratch *x;
	__u32 index = 0;

	t = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		count(FL_COUNTER_ENROL_FAILED);
		return 0;
	}
	if (t->slot)
		return t;
	if (bpf_map_pop_elem(&pool, &index)) {
		count(FL_COUNTER_ENROL_FULL);
		return 0;
	}
	slot = slot_of(index);
	x = scratch_of(index);
	if (!slot || !x ||
	    __sync_val_compare_and_swap(&slot->state, FL_SLOT_FREE, FL_SLOT_LIVE) != FL_SLOT_FREE)
		return 0;
	slot_begin(index, slot, x, task, kind, 0, running);
	x->pooled = 1;
	t->kind = kind;
	t->slot = index;
	return t;
}

/* A thread of a bound process, or a sibling of one where siblings do the background work. */
static __always_inline bool is_of_known_engine(struct task_struct *task)
{
	__u32 tgid = task->tgid, parent = task->real_parent->tgid;

	return bpf_map_lookup_elem(&processes, &tgid) || bpf_map_lookup_elem(&families, &parent);
}

static __always_inline bool is_journal_thread(struct task_struct *task)
{
	return task->comm[0] == 'j' && task->comm[1] == 'b' && task->comm[2] == 'd' && task->comm[3] == '2' &&
	       task->comm[4] == '/' && (task->flags & PF_KTHREAD);
}

#endif
