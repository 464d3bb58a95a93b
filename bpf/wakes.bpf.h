/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whom a sleeper waited for, settled at sched_waking: first its own requests, then, for what they leave, the
 * first of these that applies (design.md section 1):
 *   0. the engine's state word names the wait (idle, replication)
 *   1. a request is completing on this CPU
 *   2. this worker runs a work item that a completion queued
 *   3. this thread is traced and no interrupt runs on top of it: its account over the same span is inherited
 *   4. unknown: `other`
 * Runs under the sleeper's pi_lock with interrupts off: one waker at a time, never nested.
 */
#ifndef FLUSHLIGHT_WAKES_BPF_H
#define FLUSHLIGHT_WAKES_BPF_H

static __always_inline __u64 overlap(__u64 from, __u64 to, __u64 low, __u64 high)
{
	__u64 begin = from > low ? from : low;
	__u64 end = to < high ? to : high;

	return end > begin ? end - begin : 0;
}

/* part * rest / total without overflow: 2^-16 steps, good up to 78 hours */
static __always_inline __u64 scaled(__u64 part, __u64 fraction)
{
	return (part * fraction) >> 16;
}

static __always_inline void rest_other(struct fl_scratch *x, __u64 ns, __u32 counter)
{
	x->rest_ns[FL_CAUSE_OTHER] += ns;
	x->rest_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += ns;
	count_ns(counter, ns);
}

/* Rules 1 and 2: the sleep [off, now) against the request's timeline. */
static __noinline int explain_by_request(struct fl_scratch *x, struct fl_timeline *t, __u64 now, __u64 rest,
					 __u32 path)
{
	__u64 off, end, issue, queue, device, flush = 0, cpu = 0, lock = 0, total, fraction;
	bool preflush;

	if (!x || !t)
		return 0;
	preflush = t->flags & fl_preflush_mask;
	off = x->off_at_ns;
	end = t->end_ns ? t->end_ns : now;
	issue = t->issue_ns ? t->issue_ns : end;
	/* before the request existed its bio did (or was held back) */
	queue = overlap(off, now, 0, t->start_ns);
	if (preflush)
		flush = overlap(off, now, t->start_ns, issue);
	else
		queue += overlap(off, now, t->start_ns, issue);
	device = overlap(off, now, issue, t->middle_ns ? t->middle_ns : end);
	if (t->middle_ns)
		flush += overlap(off, now, t->middle_ns, end);
	if (t->worker_ns) {
		/* the worker that carries the news: runnable first, then at work */
		cpu = overlap(off, now, end, t->worker_ns);
		lock = overlap(off, now, t->worker_ns, now);
	} else {
		device += overlap(off, now, end, now);
	}
	total = queue + device + flush + cpu + lock;
	if (!total) {
		rest_other(x, rest, FL_COUNTER_OTHER_GAP_NS);
		return 0;
	}
	if (total > rest) {
		fraction = (rest << 16) / total;
		queue = scaled(queue, fraction);
		device = scaled(device, fraction);
		flush = scaled(flush, fraction);
		cpu = scaled(cpu, fraction);
		lock = scaled(lock, fraction);
	}
	x->rest_ns[FL_CAUSE_QUEUE] += queue;
	if ((t->flags & REQ_OP_MASK) == REQ_OP_READ)
		x->rest_ns[FL_CAUSE_READ] += device;
	else
		x->rest_ns[FL_CAUSE_WRITE] += device;
	x->rest_ns[FL_CAUSE_FLUSH] += flush;
	x->rest_ns[FL_CAUSE_CPU] += cpu;
	x->rest_ns[FL_CAUSE_LOCK] += lock;
	total = queue + device + flush + cpu + lock;
	x->rest_ns[FL_VECTOR_PATH(path)] += total;
	if (rest > total)
		/* rounding of the fractions, or a part that the request does not cover */
		rest_other(x, rest - total, FL_COUNTER_OTHER_GAP_NS);
	return 0;
}

/* The newest snapshot of the waker's switch-ins that is not after `off`, in the finest ring that has one. */
static __noinline int find_snapshot(struct fl_history *past, struct fl_scratch *waker, __u64 off)
{
	if (!past || !waker)
		return -1;
	for (__u32 r = 0; r < FL_RINGS; r++) {
		__u32 position = waker->position[r];

		for (__u32 i = 0; i < FL_RING_SNAPSHOTS; i++) {
			__u32 at = (position - i) & (FL_RING_SNAPSHOTS - 1);
			__u64 in_at = past->ring[r][at].in_at_ns;

			if (!in_at)
				break;
			if (in_at <= off)
				return (int)(r << 8 | i << 4 | at);
		}
	}
	return -1;
}

/*
 * The waker's vector over [off, now): its vector now minus its vector at `off`. At `off` it lay between two
 * switch-ins `low` and `high`: it ran from low.in_at to high.off_at, then was off until high.in_at. In the
 * finest ring that is exact but for the inside of one sleep; in the thinned rings it is a straight line.
 */
static __noinline int explain_by_thread(struct fl_scratch *x, __u32 index, __u64 now, __u64 rest, __u32 kind)
{
	struct fl_slot *slot = slot_of(index);
	struct fl_scratch *waker = scratch_of(index);
	struct fl_history *past = bpf_map_lookup_elem(&history, &index);
	struct fl_snapshot *low, *high = 0;
	__u64 off, running, high_in, high_off, share, ran, total = 0, used = 0, used_paths = 0, fraction;
	__u64 *out;
	int found;
	__u32 r, i, at, path;

	if (!x || !slot || !waker || !past)
		return 0;
	off = x->off_at_ns;
	path = kind == FL_THREAD_JOURNAL ? FL_PATH_JOURNAL : FL_PATH_PEER;
	out = x->rest_ns;
	x->waker_slot = index;
	if (slot->on_at_ns && slot->on_at_ns <= off) {
		/* it ran all the while */
		out[FL_CAUSE_LOCK] += rest;
		out[FL_VECTOR_PATH(path)] += rest;
		return 0;
	}
	found = find_snapshot(past, waker, off);
	if (found < 0) {
		count(FL_COUNTER_HISTORY_MISSED);
		rest_other(x, rest, FL_COUNTER_OTHER_HISTORY_NS);
		return 0;
	}
	r = ((__u32)found >> 8) & 3;
	i = ((__u32)found >> 4) & (FL_RING_SNAPSHOTS - 1);
	at = (__u32)found & (FL_RING_SNAPSHOTS - 1);
	if (r >= FL_RINGS)
		return 0;
	low = &past->ring[r][at];
	running = slot->on_at_ns && now > slot->on_at_ns ? now - slot->on_at_ns : 0;
	if (i > 0) {
		high = &past->ring[r][(at + 1) & (FL_RING_SNAPSHOTS - 1)];
		high_in = high->in_at_ns;
		high_off = high->off_at_ns;
	} else {
		/* the newest: only in a thinned ring can it be older than the present run */
		high_in = now;
		high_off = now;
	}
	if (r != 0) /* many switches in between: a straight line */
		high_off = low->in_at_ns;
	if (high_off < low->in_at_ns)
		high_off = low->in_at_ns;
	ran = overlap(off, now, low->in_at_ns, high_off); /* of the first run, after `off` */
	/* share of the last sleep (or line) that lies after `off`, in 2^-16 */
	share = 65536;
	if (off > high_off && high_in > high_off)
		share = ((high_in > off ? high_in - off : 0) << 16) / (high_in - high_off);
	for (int j = 0; j < FL_VECTOR_COUNT; j++) {
		__u64 now_j = slot->vector_ns[j];
		__u64 low_j = low->vector_ns[j];
		__u64 high_j = high ? high->vector_ns[j] : now_j;
		__u64 run_all = 0, run_after = 0, value;
		bool on_cpu = j == FL_CAUSE_ONCPU || j == FL_VECTOR_PATH(FL_PATH_SELF);

		if (on_cpu) {
			run_all = high_off - low->in_at_ns;
			run_after = ran;
			if (i > 0 || r != 0)
				now_j += running;
			else
				now_j = high_j = low_j; /* newest of ring 0: only ran since */
			if (!high)
				high_j = now_j;
		}
		value = high_j > low_j + run_all ? high_j - low_j - run_all : 0;
		value = scaled(value, share) + run_after;
		if (now_j > high_j)
			value += now_j - high_j;
		if (j < FL_CAUSE_COUNT)
			total += value;
		x->part_ns[j] = value;
	}
	if (!total) {
		rest_other(x, rest, FL_COUNTER_OTHER_HISTORY_NS);
		return 0;
	}
	fraction = total > rest ? (rest << 16) / total : 65536;
	for (int j = 0; j < FL_CAUSE_COUNT; j++) {
		__u64 value = scaled(x->part_ns[j], fraction);

		/* what the waker did on a CPU, the sleeper waited for */
		out[j == FL_CAUSE_ONCPU ? FL_CAUSE_LOCK : j] += value;
		used += value;
		if (j == FL_CAUSE_FLUSH || j == FL_CAUSE_WRITE || j == FL_CAUSE_READ || j == FL_CAUSE_QUEUE)
			x->rest_sync_ns += value;
	}
	for (int j = 0; j < FL_PATH_COUNT; j++) {
		__u64 value = scaled(x->part_ns[FL_VECTOR_PATH(j)], fraction);

		out[FL_VECTOR_PATH(j == FL_PATH_SELF ? path : (__u32)j)] += value;
		used_paths += value;
	}
	/* the waker was in the ledger for a part of the span only, or fractions were rounded */
	if (rest > used) {
		out[FL_CAUSE_OTHER] += rest - used;
		count_ns(FL_COUNTER_OTHER_HISTORY_NS, rest - used);
	}
	if (rest > used_paths)
		out[FL_VECTOR_PATH(path)] += rest - used_paths;
	return 0;
}

static __always_inline void explain_rest(struct fl_scratch *x, struct task_struct *sleeper, __u32 own_slot,
					 __u64 now, __u64 rest)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u32 zero = 0;
	struct fl_completing *cpu = bpf_map_lookup_elem(&completing, &zero);
	struct fl_task *waker;

	for (int i = 0; i < FL_VECTOR_COUNT; i++)
		x->rest_ns[i] = 0;
	x->rest_sync_ns = 0;
	x->has_rest = 1;

	if (x->state_cause < FL_CAUSE_COUNT) {
		x->rest_ns[x->state_cause & 15] += rest;
		x->rest_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += rest;
		count(FL_COUNTER_WAKE_STATE);
		return;
	}
	if (cpu && cpu->request) {
		struct fl_request *r = request_at(cpu->request - 1);

		if (r && r->time.slot != own_slot) {
			count(FL_COUNTER_WAKE_REQUEST);
			explain_by_request(x, &r->time, now, rest, FL_PATH_SELF);
			return;
		}
		/* its own: what its requests leave is the gap between them */
		count(FL_COUNTER_WAKE_OWN);
		rest_other(x, rest, FL_COUNTER_OTHER_GAP_NS);
		return;
	}
	waker = task_of(current);
	if (waker && waker->acting) {
		count(FL_COUNTER_WAKE_WORKER);
		explain_by_request(x, &waker->acting_for, now, rest, FL_PATH_JOURNAL);
		return;
	}
	if (!waker || !waker->slot || waker->slot == own_slot) {
		count(FL_COUNTER_WAKE_UNKNOWN);
		rest_other(x, rest, FL_COUNTER_OTHER_UNKNOWN_NS);
		return;
	}
	if (in_interrupt(current)) {
		count(FL_COUNTER_WAKE_INTERRUPT);
		rest_other(x, rest, FL_COUNTER_OTHER_INTERRUPT_NS);
		return;
	}
	if (!fl_preempt_known && sleeper->in_iowait) {
		/* cannot tell an interrupt from the thread: a sleeper in iowait is rather woken by a device */
		count(FL_COUNTER_WAKE_IOWAIT);
		rest_other(x, rest, FL_COUNTER_OTHER_INTERRUPT_NS);
		return;
	}
	count(FL_COUNTER_WAKE_THREAD);
	explain_by_thread(x, waker->slot, now, rest, waker->kind);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(fl_waking, struct task_struct *sleeper)
{
	struct fl_task *t = task_of(sleeper);
	struct fl_scratch *x;
	__u64 now, own, blocked;

	if (!t || !t->slot)
		return 0;
	x = scratch_of(t->slot);
	if (!x || !x->off_at_ns || x->wake_at_ns)
		return 0;
	now = bpf_ktime_get_ns();
	if (now <= x->off_at_ns)
		return 0;
	charge_last(x, now);
	blocked = now - x->off_at_ns;
	own = x->own_ns[0] + x->own_ns[1] + x->own_ns[2] + x->own_ns[3];
	if (blocked > own)
		explain_rest(x, sleeper, t->slot, now, blocked - own);
	else
		count(FL_COUNTER_WAKE_OWN);
	x->wake_at_ns = now;
	return 0;
}

#endif
