/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests that took long: each is written down once, at its completion. A ring that the daemon reads when it likes; the
 * oldest are overwritten.
 */
#ifndef FLUSHLIGHT_SLOW_REQUESTS_BPF_H
#define FLUSHLIGHT_SLOW_REQUESTS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_SLOW_REQUESTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_slow_request);
} slow_requests SEC(".maps");

/* In .data, which the daemon maps. */
__u64 fl_slow_request_count SEC(".data") = 0;

static __noinline int slow_request(struct fl_request *r, struct request *rq, __u64 now)
{
	__u64 number = __sync_fetch_and_add(&fl_slow_request_count, 1);
	__u32 at = number & (FL_SLOW_REQUESTS - 1), device = r->device;
	struct fl_slow_request *slow = bpf_map_lookup_elem(&slow_requests, &at);
	struct fl_scratch *owner = r->slot ? scratch_of(r->slot) : 0;
	struct fl_device *d = bpf_map_lookup_elem(&devices, &device);
	struct inode *inode;

	if (!slow)
		return 0;
	slow->sequence = 0;
	barrier();
	slow->start_ns = r->start_ns;
	slow->issue_ns = r->issue_ns;
	slow->complete_ns = now;
	slow->sector = BPF_CORE_READ((struct request___place *)rq, __sector);
	slow->bytes = rq->__data_len;
	slow->flags = rq->cmd_flags;
	slow->device = d ? d->number : 0;
	slow->tid = r->completer;
	slow->comm[0] = 0;
	if (owner && owner->request_generation == r->generation) {
		slow->tid = owner->tid;
		__builtin_memcpy(slow->comm, owner->comm, sizeof(slow->comm));
	}
	slow->file.inode = 0;
	inode = inode_of_request(rq);
	if (inode)
		file_of_inode(&slow->file, inode);
	barrier();
	slow->sequence = number + 1;
	return 0;
}

static __always_inline bool took_long(__u64 from, __u64 now)
{
	return from && now - from >= FL_SLOW_REQUEST_NS;
}

#endif
