/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work items that a completing request queued (ext4's unwritten-extent conversion, XFS's log completion): who
 * is woken by the worker waited for the request. Chains (a worker that queues more work) are followed.
 * And those that a traced thread queued (XFS's push of its log): who is woken by the worker waited for that.
 */
#ifndef FLUSHLIGHT_WORKERS_BPF_H
#define FLUSHLIGHT_WORKERS_BPF_H

static __always_inline void request_timeline(struct fl_request *r, struct fl_timeline *time)
{
	time->start_ns = r->start_ns;
	time->issue_ns = r->issue_ns;
	time->middle_ns = r->middle_ns;
	time->end_ns = r->end_ns;
	time->flags = r->flags;
	time->slot = r->slot;
}

static __always_inline struct fl_work *work_place(__u64 address)
{
	__u32 at = (address_hash(address) >> 20) & (FL_WORKS - 1);

	return bpf_map_lookup_elem(&works, &at);
}

/* The address goes in last and out first: a half-written place matches nobody. */
static __always_inline struct fl_work *work_claim(__u64 address)
{
	struct fl_work *w = work_place(address);

	if (!w)
		return 0;
	if (w->address && w->address != address)
		count(FL_COUNTER_WORK_OVERWRITTEN);
	w->address = 0;
	barrier();
	return w;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(fl_queue_work, int req_cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	struct fl_request *r = request_completing();
	struct task_struct *current;
	struct fl_work *w;
	struct fl_task *t;

	if (r) {
		w = work_claim((__u64)work);
		if (!w)
			return 0;
		request_timeline(r, &w->time);
	} else {
		struct fl_timeline plain = {};

		current = bpf_get_current_task_btf();
		t = task_of(current);
		if (!t || !(t->acting || t->slot))
			return 0;
		w = work_claim((__u64)work);
		if (!w)
			return 0;
		plain.end_ns = t->slot ? bpf_ktime_get_ns() : 0;
		w->time = t->slot ? plain : t->acting_for;
	}
	barrier();
	w->address = (__u64)work;
	return 0;
}

/* No need for the end of execution: between two works a worker wakes nobody that we trace, and the next work
 * says anew what it acts for. */
SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(fl_work_start, struct work_struct *work)
{
	struct fl_work *w = work_place((__u64)work);
	struct fl_task *t;

	if (!w || w->address != (__u64)work) {
		t = task_of(bpf_get_current_task_btf());
		if (t)
			t->acting = 0;
		return 0;
	}
	t = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t) {
		t->acting_for = w->time;
		t->acting_for.worker_ns = bpf_ktime_get_ns();
		t->acting = 1;
		t->sleeps_before = bpf_get_current_task_btf()->nvcsw;
	} else {
		count(FL_COUNTER_ENROL_FAILED);
	}
	w->address = 0;
	return 0;
}

#endif
