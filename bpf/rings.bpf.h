/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * io_uring. How much was submitted and completed a ring counts itself; it is read when the daemon asks. Events count what
 * no ring knows: requests that io-wq workers had to take, submissions that failed, completions that found the queue full,
 * and the time of each request. Its thread (SQPOLL) is timed by the scheduler.
 * The table is keyed by the ring's address: a new ring at an old address begins anew, and the daemon removes what it no
 * longer finds. There is no event for a ring's end.
 */
#ifndef FLUSHLIGHT_RINGS_BPF_H
#define FLUSHLIGHT_RINGS_BPF_H

#include "rings_shared.h"

#define ANON_INODE_FS_MAGIC 0x09041934
#define IORING_SETUP_SQPOLL 2u

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FL_URINGS);
	__type(key, __u64);
	__type(value, struct fl_uring);
} urings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_URING_REQUESTS);
	__type(key, __u32);
	__type(value, struct fl_uring_request);
} uring_requests SEC(".maps");

/* Too big for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fl_uring);
} new_uring SEC(".maps");

/* Number of the daemon's present look for open rings. */
volatile __u64 fl_ring_sweep = 1;

struct io_uring {
	__u32 head, tail;
} CORE;

struct io_rings {
	struct io_uring sq, cq;
	__u32 sq_dropped, cq_overflow;
} CORE;

struct io_sq_data {
	struct task_struct *thread;
	int sq_cpu;
} CORE;

struct io_ring_ctx {
	unsigned int flags;
	struct io_rings *rings;
	unsigned int cached_sq_head, sq_entries;
	unsigned int cached_cq_tail, cq_entries;
	struct io_sq_data *sq_data;
} CORE;

struct io_kiocb {
	struct io_ring_ctx *ctx;
} CORE;

struct path {
	struct dentry *dentry;
} CORE;

struct super_block___magic {
	unsigned long s_magic;
} CORE;

struct file___ring {
	struct path f_path;
	void *private_data;
} CORE;

struct io_uring_task {
	struct file *registered_rings[FL_URING_REGISTERED];
} CORE;

struct sched_info___wait {
	unsigned long long run_delay, last_queued;
} CORE;

struct rq___clock {
	__u64 clock;
} CORE;

struct task_struct___ring {
	struct io_uring_task *io_uring;
	struct sched_info___wait sched_info; /* CONFIG_SCHED_INFO */
	int on_cpu;
} CORE;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} CORE;

static __always_inline struct fl_uring *uring_at(const void *ring)
{
	__u64 key = (__u64)ring;

	return bpf_map_lookup_elem(&urings, &key);
}

static __always_inline void uring_owner(struct fl_uring *u, struct task_struct *leader, __u32 descriptor)
{
	u->owner_start_ns = BPF_CORE_READ(leader, start_boottime);
	u->owner_tgid = BPF_CORE_READ(leader, tgid);
	u->descriptor = descriptor;
	bpf_probe_read_kernel(u->owner_comm, sizeof(u->owner_comm), leader->comm);
}

static __noinline struct fl_uring *uring_begins(__u64 ring, bool created)
{
	__u32 zero = 0;
	struct fl_uring *u = bpf_map_lookup_elem(&new_uring, &zero);

	if (!u)
		return 0;
	u->counted_ns = bpf_ktime_get_ns();
	u->created = created;
	if (bpf_map_update_elem(&urings, &ring, u, created ? BPF_ANY : BPF_NOEXIST) && created)
		count(FL_COUNTER_RING_FULL);
	return bpf_map_lookup_elem(&urings, &ring);
}

SEC("tp_btf/io_uring_create")
int BPF_PROG(fl_ring_create, int fd, void *ring)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct fl_uring *u = uring_begins((__u64)ring, true);

	count(FL_COUNTER_RING_CREATED);
	if (u)
		uring_owner(u, current->group_leader, fd);
	return 0;
}

SEC("tp_btf/io_uring_queue_async_work")
int BPF_PROG(fl_ring_punt, struct io_kiocb *request)
{
	struct fl_uring *u = uring_at(BPF_CORE_READ(request, ctx));

	if (u)
		__sync_fetch_and_add(&u->punts, 1);
	return 0;
}

SEC("tp_btf/io_uring_req_failed")
int BPF_PROG(fl_ring_failed, void *entry, struct io_kiocb *request)
{
	struct fl_uring *u = uring_at(BPF_CORE_READ(request, ctx));

	if (u)
		__sync_fetch_and_add(&u->failed, 1);
	return 0;
}

SEC("tp_btf/io_uring_cqe_overflow")
int BPF_PROG(fl_ring_overflow, void *ring)
{
	struct fl_uring *u = uring_at(ring);

	if (u)
		__sync_fetch_and_add(&u->overflows, 1);
	return 0;
}

static __always_inline struct fl_uring_request *uring_request(__u64 address)
{
	__u32 at = address_hash(address) >> (32 - FL_URING_REQUEST_BITS);

	return bpf_map_lookup_elem(&uring_requests, &at);
}

static __always_inline int uring_submit(__u64 address)
{
	struct fl_uring_request *place = uring_request(address);

	if (place) {
		place->begin_ns = bpf_ktime_get_ns();
		place->address = address;
	}
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(fl_ring_submit, void *request)
{
	return uring_submit((__u64)request);
}

/* Its name before 6.3 (commit 2ad57931db64, "io_uring: rename trace_io_uring_submit_sqe() tracepoint"). */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(fl_ring_submit_sqe, void *request)
{
	return uring_submit((__u64)request);
}

/* Another process than before: rare. */
static __noinline int uring_user(struct fl_uring *u, __u32 tgid)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if (!u)
		return 0;
	u->user_tgid = tgid;
	bpf_probe_read_kernel(u->user_comm, sizeof(u->user_comm), current->group_leader->comm);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(fl_ring_complete, void *ring, void *request)
{
	struct fl_uring *u = uring_at(ring);
	struct fl_uring_request *place;
	__u32 tgid, bucket;
	__u64 took;

	if (!u)
		return 0;
	/* its own worker's or polling thread's too: they are threads of the process */
	tgid = bpf_get_current_pid_tgid() >> 32;
	if (u->user_tgid != tgid)
		uring_user(u, tgid);
	place = request ? uring_request((__u64)request) : 0;
	if (!place || place->address != (__u64)request)
		return 0;
	place->address = 0; /* the first completion is the one that is timed */
	took = bpf_ktime_get_ns() - place->begin_ns;
	__sync_fetch_and_add(&u->timed, 1);
	__sync_fetch_and_add(&u->time_ns, took);
	bucket = fl_histogram_bucket(took) / FL_URING_COARSE;
	if (bucket < FL_URING_BUCKETS)
		__sync_fetch_and_add(&u->buckets[bucket], 1);
	return 0;
}

/* Times of the ring's own thread are the run queues' clock; only differences are used. */
static __always_inline void uring_thread(struct fl_uring *u, struct io_ring_ctx *ring)
{
	struct io_sq_data *data = BPF_CORE_READ(ring, sq_data);
	struct task_struct *task = data ? BPF_CORE_READ(data, thread) : 0;
	struct task_struct___ring *t = (void *)task;
	struct rq___clock *rq;
	__u64 queued, now;

	u->sq_state = FL_SQ_THREAD_NONE;
	u->sq_tid = 0;
	if (!task)
		return;
	u->sq_tid = BPF_CORE_READ(task, pid);
	u->sq_cpu = BPF_CORE_READ(data, sq_cpu);
	if (BPF_CORE_READ(task, __state))
		u->sq_state = FL_SQ_THREAD_SLEEPS;
	else
		u->sq_state = BPF_CORE_READ(t, on_cpu) ? FL_SQ_THREAD_RUNS : FL_SQ_THREAD_WAITS;
	u->sq_run_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	if (!bpf_core_field_exists(t->sched_info))
		return;
	u->sq_wait_known = 1;
	u->sq_wait_ns = BPF_CORE_READ(t, sched_info.run_delay);
	queued = BPF_CORE_READ(t, sched_info.last_queued);
	rq = (void *)BPF_CORE_READ(task, se.cfs_rq, rq);
	now = BPF_CORE_READ(rq, clock);
	if (u->sq_state == FL_SQ_THREAD_WAITS && queued && now > queued)
		u->sq_wait_ns += now - queued;
}

static __always_inline void uring_look(struct fl_uring *u, struct io_ring_ctx *ring)
{
	struct io_rings *shared = BPF_CORE_READ(ring, rings);
	__u32 head = BPF_CORE_READ(ring, cached_sq_head), tail = BPF_CORE_READ(ring, cached_cq_tail);

	u->flags = BPF_CORE_READ(ring, flags);
	u->sq_entries = BPF_CORE_READ(ring, sq_entries);
	u->cq_entries = BPF_CORE_READ(ring, cq_entries);
	u->submitted += head - u->sq_head;
	u->posted += tail - u->cq_tail;
	u->sq_head = head;
	u->cq_tail = tail;
	if (shared) {
		u->sq_pending = BPF_CORE_READ(shared, sq.tail) - head;
		u->cq_pending = tail - BPF_CORE_READ(shared, cq.head);
		u->sq_dropped = BPF_CORE_READ(shared, sq_dropped);
		u->cq_dropped = BPF_CORE_READ(shared, cq_overflow);
	}
	uring_thread(u, ring);
}

static __always_inline bool is_ring(struct file *file)
{
	struct super_block *super = BPF_CORE_READ(file, f_inode, i_sb);
	__u64 name[2] = {};

	if (BPF_CORE_READ((struct super_block___magic *)super, s_magic) != ANON_INODE_FS_MAGIC)
		return false;
	bpf_probe_read_kernel_str(name, sizeof(name),
				  BPF_CORE_READ((struct file___ring *)file, f_path.dentry, d_name.name));
	/* "[io_uring]" */
	return name[0] == 0x6e6972755f6f695bull && name[1] == 0x5d67ull;
}

/* A task holds this ring open. Who made it is not known if that was before us: the oldest process that holds it. */
static __noinline int ring_found(struct task_struct *leader, struct file *file, __u32 descriptor)
{
	struct io_ring_ctx *ring = BPF_CORE_READ((struct file___ring *)file, private_data);
	struct fl_uring *u;

	if (!ring)
		return 0;
	u = uring_at(ring);
	if (!u)
		u = uring_begins((__u64)ring, false);
	if (!u) {
		count(FL_COUNTER_RING_FULL);
		return 0;
	}
	if (!u->created && (!u->owner_start_ns || BPF_CORE_READ(leader, start_boottime) < u->owner_start_ns))
		uring_owner(u, leader, descriptor);
	if (u->sweep == fl_ring_sweep)
		return 0;
	u->sweep = fl_ring_sweep;
	uring_look(u, ring);
	return 0;
}

/* Run by the daemon: every open ring. */
SEC("iter/task_file")
int fl_ring_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file && is_ring(file))
		ring_found(task->group_leader, file, ctx->fd);
	return 0;
}

/* And those that a thread knows by a registered number, which need no descriptor. */
SEC("iter/task")
int fl_ring_registered(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct io_uring_task *own;
	struct file *file;

	if (!task)
		return 0;
	own = BPF_CORE_READ((struct task_struct___ring *)task, io_uring);
	if (!own)
		return 0;
	for (int i = 0; i < FL_URING_REGISTERED; i++) {
		file = BPF_CORE_READ(own, registered_rings[i]);
		if (file && is_ring(file))
			ring_found(task->group_leader, file, ~0u);
	}
	return 0;
}

#endif
