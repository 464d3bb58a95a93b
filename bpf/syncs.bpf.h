/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * File syncs (fsync, fdatasync, O_DSYNC writes): who completed one is a commit's leader. XFS has an event at the
 * beginning only; the probe reads the count when the commit is over, so that makes no difference to it.
 */
#ifndef FLUSHLIGHT_SYNCS_BPF_H
#define FLUSHLIGHT_SYNCS_BPF_H

/*
 * Where a sync ends (ext4), all that it waited for has ended, seen or not. Where it begins (XFS), what the thread still
 * has open is either such a request or asynchronous: if the sync waits for it, its completion explains the wait.
 */
static __always_inline void count_sync(void)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct fl_thread thread;

	if (!thread_of(current, &thread))
		return;
	notice_return(current, thread.index, thread.x);
	thread.slot->syncs++;
	thread.x->hint = 0; /* no bio of it is on its way any more */
	if (thread.x->outstanding)
		forget_requests(thread.x);
}

SEC("tp_btf/ext4_sync_file_exit")
int BPF_PROG(fl_ext4_sync, struct inode *inode, int error)
{
	count_sync();
	writer_sync_ends(inode);
	return 0;
}

SEC("tp_btf/xfs_file_fsync")
int BPF_PROG(fl_xfs_sync, struct xfs_inode *inode)
{
	count_sync();
	writer_sync_begins(&((struct xfs_inode___vfs *)inode)->i_vnode, false);
	return 0;
}

/* For file systems in modules: their types need CAP_SYS_ADMIN, a raw tracepoint without them does not. */
SEC("raw_tp/ext4_sync_file_exit")
int fl_ext4_sync_raw(void *arguments)
{
	count_sync();
	return 0;
}

SEC("raw_tp/xfs_file_fsync")
int fl_xfs_sync_raw(void *arguments)
{
	count_sync();
	return 0;
}

#endif
