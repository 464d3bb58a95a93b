/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel side tells the daemon about requests that took long, and who wrote what to which file.
 * Private to one build, as bpf/shared.h.
 */
#ifndef FLUSHLIGHT_BPF_STALLS_SHARED_H
#define FLUSHLIGHT_BPF_STALLS_SHARED_H

#include "shared.h"

#define FL_SLOW_REQUESTS 1024 /* kept; a power of two */
#define FL_SLOW_REQUEST_NS \
	25000000ull /* less than the daemon shows: it wants to know when a busy device completed last */
#define FL_WRITERS 4096
#define FL_FILE_NAMES 6 /* last parts of a path */
#define FL_FILE_NAME_BYTES 32
#define FL_STACK_FRAMES 16
#define FL_RECENT_SHIFT 32 /* windows of 2^32 ns: "recent" is the present one and the one before */

/* A file: the parts of its path from its own name upwards. */
struct fl_file {
	fl_u64 inode;  /* 0: not known */
	fl_u32 device; /* of the file system's disk, as fl_device.number */
	fl_u32 whole;  /* the last name is below the file system's root */
	char names[FL_FILE_NAMES][FL_FILE_NAME_BYTES];
};

/* One place of a ring; valid when sequence is its number + 1, before and after it was copied. */
struct fl_slow_request {
	fl_u64 sequence;
	fl_u64 start_ns, issue_ns, complete_ns;
	fl_u64 sector;
	fl_u32 bytes;
	fl_u32 flags;  /* cmd_flags */
	fl_u32 device; /* major << 20 | minor */
	fl_u32 tid;    /* that submitted it; 0: not known */
	char comm[16]; /* of a traced thread; empty: not known */
	struct fl_file file;
};

struct fl_writer_key {
	fl_u32 tgid;
	fl_u32 super; /* s_dev */
	fl_u64 inode;
};

struct fl_writer {
	fl_u64 writes, bytes, syncs;
	fl_u64 sync_ns;       /* in which at least one sync was under way */
	fl_u64 sync_began_ns; /* 0: none is */
	fl_u64 last_ns;
	fl_u64 bytes_now, bytes_before; /* in this window and the one before */
	fl_u32 syncs_now, syncs_before;
	fl_u32 window;
	fl_u32 syncing;    /* under way */
	fl_u32 sync_known; /* an end of a sync was seen: sync_ns counts */
	fl_u32 reserved;
	char comm[16]; /* of the process */
	char cgroup[64];
	struct fl_file file;
};

#ifndef __bpf__
FL_STATIC_ASSERT(sizeof(struct fl_slow_request) == 72 + sizeof(struct fl_file), "no padding");
FL_STATIC_ASSERT(sizeof(struct fl_writer) == 168 + sizeof(struct fl_file), "no padding");
#endif

#endif
