/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a sleep: what was learned about it goes into the slot. Only on the CPU that runs the thread.
 */
#ifndef FLUSHLIGHT_SETTLE_BPF_H
#define FLUSHLIGHT_SETTLE_BPF_H

/*
 * Charges the sleep that ends now: own requests, then what the waker explained, then the wait for a CPU. `ran` is not 0
 * when the switch-in was not seen and the thread is on its way out again: of the time since the wake it ran so long.
 */
/*
 * No wake of the sleep was seen. The waker came between the sleep's beginning and our seeing it, so the thread was
 * runnable; or it was not seen at all: then nobody knows what the thread waited for beside its own requests.
 */
static __noinline __u64 woken_unseen(struct fl_scratch *x, __u64 now)
{
	__u64 woken;

	if (!x)
		return now;
	charge_last(x, now);
	woken = x->off_at_ns + x->own_ns[0] + x->own_ns[1] + x->own_ns[2] + x->own_ns[3];
	if (x->early_wake_ns > x->ran_from_ns) {
		count(FL_COUNTER_WAKE_EARLY);
	} else {
		/* most likely hidden together with the completion that made it */
		count(FL_COUNTER_WAKE_MISSED);
		x->rest_form = FL_REST_UNSEEN;
		if (x->outstanding)
			forget_requests(x);
	}
	return woken > now ? now : woken;
}

/* Adds what the thread's own requests did, and what its waker explains beyond one cause. Returns how much. */
static __noinline __u64 settle_parts(struct fl_slot *slot, struct fl_scratch *x)
{
	__u64 own, known = 0;

	if (!slot || !x)
		return 0;
	own = x->own_ns[0] + x->own_ns[1] + x->own_ns[2] + x->own_ns[3];
	if (own) {
		if (x->own_ns[FL_WAIT_QUEUE])
			count_ns(FL_COUNTER_QUEUE_ISSUE_NS, x->own_ns[FL_WAIT_QUEUE]);
		slot->vector_ns[FL_CAUSE_QUEUE] += x->own_ns[FL_WAIT_QUEUE];
		slot->vector_ns[FL_CAUSE_READ] += x->own_ns[FL_WAIT_READ];
		slot->vector_ns[FL_CAUSE_WRITE] += x->own_ns[FL_WAIT_WRITE];
		slot->vector_ns[FL_CAUSE_FLUSH] += x->own_ns[FL_WAIT_FLUSH];
		slot->vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += own;
		known += own;
	}
	if (x->rest_form == FL_REST_VECTOR) {
		for (int j = 0; j < FL_VECTOR_COUNT; j++)
			slot->vector_ns[j] += x->rest_ns[j];
		known += x->rest_total_ns; /* the rules charge all of it, to `other` at the worst */
		slot->inherited_sync_ns += x->rest_sync_ns;
	}
	return known;
}

static __always_inline void settle(struct fl_slot *slot, struct fl_scratch *x, __u64 now, __u64 ran)
{
	__u64 off = x->off_at_ns, woken, blocked, known = 0, cpu;
	__u64 *vector;

	woken = x->wake_at_ns;
	if (!woken)
		woken = woken_unseen(x, now);
	blocked = woken - off;
	cpu = now - woken;
	if (x->detail && x->wake_at_ns)
		count_ns(x->detail, cpu);
	vector = slot->vector_ns;
	slot->seq++;
	barrier();
	if (x->rest_form == FL_REST_ONE) {
		vector[x->rest_cause & 15] += x->rest_total_ns;
		vector[FL_CAUSE_COUNT + (x->rest_path & 3)] += x->rest_total_ns;
		known = x->rest_total_ns;
	}
	if (x->rest_form == FL_REST_VECTOR || (x->own_ns[0] | x->own_ns[1] | x->own_ns[2] | x->own_ns[3]))
		known += settle_parts(slot, x);
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
	vector[x->rest_form == FL_REST_UNSEEN ? FL_CAUSE_OTHER : FL_CAUSE_CPU] += cpu - ran;
	vector[FL_VECTOR_PATH(FL_PATH_SELF)] += cpu;
	slot->on_at_ns = now;
	barrier();
	slot->seq++;

	x->off_at_ns = 0;
	x->wake_at_ns = 0;
	x->mark_ns = 0;
}

/*
 * The thread came back unseen (docs/decisions/0007); the scheduler has counted how long it ran since. From here its own
 * readings of the slot are good again. Out of line: rare.
 */
static __noinline int settle_unseen(struct task_struct *task, __u32 index, __u64 now)
{
	struct fl_thread thread = {};

	if (!thread_at(index, &thread) || !thread.x->off_at_ns)
		return 0;
	count(FL_COUNTER_SWITCH_MISSED);
	settle(thread.slot, thread.x, now, task->se.sum_exec_runtime - thread.x->exec_ns);
	for (int i = 0; i < FL_VECTOR_COUNT; i++)
		thread.slot->returned_vector_ns[i] = thread.slot->vector_ns[i];
	thread.slot->returned_inherited_sync_ns = thread.slot->inherited_sync_ns;
	thread.slot->returned_at_ns = now;
	return 0;
}

static __always_inline void notice_return(struct task_struct *current, __u32 index, struct fl_scratch *x)
{
	if (x->off_at_ns)
		settle_unseen(current, index, bpf_ktime_get_ns());
}

#endif
