/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of open requests, by address: one near place each, then a few in the big table (docs/decisions/0010). A hash
 * map costs three times as much for each event.
 */
#ifndef FLUSHLIGHT_REQUEST_TABLE_BPF_H
#define FLUSHLIGHT_REQUEST_TABLE_BPF_H

/* Places are numbered through both tables, the near one first. */
static __always_inline __u32 request_near(__u64 address)
{
	return address_hash(address) >> (32 - 8);
}

static __always_inline __u32 request_far(__u64 address, __u32 probe)
{
	return FL_NEAR_REQUESTS + ((address_hash(address) >> (32 - 14)) ^ probe);
}

static __always_inline struct fl_request *request_at(__u32 place)
{
	if (place < FL_NEAR_REQUESTS) {
		__u32 zero = 0;
		struct fl_near_requests *near = bpf_map_lookup_elem(&near_requests, &zero);

		return near ? &near->places[place] : 0;
	}
	place = (place - FL_NEAR_REQUESTS) & (FL_REQUESTS - 1);
	return bpf_map_lookup_elem(&requests, &place);
}

#define FL_PLACE_NONE 0xffffffffu

/* Out of line, like all that is rare: what a program does not run should not sit between what it does. */
static __noinline __u32 request_find_far(__u64 address)
{
	for (__u32 i = 0; i < FL_REQUEST_PROBES; i++) {
		__u32 place = request_far(address, i);
		struct fl_request *r = request_at(place);

		if (r && r->address == address)
			return place;
	}
	return FL_PLACE_NONE;
}

static __always_inline struct fl_request *request_find(__u64 address, __u32 *where)
{
	__u32 place = request_near(address);
	struct fl_request *r = request_at(place);

	if (!r || r->address != address) {
		place = request_find_far(address);
		if (place == FL_PLACE_NONE)
			return 0;
		r = request_at(place);
	}
	if (where)
		*where = place;
	return r;
}

/* Whether its owner still waits for it, as far as we know. */
static __always_inline bool request_counts(struct fl_request *r)
{
	struct fl_scratch *x = r->slot ? scratch_of(r->slot) : 0;

	return x && x->request_generation == r->generation && r->wait != FL_WAIT_NONE;
}

/* The end of the one that had this address before was never seen: merged into another, or lost. Its owner must not wait
 * for ever. */
static __noinline int request_reused(__u32 place)
{
	struct fl_request *r = request_at(place);

	if (!r)
		return 0;
	count(request_counts(r) ? FL_COUNTER_REQUEST_REUSED : FL_COUNTER_REQUEST_STALE);
	request_moves(r, FL_WAIT_NONE, bpf_ktime_get_ns());
	return 0;
}

static __noinline struct fl_request *request_claim_far(__u64 address)
{
	for (__u32 i = 0; i < FL_REQUEST_PROBES; i++) {
		__u32 place = request_far(address, i);
		struct fl_request *r = request_at(place);

		if (!r)
			continue;
		if (!r->address && !__sync_val_compare_and_swap(&r->address, 0, address))
			return r;
		if (r->address == address) {
			request_reused(place);
			return r;
		}
	}
	count(FL_COUNTER_REQUEST_FULL);
	return 0;
}

/* The first free place of its few: nearly always the near one. */
static __always_inline struct fl_request *request_claim(__u64 address)
{
	__u32 place = request_near(address);
	struct fl_request *r = request_at(place);
	__u64 was;

	if (!r)
		return 0;
	was = r->address;
	if (!was && !__sync_val_compare_and_swap(&r->address, 0, address))
		return r;
	if (was == address) {
		request_reused(place);
		return r;
	}
	return request_claim_far(address);
}

#endif
