/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of the kernel side. Who writes what:
 *   ledger    the CPU that switches a thread out or in, and enrolment in the thread's own context
 *   states    the same, and any CPU that starts, issues or completes a request of the thread (atomics)
 *   journals  the journal's own thread; checkpoints whoever needs room
 *   requests  the CPU that handles the request's event; a request has one event at a time
 * The structs that the daemon reads too are in bpf/shared.h.
 */
#ifndef FLUSHLIGHT_MAPS_BPF_H
#define FLUSHLIGHT_MAPS_BPF_H

#include "shared.h"
#include "stalls_shared.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* ledger_slots, set by the loader */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_slot);
} ledger SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_state);
} states SEC(".maps");

/* Free slots for kernel and background threads. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__uint(value_size, sizeof(__u32));
} pool SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fl_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fl_known_threads);
} known_threads SEC(".maps");

/* Tokens handed out and not used yet: one use each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FL_PROCESSES_MAX);
	__type(key, __u64);
	__type(value, struct fl_process);
} tokens SEC(".maps");

/* Bound processes, by the host's tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FL_PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct fl_process);
} processes SEC(".maps");

/* Parents whose children are background threads of an engine (PostgreSQL's postmaster), by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} families SEC(".maps");

/* Open requests: direct-mapped by the request's address, one place here, FL_REQUEST_PROBES in the big table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fl_near_requests);
} near_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_REQUESTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_request);
} requests SEC(".maps");

/* The request that is completing on this CPU (index in requests, plus one; 0: none). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fl_completing);
} completing SEC(".maps");

/* Work items queued by a completion, with that request's timeline: direct-mapped, the later one stays. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_WORKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_work);
} works SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_DEVICES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_device);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_DEVICES *FL_DEVICE_HISTOGRAMS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_device_histogram);
} device_histograms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FL_JOURNALS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fl_journal);
} journals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FL_COUNTER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);

	if (value)
		*value += 1;
}

static __always_inline void count_ns(__u32 which, __u64 ns)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);

	if (value)
		*value += ns;
}

static __always_inline struct fl_slot *slot_of(__u32 index)
{
	return bpf_map_lookup_elem(&ledger, &index);
}

static __always_inline struct fl_scratch *scratch_of(__u32 index)
{
	struct fl_state *state = bpf_map_lookup_elem(&states, &index);

	return state ? &state->x : 0;
}

static __always_inline struct fl_history *history_of(__u32 index)
{
	struct fl_state *state = bpf_map_lookup_elem(&states, &index);

	return state ? &state->past : 0;
}

/* NULL for the threads that are not traced: most of the host's. The pointer test first: it costs 2 ns, the
 * look-up in task storage 40. */
static __always_inline struct fl_task *task_of(struct task_struct *task)
{
	if (!task->bpf_storage)
		return 0;
	return bpf_task_storage_get(&tasks, task, 0, 0);
}

/* A traced thread's place in the ledger. */
struct fl_thread {
	__u32 index;
	struct fl_slot *slot;
	struct fl_scratch *x;
};

static __always_inline bool thread_at(__u32 index, struct fl_thread *thread)
{
	thread->index = index;
	if (!index)
		return false;
	thread->slot = slot_of(index);
	thread->x = scratch_of(index);
	return thread->slot && thread->x;
}

static __always_inline __u32 address_hash(__u64 address)
{
	__u32 low;

	/* Only the low half, by an explicit move: the verifier lets a pointer be cut to 32 bits, which makes it
	 * a number, but not multiplied. */
	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)address));
	return low * 0x9E3779B9u; /* Fibonacci hashing (Knuth, TAOCP 6.4); its high bits are the good ones */
}

/* By its address and not by its tid: the address is at hand, the tid may have to come from memory first. */
static __always_inline struct fl_known_thread *known_place(struct task_struct *task)
{
	__u32 zero = 0;
	struct fl_known_threads *known = bpf_map_lookup_elem(&known_threads, &zero);

	return known ? &known->places[address_hash((__u64)task) >> (32 - FL_KNOWN_THREADS_SHIFT)] : 0;
}

static __always_inline void thread_becomes_known(struct task_struct *task, __u32 index)
{
	struct fl_known_thread *place = known_place(task);

	if (!place)
		return;
	place->tid_slot = (__u64)task->pid << 32 | index;
	place->task = (__u64)task;
}

static __always_inline void thread_is_forgotten(struct task_struct *task)
{
	struct fl_known_thread *place = known_place(task);

	if (place && place->task == (__u64)task)
		place->task = 0;
}

/* Out of line, like all that is rare: what a program does not run should not sit between what it does. */
static __noinline __u32 slot_by_storage(struct task_struct *task)
{
	struct fl_task *t;

	if (task->flags & PF_WQ_WORKER)
		return 0; /* kernel workers have storage too, for what they act for, but never a slot */
	t = bpf_task_storage_get(&tasks, task, 0, 0);
	if (!t || !t->slot)
		return 0;
	thread_becomes_known(task, t->slot);
	return t->slot;
}

/* 0: the task is not traced. */
static __always_inline __u32 slot_index_of(struct task_struct *task)
{
	struct fl_known_thread *place;

	if (!task->bpf_storage)
		return 0;
	place = known_place(task);
	if (place && place->task == (__u64)task && place->tid_slot >> 32 == (__u32)task->pid)
		return place->tid_slot;
	return slot_by_storage(task);
}

/* False: the task is not traced. */
static __always_inline bool thread_of(struct task_struct *task, struct fl_thread *thread)
{
	return thread_at(slot_index_of(task), thread);
}

#endif
