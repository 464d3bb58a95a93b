/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a thread's vector stood at some time in its past: found between two snapshots (docs/decisions/0006).
 */
#ifndef FLUSHLIGHT_PAST_BPF_H
#define FLUSHLIGHT_PAST_BPF_H

/* part * rest / total without overflow: 2^-16 steps, good up to 78 hours */
static __always_inline __u64 scaled(__u64 part, __u64 fraction)
{
	return (part * fraction) >> 16;
}

/*
 * In one ring: the newest snapshot not after `off` (low byte) and its successor, the oldest after it (next byte), as
 * places, or FL_SNAPSHOT_NONE. Places are in order of time from `position` backwards.
 * (A global function: the verifier looks at it once, not once per way of coming here.)
 */
__noinline int find_in_ring(struct fl_history *past, __u32 ring, __u32 position, __u64 off)
{
	__u32 high = FL_SNAPSHOT_NONE;

	if (!past || ring >= FL_RINGS || position >= FL_RING_SNAPSHOTS)
		return FL_SNAPSHOT_NONE << 8 | FL_SNAPSHOT_NONE;
	for (__u32 i = 0; i < FL_RING_SNAPSHOTS; i++) {
		__u32 at = position >= i ? position - i : position + FL_RING_SNAPSHOTS - i;
		__u64 in_at = past->ring[ring][at & FL_RING_MASK].in_at_ns;

		if (!in_at)
			break;
		if (in_at <= off)
			return high << 8 | at;
		high = at;
	}
	return high << 8 | FL_SNAPSHOT_NONE;
}

static __always_inline __u64 snapshot_time(struct fl_history *past, __u32 ring, __u32 at)
{
	return past->ring[ring & 3][at & FL_RING_MASK].in_at_ns;
}

/* The same over all rings, each as ring << 4 | place. When the finest ring holds both, nothing lies between. */
static __always_inline __u32 find_snapshots(struct fl_history *past, __u64 off)
{
	__u32 found = find_in_ring(past, FL_RING_EVERY, past->position[FL_RING_EVERY], off);
	__u32 low = found & 0xff, high = (found >> 8) & 0xff;

	if (low != FL_SNAPSHOT_NONE)
		return found & 0xffff;
#pragma unroll
	for (__u32 r = 1; r < FL_RINGS; r++) {
		__u32 in_ring = find_in_ring(past, r, past->position[r], off);
		__u32 l = in_ring & 0xff, h = (in_ring >> 8) & 0xff;

		if (l != FL_SNAPSHOT_NONE && (low == FL_SNAPSHOT_NONE ||
					      snapshot_time(past, r, l) > snapshot_time(past, low >> 4, low)))
			low = r << 4 | (l & 15);
		if (h != FL_SNAPSHOT_NONE &&
		    (high == FL_SNAPSHOT_NONE ||
		     snapshot_time(past, r, h) < snapshot_time(past, high >> 4, high)))
			high = r << 4 | (h & 15);
	}
	return high << 8 | low;
}

/* Where a thread's vector stood at some time: `known`, less what it did between then and that. */
struct fl_moment {
	__u64 *known;
	__u64 *before;    /* the snapshot before the time; the same as `known`: none */
	__u64 share;      /* of the sleep between the two, the part after the time; 2^16: all */
	__u64 ran_before; /* between the two, on a CPU: not part of the sleep */
	__u64 ran_after;  /* on a CPU between the time and `known` */
	__u64 ran_since;  /* on a CPU between `known` and the time */
};

/*
 * The two snapshots around the time give it. Where they are neighbours in the finest ring the thread ran from
 * low.in_at to high.off_at and then slept until high.in_at, so only the inside of one sleep is a straight line; else
 * the whole span is. False: known since later only; the moment is then the earliest known one.
 */
static __noinline bool moment_of(struct fl_moment *m, __u32 index, __u64 at)
{
	struct fl_history *past = history_of(index);
	struct fl_snapshot *low, *high;
	struct fl_thread thread = {};
	__u64 ran_until, on, off;
	struct fl_slot *slot;
	__u32 found;

	if (!past || !thread_at(index, &thread))
		return false;
	slot = thread.slot;
	on = slot->on_at_ns;
	off = thread.x->off_at_ns;
	m->known = slot->vector_ns;
	m->before = m->known;
	m->share = 0;
	m->ran_before = 0;
	m->ran_after = 0;
	m->ran_since = 0;
	if (on && on <= at) {
		m->ran_since = at - on;
		return true;
	}
	found = find_snapshots(past, at);
	if ((found >> 8) == FL_SNAPSHOT_NONE) {
		/* after its last switch-in, and asleep again by now */
		m->ran_after = off > at ? off - at : 0;
		return (found & 0xff) != FL_SNAPSHOT_NONE;
	}
	high = &past->ring[(found >> 12) & 3][(found >> 8) & FL_RING_MASK];
	m->known = high->vector_ns;
	m->before = m->known;
	if ((found & 0xff) == FL_SNAPSHOT_NONE)
		return false;
	low = &past->ring[(found >> 4) & 3][found & FL_RING_MASK];
	m->before = low->vector_ns;
	/* both of ring 0: neighbours in the finest ring */
	ran_until = (found & 0xf0f0) ? low->in_at_ns : high->off_at_ns;
	if (ran_until < low->in_at_ns)
		ran_until = low->in_at_ns;
	m->ran_before = ran_until - low->in_at_ns;
	if (at < ran_until) {
		m->ran_after = ran_until - at;
		m->share = 65536;
	} else if (high->in_at_ns > ran_until) {
		m->share = ((high->in_at_ns - at) << 16) / (high->in_at_ns - ran_until);
	}
	return true;
}

static __always_inline __u64 value_at(struct fl_moment *m, int j)
{
	__u64 value = m->known[j], between = value - m->before[j];

	if (j == FL_CAUSE_ONCPU || j == FL_VECTOR_PATH(FL_PATH_SELF)) {
		between = between > m->ran_before ? between - m->ran_before : 0;
		value += m->ran_since - m->ran_after;
	}
	return value - scaled(between, m->share);
}

#endif
