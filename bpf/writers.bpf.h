/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who writes and syncs: process and file. Counted where ext4 and XFS take data into the page cache, where direct I/O begins
 * and at syncs, all in the writer's own context; the requests of write-back belong to kernel workers and say nothing of it.
 * Bounded: the least recently used go.
 */
#ifndef FLUSHLIGHT_WRITERS_BPF_H
#define FLUSHLIGHT_WRITERS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FL_WRITERS);
	__type(key, struct fl_writer_key);
	__type(value, struct fl_writer);
} writers SEC(".maps");

/* Too big for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fl_writer);
} new_writer SEC(".maps");

struct kernfs_node {
	const char *name;
} CORE;

struct cgroup {
	struct kernfs_node *kn;
} CORE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CORE;

enum cgroup_subsys_id {
	io_cgrp_id = 3,
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
} CORE;

struct task_struct___group {
	struct css_set *cgroups;
} CORE;

/* The group's own name; on hosts that limit I/O by version 1, that of its group there. */
static __always_inline void cgroup_name(char *name, __u32 bytes, struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ((struct task_struct___group *)task, cgroups);
	__u32 io = bpf_core_enum_value_exists(enum cgroup_subsys_id, io_cgrp_id) ?
			   bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id) :
			   0;
	struct cgroup_subsys_state *css = 0;

	name[0] = 0;
	bpf_probe_read_kernel_str(name, bytes, BPF_CORE_READ(set, dfl_cgrp, kn, name));
	if (name[0] && name[0] != '/')
		return;
	bpf_probe_read_kernel(&css, sizeof(css), (void *)&set->subsys + io * sizeof(void *));
	if (css)
		bpf_probe_read_kernel_str(name, bytes, BPF_CORE_READ(css, cgroup, kn, name));
}

static __noinline struct fl_writer *writer_begins(struct fl_writer_key *key, struct inode *inode)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u32 zero = 0;
	struct fl_writer *writer = bpf_map_lookup_elem(&new_writer, &zero);

	if (!writer)
		return 0;
	writer->window = 0;
	bpf_probe_read_kernel(writer->comm, sizeof(writer->comm), current->group_leader->comm);
	cgroup_name(writer->cgroup, sizeof(writer->cgroup), current);
	file_of_inode(&writer->file, inode);
	bpf_map_update_elem(&writers, key, writer, BPF_NOEXIST);
	return bpf_map_lookup_elem(&writers, key);
}

/* The current thread's process and this file; NULL: no block device holds it. */
static __always_inline struct fl_writer *writer_of(struct inode *inode, __u64 now)
{
	struct super_block *super = inode->i_sb;
	struct fl_writer_key key = {};
	struct fl_writer *writer;
	__u32 window = now >> FL_RECENT_SHIFT;

	if (!super || !super->s_bdev)
		return 0;
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.super = super->s_dev;
	key.inode = inode->i_ino;
	writer = bpf_map_lookup_elem(&writers, &key);
	if (!writer)
		writer = writer_begins(&key, inode);
	if (!writer)
		return 0;
	if (writer->window != window) {
		bool follows = writer->window + 1 == window;

		writer->bytes_before = follows ? writer->bytes_now : 0;
		writer->syncs_before = follows ? writer->syncs_now : 0;
		writer->bytes_now = 0;
		writer->syncs_now = 0;
		writer->window = window;
	}
	writer->last_ns = now;
	return writer;
}

static __noinline int writer_wrote(struct inode *inode, __u64 bytes)
{
	struct fl_writer *writer = writer_of(inode, bpf_ktime_get_ns());

	if (!writer)
		return 0;
	__sync_fetch_and_add(&writer->writes, 1);
	__sync_fetch_and_add(&writer->bytes, bytes);
	__sync_fetch_and_add(&writer->bytes_now, bytes);
	return 0;
}

static __noinline int writer_sync_begins(struct inode *inode, bool end_will_be_seen)
{
	__u64 now = bpf_ktime_get_ns();
	struct fl_writer *writer = writer_of(inode, now);

	if (!writer)
		return 0;
	__sync_fetch_and_add(&writer->syncs, 1);
	__sync_fetch_and_add(&writer->syncs_now, 1);
	if (!end_will_be_seen)
		return 0;
	if (!__sync_fetch_and_add(&writer->syncing, 1))
		writer->sync_began_ns = now;
	return 0;
}

static __noinline int writer_sync_ends(struct inode *inode)
{
	__u64 now = bpf_ktime_get_ns();
	struct fl_writer *writer = writer_of(inode, now);
	__u64 began;

	if (!writer || !writer->syncing)
		return 0; /* it began before we were attached */
	writer->sync_known = 1;
	if (__sync_fetch_and_add(&writer->syncing, -1) != 1)
		return 0;
	began = writer->sync_began_ns;
	writer->sync_began_ns = 0;
	if (began && now > began)
		writer->sync_ns += now - began;
	return 0;
}

SEC("tp_btf/ext4_da_write_end")
int BPF_PROG(fl_ext4_delayed_write, struct inode *inode, __u64 pos, unsigned int len, unsigned int copied)
{
	writer_wrote(inode, copied);
	return 0;
}

SEC("tp_btf/ext4_write_end")
int BPF_PROG(fl_ext4_write, struct inode *inode, __u64 pos, unsigned int len, unsigned int copied)
{
	writer_wrote(inode, copied);
	return 0;
}

SEC("tp_btf/ext4_journalled_write_end")
int BPF_PROG(fl_ext4_journalled_write, struct inode *inode, __u64 pos, unsigned int len, unsigned int copied)
{
	writer_wrote(inode, copied);
	return 0;
}

SEC("tp_btf/xfs_file_buffered_write")
int BPF_PROG(fl_xfs_write, struct kiocb *iocb, struct iov_iter *iter)
{
	struct inode *inode = iocb->ki_filp->f_inode;

	if (inode)
		writer_wrote(inode, iter->count);
	return 0;
}

SEC("tp_btf/iomap_dio_rw_begin")
int BPF_PROG(fl_direct_io, struct kiocb *iocb, struct iov_iter *iter)
{
	struct inode *inode = iocb->ki_filp->f_inode;

	if (iter->data_source && inode)
		writer_wrote(inode, iter->count);
	return 0;
}

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(fl_ext4_sync_enter, struct file *file)
{
	struct inode *inode = file->f_inode;

	if (inode)
		writer_sync_begins(inode, true);
	return 0;
}

#endif
