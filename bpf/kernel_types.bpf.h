/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types that the kernel side touches, with only the fields it reads. Offsets are relocated at
 * load time from the running kernel's BTF (CO-RE), so the build needs no vmlinux.h of any kernel.
 * Drift between kernels lives in compat.bpf.h.
 */
#ifndef FLUSHLIGHT_KERNEL_TYPES_BPF_H
#define FLUSHLIGHT_KERNEL_TYPES_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1u, BPF_F_MMAPABLE = 1u << 10 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#define CORE __attribute__((preserve_access_index))

struct rq;
struct bpf_local_storage;
struct gendisk;

struct cfs_rq {
	struct rq *rq;
	int throttle_count; /* over its quota, or a group above it is */
} CORE;

struct sched_entity {
	__u64 sum_exec_runtime;
	struct sched_entity *parent; /* NULL: in the root group, which has no quota */
	struct cfs_rq *cfs_rq;
} CORE;

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	struct sched_entity se;
	unsigned in_iowait : 1;
	unsigned long nvcsw;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	char comm[16];
	void *worker_private;
	struct bpf_local_storage *bpf_storage;
} CORE;

struct list_head {
	struct list_head *next;
} CORE;

struct wait_queue_head {
	struct list_head head;
} CORE;

struct rq_wait {
	struct wait_queue_head wait;
} CORE;

enum rq_qos_id {
	RQ_QOS_WBT = 0,
};

struct rq_qos {
	enum rq_qos_id id;
	struct rq_qos *next;
} CORE;

/* writeback throttling of a queue */
struct rq_wb {
	struct rq_qos rqos;
	struct rq_wait rq_wait[3];
} CORE;

struct request_queue {
	struct gendisk *disk;
	struct rq_qos *rq_qos;
} CORE;

struct bio;
struct block_device_operations {
	void (*submit_bio)(struct bio *bio); /* of stacked devices: no requests of their own */
} CORE;

struct gendisk {
	int major;
	int first_minor;
	const struct block_device_operations *fops;
	struct request_queue *queue;
} CORE;

struct block_device {
	struct gendisk *bd_disk;
	unsigned int bd_dev;
} CORE;

/* jbd2's journal_t */
struct journal_s {
	struct block_device *j_dev; /* holds the journal; j_fs_dev, unless it is external */
	struct block_device *j_fs_dev;
	unsigned int j_total_len; /* in blocks; since 5.11 */
	int j_blocksize;
} CORE;

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
} CORE;

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int rq_flags;
	unsigned int __data_len;
	struct bio *bio;
} CORE;

struct work_struct;
struct irqaction;

struct workqueue_struct {
	char name[24];
} CORE;

struct pool_workqueue {
	struct workqueue_struct *wq;
} CORE;

struct worker {
	struct pool_workqueue *current_pwq;
} CORE;

/* task_struct.worker_private of every kernel thread; its data of a worker: struct worker */
struct kthread {
	void *data;
} CORE;
struct inode;
struct xfs_inode;

struct bpf_iter_meta {
	__u64 session_id;
} CORE;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

/* Stable kernel numbers (include/linux/sched.h, include/linux/preempt.h, include/linux/blk_types.h). */
#define TASK_DEAD 0x00000080
#define TASK_WAKING 0x00000200
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000
#define PREEMPT_SOFTIRQ_SERVING 0x00000100
#define PREEMPT_HARDIRQ_MASK 0x000f0000
#define PREEMPT_NMI_MASK 0x00f00000
#define REQ_OP_MASK 0xff

#endif
