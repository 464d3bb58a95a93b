// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/kernel/tracer.h"

#include <bpf/bpf.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "flushlight.skel.h"
#include "sidecar/kernel/tracer_impl.h"

namespace flushlight::kernel {
namespace {

// Programs that the kernel side works without; what is lost then is in `cost`.
struct OptionalProgram {
  const char *program;
  const char *tracepoint;
  const char *cost;
  int arguments = 0;  // for exactly so many; 0: whatever the kernel passes
};
constexpr OptionalProgram kOptionalPrograms[] = {
    {"fl_ext4_sync", "ext4_sync_file_exit", "commits on ext4 cannot be told into led and followed"},
    {"fl_xfs_sync", "xfs_file_fsync", "commits on XFS cannot be told into led and followed"},
    {"fl_journal_start", "jbd2_start_commit", "commits of ext4's journals are known as averages only"},
    {"fl_journal_locking", "jbd2_commit_locking", "commits of ext4's journals are known as averages only"},
    {"fl_journal_flushing", "jbd2_commit_flushing", "commits of ext4's journals are known as averages only"},
    {"fl_journal_logging", "jbd2_commit_logging", "commits of ext4's journals are known as averages only"},
    {"fl_journal_end", "jbd2_end_commit", "commits of ext4's journals are known as averages only"},
    {"fl_journal_checkpoint", "jbd2_checkpoint", "checkpoints of ext4's journals are not counted"},
    {"fl_requeue", "block_rq_requeue", "time of requeued requests counts as device time"},
    {"fl_merge", "block_rq_merge", "merged requests stay open until their memory is used again"},
    {"fl_ext4_delayed_write", "ext4_da_write_end", "who writes to which file on ext4 is not known"},
    {"fl_ext4_write", "ext4_write_end", "who writes to which file on ext4 without delayed allocation is not known"},
    {"fl_ext4_journalled_write", "ext4_journalled_write_end",
     "who writes to which file with data=journal is not known"},
    {"fl_xfs_write", "xfs_file_buffered_write", "who writes to which file on XFS is not known"},
    {"fl_direct_io", "iomap_dio_rw_begin", "who writes to which file by direct I/O is not known"},
    {"fl_ext4_sync_enter", "ext4_sync_file_enter", "who syncs which file on ext4 is not known"},
    {"fl_bio_queue", "block_bio_queue", "waits for a tag or in writeback throttling count as other"},
    {"fl_backmerge", "block_bio_backmerge", "waits for a tag or in writeback throttling count as other"},
    {"fl_frontmerge", "block_bio_frontmerge", "waits for a tag or in writeback throttling count as other"},
    {"fl_dirty", "balance_dirty_pages", "dirty-page throttling counts as other", 8},
    {"fl_dirty_long", "balance_dirty_pages", "dirty-page throttling counts as other", 12},
    {"fl_reclaim", "mm_vmscan_direct_reclaim_begin", "sleeps in direct reclaim count as other"},
    {"fl_reclaim_end", "mm_vmscan_direct_reclaim_end", "sleeps in direct reclaim count as other"},
    {"fl_memcg_reclaim", "mm_vmscan_memcg_reclaim_begin", "sleeps in a memory cgroup's reclaim count as other"},
    {"fl_memcg_reclaim_end", "mm_vmscan_memcg_reclaim_end", "sleeps in a memory cgroup's reclaim count as other"},
    {"fl_ring_create", "io_uring_create", "who made a ring of io_uring is guessed"},
    {"fl_ring_punt", "io_uring_queue_async_work", "requests that workers of io_uring took are not counted", 2},
    {"fl_ring_failed", "io_uring_req_failed", "failed submissions to io_uring are not counted", 3},
    {"fl_ring_overflow", "io_uring_cqe_overflow", "completions beyond a ring's queue are not counted", 5},
    {"fl_ring_submit", "io_uring_submit_req", "times of requests of io_uring are not known"},
    {"fl_ring_submit_sqe", "io_uring_submit_sqe", "times of requests of io_uring are not known", 2},
    {"fl_ring_complete", "io_uring_complete", "times of requests of io_uring are not known"},
};

// For tracepoints of modules, whose types only CAP_SYS_ADMIN may read: raw tracepoints need none.
struct UntypedTwin {
  const char *tracepoint;
  const char *program;
};
constexpr UntypedTwin kUntypedTwins[] = {
    {"ext4_sync_file_exit", "fl_ext4_sync_raw"},
    {"xfs_file_fsync", "fl_xfs_sync_raw"},
};

// Kernels before 6.5: how long after block_rq_complete in a thread its sleepers are woken by that thread. (In an
// interrupt, where nearly all requests complete, the interrupt's end is the end.)
constexpr uint64_t kCompletingNs = 100000;

// Ends before beginnings: what is begun while we attach is then seen to end. Wakes before switches, the end of a
// request before its start, and enrolment last.
constexpr const char *kAttachOrder[] = {
    "fl_waking",
    "fl_switch",
    "fl_io_done",
    "fl_irq_exit",
    "fl_softirq_exit",
    "fl_complete",
    "fl_merge",
    "fl_requeue",
    "fl_issue",
    "fl_work_start",
    "fl_queue_work",
    "fl_ext4_sync",
    "fl_xfs_sync",
    "fl_ext4_sync_raw",
    "fl_xfs_sync_raw",
    "fl_io_start",
    "fl_getrq",
    "fl_backmerge",
    "fl_frontmerge",
    "fl_bio_queue",
    "fl_dirty",
    "fl_dirty_long",
    "fl_reclaim_end",
    "fl_memcg_reclaim_end",
    "fl_reclaim",
    "fl_memcg_reclaim",
    "fl_journal_end",
    "fl_journal_logging",
    "fl_journal_flushing",
    "fl_journal_locking",
    "fl_journal_start",
    "fl_journal_checkpoint",
    "fl_fork",
    "fl_rename",
    "fl_ext4_sync_enter",
    "fl_direct_io",
    "fl_ext4_delayed_write",
    "fl_ext4_write",
    "fl_ext4_journalled_write",
    "fl_xfs_write",
    "fl_ring_complete",
    "fl_ring_overflow",
    "fl_ring_punt",
    "fl_ring_failed",
    "fl_ring_submit",
    "fl_ring_submit_sqe",
    "fl_ring_create",
};

// What libbpf complained of since the last try: its first line names the program, the verifier's log ends with why.
std::string libbpf_reason;
int keep_reason(enum libbpf_print_level level, const char *format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  va_list again;
  va_copy(again, arguments);
  int length = std::max(std::vsnprintf(nullptr, 0, format, again), 0);  // the verifier's log can have megabytes
  va_end(again);
  std::string message(static_cast<size_t>(length) + 1, '\0');
  std::vsnprintf(message.data(), message.size(), format, arguments);
  message.pop_back();
  auto log_ends = message.rfind("\nprocessed ");
  if (log_ends != std::string::npos) {  // the line before the verifier's own statistics
    auto line = message.rfind('\n', log_ends - 1);
    libbpf_reason += ": " + message.substr(line + 1, log_ends - line - 1);
  } else if (libbpf_reason.empty()) {
    libbpf_reason = message.substr(0, message.find('\n'));
  }
  return 0;
}

template <typename T>
Result<> map_one(const bpf_map *map, int protection, Mapped<T> &into) {
  size_t count = bpf_map__max_entries(map);
  size_t bytes = count * sizeof(T);
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void *at = mmap(nullptr, bytes, protection, MAP_SHARED, bpf_map__fd(map), 0);
  if (at == MAP_FAILED) return system_error(errno, std::string("cannot map ") + bpf_map__name(map));
  into.data = static_cast<T *>(at);
  into.count = count;
  return Ok{};
}

template <typename T>
void unmap(Mapped<T> &mapped) {
  if (mapped.data != nullptr)
    munmap(const_cast<void *>(static_cast<const void *>(mapped.data)), mapped.count * sizeof(T));
  mapped = {};
}

// For good, by the administrator.
bool statistics_are_on() {
  std::ifstream file("/proc/sys/kernel/bpf_stats_enabled");
  return file.get() == '1';
}

}  // namespace

const char *untyped_twin(const std::string &tracepoint) {
  for (const UntypedTwin &twin : kUntypedTwins)
    if (tracepoint == twin.tracepoint) return twin.program;
  return nullptr;
}

uint64_t steady_ns() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Tracer::Impl::~Impl() {
  detach();
  stalls.reset();
  rings.reset();
  if (stats_fd >= 0) close(stats_fd);
  if (enrol_link >= 0) close(enrol_link);
  unmap(ledger);
  unmap(states);
  unmap(requests);
  unmap(devices);
  unmap(journals);
  unmap(histograms);
  flushlight_bpf__destroy(skeleton);
}

Result<> Tracer::Impl::open() {
  libbpf_set_print(keep_reason);
  libbpf_reason.clear();
  auto loaded = load_btf(options.btf_path);
  if (!loaded) return loaded.error();
  btf = std::move(*loaded);
  auto constants = kernel_constants(btf.get());
  if (!constants) return constants.error();
  features = features_from(btf.get(), options);
  for (const Feature &f : features)
    if (f.required && !f.present) return Error{ENOTSUP, f.name + ": " + f.detail + ". " + f.remedy};

  LIBBPF_OPTS(bpf_object_open_opts, open_options);
  if (!options.btf_path.empty()) open_options.btf_custom_path = options.btf_path.c_str();
  skeleton = flushlight_bpf__open_opts(&open_options);
  if (skeleton == nullptr) return system_error(errno, "cannot open the kernel side: " + libbpf_reason);
  auto *constants_out = skeleton->rodata;
  constants_out->fl_flush_seq_mask = constants->flush_seq_mask;
  constants_out->fl_preflush_mask = constants->preflush_mask;
  constants_out->fl_fua_mask = constants->fua_mask;
  constants_out->fl_preempt_known = constants->preempt_distance ? 1 : 0;
  constants_out->fl_preempt_distance = constants->preempt_distance.value_or(0);

  // Kernels before 6.5 (compat.bpf.h): owner from the bio, end of a completion from the interrupt's.
  bool has_io_start = tracepoint_arguments(btf.get(), "block_io_start").has_value() && !options.without_io_start;
  constants_out->fl_no_io_start = has_io_start ? 0 : 1;
  constants_out->fl_completing_ns = has_io_start ? 0 : kCompletingNs;
  bpf_program__set_autoload(skeleton->progs.fl_io_start, has_io_start);
  bpf_program__set_autoload(skeleton->progs.fl_io_done, has_io_start);
  for (bpf_program *before : {skeleton->progs.fl_getrq, skeleton->progs.fl_irq_exit, skeleton->progs.fl_softirq_exit})
    bpf_program__set_autoload(before, !has_io_start);

  bpf_map__set_max_entries(skeleton->maps.ledger, options.ledger_slots);
  bpf_map__set_max_entries(skeleton->maps.states, options.ledger_slots);
  bpf_map__set_max_entries(skeleton->maps.pool, options.pool_slots);
  for (const OptionalProgram &p : kOptionalPrograms) {
    const auto arguments = tracepoint_arguments(btf.get(), p.tracepoint);
    const bool fits = p.arguments == 0 || (arguments && *arguments == p.arguments);
    if (fits && has_typed_tracepoint(btf.get(), p.tracepoint)) continue;
    bpf_program *program = bpf_object__find_program_by_name(skeleton->obj, p.program);
    if (program != nullptr) bpf_program__set_autoload(program, false);
  }
  for (const UntypedTwin &twin : kUntypedTwins) {
    const bool wanted =
        !has_typed_tracepoint(btf.get(), twin.tracepoint) && !tracepoint_module(btf.get(), twin.tracepoint).empty();
    bpf_program *program = bpf_object__find_program_by_name(skeleton->obj, twin.program);
    if (program != nullptr) bpf_program__set_autoload(program, wanted);
  }
  int code = flushlight_bpf__load(skeleton);
  if (code != 0)
    return system_error(-code,
                        "the kernel refused the programs (CAP_BPF and CAP_PERFMON are needed): " + libbpf_reason);
  // From here on only the programs can write the ledger; the descriptor may be handed to anybody.
  code = bpf_map_freeze(bpf_map__fd(skeleton->maps.ledger));
  if (code != 0) return system_error(-code, "cannot freeze the ledger");
  return Ok{};
}

Result<> Tracer::Impl::map_all() {
  auto &maps = skeleton->maps;
  if (auto r = map_one(maps.ledger, PROT_READ, ledger); !r) return r;
  if (auto r = map_one(maps.states, PROT_READ | PROT_WRITE, states); !r) return r;
  if (auto r = map_one(maps.requests, PROT_READ | PROT_WRITE, requests); !r) return r;
  if (auto r = map_one(maps.devices, PROT_READ, devices); !r) return r;
  if (auto r = map_one(maps.journals, PROT_READ | PROT_WRITE, journals); !r) return r;
  if (auto r = map_one(maps.device_histograms, PROT_READ, histograms); !r) return r;
  return Ok{};
}

void Tracer::Impl::fill_pool() {
  // slot 0 is never used: 0 means none
  for (uint32_t slot = options.pool_slots - 1; slot >= 1; slot--)
    bpf_map_update_elem(bpf_map__fd(skeleton->maps.pool), nullptr, &slot, 0);
}

Result<> Tracer::Impl::attach() {
  for (const char *name : kAttachOrder) {
    bpf_program *program = bpf_object__find_program_by_name(skeleton->obj, name);
    if (program == nullptr) return Error{ENOENT, std::string("the kernel side has no program ") + name};
    if (!bpf_program__autoload(program)) continue;
    bpf_link *link = bpf_program__attach(program);
    if (link == nullptr) {
      int code = errno;
      detach();
      return system_error(code, std::string("cannot attach ") + name + ": " + libbpf_reason);
    }
    links.emplace_back(name, link);
  }
  return Ok{};
}

void Tracer::Impl::detach() {
  for (auto &[name, link] : links) bpf_link__destroy(link);
  links.clear();
}

// After a time without events nothing that was in flight is known any more. Totals in the ledger stay; sleeps
// that began before are not charged.
void Tracer::Impl::forget_in_flight() {
  for (size_t i = 0; i < states.count; i++) {
    fl_scratch &x = states.data[i].x;
    x.mark_ns = 0;
    x.outstanding = 0;
    x.wake_at_ns = 0;
    x.off_at_ns = 0;
    x.hint = 0;
  }
  for (size_t i = 0; i < requests.count; i++) requests.data[i].address = 0;
  for (size_t i = 0; i < journals.count; i++) journals.data[i].began_ns = 0;
  std::vector<fl_completing> none(static_cast<size_t>(libbpf_num_possible_cpus()));
  auto near = std::make_unique<fl_near_requests>();
  uint32_t zero = 0;
  bpf_map_update_elem(bpf_map__fd(skeleton->maps.near_requests), &zero, near.get(), 0);
  bpf_map_update_elem(bpf_map__fd(skeleton->maps.completing), &zero, none.data(), 0);
}

void Tracer::Impl::enrol_existing() {
  // one link for good: making and closing one waits for a grace period of the kernel
  if (enrol_link < 0)
    enrol_link = bpf_link_create(bpf_program__fd(skeleton->progs.fl_enrol_existing), 0, BPF_TRACE_ITER, nullptr);
  int iterator = enrol_link < 0 ? -1 : bpf_iter_create(enrol_link);
  if (iterator < 0) return;
  char nothing[64];
  while (read(iterator, nothing, sizeof nothing) > 0) {
  }
  close(iterator);
}

// One pass over the bound processes: new ones have their other threads enrolled, those of revoked leases are
// forgotten, and families without a living member too.
void Tracer::Impl::scan_processes() {
  int fd = bpf_map__fd(skeleton->maps.processes);
  std::vector<uint32_t> gone;
  std::vector<std::pair<uint32_t, fl_process>> fresh;
  bool siblings = false;
  uint32_t key = 0;
  for (int more = bpf_map_get_next_key(fd, nullptr, &key); more == 0; more = bpf_map_get_next_key(fd, &key, &key)) {
    fl_process process;
    if (bpf_map_lookup_elem(fd, &key, &process) != 0) continue;
    if (revoked.count(process.first_slot) != 0) {
      gone.push_back(key);
      continue;
    }
    siblings |= (process.flags & FL_HELLO_FAMILY_SIBLINGS) != 0;
    if (process.enrolled == 0) fresh.emplace_back(key, process);
  }
  for (uint32_t tgid : gone) bpf_map_delete_elem(fd, &tgid);
  for (uint32_t first : revoked) leases->give_back(Lease{0, first, 1});
  revoked.clear();
  if (!siblings) {
    int families = bpf_map__fd(skeleton->maps.families);
    uint32_t parent;
    while (bpf_map_get_next_key(families, nullptr, &parent) == 0) bpf_map_delete_elem(families, &parent);
  }
  if (fresh.empty()) return;
  enrol_existing();
  for (auto &[tgid, process] : fresh) {
    process.enrolled = 1;
    bpf_map_update_elem(fd, &tgid, &process, BPF_EXIST);
  }
}

// One value for each loaded program, in the skeleton's order.
RunStats::Counters Tracer::Impl::run_times() const {
  RunStats::Counters times;
  bpf_program *program;
  bpf_object__for_each_program(program, skeleton->obj) {
    if (!bpf_program__autoload(program)) continue;
    bpf_prog_info info{};
    uint32_t size = sizeof info;
    const bool read = bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0;
    times.push_back(read ? info.run_time_ns : 0);
  }
  return times;
}

void Tracer::Impl::sample_costs() {
  constexpr uint64_t kSecondNs = 1'000'000'000, kPauseNs = 19 * kSecondNs;
  const uint64_t now_ns = steady_ns();
  if (run_stats.is_open()) {
    const bool counted = stats_fd >= 0 || statistics_are_on();
    if (counted && (measure_always || now_ns - run_stats.begun_ns() < kSecondNs)) return;
    if (counted)
      run_stats.end(now_ns, run_times());
    else
      run_stats.drop();
    if (stats_fd >= 0) close(stats_fd);
    stats_fd = -1;
    stats_next_ns = now_ns + kPauseNs;
    return;
  }
  if (!measure_always && now_ns < stats_next_ns) return;
  stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);  // needs CAP_SYS_ADMIN
  if (stats_fd >= 0 || statistics_are_on())
    run_stats.begin(now_ns, run_times());
  else
    stats_next_ns = now_ns + kPauseNs;  // the cost is unknown
}

Tracer::Tracer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tracer::~Tracer() = default;

Result<std::unique_ptr<Tracer>> Tracer::load(const Options &options) {
  if (options.pool_slots < 2 || options.pool_slots >= options.ledger_slots)
    return Error{EINVAL, "pool_slots must be at least 2 and less than ledger_slots"};
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  if (auto r = impl->open(); !r) return r.error();
  if (auto r = impl->map_all(); !r) return r.error();
  impl->fill_pool();
  const fl_slot *slots = impl->ledger.data;
  impl->leases = std::make_unique<LeaseTable>(options.pool_slots, options.ledger_slots, [slots](uint32_t slot) {
    return __atomic_load_n(&slots[slot].state, __ATOMIC_ACQUIRE) == FL_SLOT_FREE;
  });
  if (auto r = impl->attach(); !r) return r.error();
  impl->enrol_existing();
  impl->stalls = make_stall_reader(*impl);
  impl->rings = std::make_unique<RingReader>(impl->skeleton);
  return std::unique_ptr<Tracer>(new Tracer(std::move(impl)));
}

int Tracer::ledger_fd() const { return bpf_map__fd(impl_->skeleton->maps.ledger); }
uint32_t Tracer::ledger_slots() const { return impl_->options.ledger_slots; }

Result<Lease> Tracer::grant(const fl_hello &hello) {
  uint64_t token = 0;
  while (token == 0)
    if (getrandom(&token, sizeof token, 0) != sizeof token) return system_error(errno, "no random number for a token");
  Lease lease = impl_->leases->take(hello.slots_wanted, token);
  if (lease.slot_count == 0)
    return Error{EAGAIN, "the ledger is full: raise ledger_slots in the daemon's configuration"};
  fl_process process{};
  process.first_slot = lease.first_slot;
  process.slot_count = lease.slot_count;
  process.flags = hello.flags;
  process.state_word_address = hello.state_word_address;
  process.state_word_stride = hello.state_word_stride;
  for (int i = 0; i < FL_STATE_RULES; i++) {
    process.rules[i] = hello.state_rules[i];
    if (process.rules[i].cause >= FL_CAUSE_COUNT) process.rules[i].mask = 0;
  }
  if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.tokens), &token, &process, BPF_NOEXIST) != 0) {
    int code = errno;
    impl_->leases->give_back(lease);
    return system_error(code, "cannot store the token");
  }
  return lease;
}

void Tracer::revoke(const Lease &lease) {
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.tokens), &lease.token);
  impl_->revoked.insert(lease.first_slot);
}

void Tracer::tick() {
  impl_->sample_costs();
  impl_->scan_processes();
  impl_->leases->sweep();
  impl_->rings->tick(steady_ns());
}

void Tracer::measure(bool always) { impl_->measure_always = always; }

Result<> Tracer::set_enabled(bool enabled) {
  if (enabled == this->enabled()) return Ok{};
  if (!enabled) {
    impl_->detach();
    return Ok{};
  }
  impl_->forget_in_flight();
  auto attached = impl_->attach();
  if (attached) impl_->rings->forget();
  return attached;
}

std::vector<Ring> Tracer::rings() { return impl_->rings->look(); }

StallSource &Tracer::stalls() { return *impl_->stalls; }

bool Tracer::enabled() const { return !impl_->links.empty(); }

std::vector<Feature> Tracer::features() const { return impl_->features; }

}  // namespace flushlight::kernel
