// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sidecar/base/log.h"
#include "sidecar/base/text.h"
#include "sidecar/host/process.h"

namespace flushlight::stalls {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kUsualFromNs = 70 * kSecondNs, kUsualToNs = 10 * kSecondNs, kUsualLeastNs = 5 * kSecondNs;
constexpr uint64_t kTaskBlockedNs = 100'000'000;  // shorter sleeps belong to life
constexpr uint64_t kTaskSlackNs = 1 * kSecondNs;  // blocked so long before the stall: not by it
constexpr size_t kNameBytes = 64;

}  // namespace

Monitor::Monitor(const Clock &clock, KernelPort *kernel, const Intake &intake, ReadDiskStats read_disk_stats)
    : clock_(clock),
      kernel_(kernel),
      source_(kernel != nullptr ? kernel->stalls() : nullptr),
      intake_(intake),
      read_disk_stats_(std::move(read_disk_stats)),
      next_ns_(source_ != nullptr ? 0 : UINT64_MAX) {}

void Monitor::on_commit(const JoinedCommit &event) {
  const WaitedCommit commit = waited_commit(event);
  if (event.accounted()) {
    journals_.commit(commit.begin_ns, commit.journal_ns);
    journal_waits_ += commit.journal_ns >= kCrowdWaitNs;
  }
  log_.commit(commit, clock_.now_ns());
}

void Monitor::step(const BlockDevices &devices) {
  const uint64_t now_ns = clock_.now_ns();
  if (now_ns < next_ns_) return;
  step_now(devices, now_ns);
}

void Monitor::replay_look(const BlockDevices &devices) {
  step_now(devices, clock_.now_ns());
  next_ns_ = UINT64_MAX;  // from now on only those of the record
}

void Monitor::step_now(const BlockDevices &devices, uint64_t now_ns) {
  if (!kernel_->enabled()) {
    next_ns_ = now_ns + kIntervalNs;
    return;
  }
  look(devices);
  if (now_ns >= next_house_ns_) {
    log_.keep_house(now_ns);
    next_house_ns_ = now_ns + kSecondNs;
  }
  if (now_ns >= next_tasks_ns_ && !open().empty()) {
    look_at_tasks();
    next_tasks_ns_ = clock_.now_ns() + kTasksIntervalNs;
  }
  next_ns_ = clock_.now_ns() + (detector_.suspicious() ? kSuspiciousIntervalNs : kIntervalNs);
}

void Monitor::forget() {
  const uint64_t now_ns = clock_.now_ns();
  for (const Episode &episode : detector_.forget(now_ns)) log_.close(episode, now_ns);
  for (const Episode &episode : journals_.forget(now_ns)) log_.close(episode, now_ns);
}

std::vector<Episode> Monitor::open() const {
  std::vector<Episode> all = detector_.open();
  for (const Episode &episode : journals_.open()) all.push_back(episode);
  return all;
}

void Monitor::look(const BlockDevices &devices) {
  Detector::Look look;
  const AllDiskStats stats = read_disk_stats_();
  look.devices = source_->activity();
  look.now_ns = clock_.now_ns();
  std::set<uint32_t> known;
  for (kernel::DeviceActivity &activity : look.devices) {
    known.insert(activity.device);
    const auto found = stats.find(activity.device);
    if (found == stats.end()) continue;
    activity.kernel_inflight = found->second.inflight;
    activity.kernel_completed = found->second.completed;
    activity.kernel_bytes = found->second.bytes;
  }
  // Asked for something before we came, and for nothing since: only the kernel knows of it.
  for (const auto &[number, disk] : stats) {
    if (known.contains(number) || disk.inflight == 0 || !devices.contains(number)) continue;
    kernel::DeviceActivity &activity = look.devices.emplace_back();
    activity.device = number;
    activity.kernel_inflight = disk.inflight;
    activity.kernel_completed = disk.completed;
    activity.kernel_bytes = disk.bytes;
  }
  remember_bytes(stats, look.now_ns);
  if (recorder_ != nullptr) record_ = LookRecord{look.now_ns, clock_.unix_ns(), stats, look.devices, {}, {}, {}, {}};
  take_slow_requests(&look);
  take_over(detector_.look(look), look.now_ns, devices);
  take_over(look_at_journals(look), look.now_ns, devices);
  for (const Episode &episode : open())
    if (Stall *stall = log_.find(episode.id)) stall->episode = episode;
  if (recorder_ != nullptr) recorder_->look(to_text(record_));
}

void Monitor::take_over(const Detector::Changes &changes, uint64_t now_ns, const BlockDevices &devices) {
  for (const Episode &episode : changes.opened) begin(episode, devices);
  for (const Episode &episode : changes.closed) {
    log_.close(episode, now_ns);
    const Stall *stall = log_.find(episode.id);
    spdlog::info("stall {} of {} is over after {:.0f} ms", episode.id, stall != nullptr ? stall->device : "a device",
                 static_cast<double>(episode.end_ns - episode.begin_ns) / 1e6);
  }
}

Detector::Changes Monitor::look_at_journals(const Detector::Look &look) {
  JournalWatch::Look watch;
  watch.now_ns = look.now_ns;
  std::vector<kernel::JournalCommits> journals = kernel_->journals();
  if (recorder_ != nullptr) record_.journals = journals;
  for (kernel::JournalCommits &commits : journals) {
    if (commits.disk == 0) continue;
    JournalActivity &journal = watch.journals.emplace_back();
    journal.number = commits.device;
    journal.device = commits.disk;
    journal.in_progress_ns = commits.in_progress_ns;
    journal.writes = commits.phase >= kernel::JournalCommits::kLogging;
    journal.busy_ns = commits.sum_ns;
    journal.commits = std::move(commits.buckets);
    for (const kernel::DeviceActivity &activity : look.devices)
      if (activity.device == commits.disk) journal.outstanding = activity.at_device + activity.queued;
  }
  watch.service = [&](uint32_t device) { return detector_.service(device, look.now_ns); };
  watch.crowded = [&](uint32_t device) { return crowd(device, look.now_ns) != nullptr; };
  watch.new_id = [this] { return detector_.new_id(); };
  if (std::exchange(journal_waits_, 0) > 0)
    for (const JournalActivity &journal : watch.journals) crowd(journal.device, look.now_ns);
  return journals_.look(watch);
}

const Culprit *Monitor::crowd(uint32_t device, uint64_t now_ns) {
  uint64_t &next_ns = next_crowd_ns_[device];
  if (now_ns >= next_ns) {
    next_ns = now_ns + kCrowdIntervalNs;
    const auto [writers, databases] = who_writes();
    if (auto culprit = find_crowd(writers, device, databases, now_ns))
      crowds_.push_back({now_ns, device, std::move(*culprit)});
    if (crowds_.size() > kCrowdsMax) crowds_.pop_front();
  }
  for (auto known = crowds_.rbegin(); known != crowds_.rend() && known->at_ns + kCrowdIntervalNs > now_ns; ++known)
    if (known->device == device) return &known->culprit;
  return nullptr;
}

const Culprit *Monitor::crowd_of(const WaitedCommit &commit) const {
  if (commit.journal_ns < kCrowdWaitNs || 2 * commit.journal_ns < commit.end_ns - commit.begin_ns) return nullptr;
  const Crowd *nearest = nullptr;
  uint64_t distance_ns = kCrowdNs;
  for (const Crowd &crowd : crowds_) {
    const uint64_t apart_ns = std::max(crowd.at_ns, commit.end_ns) - std::min(crowd.at_ns, commit.end_ns);
    if (apart_ns > distance_ns) continue;
    distance_ns = apart_ns;
    nearest = &crowd;
  }
  return nearest != nullptr ? &nearest->culprit : nullptr;
}

void Monitor::take_slow_requests(Detector::Look *look) {
  for (kernel::SlowRequest &request : source_->take_slow_requests(&lost_requests_)) {
    look->long_completions.emplace_back(request.device, request.complete_ns);
    if (request.complete_ns - request.start_ns < kSlowRequestNs) {
      if (recorder_ != nullptr) record_.requests.push_back(std::move(request));
      continue;
    }
    KnownRequest known;
    known.process = sanitize_utf8(request.process, kNameBytes);
    if (known.process.empty() && request.tid != 0) known.process = read_thread_facts(request.tid).name;
    if (recorder_ != nullptr) {
      kernel::SlowRequest &recorded = record_.requests.emplace_back(request);
      recorded.process = known.process;
    }
    known.request = std::move(request);
    requests_.push_back(std::move(known));
    if (requests_.size() > kRequestsMax) requests_.pop_front();
  }
}

void Monitor::remember_bytes(const AllDiskStats &stats, uint64_t now_ns) {
  for (const auto &[number, disk] : stats) {
    auto &taken = taken_[number];
    if (!taken.empty() && now_ns - taken.back().at_ns < kSecondNs) continue;
    taken.push_back({now_ns, disk.bytes});
    while (taken.front().at_ns + kUsualFromNs < now_ns) taken.pop_front();
  }
  std::erase_if(taken_, [&](const auto &entry) { return !stats.contains(entry.first); });
}

// In the minute that ended ten seconds ago: what leads to a stall is not usual.
std::optional<double> Monitor::usual_bytes_per_second(uint32_t device, uint64_t now_ns) const {
  const auto found = taken_.find(device);
  if (found == taken_.end() || found->second.empty()) return std::nullopt;
  const Taken &first = found->second.front();
  Taken last = first;
  for (const Taken &taken : found->second)
    if (taken.at_ns + kUsualToNs <= now_ns) last = taken;
  if (last.at_ns < first.at_ns + kUsualLeastNs || last.bytes < first.bytes) return std::nullopt;
  return static_cast<double>(last.bytes - first.bytes) * 1e9 / static_cast<double>(last.at_ns - first.at_ns);
}

std::pair<std::vector<kernel::Writer>, std::set<uint32_t>> Monitor::who_writes() {
  std::set<uint32_t> databases;
  for (const kernel::ThreadState &thread : kernel_->threads())
    if (thread.kind != 2) databases.insert(thread.host_tgid);  // journal threads are nobody's
  std::vector<kernel::Writer> writers = source_->writers();
  if (recorder_ != nullptr) {
    record_.writers = writers;
    record_.databases = databases;
  }
  return {std::move(writers), std::move(databases)};
}

void Monitor::begin(const Episode &episode, const BlockDevices &devices) {
  const uint64_t now_ns = clock_.now_ns();
  Stall &stall = log_.open(episode, now_ns);
  stall.device = fmt::format("{}:{}", episode.device >> 20, episode.device & 0xfffff);
  if (const auto found = devices.find(episode.device); found != devices.end()) {
    stall.device = found->second.name;
    stall.mount_point = found->second.mount_point;
  }
  if (episode.kind != Kind::kJournal) {
    const auto [writers, databases] = who_writes();
    stall.culprit = find_culprit(writers, episode, usual_bytes_per_second(episode.device, episode.begin_ns), databases);
  } else if (const Culprit *culprit = crowd(episode.device, now_ns)) {
    stall.culprit = *culprit;
  } else {
    stall.culprit.is_device = false;  // somebody
  }
  spdlog::warn("stall {} of {} ({}) began {:.0f} ms ago", episode.id, stall.device, kind_name(episode.kind),
               static_cast<double>(now_ns - episode.begin_ns) / 1e6);
  next_tasks_ns_ = 0;
}

void Monitor::look_at_tasks() {
  struct Known {
    uint32_t device;
    bool is_session;
  };
  std::map<uint32_t, Known> threads;
  for (const kernel::ThreadState &thread : kernel_->threads())
    threads[thread.host_tid] = {thread.device, thread.kind == 1};
  const std::vector<Episode> open = this->open();
  std::map<uint64_t, uint64_t> others;  // by stall
  const uint64_t now_ns = clock_.now_ns();
  for (const kernel::BlockedTask &task : source_->blocked_tasks()) {
    if (task.blocked_ns != 0 && task.blocked_ns < kTaskBlockedNs) continue;
    const auto thread = threads.find(task.tid);
    const uint32_t device = thread != threads.end() ? thread->second.device : 0;
    const std::string name = read_thread_facts(task.tid).name;
    // Whose stall it is: that of the device it waits for, else one that its name names, else the oldest.
    Stall *of = nullptr;
    for (const Episode &episode : open) {
      Stall *stall = log_.find(episode.id);
      if (stall == nullptr || (device != 0 && device != episode.device)) continue;
      if (task.blocked_ns > now_ns - episode.begin_ns + kTaskSlackNs) continue;
      const bool named = name.find(stall->device) != std::string::npos;
      if (of == nullptr || named) of = stall;
    }
    if (of == nullptr) continue;
    const bool is_session = thread != threads.end() && thread->second.is_session;
    if (!is_session) others[of->episode.id]++;
    if (of->tasks.size() >= StallLog::kTasksMax && !of->tasks.contains(task.tid)) continue;
    StallTask &blocked = of->tasks[task.tid];
    blocked.tid = task.tid;
    blocked.tgid = task.tgid;
    blocked.name = name.empty() ? sanitize_utf8(task.name, kNameBytes) : name;
    if (blocked.process.empty())
      blocked.process = task.tid == task.tgid ? blocked.name : read_thread_facts(task.tgid).name;
    blocked.waited_ns = std::max(blocked.waited_ns, task.blocked_ns);
    blocked.commits = is_session;
    if (!task.stack.empty()) {
      blocked.stack = task.stack;
      blocked.wait_function = wait_function_of(task.stack);
    }
  }
  for (const auto &[id, count] : others)
    if (Stall *stall = log_.find(id)) stall->other_tasks = std::max(stall->other_tasks, count);
}

std::vector<kernel::Writer> Monitor::writers() const {
  return source_ != nullptr ? source_->writers() : std::vector<kernel::Writer>{};
}

}  // namespace flushlight::stalls
