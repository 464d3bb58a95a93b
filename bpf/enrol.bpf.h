/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How threads become known: by a name that they give themselves (abi/ledger.h), by being born of a known
 * process, or by the task iterator that the daemon runs when a process was bound.
 *
 * Names are no secret (anyone can read /proc/PID/comm), so a token works once and binds the process that used
 * it first; afterwards only threads of that very process (tgid and start time) can take slots, only in its own
 * range, only free ones. Anything else is refused and counted.
 */
#ifndef FLUSHLIGHT_ENROL_BPF_H
#define FLUSHLIGHT_ENROL_BPF_H

static __always_inline bool read_number(const char *digits, int count_of, __u64 *value)
{
	__u64 result = 0;

#pragma unroll
	for (int i = 0; i < 11; i++) {
		__u8 digit;

		if (i >= count_of)
			break;
		digit = (__u8)digits[i] - FL_NAME_DIGIT_BASE;
		if (digit > 63)
			return false;
		result = result << 6 | digit;
	}
	*value = result;
	return true;
}

static __always_inline void bind_process(struct task_struct *current, const char *digits)
{
	__u32 tgid = current->tgid, parent = current->real_parent->tgid, one = 1;
	struct fl_process *granted, process;
	__u64 token = 0;

	if (!read_number(digits, FL_NAME_TOKEN_DIGITS, &token) || !token) {
		count(FL_COUNTER_ENROL_REFUSED);
		return;
	}
	granted = bpf_map_lookup_elem(&tokens, &token);
	if (!granted) {
		count(FL_COUNTER_ENROL_REFUSED);
		return;
	}
	process = *granted;
	if (bpf_map_delete_elem(&tokens, &token)) {
		/* somebody else was faster: one use each */
		count(FL_COUNTER_ENROL_REFUSED);
		return;
	}
	process.leader_start_ns = current->group_leader->start_boottime;
	process.enrolled = 0;
	bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY);
	if ((process.flags & 1 /* FL_HELLO_FAMILY_SIBLINGS */) && parent > 1)
		bpf_map_update_elem(&families, &parent, &one, BPF_ANY);
}

static __always_inline void take_slot(struct task_struct *current, const char *digits)
{
	__u32 tgid = current->tgid, index;
	__u64 wanted = 0, nonce = 0;
	struct fl_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct fl_scratch *x;
	struct fl_slot *slot;
	struct fl_task *t;

	if (!process || process->leader_start_ns != current->group_leader->start_boottime ||
	    !read_number(digits, FL_NAME_SLOT_DIGITS, &wanted) ||
	    !read_number(digits + FL_NAME_SLOT_DIGITS, FL_NAME_NONCE_DIGITS, &nonce) || !nonce ||
	    wanted < process->first_slot || wanted >= process->first_slot + process->slot_count) {
		count(FL_COUNTER_ENROL_REFUSED);
		return;
	}
	index = wanted;
	slot = slot_of(index);
	x = scratch_of(index);
	t = bpf_task_storage_get(&tasks, current, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		count(FL_COUNTER_ENROL_FAILED);
		return;
	}
	if (!slot || !x || !slot_take(slot, x)) {
		count(FL_COUNTER_ENROL_REFUSED);
		return;
	}
	if (t->slot) {
		/* known before as a background thread, or from an earlier attachment */
		__u32 old = t->slot;
		struct fl_slot *old_slot = slot_of(old);
		struct fl_scratch *old_x = scratch_of(old);

		t->slot = 0;
		if (old_slot && old_x)
			slot_retire(old, old_slot, old_x);
	}
	slot_begin(index, slot, x, current, FL_THREAD_SESSION, nonce, true);
	x->pooled = 0;
	if (process->state_word_address) {
		x->state_word = process->state_word_address +
				(__u64)process->state_word_stride * (index - process->first_slot);
#pragma unroll
		for (int i = 0; i < FL_STATE_RULES; i++)
			x->rules[i] = process->rules[i];
	}
	t->kind = FL_THREAD_SESSION;
	t->slot = index;
	thread_becomes_known(current, index);
}

SEC("tp_btf/task_rename")
int BPF_PROG(fl_rename, struct task_struct *task, const char *comm)
{
	struct task_struct *current = bpf_get_current_task_btf();
	char name[16] = {};

	if (bpf_probe_read_kernel(name, sizeof(name), comm) || name[0] != FL_NAME_MARK)
		return 0;
	if (task->pid != current->pid) {
		/* one thread may write another's /proc/TID/comm */
		count(FL_COUNTER_ENROL_REFUSED);
		return 0;
	}
	if (name[1] == FL_NAME_TOKEN)
		bind_process(current, name + 2);
	else if (name[1] == FL_NAME_SLOT)
		take_slot(current, name + 2);
	else
		count(FL_COUNTER_ENROL_REFUSED);
	return 0;
}

/* Background threads (purge, page cleaner, walwriter, checkpointer) lead syncs too: traced from birth. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(fl_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = parent->tgid;

	if (child->tgid == parent->tgid ? !!bpf_map_lookup_elem(&processes, &tgid) :
					  !!bpf_map_lookup_elem(&families, &tgid))
		enrol_pooled(child, FL_THREAD_BACKGROUND, false);
	return 0;
}

/* Run by the daemon: existing threads of bound processes and their families, and journal threads. */
SEC("iter/task")
int fl_enrol_existing(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 tgid, parent;

	if (!task)
		return 0;
	if (task->flags & PF_KTHREAD) {
		if (is_journal_thread(task))
			enrol_pooled(task, FL_THREAD_JOURNAL, false);
		return 0;
	}
	tgid = task->tgid;
	parent = task->real_parent->tgid;
	if (bpf_map_lookup_elem(&processes, &tgid) || bpf_map_lookup_elem(&families, &parent) ||
	    bpf_map_lookup_elem(&families, &tgid))
		enrol_pooled(task, FL_THREAD_BACKGROUND, false);
	return 0;
}

#endif
