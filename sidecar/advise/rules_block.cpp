// SPDX-License-Identifier: GPL-2.0-or-later
// Queue and device. Folklore contradicts itself here, so what cannot be told from figures is to be measured, and what
// only hides a cache's volatility is never advised.
#include <fmt/format.h>

#include <algorithm>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

constexpr double kQueueShare = 0.2;
constexpr uint64_t kFlushesForEvidence = 50;

struct Change {
  const char *rule = nullptr, *file = nullptr;  // below queue/
  std::string now = {}, suggested = {}, evidence = {}, risk = {}, authority = {};
  Confidence confidence = Confidence::kMedium;
};

void suggest(const Facts &facts, const Change &change, std::vector<Advice> *out) {
  const std::string &name = facts.device->device.name;
  Advice advice;
  advice.rule = change.rule;
  advice.kind = change.suggested.empty() ? Kind::kNo : Kind::kHost;
  advice.scope = "device " + name;
  advice.setting = std::string("queue/") + change.file;
  advice.now = change.now;
  advice.suggested = change.suggested;
  advice.evidence = change.evidence;
  advice.confidence = change.confidence;
  advice.risk = change.risk;
  advice.authority = change.authority;
  if (!change.suggested.empty()) {
    advice.apply = {{"shell", fmt::format("echo {} > /sys/block/{}/queue/{}", change.suggested, name, change.file)},
                    {"udev", fmt::format("ACTION==\"add|change\", KERNEL==\"{}\", ATTR{{queue/{}}}=\"{}\"", name,
                                         change.file, change.suggested)}};
    advice.undo = fmt::format("echo {} > /sys/block/{}/queue/{}", change.now, name, change.file);
  }
  out->push_back(std::move(advice));
}

std::string text_of(const std::optional<int64_t> &value) { return value ? fmt::to_string(*value) : ""; }

void requests(const Facts &facts, std::vector<Advice> *out) {
  constexpr int64_t kFew = 64, kEnough = 128;
  if (!facts.device || !facts.device->device.nr_requests) return;
  const BlockDevice &device = facts.device->device;
  const int64_t now = *device.nr_requests;
  const int64_t tags = device.tag_depth.value_or(now);
  if (device.scheduler == "none" && device.tag_depth && now > tags) {
    suggest(facts,
            {.rule = "no.nr_requests",
             .file = "nr_requests",
             .now = text_of(now),
             .evidence = fmt::format(
                 "nr_requests shows {}, the device takes {} at once: without a scheduler what is above has no effect",
                 now, tags),
             .authority = "kernel Documentation/block/queue-sysfs.rst",
             .confidence = Confidence::kHigh},
            out);
    return;
  }
  if (!share_is(facts.commits, FL_CAUSE_QUEUE, kQueueShare) || now >= kFew) return;
  const bool scheduled = device.scheduler != "none";
  // Without a scheduler the driver's own tags are the end; they are known only while fewer are not asked for.
  suggest(facts,
          {.rule = "block.nr_requests",
           .file = "nr_requests",
           .now = text_of(now),
           .suggested = text_of(kEnough),
           .evidence = fmt::format("{} of the commit time of {} waits in the queue, which holds {} requests{}",
                                   percent(*facts.commits.cause_share(FL_CAUSE_QUEUE)), seen(facts.commits), now,
                                   scheduled ? "" : "; the kernel refuses or clamps what is above the device's tags"),
           .risk = "more requests may be ahead of a log write: measure the tail afterwards",
           .authority = "kernel Documentation/block/queue-sysfs.rst"},
          out);
}

void merges(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.device || facts.device->device.nomerges.value_or(0) == 0 || !facts.journal ||
      facts.journal->file_system != "ext4")
    return;
  suggest(facts,
          {.rule = "block.nomerges",
           .file = "nomerges",
           .now = text_of(facts.device->device.nomerges),
           .suggested = "0",
           .evidence = "the journal's own writes merge (six into one request was seen); nomerges is only for loads "
                       "that are known not to merge",
           .risk = "a little CPU time for each request",
           .authority = "kernel Documentation/ABI/stable/sysfs-block",
           .confidence = Confidence::kLow},
          out);
}

void completions(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.device) return;
  const BlockDevice &device = facts.device->device;
  if (facts.host.cpus < 4 || device.interrupts.top.value_or(0) < 0.9) return;
  if (device.rq_affinity.value_or(2) != 2)
    suggest(facts,
            {.rule = "block.rq_affinity",
             .file = "rq_affinity",
             .now = text_of(device.rq_affinity),
             .suggested = "2",
             .evidence = fmt::format(
                 "one CPU of {} takes {} of the device's interrupts; 2 hands each completion to the CPU that asked",
                 facts.host.cpus, percent(*device.interrupts.top)),
             .risk = "an interrupt between CPUs for each completion",
             .authority = "kernel Documentation/block/queue-sysfs.rst",
             .confidence = Confidence::kLow},
            out);
  if (device.transport == "nvme")
    suggest(facts,
            {.rule = "no.interrupts",
             .file = "rq_affinity",
             .now = text_of(device.rq_affinity),
             .evidence = "NVMe interrupts are placed by the kernel: writing their affinity is refused; what can be "
                         "moved is the server (numactl, CPUAffinity=)",
             .authority = "kernel Documentation/core-api/irq/irq-affinity.rst",
             .confidence = Confidence::kHigh},
            out);
}

void read_ahead(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.device || facts.device->device.read_ahead_kb.value_or(128) != 0) return;
  suggest(facts,
          {.rule = "block.read_ahead_kb",
           .file = "read_ahead_kb",
           .now = "0",
           .suggested = "128",
           .evidence = "without read-ahead scans wait for each read; commits do not read",
           .risk = "random reads may read a little more",
           .authority = "kernel Documentation/block/queue-sysfs.rst",
           .confidence = Confidence::kLow},
          out);
}

// Which scheduler, and write-back throttling on or off: only a measurement of this device tells.
void scheduling(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.device || !share_is(facts.commits, FL_CAUSE_QUEUE, kQueueShare)) return;
  const BlockDevice &device = facts.device->device;
  const bool throttled = device.wbt_lat_us.value_or(0) > 0;
  suggest(facts,
          {.rule = "no.scheduler",
           .file = "scheduler",
           .now = device.scheduler,
           .evidence = fmt::format(
               "{} of the commit time waits in the queue under '{}'{}; no scheduler is best on every device: "
               "`flushlight probe "
               "--matrix` measures those of this one",
               percent(*facts.commits.cause_share(FL_CAUSE_QUEUE)), device.scheduler,
               throttled ? fmt::format(" with write-back throttling ({} µs), which protects reads and may hold writes",
                                       *device.wbt_lat_us)
                         : ""),
           .authority = "kernel Documentation/block; measure"},
          out);
}

// The kernel's view of the cache is no tuning knob.
void write_cache(const Facts &facts, std::vector<Advice> *out) {
  if (!facts.device || !share_is(facts.commits, FL_CAUSE_FLUSH, 0.5)) return;
  const BlockDevice &device = facts.device->device;
  suggest(facts,
          {.rule = "no.write_cache",
           .file = "write_cache",
           .now = device.write_cache,
           .evidence = facts.power_loss_protected
                           ? "power-loss protection is declared, yet flushes take time: the device does not know of "
                             "it. Its own setting (not queue/write_cache) or "
                             "its firmware is the place; writing queue/write_cache changes only the kernel's view"
                           : "writing 'write through' to queue/write_cache is no tuning: it only stops the flushes "
                             "that a volatile cache needs, and a power loss then "
                             "loses acknowledged commits. A device with power-loss protection is the way; only you can "
                             "declare it (advice.power_loss_protected)",
           .authority = "kernel Documentation/ABI/stable/sysfs-block",
           .confidence = Confidence::kHigh},
          out);
}

void implausible_flush(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kImplausibleMs = 0.05;
  if (!facts.device || facts.power_loss_protected || facts.device->flushes < kFlushesForEvidence) return;
  const auto flush = facts.device->flush_p50_ms;
  const BlockDevice &device = facts.device->device;
  if (!flush || *flush >= kImplausibleMs || device.write_cache != "write back") return;
  suggest(facts,
          {.rule = "no.implausible_flush",
           .file = "write_cache",
           .now = device.write_cache,
           .evidence = fmt::format("a flush takes {:.0f} µs: that is a cache with power-loss protection, or one that "
                                   "does not do what it is told. Pull the plug of a "
                                   "test machine before you trust it, or declare it (advice.power_loss_protected)",
                                   1000 * *flush),
           .authority = "diskchecker; kernel writeback_cache_control.rst",
           .confidence = Confidence::kLow},
          out);
}

constexpr RuleEntry kRules[] = {{"block", requests},         {"block", merges},     {"block", completions},
                                {"block", read_ahead},       {"block", scheduling}, {"block", write_cache},
                                {"block", implausible_flush}};

}  // namespace

std::span<const RuleEntry> block_rules() { return kRules; }

}  // namespace flushlight::advise
