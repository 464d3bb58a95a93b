/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel drift, in one place. Nothing here compares kernel versions: what differs is read from BTF, either
 * by CO-RE at load time or by the loader, which fills the constants below (sidecar/kernel/btf.cpp).
 */
#ifndef FLUSHLIGHT_COMPAT_BPF_H
#define FLUSHLIGHT_COMPAT_BPF_H

/* rq_flags is an enum from 6.12 on (commit 5f89154e8e9e, "block: Use enum to define RQF_x bit indexes");
 * before, bit 4 meant RQF_FLUSH_SEQ. The loader finds the bit. */
const volatile __u32 fl_flush_seq_mask = 1u << 1;

/* REQ_PREFLUSH and REQ_FUA: bits moved when flags were added; enum req_flag_bits is in every BTF. */
const volatile __u32 fl_preflush_mask = 1u << 18;
const volatile __u32 fl_fua_mask = 1u << 17;

/*
 * __preempt_count tells whether an interrupt runs on top of the current task. It is a per-CPU variable whose
 * symbol cannot be resolved on kernels built without KALLSYMS_ALL. But the run queue of this CPU is reachable
 * from the current task, both variables lie in .data..percpu, and BTF gives their distance.
 * fl_preempt_known = 0: unknown on this kernel, then a wake from a thread that could be an interrupt's is not
 * believed unless the thread is in no position to be interrupted (see wake.bpf.h).
 */
const volatile __s64 fl_preempt_distance = 0;
const volatile __u32 fl_preempt_known = 0;

/*
 * block_io_start and block_io_done exist from 6.5 on (commit 5a80bd075f3b, "block: introduce
 * block_io_start/block_io_done tracepoints"). Before, the owner is known at block_getrq, which has only the bio:
 * the entry is kept under the bio's address until the request itself is seen (issue, merge or completion). And a
 * completion has no end event. It ends with the next one in the same context, or with the context: irq_handler_exit,
 * softirq_exit, and for a completion in a thread after fl_completing_ns (decision 0008).
 */
const volatile __u32 fl_no_io_start = 0;
const volatile __u64 fl_completing_ns = 0;

/* The context of this CPU; unknown where the counter is: then always a thread. */
static __always_inline __u32 context_here(struct task_struct *current)
{
	__u32 count = 0;
	__u64 rq = 0;

	if (!fl_preempt_known)
		return FL_CONTEXT_THREAD;
	/* read, not dereferenced: the result is a number that the distance can be added to */
	if (bpf_probe_read_kernel(&rq, sizeof(rq), &current->se.cfs_rq->rq))
		return FL_CONTEXT_HARDIRQ;
	if (bpf_probe_read_kernel(&count, sizeof(count), (void *)(rq + fl_preempt_distance)))
		return FL_CONTEXT_HARDIRQ;
	if (count & (PREEMPT_HARDIRQ_MASK | PREEMPT_NMI_MASK))
		return FL_CONTEXT_HARDIRQ;
	return count & PREEMPT_SOFTIRQ_SERVING ? FL_CONTEXT_SOFTIRQ : FL_CONTEXT_THREAD;
}

/* A bit field: only this way is it looked for where the running kernel has it. */
static __always_inline bool in_iowait(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, in_iowait);
}

static __always_inline bool in_interrupt(struct task_struct *current)
{
	return context_here(current) != FL_CONTEXT_THREAD;
}

#endif
