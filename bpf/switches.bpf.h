/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Context switches: the only writer of slots. Runs under the run-queue lock with interrupts off: nothing here
 * creates or allocates. For a thread that is not traced the cost is one pointer test.
 */
#ifndef FLUSHLIGHT_SWITCHES_BPF_H
#define FLUSHLIGHT_SWITCHES_BPF_H

/* The engine's own word for what it waits for. The thread is still current here: its memory is at hand. */
static __always_inline __u32 state_cause(struct fl_scratch *x)
{
	__u32 word = 0;

	if (!x->state_word || bpf_probe_read_user(&word, sizeof(word), (void *)x->state_word))
		return FL_CAUSE_COUNT;
#pragma nounroll
	for (int i = 0; i < FL_STATE_RULES; i++) {
		if (!x->rules[i].mask)
			break;
		if ((word & x->rules[i].mask) == x->rules[i].value)
			return x->rules[i].cause |
			       (x->rules[i].flags & FL_STATE_UNEXPLAINED ? FL_STATE_ONLY_REST : 0);
	}
	return FL_CAUSE_COUNT;
}

static __noinline int thread_ends(struct task_struct *task, __u32 index)
{
	struct fl_task *t = task_of(task);
	struct fl_thread thread = {};

	if (t)
		t->slot = 0;
	thread_is_forgotten(task);
	if (thread_at(index, &thread))
		slot_retire(index, thread.slot, thread.x);
	return 0;
}

static __always_inline void switch_out(struct task_struct *task, struct fl_thread *thread, __u64 now,
				       bool preempted)
{
	struct fl_slot *slot = thread->slot;
	struct fl_scratch *x = thread->x;
	unsigned int state;
	__u64 ran;

	state = task->__state;
	if (slot->on_at_ns) {
		ran = now - slot->on_at_ns;
		slot->seq++;
		barrier();
		slot->vector_ns[FL_CAUSE_ONCPU] += ran;
		slot->vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += ran;
		x->ran_from_ns = slot->on_at_ns;
		slot->on_at_ns = 0;
		barrier();
		slot->seq++;
	}
	if (x->off_at_ns) {
		settle_unseen(task, thread->index, now);
		slot->on_at_ns = 0;
	}
	x->exec_ns = task->se.sum_exec_runtime;
	if (state & TASK_DEAD) {
		thread_ends(task, thread->index);
		return;
	}
	x->own_ns[0] = 0;
	x->own_ns[1] = 0;
	x->own_ns[2] = 0;
	x->own_ns[3] = 0;
	x->rest_form = FL_REST_NONE;
	x->began = 0;
	x->state_cause = FL_CAUSE_COUNT;
	if (preempted || !state || (state & TASK_WAKING)) {
		/* runnable: it waits for a CPU only. (TASK_WAKING: woken while on its way here.) */
		x->detail = over_quota(task) ? FL_COUNTER_CPU_QUOTA_NS : FL_COUNTER_CPU_PREEMPTED_NS;
		x->wake_at_ns = now;
		x->off_at_ns = now;
		return;
	}
	x->state_cause = FL_CAUSE_COUNT;
	x->detail = 0;
	if (x->hint)
		x->state_cause = hinted_cause(x, task);
	if (x->state_cause == FL_CAUSE_COUNT)
		x->state_cause = state_cause(x);
	x->wake_at_ns = 0;
	x->mark_ns = now;
	barrier();
	x->off_at_ns = now; /* last: from here a waker settles the sleep */
}

static __noinline int snapshot_into(struct fl_history *past, struct fl_slot *slot, __u32 r, __u64 off,
				    __u64 now)
{
	struct fl_snapshot *s;
	__u32 at;

	if (!past || !slot || r >= FL_RINGS)
		return 0;
	at = past->position[r] + 1;
	if (at >= FL_RING_SNAPSHOTS)
		at = 0;
	s = &past->ring[r][at];
	past->snapshot_at_ns[r] = now;
	past->position[r] = at;
	s->off_at_ns = off;
	s->in_at_ns = now;
#pragma unroll
	for (int j = 0; j < FL_VECTOR_COUNT; j++)
		s->vector_ns[j] = slot->vector_ns[j];
	return 0;
}

static __always_inline void snapshot(__u32 index, struct fl_scratch *x, struct fl_slot *slot, __u64 off,
				     __u64 now)
{
	struct fl_history *past = history_of(index);

	if (!past)
		return;
	snapshot_into(past, slot, FL_RING_EVERY, off, now);
	if (now - past->snapshot_at_ns[FL_RING_1MS] >= 1000000) {
		snapshot_into(past, slot, FL_RING_1MS, off, now);
		if (now - past->snapshot_at_ns[FL_RING_20MS] >= 20000000)
			snapshot_into(past, slot, FL_RING_20MS, off, now);
	}
	if (x->began)
		snapshot_into(past, slot, FL_RING_BEGUN, off, now);
}

/* Enrolled while it slept: its account begins here. Or it left unseen. */
static __noinline int begin_or_left_unseen(struct fl_slot *slot, __u64 now)
{
	if (!slot)
		return 0;
	slot->seq++;
	barrier();
	if (slot->on_at_ns) {
		count(FL_COUNTER_SWITCH_MISSED);
		slot->vector_ns[FL_CAUSE_OTHER] += now - slot->on_at_ns;
		slot->vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += now - slot->on_at_ns;
	}
	slot->on_at_ns = now;
	barrier();
	slot->seq++;
	return 0;
}

static __always_inline void switch_in(struct fl_thread *thread, __u64 now)
{
	struct fl_slot *slot = thread->slot;
	struct fl_scratch *x = thread->x;
	__u64 off = x->off_at_ns;

	if (off) {
		settle(slot, x, now, 0);
	} else {
		begin_or_left_unseen(slot, now);
		off = now;
	}
	snapshot(thread->index, x, slot, off, now);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(fl_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	struct fl_thread thread = {};
	__u64 now = 0;

	if (thread_of(prev, &thread)) {
		now = bpf_ktime_get_ns();
		switch_out(prev, &thread, now, preempted);
	}
	if (thread_of(next, &thread))
		switch_in(&thread, now ? now : bpf_ktime_get_ns());
	return 0;
}

#endif
