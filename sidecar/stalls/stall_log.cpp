// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/stall_log.h"

#include <algorithm>
#include <array>

namespace flushlight::stalls {
namespace {

constexpr uint64_t kSlowWaitMinNs = Detector::kSlowFloorNs / 2;  // of a device that still serves

// How the scheduler and the wait primitives begin their functions' names: no news.
constexpr std::string_view kWaitPrimitives[] = {
    "__schedule",          "schedule",          "preempt_schedule",  "io_schedule",
    "context_switch",      "bit_wait",          "__wait_on_bit",     "out_of_line_wait_on_bit",
    "wait_for_completion", "__wait_for_common", "do_wait_for_common"};

}  // namespace

WaitedCommit waited_commit(const fl_record_commit &record, const StatementKey &key) {
  WaitedCommit commit;
  commit.begin_ns = record.begin_ns;
  commit.end_ns = record.begin_ns + record.duration_ns;
  commit.session_id = record.session_id;
  commit.key = key;
  if ((record.flags & FL_COMMIT_ACCOUNTED) == 0) {
    commit.storage_ns = commit.journal_ns = record.duration_ns;
  } else {
    static constexpr std::array kStorage = {FL_CAUSE_FLUSH, FL_CAUSE_WRITE,    FL_CAUSE_READ,
                                            FL_CAUSE_QUEUE, FL_CAUSE_THROTTLE, FL_CAUSE_OTHER};
    for (const int cause : kStorage) commit.storage_ns += record.vector_ns[cause];
    commit.journal_ns = record.vector_ns[FL_VECTOR_PATH(FL_PATH_JOURNAL)];
  }
  return commit;
}

WaitedCommit waited_commit(const JoinedCommit &event) {
  StatementKey key = event.key;
  if (event.has_cause) key.queryid = event.cause.queryid;
  return waited_commit(event.record, key);
}

void Hits::add(const WaitedCommit &commit) {
  commits++;
  sessions.insert(commit.session_id);
  if (const uint64_t took_ns = commit.end_ns - commit.begin_ns; took_ns > worst_ns) {
    worst_ns = took_ns;
    worst = commit.key;
  }
}

bool Stall::hit(const WaitedCommit &commit, uint64_t now_ns) const {
  const uint64_t end_ns = lasts() ? now_ns : episode.end_ns;
  const uint64_t from_ns = std::max(commit.begin_ns, episode.begin_ns), to_ns = std::min(commit.end_ns, end_ns);
  const uint64_t least_ns = is_slow(episode.kind) ? kSlowWaitMinNs : StallLog::kWaitMinNs;
  if (to_ns < from_ns + least_ns || commit.storage_ns < least_ns) return false;
  if (episode.kind == Kind::kJournal && commit.journal_ns < least_ns) return false;
  // From a device that serves nothing no commit can return before it serves again: such a one waited for another.
  return is_slow(episode.kind) || lasts() || commit.end_ns + StallLog::kWaitMinNs >= end_ns;
}

Hits Stall::hits_of(uint32_t instance, uint64_t now_ns) const {
  Hits sum;
  for (const auto &[id, of_instance] : hits) {
    if (instance != 0 && id != instance) continue;
    sum.commits += of_instance.commits;
    for (const uint64_t session : of_instance.sessions) sum.sessions.insert(session);
    if (of_instance.worst_ns > sum.worst_ns) {
      sum.worst_ns = of_instance.worst_ns;
      sum.worst = of_instance.worst;
    }
  }
  for (const WaitedCommit &commit : undecided)
    if ((instance == 0 || commit.key.instance == instance) && hit(commit, now_ns)) sum.add(commit);
  return sum;
}

std::string wait_function_of(const std::vector<std::string> &stack) {
  for (const std::string &function : stack)
    if (std::none_of(std::begin(kWaitPrimitives), std::end(kWaitPrimitives),
                     [&](std::string_view name) { return function.starts_with(name); }))
      return function;
  return stack.empty() ? "" : stack.back();
}

Stall &StallLog::open(const Episode &episode, uint64_t now_ns) {
  Stall &stall = stalls_.emplace_back();
  stall.episode = episode;
  StallTotals &totals = totals_[episode.device];
  totals.count++;
  totals.lasts_since_ns = episode.begin_ns;
  for (const WaitedCommit &commit : commits_)
    if (stall.hit(commit, now_ns)) stall.undecided.push_back(commit);
  while (stalls_.size() > kStallsMax && !stalls_.front().lasts()) stalls_.pop_front();
  return stall;
}

void StallLog::close(const Episode &episode, uint64_t now_ns) {
  Stall *stall = find(episode.id);
  if (stall == nullptr) return;
  stall->episode = episode;
  for (const WaitedCommit &commit : stall->undecided)
    if (stall->hit(commit, now_ns)) stall->hits[commit.key.instance].add(commit);
  stall->undecided.clear();
  StallTotals &totals = totals_[episode.device];
  totals.ns += episode.end_ns - std::min(episode.begin_ns, episode.end_ns);
  totals.lasts_since_ns = 0;
}

void StallLog::commit(const WaitedCommit &commit, uint64_t now_ns) {
  if (commit.end_ns < commit.begin_ns + kWaitMinNs) return;
  commits_.push_back(commit);
  if (commits_.size() > kCommitsMax) commits_.pop_front();
  for (Stall &stall : stalls_) {
    if (stall.lasts())
      stall.undecided.push_back(commit);
    else if (stall.hit(commit, now_ns))
      stall.hits[commit.key.instance].add(commit);
  }
}

void StallLog::keep_house(uint64_t now_ns) {
  while (!commits_.empty() && commits_.front().end_ns + kCommitsKeptNs < now_ns) commits_.pop_front();
  for (Stall &stall : stalls_) {
    if (!stall.lasts()) continue;
    // what ended a while ago ended during the stall, or the stall would be over
    std::erase_if(stall.undecided, [&](const WaitedCommit &commit) {
      if (commit.end_ns + kDecidedNs > now_ns && stall.undecided.size() <= kCommitsMax) return false;
      if (stall.hit(commit, now_ns)) stall.hits[commit.key.instance].add(commit);
      return true;
    });
  }
}

StallTotals StallLog::totals(uint32_t device) const {
  const auto found = totals_.find(device);
  return found != totals_.end() ? found->second : StallTotals{};
}

Stall *StallLog::find(uint64_t id) {
  for (Stall &stall : stalls_)
    if (stall.episode.id == id) return &stall;
  return nullptr;
}

const Stall *StallLog::stall_of(const WaitedCommit &commit, uint64_t now_ns) const {
  for (auto stall = stalls_.rbegin(); stall != stalls_.rend(); ++stall)
    if (stall->hit(commit, now_ns)) return &*stall;
  return nullptr;
}

}  // namespace flushlight::stalls
