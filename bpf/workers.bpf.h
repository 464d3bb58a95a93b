/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work items that a completing request queued (ext4's unwritten-extent conversion, XFS's log completion): who
 * is woken by the worker waited for the request. Chains (a worker that queues more work) are followed.
 */
#ifndef FLUSHLIGHT_WORKERS_BPF_H
#define FLUSHLIGHT_WORKERS_BPF_H

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(fl_queue_work, int req_cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	__u32 zero = 0;
	struct fl_completing *cpu = bpf_map_lookup_elem(&completing, &zero);
	struct task_struct *current;
	struct fl_request *r;
	struct fl_task *t;
	__u64 key = (__u64)work;

	if (cpu && cpu->request) {
		r = request_at(cpu->request - 1);
		if (r)
			bpf_map_update_elem(&works, &key, &r->time, BPF_ANY);
		return 0;
	}
	current = bpf_get_current_task_btf();
	if (!(current->flags & PF_WQ_WORKER))
		return 0;
	t = task_of(current);
	if (t && t->acting)
		bpf_map_update_elem(&works, &key, &t->acting_for, BPF_ANY);
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(fl_work_start, struct work_struct *work)
{
	__u64 key = (__u64)work;
	struct fl_timeline *from = bpf_map_lookup_elem(&works, &key);
	struct fl_task *t;

	if (!from)
		return 0;
	t = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t) {
		t->acting_for = *from;
		t->acting_for.worker_ns = bpf_ktime_get_ns();
		t->acting = 1;
	} else {
		count(FL_COUNTER_ENROL_FAILED);
	}
	bpf_map_delete_elem(&works, &key);
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(fl_work_end, struct work_struct *work)
{
	struct fl_task *t = task_of(bpf_get_current_task_btf());

	if (t)
		t->acting = 0;
	return 0;
}

#endif
