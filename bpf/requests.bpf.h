/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Block requests: who waits for each, and when it started, was issued and ended.
 *
 * A request's identity is its address and its start: addresses are used again (they are tags). The table is
 * direct-mapped with a few places per address, because a hash map costs three times as much per event.
 *
 * The flush machinery (kernel-rules.md 6): a write with PREFLUSH or FUA on a device without FUA is one request
 * in three acts; it completes in between with RQF_FLUSH_SEQ still set, and stays open until that is clear. The
 * flush itself is another request (REQ_OP_FLUSH) without a start event of its own.
 */
#ifndef FLUSHLIGHT_REQUESTS_BPF_H
#define FLUSHLIGHT_REQUESTS_BPF_H

#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2

static __noinline __u32 device_search(__u32 number, __u32 home)
{
	for (__u32 i = 0; i < 4; i++) {
		__u32 at = (home + i) & (FL_DEVICES - 1);
		struct fl_device *d = bpf_map_lookup_elem(&devices, &at);

		if (!d)
			continue;
		if (d->number == number ||
		    (!d->number && !__sync_val_compare_and_swap(&d->number, 0, number)) ||
		    d->number == number)
			return at;
	}
	count(FL_COUNTER_DEVICE_FULL);
	return FL_DEVICES;
}

static __always_inline __u32 device_index(struct gendisk *disk)
{
	struct fl_device *d;
	__u32 number, home;

	if (!disk)
		return FL_DEVICES;
	number = (__u32)disk->major << 20 | (__u32)disk->first_minor;
	home = ((__u32)disk->major * 31 + (__u32)disk->first_minor) & (FL_DEVICES - 1);
	d = bpf_map_lookup_elem(&devices, &home);
	return d && d->number == number ? home : device_search(number, home);
}

static __always_inline void device_observe(__u32 device, __u32 operation, __u32 stage, __u64 from, __u64 to)
{
	struct fl_device_histogram *h;
	__u32 at, bucket;

	if (device >= FL_DEVICES || operation >= FL_DEVICE_OPERATIONS || !from || to < from)
		return;
	at = device * FL_DEVICE_HISTOGRAMS + operation * 2 + stage;
	h = bpf_map_lookup_elem(&device_histograms, &at);
	bucket = fl_histogram_bucket(to - from);
	if (h && bucket < FL_HISTOGRAM_BUCKETS) {
		__sync_fetch_and_add(&h->sum_ns, to - from);
		__sync_fetch_and_add(&h->buckets[bucket], 1);
	}
}

static __always_inline struct fl_request *request_open(__u64 address, __u32 flags, __u32 device, __u64 now,
						       __u32 wait, __u32 slot, struct fl_scratch *owner)
{
	struct fl_request *r = request_claim(address);

	if (!r)
		return 0;
	r->start_ns = now;
	r->issue_ns = 0;
	r->middle_ns = 0;
	r->end_ns = 0;
	r->flags = flags;
	r->wait = FL_WAIT_NONE;
	r->device = device;
	if (owner) {
		r->slot = slot;
		r->generation = owner->request_generation;
		owner->device = device;
		request_moves(r, wait, now);
	} else {
		r->slot = 0;
		r->wait = wait;
	}
	return r;
}

/* A thread that does I/O may lead others. The daemon's task iterator does not see every one: in a PID namespace of its
 * own it walks that one only. */
static __noinline __u32 enrol_late(struct task_struct *current)
{
	bool journal = current->flags & PF_KTHREAD;
	struct fl_task *t;

	if (journal ? !is_journal_thread(current) : !is_of_known_engine(current))
		return 0;
	t = enrol_pooled(current, journal ? FL_THREAD_JOURNAL : FL_THREAD_BACKGROUND, true);
	return t ? t->slot : 0;
}

/* The current thread submits: it owns the request, if it is traced. */
static __always_inline void request_begins(__u64 address, __u32 flags, __u32 device)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u32 slot = slot_index_of(current);
	struct fl_scratch *owner = 0;
	struct fl_request *r;

	if (!slot && !current->bpf_storage)
		slot = enrol_late(current);
	if (slot)
		owner = scratch_of(slot);
	if (owner) {
		notice_return(current, slot, owner);
		owner->hint &= ~FL_HINT_SUBMIT;
	} else if ((current->flags & PF_WQ_WORKER) && dispatches_throttled(current)) {
		flags |= FL_FLAGS_HELD;
	}
	r = request_open(address, flags, device, bpf_ktime_get_ns(),
			 (flags & fl_preflush_mask) ? FL_WAIT_FLUSH : FL_WAIT_QUEUE, slot, owner);
	if (r)
		r->completer = current->pid;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(fl_io_start, struct request *rq)
{
	request_begins((__u64)rq, rq->cmd_flags, device_index(rq->q->disk));
	return 0;
}

/* Kernels before 6.5: the bio stands for its request until that is seen. */
SEC("tp_btf/block_getrq")
int BPF_PROG(fl_getrq, struct bio *bio)
{
	request_begins((__u64)bio, bio->bi_opf, device_index(bio->bi_bdev->bd_disk));
	return 0;
}

static __always_inline bool request_takes_over(__u64 address, struct fl_request *old)
{
	struct fl_request *r = request_claim(address);

	if (!r)
		return false;
	r->start_ns = old->start_ns;
	r->issue_ns = 0;
	r->middle_ns = 0;
	r->end_ns = 0;
	r->flags = old->flags;
	r->slot = old->slot;
	r->generation = old->generation;
	r->wait = old->wait;
	r->device = old->device;
	r->completer = old->completer;
	old->address = 0;
	return true;
}

#define FL_FRONT_MERGES 4 /* bios put in front of a request's own, looked through */

/* Seen for the first time: takes over what is known of its bio. */
static __noinline struct fl_request *request_adopt(struct request *rq, __u32 *where)
{
	struct bio *bio = rq->bio;

	for (int i = 0; i < FL_FRONT_MERGES && bio; i++) {
		struct fl_request *old = request_find((__u64)bio, 0);

		if (old)
			return request_takes_over((__u64)rq, old) ? request_find((__u64)rq, where) : 0;
		bio = bio->bi_next;
	}
	return 0;
}

static __always_inline struct fl_request *request_of(struct request *rq, __u32 *where)
{
	struct fl_request *r = request_find((__u64)rq, where);

	return r || !fl_no_io_start ? r : request_adopt(rq, where);
}

/* During a journal's commit its devices' flushes are counted for it: its own, nearly always. */
static __noinline int count_journal_flush(__u32 device)
{
	struct fl_device *d = bpf_map_lookup_elem(&devices, &device);
	struct fl_journal *j;
	__u32 at;

	if (!d || !d->journal)
		return 0;
	at = d->journal - 1;
	j = bpf_map_lookup_elem(&journals, &at);
	if (j)
		__sync_fetch_and_add(&j->flushes, 1);
	return 0;
}

/* The flush of the flush machinery is nobody's own, has no start event and no block_io_done: it is one request
 * for ever, and lives from issue to completion. */
static __noinline int flush_issued(struct request *rq, __u64 now)
{
	struct fl_request *r = request_find((__u64)rq, 0);

	if (!r)
		r = request_open((__u64)rq, rq->cmd_flags, device_index(rq->q->disk), now, FL_WAIT_NONE, 0,
				 0);
	if (!r)
		return 0;
	r->start_ns = now;
	r->issue_ns = now;
	r->completer = 0;
	count_journal_flush(r->device);
	return 0;
}

static __noinline int flush_completed(struct request *rq, __u64 now)
{
	struct fl_request *r = request_find((__u64)rq, 0);

	if (!r)
		return 0;
	device_observe(r->device, REQ_OP_FLUSH, 1, r->issue_ns, now);
	if (took_long(r->issue_ns, now))
		slow_request(r, rq, now);
	r->address = 0;
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(fl_issue, struct request *rq)
{
	__u32 operation = rq->cmd_flags & REQ_OP_MASK;
	__u64 now = bpf_ktime_get_ns();
	struct fl_request *r;

	if (operation == REQ_OP_FLUSH) {
		flush_issued(rq, now);
		return 0;
	}
	r = request_of(rq, 0);
	if (!r)
		return 0;
	if (!r->issue_ns) {
		r->issue_ns = now;
		if (!(r->flags & fl_preflush_mask))
			device_observe(r->device, operation, 0, r->start_ns, now);
	}
	request_moves(r, operation == REQ_OP_READ ? FL_WAIT_READ : FL_WAIT_WRITE, now);
	return 0;
}

/* Put back to the queue (busy device, requeue): it waits there again. */
SEC("tp_btf/block_rq_requeue")
int BPF_PROG(fl_requeue, struct request *rq)
{
	struct fl_request *r = request_of(rq, 0);

	if (r && r->wait != FL_WAIT_NONE)
		request_moves(r, FL_WAIT_QUEUE, bpf_ktime_get_ns());
	return 0;
}

static __always_inline struct fl_completed *completed_in(struct fl_completing *cpu, __u32 context)
{
	return context == FL_CONTEXT_HARDIRQ ? &cpu->last[FL_CONTEXT_HARDIRQ] :
	       context == FL_CONTEXT_SOFTIRQ ? &cpu->last[FL_CONTEXT_SOFTIRQ] :
					       &cpu->last[FL_CONTEXT_THREAD];
}

/* Nobody will tell the end: the place may be taken again, until then its figures are read. */
static __always_inline void completed_without_end(struct fl_completing *cpu, struct fl_request *r,
						  __u32 where)
{
	struct fl_completed *last = completed_in(cpu, context_here(bpf_get_current_task_btf()));

	last->request = where + 1;
	last->tid = (__u32)bpf_get_current_pid_tgid();
	last->end_ns = r->end_ns;
	r->address = 0;
}

static __always_inline void context_ends(__u32 context)
{
	__u32 zero = 0;
	struct fl_completing *cpu = bpf_map_lookup_elem(&completing, &zero);

	if (cpu)
		cpu->last[fl_preempt_known ? context : FL_CONTEXT_THREAD].request = 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(fl_irq_exit, int irq, struct irqaction *action, int ret)
{
	context_ends(FL_CONTEXT_HARDIRQ);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(fl_softirq_exit, unsigned int vector)
{
	context_ends(FL_CONTEXT_SOFTIRQ);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(fl_complete, struct request *rq, int error, unsigned int bytes)
{
	__u32 zero = 0, where = 0;
	struct fl_completing *cpu = bpf_map_lookup_elem(&completing, &zero);
	__u32 operation = rq->cmd_flags & REQ_OP_MASK;
	__u64 now = bpf_ktime_get_ns();
	struct fl_request *r;

	if (operation == REQ_OP_FLUSH) {
		flush_completed(rq, now);
		return 0;
	}
	r = request_of(rq, &where);
	if (!cpu)
		return 0;
	if (!r) {
		count(FL_COUNTER_REQUEST_UNKNOWN);
		return 0;
	}
	if (rq->rq_flags & fl_flush_seq_mask) {
		/* the middle act is over; the postflush (if any) begins */
		r->middle_ns = now;
		device_observe(r->device, operation, 1, r->issue_ns, now);
		request_moves(r, FL_WAIT_FLUSH, now);
		return 0;
	}
	if (bytes < rq->__data_len)
		return 0; /* a part: the rest is still to come */
	r->end_ns = now;
	if (took_long(r->start_ns, now))
		slow_request(r, rq, now);
	if (!r->middle_ns)
		device_observe(r->device, operation, 1, r->issue_ns, now);
	r->last_wait = r->wait;
	request_moves(r, FL_WAIT_NONE, now);
	/* what is woken on this CPU from here to block_io_done waited for this request */
	if (fl_no_io_start) {
		completed_without_end(cpu, r, where);
		return 0;
	}
	r->completer = (__u32)bpf_get_current_pid_tgid();
	r->outer = cpu->request;
	cpu->request = where + 1;
	return 0;
}

/* Kernels before 6.5: the request that completes in this context now. */
static __always_inline struct fl_request *request_completing_without_end(struct fl_completing *cpu)
{
	struct fl_completed *last;
	struct fl_request *r;
	__u32 context;

	if (!cpu->last[0].request && !cpu->last[1].request && !cpu->last[2].request)
		return 0;
	context = context_here(bpf_get_current_task_btf());
	last = completed_in(cpu, context);
	if (!last->request || last->tid != (__u32)bpf_get_current_pid_tgid())
		return 0;
	if (context == FL_CONTEXT_THREAD && bpf_ktime_get_ns() - last->end_ns > fl_completing_ns)
		return 0;
	r = request_at(last->request - 1);
	return r && r->end_ns == last->end_ns ? r : 0;
}

/* The request that completes on this CPU now, or NULL. */
static __always_inline struct fl_request *request_completing(void)
{
	__u32 zero = 0;
	struct fl_completing *cpu = bpf_map_lookup_elem(&completing, &zero);
	struct fl_request *r;

	if (!cpu)
		return 0;
	if (fl_no_io_start)
		return request_completing_without_end(cpu);
	if (!cpu->request)
		return 0;
	r = request_at(cpu->request - 1);
	if (!r)
		return 0;
	if (!r->address || !r->end_ns) {
		/* ended on another CPU (below): this place is free, or has been taken again */
		cpu->request = 0;
		return 0;
	}
	/* A worker that completes a request can be preempted: what runs then completes nothing. */
	return r->completer == (__u32)bpf_get_current_pid_tgid() ? r : 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(fl_io_done, struct request *rq)
{
	__u32 zero = 0;
	struct fl_completing *cpu = bpf_map_lookup_elem(&completing, &zero);
	struct fl_request *r = 0;

	/* the middle act of a write with flushes, or the flush itself */
	if (!cpu || (rq->rq_flags & fl_flush_seq_mask))
		return 0;
	if (cpu->request)
		r = request_at(cpu->request - 1);
	if (r && r->address == (__u64)rq) {
		cpu->request = r->outer;
	} else {
		/* The worker that completed it has moved to another CPU meanwhile, or its completion was not seen. */
		r = request_find((__u64)rq, 0);
		if (!r)
			return 0; /* completed before we were attached */
		request_moves(r, FL_WAIT_NONE, bpf_ktime_get_ns());
	}
	r->address = 0;
	return 0;
}

/* The request was merged into another one: it never completes. Its owner now waits for the other, which is
 * nobody's own to it; the completion explains the wait (rule 1). */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(fl_merge, struct request *rq)
{
	struct fl_request *r = request_of(rq, 0);

	if (!r)
		return 0;
	count(FL_COUNTER_REQUEST_MERGED);
	request_moves(r, FL_WAIT_NONE, bpf_ktime_get_ns());
	r->address = 0;
	return 0;
}

#endif
