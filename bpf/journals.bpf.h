/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commits of ext4's journals: how long, and in which phase. The kernel's own figures (jbd2_run_stats) are jiffies. All
 * events of one journal come from its one thread, so nothing here needs to be atomic.
 */
#ifndef FLUSHLIGHT_JOURNALS_BPF_H
#define FLUSHLIGHT_JOURNALS_BPF_H

static __noinline struct fl_journal *journal_find(__u32 number, bool claim)
{
	if (!number)
		return 0;
	for (__u32 i = 0; i < FL_JOURNALS; i++) {
		__u32 at = i;
		struct fl_journal *j = bpf_map_lookup_elem(&journals, &at);

		if (!j)
			return 0;
		if (j->number == number)
			return j;
		if (!j->number) {
			if (!claim)
				return 0;
			if (!__sync_val_compare_and_swap(&j->number, 0, number)) {
				j->index = i + 1;
				return j;
			}
			if (j->number == number)
				return j;
		}
	}
	if (claim)
		count(FL_COUNTER_JOURNAL_FULL);
	return 0;
}

static __always_inline struct fl_journal *journal_of(struct journal_s *journal, bool claim)
{
	struct block_device *device = journal->j_fs_dev;

	return device ? journal_find(device->bd_dev, claim) : 0;
}

/* Flushes of a device during a commit are counted for it (flush_issued). */
static __always_inline void journal_holds(struct block_device *device, __u32 index)
{
	__u32 at = device ? device_index(device->bd_disk) : FL_DEVICES;
	struct fl_device *d = bpf_map_lookup_elem(&devices, &at);

	if (d)
		d->journal = index;
}

static __always_inline void journal_enters(struct journal_s *journal, __u32 phase)
{
	struct fl_journal *j = journal_of(journal, false);
	__u64 now = bpf_ktime_get_ns();
	__u32 before;

	if (!j || !j->began_ns)
		return; /* begun before we were attached */
	before = j->phase;
	if (before < FL_JOURNAL_PHASES)
		j->phase_ns[before] += now - j->phase_since_ns;
	j->phase = phase;
	j->phase_since_ns = now;
}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(fl_journal_start, struct journal_s *journal)
{
	struct fl_journal *j = journal_of(journal, true);
	struct gendisk *disk;

	if (!j)
		return 0;
	disk = journal->j_fs_dev->bd_disk;
	if (disk)
		j->disk = (__u32)disk->major << 20 | (__u32)disk->first_minor;
	j->phase = FL_JOURNAL_STARTING;
	j->began_ns = bpf_ktime_get_ns();
	j->phase_since_ns = j->began_ns;
	if (bpf_core_field_exists(journal->j_total_len))
		j->log_bytes = (__u64)journal->j_total_len * (__u32)journal->j_blocksize;
	journal_holds(journal->j_fs_dev, j->index);
	journal_holds(journal->j_dev, j->index);
	return 0;
}

SEC("tp_btf/jbd2_commit_locking")
int BPF_PROG(fl_journal_locking, struct journal_s *journal)
{
	journal_enters(journal, FL_JOURNAL_LOCKING);
	return 0;
}

SEC("tp_btf/jbd2_commit_flushing")
int BPF_PROG(fl_journal_flushing, struct journal_s *journal)
{
	journal_enters(journal, FL_JOURNAL_FLUSHING);
	return 0;
}

SEC("tp_btf/jbd2_commit_logging")
int BPF_PROG(fl_journal_logging, struct journal_s *journal)
{
	journal_enters(journal, FL_JOURNAL_LOGGING);
	return 0;
}

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(fl_journal_end, struct journal_s *journal)
{
	struct fl_journal *j;
	__u64 lasted;
	__u32 bucket;

	journal_enters(journal, FL_JOURNAL_PHASES);
	j = journal_of(journal, false);
	if (!j || !j->began_ns)
		return 0;
	lasted = j->phase_since_ns - j->began_ns;
	bucket = fl_histogram_bucket(lasted);
	if (bucket < FL_HISTOGRAM_BUCKETS) {
		j->commits.sum_ns += lasted;
		j->commits.buckets[bucket]++;
	}
	j->began_ns = 0;
	journal_holds(journal->j_fs_dev, 0);
	journal_holds(journal->j_dev, 0);
	return 0;
}

/* The log is full: somebody writes back what old transactions hold, and everybody waits. */
SEC("tp_btf/jbd2_checkpoint")
int BPF_PROG(fl_journal_checkpoint, struct journal_s *journal)
{
	struct fl_journal *j = journal_of(journal, true);

	if (j)
		__sync_fetch_and_add(&j->checkpoints, 1);
	return 0;
}

#endif
