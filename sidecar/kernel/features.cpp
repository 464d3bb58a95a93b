// SPDX-License-Identifier: GPL-2.0-or-later
// What the kernel side needs, found by trying it, never by comparing kernel versions.
#include <bpf/bpf.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sidecar/kernel/tracer_impl.h"

namespace flushlight::kernel {
namespace {

struct Tracepoint {
  const char *name;
  int arguments;  // that the programs are written for
  bool required;
  const char *cost;
  const char *instead = nullptr;  // its name on other kernels
};
constexpr const char *kJournalCost = "commits of ext4's journals are known as averages only (view journals)";
constexpr Tracepoint kTracepoints[] = {
    {"sched_switch", 3, true, "no account of any thread"},
    {"sched_waking", 1, true, "no account of any thread"},
    {"task_rename", 2, true, "databases cannot enrol their threads"},
    {"sched_process_fork", 2, true, "background threads are not traced"},
    {"block_rq_issue", 1, true, "queue and device time cannot be told apart"},
    {"block_rq_complete", 3, true, "waits for requests cannot be explained"},
    {"block_getrq", 1, true, "requests have no owner (kernels before 6.5)"},
    {"block_io_start", 1, false, "owners are taken from block_getrq instead"},
    {"block_io_done", 1, false, "a request's completion ends with its interrupt instead"},
    {"irq_handler_exit", 3, true, "the end of a request's completion is not known (kernels before 6.5)"},
    {"softirq_exit", 1, true, "the end of a request's completion is not known (kernels before 6.5)"},
    {"block_rq_requeue", 1, false, "time of requeued requests counts as device time"},
    {"block_rq_merge", 1, false, "merged requests stay open until their memory is used again"},
    {"workqueue_queue_work", 3, true, "waits that a kernel worker ends cannot be explained"},
    {"workqueue_execute_start", 1, true, "waits that a kernel worker ends cannot be explained"},
    {"block_bio_queue", 1, false, "waits for a tag or in writeback throttling count as other"},
    {"block_bio_backmerge", 1, false, "waits for a tag or in writeback throttling count as other"},
    {"block_bio_frontmerge", 1, false, "waits for a tag or in writeback throttling count as other"},
    {"balance_dirty_pages", 8, false, "dirty-page throttling counts as other"},
    {"mm_vmscan_direct_reclaim_begin", 2, false, "sleeps in direct reclaim count as other"},
    {"mm_vmscan_direct_reclaim_end", 1, false, "sleeps in direct reclaim count as other"},
    {"mm_vmscan_memcg_reclaim_begin", 2, false, "sleeps in the reclaim of a memory cgroup count as other"},
    {"mm_vmscan_memcg_reclaim_end", 1, false, "sleeps in the reclaim of a memory cgroup count as other"},
    {"ext4_sync_file_exit", 2, false, "commits on ext4 cannot be told into led and followed"},
    {"xfs_file_fsync", 1, false, "commits on XFS cannot be told into led and followed"},
    {"jbd2_start_commit", 1, false, kJournalCost},
    {"jbd2_commit_locking", 1, false, kJournalCost},
    {"jbd2_commit_flushing", 1, false, kJournalCost},
    {"jbd2_commit_logging", 1, false, kJournalCost},
    {"jbd2_end_commit", 1, false, kJournalCost},
    {"jbd2_checkpoint", 1, false, "checkpoints of ext4's journals are not counted"},
    {"ext4_sync_file_enter", 2, false, "who syncs which file on ext4 is not known"},
    {"ext4_da_write_end", 4, false, "who writes to which file on ext4 is not known"},
    {"ext4_write_end", 4, false, "who writes to which file on ext4 without delayed allocation is not known"},
    {"ext4_journalled_write_end", 4, false, "who writes to which file with data=journal is not known"},
    {"xfs_file_buffered_write", 2, false, "who writes to which file on XFS is not known"},
    {"iomap_dio_rw_begin", 4, false, "who writes to which file by direct I/O is not known"},
    {"io_uring_create", 5, false, "who made a ring of io_uring is guessed (view rings)"},
    {"io_uring_queue_async_work", 2, false, "requests that workers of io_uring took are not counted"},
    {"io_uring_req_failed", 3, false, "failed submissions to io_uring are not counted"},
    {"io_uring_cqe_overflow", 5, false, "completions beyond a ring's queue are not counted"},
    {"io_uring_submit_req", 1, false, "times of requests of io_uring are not known", "io_uring_submit_sqe"},
    {"io_uring_submit_sqe", 2, false, "times of requests of io_uring are not known", "io_uring_submit_req"},
    {"io_uring_complete", 3, false, "times of requests of io_uring are not known"},
};

struct Capability {
  const char *name;
  int number;
  bool required;
  const char *cost;
};
constexpr int kSysAdmin = 21;
constexpr Capability kCapabilities[] = {
    {"CAP_BPF", 39, true, "no tracing: commit times without causes (tier B)"},
    {"CAP_PERFMON", 38, true, "no tracing: commit times without causes (tier B)"},
    {"CAP_SYS_ADMIN", kSysAdmin, false, "the cost of the BPF programs cannot be measured continuously"},
};

bool has_capability(int number) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[number / 32].effective >> (number % 32) & 1) != 0;
}

Feature tracepoint_feature(const btf *b, const Tracepoint &t) {
  Feature f;
  f.name = std::string("tracepoint ") + t.name;
  f.required = t.required;
  f.cost = t.cost;
  auto arguments = tracepoint_arguments(b, t.name);
  if (const std::string module = arguments ? "" : tracepoint_module(b, t.name); !module.empty()) {
    const bool typed = has_capability(kSysAdmin);
    f.present = typed || untyped_twin(t.name) != nullptr;
    f.detail = "in the module " + module + (typed ? "" : ", without its types (they need CAP_SYS_ADMIN)");
    f.remedy = "grant CAP_SYS_ADMIN, or use a kernel with " + module + " built in";
    return f;
  }
  // newer kernels may pass more arguments at the end (sched_switch got prev_state in 5.18)
  f.present = arguments && *arguments >= t.arguments;
  if (!f.present && t.instead != nullptr && tracepoint_arguments(b, t.instead)) {
    f.present = true;
    f.detail = std::string("it is ") + t.instead + " here";
  } else if (!arguments) {
    f.detail = "the kernel has no such tracepoint";
    f.remedy = "a kernel from 6.5 on has all of them (file systems: load the module before the daemon)";
  } else if (!f.present) {
    f.detail = "the kernel passes " + std::to_string(*arguments) + " arguments, " + std::to_string(t.arguments) +
               " are needed";
    f.remedy = "use a newer kernel";
  } else {
    f.detail = "found in BTF";
  }
  return f;
}

}  // namespace

bool has_typed_tracepoint(const btf *b, const std::string &name) {
  return tracepoint_arguments(b, name) || (has_capability(kSysAdmin) && !tracepoint_module(b, name).empty());
}

std::vector<Feature> features_from(const btf *b, const Options &) {
  std::vector<Feature> result;
  for (const Capability &c : kCapabilities) {
    Feature f{c.name,     has_capability(c.number),
              c.required, "",
              c.cost,     std::string("grant ") + c.name + " (systemd: AmbientCapabilities=, container: --cap-add)"};
    f.detail = f.present ? "effective" : "not effective";
    result.push_back(f);
  }
  for (const Tracepoint &t : kTracepoints) result.push_back(tracepoint_feature(b, t));
  auto constants = kernel_constants(b);
  Feature interrupt{"interrupt detection",
                    constants && constants->preempt_distance,
                    false,
                    "",
                    "a wake by an interrupt on top of a traced thread may be taken for that thread's",
                    "none; the effect is small"};
  interrupt.detail = interrupt.present ? "__preempt_count found by its distance to the run queue"
                                       : "BTF does not say where __preempt_count is";
  result.push_back(interrupt);
  return result;
}

std::vector<Feature> probe_features(const Options &options) {
  auto loaded = load_btf(options.btf_path);
  Feature type_information{"BTF",        static_cast<bool>(loaded),
                           true,         "",
                           "no tracing", "use a kernel with CONFIG_DEBUG_INFO_BTF=y, or give its BTF with btf_path"};
  if (!loaded) {
    type_information.detail = loaded.error().text;
    return {type_information};
  }
  type_information.detail = options.btf_path.empty() ? "/sys/kernel/btf/vmlinux" : options.btf_path;
  std::vector<Feature> result{type_information};
  for (Feature &f : features_from(loaded->get(), options)) result.push_back(std::move(f));
  return result;
}

}  // namespace flushlight::kernel
