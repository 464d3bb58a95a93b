/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that do nothing, at the events that our own programs are at most often. What they cost is what the kernel takes
 * for calling (and, with run statistics, for timing) a program at all: no tool at these events costs less.
 */
/* The second needs the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

char LICENSE[] SEC("license") = "GPL";

#define EMPTY(event)    \
  SEC("tp_btf/" #event) \
  int empty_##event(void *arguments) { return 0; }

EMPTY(sched_switch)
EMPTY(sched_waking)
EMPTY(block_bio_queue)
EMPTY(block_io_start)
EMPTY(block_rq_issue)
EMPTY(block_rq_complete)
EMPTY(block_io_done)
EMPTY(workqueue_queue_work)
EMPTY(workqueue_execute_start)
EMPTY(ext4_da_write_end)
EMPTY(ext4_sync_file_enter)
EMPTY(ext4_sync_file_exit)
