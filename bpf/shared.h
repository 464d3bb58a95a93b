/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What kernel side and loader (sidecar/kernel) share beyond the public contracts in abi/.
 * Private to one build: both halves are always of the same version.
 */
#ifndef FLUSHLIGHT_BPF_SHARED_H
#define FLUSHLIGHT_BPF_SHARED_H

#include "../abi/histogram.h"
#include "../abi/ledger.h"

#define FL_PROCESSES_MAX 8192
#define FL_NEAR_REQUESTS 256
#define FL_KNOWN_THREADS_SHIFT 10
#define FL_REQUESTS 16384
#define FL_REQUEST_PROBES 4
#define FL_WORKS 4096
#define FL_DRAIN_NS 30000000000ull /* a request that takes longer has most likely ended unseen */
#define FL_DEVICES 64
/*
 * History of a thread's vector: a snapshot at every switch-in, thinned into rings of 14. A waker's past at any
 * time is interpolated between the two snapshots nearest to it, over all rings. The last ring holds beginnings of
 * work (the thread was woken by a client, a peer or a timer, not by its own I/O): a follower nearly always falls
 * asleep close to one.
 */
#define FL_RINGS 4
#define FL_RING_EVERY 0 /* exact */
#define FL_RING_1MS 1   /* at least 1 ms apart */
#define FL_RING_20MS 2  /* at least 20 ms apart */
#define FL_RING_BEGUN 3 /* beginnings of work */
#define FL_RING_SNAPSHOTS 14
#define FL_RING_MASK 15 /* keeps a place inside the value of the map, for the verifier */
#define FL_SNAPSHOT_NONE 0xff
#define FL_STATE_ONLY_REST 0x100u
#define FL_IDLE_CERTAIN_NS 1000000000ull
#define FL_HOPS 3 /* threads whose accounts one sleep may take parts of, one after the other */

enum fl_thread_kind {
	FL_THREAD_SESSION = 1,
	FL_THREAD_JOURNAL = 2,
	FL_THREAD_BACKGROUND = 3,
};

/* What a request of a thread is doing: 16-bit counts packed in one word, so that a change is one atomic add
 * and the cause of the moment is one load. The highest non-zero count wins: flush before device before
 * queue. */
enum fl_wait {
	FL_WAIT_QUEUE = 0,
	FL_WAIT_READ = 1,
	FL_WAIT_WRITE = 2,
	FL_WAIT_FLUSH = 3,
	FL_WAIT_COUNT = 4,
	FL_WAIT_NONE = 4, /* a request that is counted nowhere */
};
#define FL_WAIT_ONE(wait) (1ull << ((wait)*16))
#define FL_WAIT_NEGATIVE 0x8000800080008000ull /* no thread has so many */

/* What a thread is in the middle of (held.bpf.h). */
#define FL_HINT_SUBMIT 1u  /* a bio is with the queue and has no request yet */
#define FL_HINT_DIRTY 2u   /* its next sleep is a pause for the pages it dirtied */
#define FL_HINT_RECLAIM 4u /* direct reclaim */

/* What own requests leave of a sleep: nothing, one cause on one path (most sleeps), or a vector. */
enum fl_rest {
	FL_REST_NONE = 0,
	FL_REST_ONE = 1,
	FL_REST_VECTOR = 2,
	FL_REST_UNSEEN = 3, /* no wake was seen */
};

/* Per slot, beside the public part. What a switch or a wake touches comes first, by cache lines. */
struct fl_scratch {
	fl_u64 off_at_ns;             /* switch-out that has no switch-in yet */
	fl_u64 wake_at_ns;            /* woken (or never blocked) since */
	fl_u64 mark_ns;               /* own requests are charged up to here; 0: not blocked */
	fl_u64 outstanding;           /* own requests, FL_WAIT_ONE counts */
	fl_u64 own_ns[FL_WAIT_COUNT]; /* of this sleep, by what own requests did */

	fl_u64 early_wake_ns; /* last waking that met no sleep: it came before the switch-out was seen */
	fl_u64 ran_from_ns;   /* switch-in before the present switch-out */
	fl_u64 state_word;    /* address in the thread's memory; 0: none */
	fl_u64 rest_total_ns; /* of the causes in rest_ns */
	fl_u64 exec_ns;       /* the scheduler's own count of its time on a CPU, at the last switch-out */
	fl_u32 state_cause; /* of this sleep; FL_CAUSE_COUNT: none; | FL_STATE_ONLY_REST: of what is unexplained */
	fl_u32 request_generation; /* requests of an older one are forgotten: they change nothing any more */
	fl_u8 rest_form;           /* enum fl_rest */
	fl_u8 began;               /* this sleep ended by a beginning of work */
	fl_u8 kind;                /* enum fl_thread_kind */
	fl_u8 pooled;              /* slot came from the pool */
	fl_u32 waker_slot;         /* that explained the last sleep; 0: none */
	fl_u32 device;             /* of the last own request */
	fl_u8 rest_cause;          /* FL_REST_ONE: all of it */
	fl_u8 rest_path;
	fl_u8 hint;   /* FL_HINT_*: what the thread is in the middle of */
	fl_u8 detail; /* counter that the sleep's time also goes to, when state_cause came from a hint */

	fl_u64 rest_ns[FL_VECTOR_COUNT]; /* of this sleep, what the waker explains */
	fl_u64 rest_sync_ns;
	fl_u32 generation;
	fl_u32 reserved_rest;

	struct fl_state_rule rules[FL_STATE_RULES];

	fl_u64 part_ns[FL_VECTOR_COUNT]; /* work space of one settlement */
	fl_u64 retired_at_ns;            /* its thread was gone since */
	fl_u32 tid, tgid;                /* the host's numbers */
	char comm[16];
	fl_u64 waker_at_ns;  /* end of the last sleep that waker_slot explained */
	fl_u64 work_from_ns; /* end of the last sleep that was no part of any work */
	fl_u64 idle_ns;      /* how long that was */
	fl_u64 submit_queue; /* FL_HINT_SUBMIT: address of the request queue */
	fl_u64 reserved_end[2];
};

/* A switch-in: the vector then, and when the thread had been switched out before. */
struct fl_snapshot {
	fl_u64 off_at_ns;
	fl_u64 in_at_ns; /* 0: empty */
	fl_u64 vector_ns[FL_VECTOR_COUNT];
};

struct fl_history {
	fl_u64 snapshot_at_ns[FL_RINGS]; /* newest of each ring */
	fl_u32 position[FL_RINGS];       /* its place */
	fl_u64 reserved[2];
	struct fl_snapshot ring[FL_RINGS][FL_RING_SNAPSHOTS];
	fl_u64 reserved_end[56]; /* no snapshot here, but FL_RING_MASK lets the verifier think so */
};

/*
 * All that is private to a slot. Exactly two pages: mapped arrays lie in pages of 4 KB, in a virtual machine a miss of
 * the TLB costs more than one of the cache, and what a switch touches is in the first page.
 */
struct fl_state {
	struct fl_scratch x;
	struct fl_history past;
};

/* When a request did what; 0: not (yet). A work item that a thread queued has end_ns (when it did) and worker_ns only. */
struct fl_timeline {
	fl_u64 start_ns;
	fl_u64 issue_ns;
	fl_u64 middle_ns; /* data done, postflush begins */
	fl_u64 end_ns;    /* completion began */
	fl_u64 worker_ns; /* a worker took up the completion's work */
	fl_u32 flags;     /* request's cmd_flags */
	fl_u32 slot;
};

/* One cache line. */
struct fl_request {
	fl_u64 address;                               /* of the request; 0: free */
	fl_u64 start_ns, issue_ns, middle_ns, end_ns; /* as in fl_timeline */
	fl_u32 flags;
	fl_u32 slot;
	fl_u32 generation; /* the owner's request_generation */
	fl_u8 wait;        /* enum fl_wait under which it is counted */
	fl_u8 last_wait;   /* before it was done */
	fl_u16 outer;      /* completing request below this one on the same CPU */
	fl_u32 device;     /* index in devices */
	fl_u32 completer; /* thread that submitted it; then, in whose context it completes: worker or interrupted */
};

/*
 * The first places to look for a request. Small enough for the kernel to take it from memory that it maps in huge pages
 * (up to 32 KB); the offset puts the requests at the beginnings of cache lines there. A request whose place is taken goes
 * to the big table.
 */
struct fl_near_requests {
	fl_u64 offset[6];
	struct fl_request places[FL_NEAR_REQUESTS];
};

/* A work item that a completion queued. */
struct fl_work {
	fl_u64 address; /* of the work_struct; 0: free */
	struct fl_timeline time;
	fl_u64 reserved;
};

/* What runs on a CPU, as far as the kernel tells: a thread, or an interrupt on top of one. */
enum fl_context {
	FL_CONTEXT_THREAD = 0,
	FL_CONTEXT_SOFTIRQ = 1,
	FL_CONTEXT_HARDIRQ = 2,
	FL_CONTEXT_COUNT = 3,
};

/* On kernels without block_io_done: the request that completed last in a context that has not ended since. */
struct fl_completed {
	fl_u64 end_ns; /* of the request; its place may be taken again, then this differs */
	fl_u32 request;
	fl_u32 tid; /* of the current thread then */
};

struct fl_completing {
	fl_u32 request; /* index + 1; 0: none */
	fl_u32 reserved;
	struct fl_completed last[FL_CONTEXT_COUNT];
};

struct fl_task {
	fl_u32 slot; /* 0: none (a worker that only acts for requests) */
	fl_u32 kind;
	fl_u64 acting;        /* not 0: runs a work item that a completion or a traced thread queued */
	fl_u64 sleeps_before; /* of the worker, when it took up that item */
	struct fl_timeline acting_for;
};

/* A traced thread and its slot. What is half of another's is seen by the tid, which only one living thread has. */
struct fl_known_thread {
	fl_u64 task;     /* address of its task_struct */
	fl_u64 tid_slot; /* tid << 32 | slot */
};

/*
 * Traced threads at the places that their addresses hash to: spares most events the look into task storage, which is what
 * counts. Of two threads with one place the later is found here. Small enough for memory in huge pages (fl_near_requests).
 */
struct fl_known_threads {
	fl_u64 offset[6];
	struct fl_known_thread places[1 << FL_KNOWN_THREADS_SHIFT];
};

struct fl_process {
	fl_u32 first_slot;
	fl_u32 slot_count;
	fl_u32 flags; /* FL_HELLO_* */
	fl_u32 lease;
	fl_u64 leader_start_ns; /* start_boottime of the group leader: a reused pid does not match */
	fl_u64 state_word_address;
	fl_u32 state_word_stride;
	fl_u32 enrolled; /* set by the daemon once existing threads were enrolled */
	struct fl_state_rule rules[FL_STATE_RULES];
};

struct fl_device {
	fl_u32 number;  /* major << 20 | minor; 0: free */
	fl_u32 journal; /* index in journals, plus one, of one that commits there now; 0: none */
};

/* operation (0 read, 1 write, 2 flush, 3 discard: the kernel's own numbers) * 2 + stage (0 queue, 1 device) */
#define FL_DEVICE_OPERATIONS 4
#define FL_DEVICE_HISTOGRAMS (FL_DEVICE_OPERATIONS * 2)
struct fl_device_histogram {
	fl_u64 sum_ns;
	fl_u64 buckets[FL_HISTOGRAM_BUCKETS];
};

#define FL_JOURNALS 32
/* Of a commit of ext4's journal, in this order. */
enum fl_journal_phase {
	FL_JOURNAL_STARTING = 0, /* until a fast commit under way has ended */
	FL_JOURNAL_LOCKING = 1,  /* until running operations of the file system have ended */
	FL_JOURNAL_FLUSHING = 2, /* data of new extents is written (data=ordered) */
	FL_JOURNAL_LOGGING = 3,  /* metadata and commit block */
	FL_JOURNAL_PHASES = 4,
};
struct fl_journal {
	fl_u32 number; /* of the file system's device, as fl_device; 0: free */
	fl_u32 index;  /* its own, plus one */
	fl_u32 phase;
	fl_u32 disk;     /* that the file system lies on, as fl_device.number */
	fl_u64 began_ns; /* the commit under way; 0: none */
	fl_u64 phase_since_ns;
	fl_u64 phase_ns[FL_JOURNAL_PHASES];
	fl_u64 log_bytes; /* size of the journal; 0: the kernel does not say */
	fl_u64 flushes;   /* that its devices did during its commits */
	fl_u64 checkpoints;
	struct fl_device_histogram commits;
};

/* X(ENUM, name, is loss, help) */
#define FL_COUNTERS(X)                                                                                      \
	X(WAKE_OWN, wake_own, 0, "sleeps explained by own requests alone")                                  \
	X(WAKE_REQUEST, wake_request, 0, "wakes by a completing request")                                   \
	X(WAKE_WORKER, wake_worker, 0, "wakes by a worker that a completion had queued")                    \
	X(WAKE_THREAD, wake_thread, 0, "wakes by a traced thread")                                          \
	X(WAKE_UNKNOWN, wake_unknown, 0, "wakes by something that is not traced")                           \
	X(WAKE_INTERRUPT, wake_interrupt, 0, "wakes by an interrupt on top of a traced thread")             \
	X(WAKE_IOWAIT, wake_iowait, 0, "wakes of a thread in iowait by something that is no completion")    \
	X(WAKE_STATE, wake_state, 0, "sleeps that the engine's state word names")                           \
	X(WAKE_EARLY, wake_early, 0, "wakes that overtook the switch-out: runnable all the while")          \
	X(WAKE_MISSED, wake_missed, 0, "wakes that were not seen; what they would explain is other")        \
	X(SWITCH_MISSED, switch_missed, 0, "switch-ins that were not seen; told by the scheduler's count")  \
	X(HISTORY_MISSED, history_missed, 0,                                                                \
	  "inheritances whose waker's past was not known to the sleep's start")                             \
	X(REQUEST_FULL, request_full, 1, "requests that found no place in the table")                       \
	X(REQUEST_UNKNOWN, request_unknown, 0, "completions without a start seen (in flight at attach)")    \
	X(REQUEST_FORGOTTEN, request_forgotten, 0,                                                          \
	  "waits for own requests given up: their end was not seen")                                        \
	X(REQUEST_REUSED, request_reused, 1, "own requests whose end was not seen")                         \
	X(REQUEST_STALE, request_stale, 0, "requests of untraced threads whose end was not seen")           \
	X(WORK_OVERWRITTEN, work_overwritten, 0, "works forgotten for another of the same place")           \
	X(REQUEST_MERGED, request_merged, 0, "requests that were merged into another")                      \
	X(ENROL_REFUSED, enrol_refused, 0, "enrolment names that were refused")                             \
	X(ENROL_FULL, enrol_full, 0, "threads left untraced: no free slot")                                 \
	X(ENROL_FAILED, enrol_failed, 1, "threads left untraced: the kernel had no memory for the storage") \
	X(DEVICE_FULL, device_full, 1, "requests of devices beyond the table")                              \
	X(QUEUE_TAG_NS, queue_tag_ns, 0, "queue: time without a free tag")                                  \
	X(QUEUE_WBT_NS, queue_wbt_ns, 0, "queue: time held by writeback throttling")                        \
	X(QUEUE_ISSUE_NS, queue_issue_ns, 0, "queue: time in the scheduler")                                \
	X(THROTTLE_CGROUP_NS, throttle_cgroup_ns, 0, "throttle: time held by a cgroup I/O limit")           \
	X(THROTTLE_DIRTY_NS, throttle_dirty_ns, 0, "throttle: time paused for dirty pages")                 \
	X(THROTTLE_RECLAIM_NS, throttle_reclaim_ns, 0, "throttle: time asleep in direct reclaim")           \
	X(CPU_PREEMPTED_NS, cpu_preempted_ns, 0, "cpu: time preempted")                                     \
	X(CPU_QUOTA_NS, cpu_quota_ns, 0, "cpu: time over the quota of a cgroup (cpu.max)")                  \
	X(JOURNAL_FULL, journal_full, 0, "commits of journals beyond the table")                            \
	X(RING_CREATED, ring_created, 0, "io_uring instances created")                                      \
	X(RING_FULL, ring_full, 0, "io_uring instances beyond the table")                                   \
	X(OTHER_UNKNOWN_NS, other_unknown_ns, 0, "time to other: woken by something that is not traced")    \
	X(OTHER_INTERRUPT_NS, other_interrupt_ns, 0, "time to other: woken by an interrupt")                \
	X(OTHER_HISTORY_NS, other_history_ns, 0, "time to other: the waker's past did not cover it")        \
	X(OTHER_GAP_NS, other_gap_ns, 0, "time to other: no request explains that part of the sleep")

enum fl_counter {
#define FL_X(ENUM, name, loss, help) FL_COUNTER_##ENUM,
	FL_COUNTERS(FL_X)
#undef FL_X
		FL_COUNTER_COUNT
};

#ifndef __bpf__
FL_STATIC_ASSERT(sizeof(struct fl_scratch) == 512, "eight cache lines");
FL_STATIC_ASSERT(sizeof(struct fl_state) == 8192, "two pages");
FL_STATIC_ASSERT(sizeof(struct fl_work) == 64, "one cache line");
FL_STATIC_ASSERT(sizeof(struct fl_request) == 64, "one cache line");
FL_STATIC_ASSERT(sizeof(struct fl_snapshot) == 128, "two cache lines");
#endif

#endif
