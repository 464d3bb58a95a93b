/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one histogram shape of flushlight, for BPF, daemon and views: log-linear, as in HdrHistogram and fio.
 *
 * Values are nanoseconds. Below 1024 ns buckets are 32 ns wide (32 of them); above, every power of two is
 * divided into 32 equal buckets, so a bucket is at most 1/32 = 3.1 % of its lower bound wide. Values from
 * 2^40 ns (about 18 minutes) on fall into the last bucket, the overflow bucket.
 */
#ifndef FLUSHLIGHT_ABI_HISTOGRAM_H
#define FLUSHLIGHT_ABI_HISTOGRAM_H

#include "ledger.h"

#define FL_HISTOGRAM_SUB_BITS 5
#define FL_HISTOGRAM_SUB (1u << FL_HISTOGRAM_SUB_BITS)
#define FL_HISTOGRAM_FIRST_BITS 10 /* 2^10 ns: end of the linear part */
#define FL_HISTOGRAM_LAST_BITS 40  /* 2^40 ns: start of the overflow bucket */
#define FL_HISTOGRAM_BUCKETS                                                                                 \
	(FL_HISTOGRAM_SUB + (FL_HISTOGRAM_LAST_BITS - FL_HISTOGRAM_FIRST_BITS) * FL_HISTOGRAM_SUB + 1)

static inline fl_u32 fl_log2(fl_u64 value)
{
	fl_u32 result = 0;

	/* clang's BPF target has no count-leading-zeros; six steps, no loop */
	if (value >> 32) { value >>= 32; result += 32; }
	if (value >> 16) { value >>= 16; result += 16; }
	if (value >> 8) { value >>= 8; result += 8; }
	if (value >> 4) { value >>= 4; result += 4; }
	if (value >> 2) { value >>= 2; result += 2; }
	if (value >> 1) { result += 1; }
	return result;
}

static inline fl_u32 fl_histogram_bucket_of(fl_u64 ns)
{
	fl_u32 power;

	if (ns < (1ull << FL_HISTOGRAM_FIRST_BITS))
		return (fl_u32)(ns >> (FL_HISTOGRAM_FIRST_BITS - FL_HISTOGRAM_SUB_BITS));
	power = fl_log2(ns);
	if (power >= FL_HISTOGRAM_LAST_BITS)
		return FL_HISTOGRAM_BUCKETS - 1;
	return FL_HISTOGRAM_SUB + (power - FL_HISTOGRAM_FIRST_BITS) * FL_HISTOGRAM_SUB +
	       (fl_u32)((ns >> (power - FL_HISTOGRAM_SUB_BITS)) & (FL_HISTOGRAM_SUB - 1));
}

static inline fl_u32 fl_histogram_bucket(fl_u64 ns)
{
	fl_u32 bucket = fl_histogram_bucket_of(ns);

#ifdef __bpf__
	/* One register for the caller's comparison and for its use: the verifier of 6.1 forgets that a 32-bit copy is one. */
	__asm__ volatile("" : "+r"(bucket));
#endif
	return bucket;
}

/* Inclusive lower bound of a bucket in ns. The upper bound is the next bucket's lower bound. */
static inline fl_u64 fl_histogram_low(fl_u32 bucket)
{
	fl_u32 power;

	if (bucket < FL_HISTOGRAM_SUB)
		return (fl_u64)bucket << (FL_HISTOGRAM_FIRST_BITS - FL_HISTOGRAM_SUB_BITS);
	bucket -= FL_HISTOGRAM_SUB;
	power = FL_HISTOGRAM_FIRST_BITS + bucket / FL_HISTOGRAM_SUB;
	return (1ull << power) + ((fl_u64)(bucket % FL_HISTOGRAM_SUB) << (power - FL_HISTOGRAM_SUB_BITS));
}

#endif
