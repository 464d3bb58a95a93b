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
#pragma unroll
	for (int i = 0; i < FL_STATE_RULES; i++) {
		if (!x->rules[i].mask)
			break;
		if ((word & x->rules[i].mask) == x->rules[i].value)
			return x->rules[i].cause;
	}
	return FL_CAUSE_COUNT;
}

/*
 * Charges the sleep that ends now: own requests, then what the waker explained, then the wait for a CPU. `ran` is not 0
 * when the switch-in was not seen and the thread is on its way out again: of the time since the wake it ran so long.
 */
static __always_inline void settle(struct fl_slot *slot, struct fl_scratch *x, __u64 now, __u64 ran)
{
	bool unseen = false;
	__u64 off = x->off_at_ns, woken, blocked, own, known = 0, cpu;
	__u64 *vector;

	woken = x->wake_at_ns;
	if (!woken) {
		/* The waker came between the sleep's beginning and our seeing it, so the thread was runnable; or no wake
		 * was seen at all: then nobody knows what it waited for beside its own requests. */
		charge_last(x, now);
		woken = off + x->own_ns[0] + x->own_ns[1] + x->own_ns[2] + x->own_ns[3];
		if (woken > now)
			woken = now;
		if (x->early_wake_ns > x->ran_from_ns) {
			count(FL_COUNTER_WAKE_EARLY);
		} else {
			/* most likely hidden together with the completion that made it */
			count(FL_COUNTER_WAKE_MISSED);
			unseen = true;
			if (x->outstanding)
				forget_requests(x);
		}
	}
	blocked = woken - off;
	cpu = now - woken;
	vector = slot->vector_ns;
	own = x->own_ns[0] + x->own_ns[1] + x->own_ns[2] + x->own_ns[3];

	slot->seq++;
	barrier();
	if (own) {
		vector[FL_CAUSE_QUEUE] += x->own_ns[FL_WAIT_QUEUE];
		vector[FL_CAUSE_READ] += x->own_ns[FL_WAIT_READ];
		vector[FL_CAUSE_WRITE] += x->own_ns[FL_WAIT_WRITE];
		vector[FL_CAUSE_FLUSH] += x->own_ns[FL_WAIT_FLUSH];
		vector[FL_VECTOR_PATH(FL_PATH_SELF)] += own;
		known += own;
	}
	if (x->rest_form == FL_REST_ONE) {
		vector[x->rest_cause & 15] += x->rest_total_ns;
		vector[FL_CAUSE_COUNT + (x->rest_path & 3)] += x->rest_total_ns;
		known += x->rest_total_ns;
	} else if (x->rest_form == FL_REST_VECTOR) {
#pragma unroll
		for (int j = 0; j < FL_VECTOR_COUNT; j++)
			vector[j] += x->rest_ns[j];
		known += x->rest_total_ns; /* the rules charge all of it, to `other` at the worst */
		slot->inherited_sync_ns += x->rest_sync_ns;
	}
	/* Another CPU may have charged a piece after the settlement: keep the sum exact. */
	if (known < blocked) {
		vector[FL_CAUSE_OTHER] += blocked - known;
		vector[FL_VECTOR_PATH(FL_PATH_SELF)] += blocked - known;
	} else if (known > blocked) {
		cpu = cpu > known - blocked ? cpu - (known - blocked) : 0;
	}
	if (ran > cpu)
		ran = cpu;
	vector[FL_CAUSE_ONCPU] += ran;
	vector[unseen ? FL_CAUSE_OTHER : FL_CAUSE_CPU] += cpu - ran;
	vector[FL_VECTOR_PATH(FL_PATH_SELF)] += cpu;
	slot->on_at_ns = now;
	barrier();
	slot->seq++;

	x->off_at_ns = 0;
	x->wake_at_ns = 0;
	x->mark_ns = 0;
}

static __always_inline void switch_out(struct task_struct *task, bool preempted)
{
	struct fl_task *t = task_of(task);
	unsigned int state;
	struct fl_slot *slot;
	struct fl_scratch *x;
	__u64 now, ran, exec;

	if (!t || !t->slot)
		return;
	slot = slot_of(t->slot);
	x = scratch_of(t->slot);
	if (!slot || !x)
		return;
	now = bpf_ktime_get_ns();
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
	exec = task->se.sum_exec_runtime;
	if (x->off_at_ns) {
		/* it came back unseen; the scheduler has counted how long it ran */
		count(FL_COUNTER_SWITCH_MISSED);
		settle(slot, x, now, exec - x->exec_ns);
		slot->on_at_ns = 0;
	}
	x->exec_ns = exec;
	if (state & TASK_DEAD) {
		__u32 index = t->slot;

		t->slot = 0;
		slot_retire(index, slot, x);
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
		x->wake_at_ns = now;
		x->off_at_ns = now;
		return;
	}
	x->state_cause = state_cause(x);
	x->wake_at_ns = 0;
	x->mark_ns = now;
	barrier();
	x->off_at_ns = now; /* last: from here a waker settles the sleep */
}

static __always_inline void snapshot_into(struct fl_history *past, struct fl_slot *slot, __u32 r, __u64 off,
					  __u64 now)
{
	__u32 at = (past->position[r] + 1) & (FL_RING_SNAPSHOTS - 1);
	struct fl_snapshot *s = &past->ring[r][at];

	past->snapshot_at_ns[r] = now;
	past->position[r] = at;
	past->in_at_ns[r][at] = now;
	s->off_at_ns = off;
	s->in_at_ns = now;
#pragma unroll
	for (int j = 0; j < FL_VECTOR_COUNT; j++)
		s->vector_ns[j] = slot->vector_ns[j];
}

static __always_inline void snapshot(__u32 index, struct fl_scratch *x, struct fl_slot *slot, __u64 off,
				     __u64 now)
{
	struct fl_history *past = bpf_map_lookup_elem(&history, &index);

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

static __always_inline void switch_in(struct task_struct *task)
{
	struct fl_task *t = task_of(task);
	struct fl_slot *slot;
	struct fl_scratch *x;
	__u64 now, off;

	if (!t || !t->slot)
		return;
	slot = slot_of(t->slot);
	x = scratch_of(t->slot);
	if (!slot || !x)
		return;
	now = bpf_ktime_get_ns();
	off = x->off_at_ns;
	if (!off) {
		/* enrolled while it slept: its account begins here; or it left unseen */
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
		snapshot(t->slot, x, slot, now, now);
		return;
	}
	settle(slot, x, now, 0);
	snapshot(t->slot, x, slot, off, now);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(fl_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	switch_out(prev, preempted);
	switch_in(next);
	return 0;
}

#endif
