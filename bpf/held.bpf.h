/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What holds a thread, or its I/O, where no request shows it: the hints.
 *
 * A hint says what the current thread is in the middle of: submitting a bio that has no request yet (it sleeps there
 * for a tag, or because writeback throttling holds it), being paused for the pages it dirtied, or reclaiming memory.
 * It is looked at when the thread goes to sleep and names the whole sleep, like the engine's own state word.
 * Hints belong to the thread: set and taken back by its own CPU, in its own context.
 *
 * A cgroup limit (blk-throttle) holds the bio itself, before any block event, and lets the thread go on. Later a worker
 * of its own workqueue, kthrotld, submits it. So the request is nobody's own: the completion explains the sleeper's wait
 * (rule 1), and what lies before the request's start is `throttle`.
 */
#ifndef FLUSHLIGHT_HELD_BPF_H
#define FLUSHLIGHT_HELD_BPF_H

/* In what we keep of a request's cmd_flags: a cgroup limit held it. No operation or flag of the kernel's is up there. */
#define FL_FLAGS_HELD (1u << 31)

static __always_inline struct fl_scratch *scratch_here(void)
{
	__u32 index = slot_index_of(bpf_get_current_task_btf());

	return index ? scratch_of(index) : 0;
}

static __always_inline void hint_set(__u8 hint)
{
	struct fl_scratch *x = scratch_here();

	if (x)
		x->hint |= hint;
}

static __always_inline void hint_clear(__u8 hint)
{
	struct fl_scratch *x = scratch_here();

	if (x)
		x->hint &= ~hint;
}

/* Its group has used up its quota (cpu.max): it gets no CPU until the next period. */
static __always_inline bool over_quota(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq->throttle_count) && task->se.parent &&
	       task->se.cfs_rq->throttle_count > 0;
}

/* Whether the current worker runs for kthrotld: asked only when a worker submits. */
static __noinline bool dispatches_throttled(struct task_struct *worker_task)
{
	struct workqueue_struct *queue;
	struct pool_workqueue *pwq;
	struct kthread *thread;
	struct worker *worker;
	char name[8] = {};

	if (!bpf_core_field_exists(worker_task->worker_private) || !bpf_core_type_exists(struct kthread) ||
	    !bpf_core_type_exists(struct worker))
		return false;
	if (bpf_core_read(&thread, sizeof(thread), &worker_task->worker_private) || !thread ||
	    bpf_core_read(&worker, sizeof(worker), &thread->data) || !worker ||
	    bpf_core_read(&pwq, sizeof(pwq), &worker->current_pwq) || !pwq ||
	    bpf_core_read(&queue, sizeof(queue), &pwq->wq) || !queue ||
	    bpf_core_read(name, sizeof(name), &queue->name))
		return false;
	return *(__u64 *)name == *(const __u64 *)"kthrotld";
}

/* Somebody waits in writeback throttling for this queue's tokens: at least the one that asks. */
static __always_inline bool wbt_waits(struct request_queue *q)
{
	struct rq_qos *qos = 0;
	enum rq_qos_id id = 0;
	struct list_head *next;
	struct rq_wb *wb;

	if (!bpf_core_type_exists(struct rq_wb) || bpf_core_read(&qos, sizeof(qos), &q->rq_qos))
		return false;
	for (int i = 0; i < 3 && qos; i++) {
		if (bpf_core_read(&id, sizeof(id), &qos->id))
			return false;
		if (id == bpf_core_enum_value(enum rq_qos_id, RQ_QOS_WBT)) {
			wb = (void *)qos - bpf_core_field_offset(struct rq_wb, rqos);
#define FL_WAITERS(i)                                                           \
	(!bpf_core_read(&next, sizeof(next), &wb->rq_wait[i].wait.head.next) && \
	 next != &wb->rq_wait[i].wait.head)
			return FL_WAITERS(0) || FL_WAITERS(1) || FL_WAITERS(2);
#undef FL_WAITERS
		}
		if (bpf_core_read(&qos, sizeof(qos), &qos->next))
			return false;
	}
	return false;
}

/* The thread goes to sleep in the middle of something. Returns the cause, FL_CAUSE_COUNT: not because of that. */
static __noinline __u32 hinted_cause(struct fl_scratch *x, struct task_struct *task)
{
	__u8 hint;

	if (!x || !task)
		return FL_CAUSE_COUNT;
	hint = x->hint;
	if (hint & FL_HINT_DIRTY) {
		x->hint = hint & ~FL_HINT_DIRTY; /* one pause each */
		if (in_iowait(task)) {
			x->detail = FL_COUNTER_THROTTLE_DIRTY_NS;
			return FL_CAUSE_THROTTLE;
		}
	}
	if ((hint & FL_HINT_SUBMIT) && in_iowait(task)) {
		x->detail = wbt_waits((struct request_queue *)x->submit_queue) ? FL_COUNTER_QUEUE_WBT_NS :
										 FL_COUNTER_QUEUE_TAG_NS;
		return FL_CAUSE_QUEUE;
	}
	if (hint & FL_HINT_RECLAIM) {
		x->detail = FL_COUNTER_THROTTLE_RECLAIM_NS;
		return FL_CAUSE_THROTTLE;
	}
	return FL_CAUSE_COUNT;
}

/*
 * A bio comes to a queue of requests. (A stacked device passes it on: that one's own event follows.) It has a request
 * at block_io_start, or ends in another's at a merge.
 */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(fl_bio_queue, struct bio *bio)
{
	struct fl_scratch *x = scratch_here();
	struct gendisk *disk;

	if (!x)
		return 0;
	disk = bio->bi_bdev->bd_disk;
	if (disk->fops->submit_bio)
		return 0;
	x->submit_queue = (__u64)disk->queue;
	x->hint |= FL_HINT_SUBMIT;
	return 0;
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(fl_backmerge, struct bio *bio)
{
	hint_clear(FL_HINT_SUBMIT);
	return 0;
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(fl_frontmerge, struct bio *bio)
{
	hint_clear(FL_HINT_SUBMIT);
	return 0;
}

/* Just before a pause, or to say that there is none (pause <= 0). Eight arguments from 6.17 or so on, twelve before. */
SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(fl_dirty, void *wb, void *dtc, unsigned long ratelimit, unsigned long task_ratelimit,
	     unsigned long dirtied, unsigned long period, long pause, unsigned long start)
{
	if (pause > 0)
		hint_set(FL_HINT_DIRTY);
	return 0;
}

SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(fl_dirty_long, void *wb, unsigned long thresh, unsigned long bg_thresh, unsigned long dirty,
	     unsigned long wb_thresh, unsigned long wb_dirty, unsigned long ratelimit,
	     unsigned long task_ratelimit, unsigned long dirtied, unsigned long period, long pause,
	     unsigned long start)
{
	if (pause > 0)
		hint_set(FL_HINT_DIRTY);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(fl_reclaim, int order, unsigned int gfp)
{
	hint_set(FL_HINT_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(fl_reclaim_end, unsigned long reclaimed)
{
	hint_clear(FL_HINT_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(fl_memcg_reclaim, int order, unsigned int gfp)
{
	hint_set(FL_HINT_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(fl_memcg_reclaim_end, unsigned long reclaimed)
{
	hint_clear(FL_HINT_RECLAIM);
	return 0;
}

#endif
