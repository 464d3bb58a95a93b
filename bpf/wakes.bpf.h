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

/* The whole rest has one cause. */
static __always_inline void rest_is(struct fl_scratch *x, __u32 cause, __u32 path)
{
	x->rest_form = FL_REST_ONE;
	x->rest_cause = cause;
	x->rest_path = path;
}

static __always_inline void rest_is_other(struct fl_scratch *x, __u64 ns, __u32 counter)
{
	rest_is(x, FL_CAUSE_OTHER, FL_PATH_SELF);
	count_ns(counter, ns);
}

/* The rest has several: the rules add to an empty vector. */
static __always_inline void rest_vector(struct fl_scratch *x)
{
#pragma unroll
	for (int i = 0; i < FL_VECTOR_COUNT; i++)
		x->rest_ns[i] = 0;
	x->rest_sync_ns = 0;
	x->rest_form = FL_REST_VECTOR;
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
	__u64 off, end, issue, held = 0, queue = 0, device = 0, flush = 0, cpu = 0, lock = 0, total, fraction;
	bool preflush;

	if (!x || !t)
		return 0;
	rest_vector(x);
	preflush = t->flags & fl_preflush_mask;
	off = x->off_at_ns;
	end = t->end_ns ? t->end_ns : now;
	issue = t->issue_ns ? t->issue_ns : end;
	if (t->start_ns) {
		/* before the request existed its bio did (or was held back) */
		held = overlap(off, now, 0, t->start_ns);
		if (preflush)
			flush = overlap(off, now, t->start_ns, issue);
		else
			queue = overlap(off, now, t->start_ns, issue);
		device = overlap(off, now, issue, t->middle_ns ? t->middle_ns : end);
	}
	if (t->middle_ns)
		flush += overlap(off, now, t->middle_ns, end);
	if (t->worker_ns) {
		/* the worker that carries the news: runnable first, then at work */
		cpu = overlap(off, now, end, t->worker_ns);
		lock = overlap(off, now, t->worker_ns, now);
	} else {
		device += overlap(off, now, end, now);
	}
	total = held + queue + device + flush + cpu + lock;
	if (!total) {
		rest_other(x, rest, FL_COUNTER_OTHER_GAP_NS);
		return 0;
	}
	if (total > rest) {
		fraction = (rest << 16) / total;
		held = scaled(held, fraction);
		queue = scaled(queue, fraction);
		device = scaled(device, fraction);
		flush = scaled(flush, fraction);
		cpu = scaled(cpu, fraction);
		lock = scaled(lock, fraction);
	}
	x->rest_ns[t->flags & FL_FLAGS_HELD ? FL_CAUSE_THROTTLE : FL_CAUSE_QUEUE] += held;
	if (held)
		count_ns(t->flags & FL_FLAGS_HELD ? FL_COUNTER_THROTTLE_CGROUP_NS : FL_COUNTER_QUEUE_TAG_NS,
			 held);
	x->rest_ns[FL_CAUSE_QUEUE] += queue;
	if (queue)
		count_ns(FL_COUNTER_QUEUE_ISSUE_NS, queue);
	if ((t->flags & REQ_OP_MASK) == REQ_OP_READ)
		x->rest_ns[FL_CAUSE_READ] += device;
	else
		x->rest_ns[FL_CAUSE_WRITE] += device;
	x->rest_ns[FL_CAUSE_FLUSH] += flush;
	x->rest_ns[FL_CAUSE_CPU] += cpu;
	x->rest_ns[FL_CAUSE_LOCK] += lock;
	total = held + queue + device + flush + cpu + lock;
	x->rest_ns[FL_VECTOR_PATH(path)] += total;
	if (rest > total)
		/* rounding of the fractions, or a part that the request does not cover */
		rest_other(x, rest - total, FL_COUNTER_OTHER_GAP_NS);
	return 0;
}

/* Out of line for its stack: the verifier of older kernels adds up what a chain of calls has. */
static __noinline int explain_by_completion(struct fl_scratch *x, struct fl_request *r, __u64 now, __u64 rest)
{
	struct fl_timeline time = {};

	if (!r)
		return 0;
	request_timeline(r, &time);
	return explain_by_request(x, &time, now, rest, FL_PATH_SELF);
}

/* Its own request wakes it: the time since the completion began is the tail of that request. Anything before, when
 * none of its requests was outstanding, stays `other`. */
static __always_inline void explain_by_own(struct fl_scratch *x, struct fl_request *r, __u64 now, __u64 rest)
{
	__u64 tail = now > r->end_ns ? now - r->end_ns : 0;
	__u32 cause = r->last_wait == FL_WAIT_FLUSH ? FL_CAUSE_FLUSH :
		      r->last_wait == FL_WAIT_READ  ? FL_CAUSE_READ :
		      r->last_wait == FL_WAIT_QUEUE ? FL_CAUSE_QUEUE :
						      FL_CAUSE_WRITE;

	if (tail >= rest) {
		rest_is(x, cause, FL_PATH_SELF);
		return;
	}
	rest_vector(x);
	x->rest_ns[cause] += tail;
	x->rest_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += tail;
	rest_other(x, rest - tail, FL_COUNTER_OTHER_GAP_NS);
}

/*
 * Adds a thread's account over [from, to) to x->part_ns, as another one that waited for it sees it: what it did on a
 * CPU is `lock` then, and its own part of the paths is `peer` or `journal`.
 */
static __noinline int add_account(struct fl_scratch *x, __u32 index, __u64 from, __u64 to)
{
	struct fl_scratch *waker = scratch_of(index);
	struct fl_moment begin = {}, end = {};
	__u32 self;

	if (!x || !waker)
		return 0;
	if (!moment_of(&begin, index, from))
		count(FL_COUNTER_HISTORY_MISSED);
	moment_of(&end, index, to);
	if (!begin.known || !begin.before || !end.known || !end.before)
		return 0;
	self = waker->kind == FL_THREAD_JOURNAL ? FL_PATH_JOURNAL : FL_PATH_PEER;
	for (int j = 0; j < FL_VECTOR_COUNT; j++) {
		__u64 value = value_at(&end, j) - value_at(&begin, j);
		__u32 to_entry = j;

		if (value > to - from)
			continue; /* none (it is below 0), or the slot has changed hands meanwhile */
		if (j == FL_CAUSE_ONCPU)
			to_entry = FL_CAUSE_LOCK;
		else if (j == FL_VECTOR_PATH(FL_PATH_SELF))
			to_entry = FL_VECTOR_PATH(self);
		x->part_ns[to_entry] += value;
	}
	return 0;
}

/*
 * Where the account of a waker begins to be about its present work: it may have been idle when the sleeper fell
 * asleep. Before that the sleeper waited for whatever kept the waker waiting when it came to work (`next`): both stood
 * in the same queue. 0: the account speaks for the whole span, or nothing better is known.
 */
static __always_inline __u64 work_began(__u32 index, __u64 from, __u64 to, __u32 *next)
{
	struct fl_scratch *waker = scratch_of(index);
	__u64 began;

	if (!waker)
		return 0;
	began = waker->work_from_ns;
	if (began <= from || began >= to || waker->waker_at_ns <= began)
		return 0;
	*next = waker->waker_slot;
	return began;
}

static __noinline int explain_by_thread(struct fl_scratch *x, __u32 index, __u64 now, __u64 rest)
{
	struct fl_slot *slot = slot_of(index);
	struct fl_scratch *waker = scratch_of(index);
	__u32 path, one = index, next = 0;
	__u64 fraction, off, to = now, total = 0, used = 0, used_paths = 0;

	if (!x || !slot || !waker)
		return 0;
	off = x->off_at_ns;
	path = waker->kind == FL_THREAD_JOURNAL ? FL_PATH_JOURNAL : FL_PATH_PEER;
	x->waker_slot = index;
	x->waker_at_ns = now;
	if (slot->on_at_ns && slot->on_at_ns <= off) {
		/* it ran all the while */
		rest_is(x, FL_CAUSE_LOCK, path);
		return 0;
	}
	for (int j = 0; j < FL_VECTOR_COUNT; j++)
		x->part_ns[j] = 0;
	for (int hop = 0; hop < FL_HOPS; hop++) {
		__u64 from = work_began(one, off, to, &next);

		add_account(x, one, from ? from : off, to);
		if (!from)
			break;
		to = from;
		one = next;
	}
	for (int j = 0; j < FL_CAUSE_COUNT; j++)
		total += x->part_ns[j];
	if (!total) {
		rest_is_other(x, rest, FL_COUNTER_OTHER_HISTORY_NS);
		return 0;
	}
	rest_vector(x);
	fraction = total > rest ? (rest << 16) / total : 65536;
	for (int j = 0; j < FL_CAUSE_COUNT; j++) {
		__u64 value = scaled(x->part_ns[j], fraction);

		x->rest_ns[j] = value;
		used += value;
	}
	x->rest_sync_ns = x->rest_ns[FL_CAUSE_FLUSH] + x->rest_ns[FL_CAUSE_WRITE] +
			  x->rest_ns[FL_CAUSE_READ] + x->rest_ns[FL_CAUSE_QUEUE];
	for (int j = FL_CAUSE_COUNT; j < FL_VECTOR_COUNT; j++) {
		__u64 value = scaled(x->part_ns[j], fraction);

		x->rest_ns[j] = value;
		used_paths += value;
	}
	/* the waker was in the ledger for a part of the span only, or fractions were rounded */
	if (rest > used) {
		x->rest_ns[FL_CAUSE_OTHER] += rest - used;
		count_ns(FL_COUNTER_OTHER_HISTORY_NS, rest - used);
	}
	if (rest > used_paths)
		x->rest_ns[FL_VECTOR_PATH(path)] += rest - used_paths;
	return 0;
}

/* Whether the sleep was one of a thread that had nothing to do: most of it idle or unknown. */
static __always_inline bool was_idle(struct fl_scratch *x)
{
	if (x->rest_form == FL_REST_ONE)
		return x->rest_cause == FL_CAUSE_IDLE || x->rest_cause == FL_CAUSE_OTHER;
	return (x->rest_ns[FL_CAUSE_IDLE] + x->rest_ns[FL_CAUSE_OTHER]) * 2 > x->rest_total_ns;
}

/* What a worker does for a thread explains a wait only while it does it: not when it slept meanwhile (for what, is not
 * known), nor when an interrupt on top of it wakes. */
static __always_inline bool acts_for(struct fl_task *worker, struct task_struct *current)
{
	if (!worker->acting)
		return false;
	return worker->acting_for.start_ns ||
	       (worker->sleeps_before == current->nvcsw && !in_interrupt(current));
}

/* Rules 1 to 4. Out of line: most sleeps are named by the engine. */
static __noinline int explain_by_waker(struct fl_scratch *x, struct task_struct *sleeper, __u32 own_slot,
				       __u64 now, __u64 rest)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct fl_request *r;
	struct fl_thread waker;
	struct fl_task *worker;

	if (!x)
		return 0;
	r = request_completing();
	if (r && r->slot == own_slot && r->generation == x->request_generation) {
		count(FL_COUNTER_WAKE_OWN);
		explain_by_own(x, r, now, rest);
		return 0;
	}
	if (r) {
		count(FL_COUNTER_WAKE_REQUEST);
		explain_by_completion(x, r, now, rest);
		return 0;
	}
	if (current->flags & PF_WQ_WORKER) {
		worker = task_of(current);
		if (worker && acts_for(worker, current)) {
			count(FL_COUNTER_WAKE_WORKER);
			explain_by_request(x, &worker->acting_for, now, rest, FL_PATH_JOURNAL);
			return 0;
		}
	}
	if (!thread_of(current, &waker) || waker.index == own_slot) {
		count(FL_COUNTER_WAKE_UNKNOWN);
		x->began = 1;
		rest_is_other(x, rest, FL_COUNTER_OTHER_UNKNOWN_NS);
		return 0;
	}
	if (in_interrupt(current)) {
		count(FL_COUNTER_WAKE_INTERRUPT);
		x->began = 1;
		rest_is_other(x, rest, FL_COUNTER_OTHER_INTERRUPT_NS);
		return 0;
	}
	if (!fl_preempt_known && in_iowait(sleeper)) {
		/* cannot tell an interrupt from the thread: a sleeper in iowait is rather woken by a device */
		count(FL_COUNTER_WAKE_IOWAIT);
		rest_is_other(x, rest, FL_COUNTER_OTHER_INTERRUPT_NS);
		return 0;
	}
	count(FL_COUNTER_WAKE_THREAD);
	notice_return(current, waker.index, waker.x);
	x->began = waker.x->kind != FL_THREAD_JOURNAL;
	explain_by_thread(x, waker.index, now, rest);
	return 0;
}

static __always_inline void explain_rest(struct fl_scratch *x, struct task_struct *sleeper, __u32 own_slot,
					 __u64 now, __u64 rest)
{
	x->rest_total_ns = rest;
	if (x->state_cause >= FL_CAUSE_COUNT) {
		explain_by_waker(x, sleeper, own_slot, now, rest);
		return;
	}
	rest_is(x, x->state_cause, FL_PATH_SELF);
	if (x->detail) {
		count_ns(x->detail, rest);
		return;
	}
	count(FL_COUNTER_WAKE_STATE);
	x->began = 1;
}

/* The engine knows what a sleep is when nothing else does (MariaDB's leader before it orders a group: a replica). */
static __noinline int engine_explains(struct fl_scratch *x, __u32 cause)
{
	__u64 unexplained, *peer;

	if (!x || cause >= FL_CAUSE_COUNT)
		return 0;
	if (x->rest_form == FL_REST_ONE) {
		if (x->rest_cause == FL_CAUSE_OTHER || x->rest_cause == FL_CAUSE_IDLE) {
			x->rest_cause = cause;
			x->rest_path = FL_PATH_SELF;
		}
		return 0;
	}
	unexplained = x->rest_ns[FL_CAUSE_OTHER] + x->rest_ns[FL_CAUSE_IDLE];
	x->rest_ns[FL_CAUSE_OTHER] = 0;
	x->rest_ns[FL_CAUSE_IDLE] = 0;
	x->rest_ns[cause] += unexplained;
	peer = &x->rest_ns[FL_VECTOR_PATH(FL_PATH_PEER)];
	if (unexplained > *peer)
		unexplained = *peer;
	*peer -= unexplained;
	x->rest_ns[FL_VECTOR_PATH(FL_PATH_SELF)] += unexplained;
	return 0;
}

/* A short unknown sleep amid its work is no beginning: it must be comparable to the one before the present work, or
 * that one must be as long ago as it was long. What the engine itself calls idle is certain. */
static __always_inline void work_begins(struct fl_scratch *x, __u64 now, __u64 slept)
{
	if (x->state_cause == FL_CAUSE_IDLE)
		slept = FL_IDLE_CERTAIN_NS;
	if (slept * 2 < x->idle_ns && now - x->work_from_ns < x->idle_ns)
		return;
	x->work_from_ns = now;
	x->idle_ns = slept;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(fl_waking, struct task_struct *sleeper)
{
	struct fl_thread thread;
	struct fl_scratch *x;
	__u64 now, own, blocked;

	if (!thread_of(sleeper, &thread))
		return 0;
	x = thread.x;
	if (x->wake_at_ns)
		return 0;
	now = bpf_ktime_get_ns();
	if (!x->off_at_ns || now <= x->off_at_ns) {
		x->early_wake_ns = now;
		return 0;
	}
	charge_last(x, now);
	blocked = now - x->off_at_ns;
	own = x->own_ns[0] + x->own_ns[1] + x->own_ns[2] + x->own_ns[3];
	if (blocked > own) {
		explain_rest(x, sleeper, thread.index, now, blocked - own);
		if (x->state_cause & FL_STATE_ONLY_REST)
			engine_explains(x, x->state_cause & 15);
		if (blocked - own > own && was_idle(x))
			work_begins(x, now, blocked - own);
	} else {
		count(FL_COUNTER_WAKE_OWN);
	}
	x->detail = over_quota(sleeper) ? FL_COUNTER_CPU_QUOTA_NS : 0;
	x->wake_at_ns = now;
	return 0;
}

#endif
