/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The daemon asks during a stall: which tasks sleep uninterruptibly, since when, and in which function. Text, because
 * only the kernel can print the names of its functions everywhere (%pB); the daemon reads it from an iterator.
 *
 *   T tid tgid iowait kernel blocked_ns name name     (the name as two numbers)
 *   S function+offset/size                            (innermost first)
 */
#ifndef FLUSHLIGHT_BLOCKED_BPF_H
#define FLUSHLIGHT_BLOCKED_BPF_H

#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_NOLOAD 0x0400 /* waits for work, not for a device */

struct seq_file;

struct bpf_iter_meta___seq {
	struct seq_file *seq;
} CORE;

struct sched_info {
	__u64 last_arrival;
} CORE;

struct task_struct___blocked {
	struct sched_info sched_info; /* CONFIG_SCHED_INFO */
	unsigned in_iowait : 1;
} CORE;

/* Both are the run queues' clock, of which only differences are used. */
static __always_inline __u64 last_ran_ns(struct task_struct *task)
{
	struct task_struct___blocked *t = (void *)task;

	return bpf_core_field_exists(t->sched_info) ? BPF_CORE_READ(t, sched_info.last_arrival) : 0;
}

SEC("iter/task")
int fl_blocked(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ((struct bpf_iter_meta___seq *)ctx->meta)->seq;
	struct task_struct *task = ctx->task, *current;
	__u64 frames[FL_STACK_FRAMES] = {}, name[2] = {}, ran, now;
	long bytes;

	if (!task)
		return 0;
	if (!(task->__state & TASK_UNINTERRUPTIBLE) || (task->__state & (TASK_NOLOAD | TASK_DEAD)))
		return 0;
	current = bpf_get_current_task_btf();
	now = last_ran_ns(current);
	ran = last_ran_ns(task);
	bpf_probe_read_kernel(name, sizeof(name), task->comm);
	BPF_SEQ_PRINTF(seq, "T %d %d %d %d %llu %llx %llx\n", task->pid, task->tgid,
		       (int)BPF_CORE_READ_BITFIELD((struct task_struct___blocked *)task, in_iowait),
		       task->flags & PF_KTHREAD ? 1 : 0, ran && now > ran ? now - ran : 0, name[0], name[1]);
	bytes = bpf_get_task_stack(task, frames, sizeof(frames), 0);
	for (int i = 0; i < FL_STACK_FRAMES; i++) {
		if (bytes < (long)(i + 1) * (long)sizeof(__u64) || !frames[i])
			break;
		BPF_SEQ_PRINTF(seq, "S %pB\n", frames[i]);
	}
	return 0;
}

#endif
