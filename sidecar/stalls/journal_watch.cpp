// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/journal_watch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "abi/histogram.h"

namespace flushlight::stalls {
namespace {

constexpr size_t kWaitsMax = 20'000;

uint64_t since(uint64_t now_ns, uint64_t then_ns) { return now_ns > then_ns ? now_ns - then_ns : 0; }

size_t octave_of(uint64_t ns) {
  return std::min<size_t>(fl_histogram_bucket(ns) / FL_HISTOGRAM_SUB, kernel::kOctaves - 1);
}

uint64_t sum(const kernel::Octaves &octaves) { return std::accumulate(octaves.begin(), octaves.end(), uint64_t{0}); }

}  // namespace

void JournalWatch::commit(uint64_t begin_ns, uint64_t journal_ns) {
  if (waits_.size() < kWaitsMax) waits_.push_back({begin_ns, journal_ns});
}

// The journal that was at work since the last look, if it was the only one worth the name; 0: there is none.
uint32_t JournalWatch::whose_waits(const Look &look) const {
  uint64_t most = 0, all = 0;
  uint32_t number = 0;
  for (const JournalActivity &now : look.journals) {
    const auto found = journals_.find(now.number);
    if (found == journals_.end() || !found->second.seen) continue;
    uint64_t busy_ns = since(now.busy_ns, found->second.last.busy_ns);
    if (now.in_progress_ns != 0) busy_ns += since(look.now_ns, std::max(now.in_progress_ns, found->second.looked_ns));
    all += busy_ns;
    if (busy_ns <= most) continue;
    most = busy_ns;
    number = now.number;
  }
  return static_cast<double>(all - most) <= kAlone * static_cast<double>(most) ? number : 0;
}

void JournalWatch::add_commits(const JournalActivity &now, Journal *journal, Interval *interval) {
  const auto &before = journal->last.commits;
  for (size_t i = 0; i < now.commits.size(); i++) {
    const uint64_t count = now.commits[i] - (i < before.size() ? std::min(before[i], now.commits[i]) : 0);
    if (count == 0) continue;
    const uint64_t ns = fl_histogram_low(static_cast<uint32_t>(i));
    interval->all[kCommits][octave_of(ns)] += count;
    if (ns < kFloorNs) continue;
    // it ended after the last look
    const uint64_t begin_ns = since(journal->looked_ns, ns);
    for (uint64_t n = 0; n < std::min<uint64_t>(count, kMin); n++)
      interval->long_ones[kCommits].push_back({begin_ns, ns});
  }
}

std::optional<JournalWatch::Slow> JournalWatch::slow(const Journal &journal) {
  for (size_t source = 0; source < kSources; source++) {
    Slow slow;
    slow.usual_ns = journal.history.usual_ns(source, kTail);
    // A commit of the journal is a few requests: kFloorNs is long for any drive.
    const uint64_t unknown_ns = source == kCommits ? kFloorNs : kUnknownNs;
    const uint64_t limit_ns = slow.usual_ns ? std::max(kFloorNs, kFactor * *slow.usual_ns) : unknown_ns;
    uint64_t all = 0, count = 0;
    for (const Interval &interval : journal.window) {
      all += sum(interval.all[source]);
      for (const Wait &wait : interval.long_ones[source]) {
        if (wait.ns < limit_ns) continue;
        slow.begin_ns = count == 0 ? wait.begin_ns : std::min(slow.begin_ns, wait.begin_ns);
        slow.last_ns = interval.to_ns;
        slow.longest_ns = std::max(slow.longest_ns, wait.ns);
        count++;
      }
    }
    // one that began goes on with any
    if (journal.open ? count > 0 : count >= kMin && static_cast<double>(count) >= kShare * static_cast<double>(all))
      return slow;
  }
  return std::nullopt;
}

std::optional<JournalWatch::Slow> JournalWatch::held(const Look &look, const JournalActivity &now,
                                                     const Journal &journal) {
  if (now.in_progress_ns == 0 || now.writes) return std::nullopt;
  Slow held{now.in_progress_ns, look.now_ns, since(look.now_ns, now.in_progress_ns),
            journal.history.usual_ns(kCommits, kTail)};
  if (held.longest_ns < std::max(kHeldNs, kFactor * held.usual_ns.value_or(0))) return std::nullopt;
  return held;
}

void JournalWatch::close(uint64_t end_ns, Journal *journal, Detector::Changes *changes) {
  journal->open->end_ns = std::max(end_ns, journal->open->begin_ns + 1);
  changes->closed.push_back(*journal->open);
  journal->open.reset();
  journal->window.clear();
  journal->slow_since_ns = 0;
}

void JournalWatch::look_at(const Look &look, const JournalActivity &now, std::vector<Wait> waits,
                           Detector::Changes *changes) {
  Journal &journal = journals_[now.number];
  const uint64_t now_ns = look.now_ns;
  const Detector::Service service = look.service(now.device);
  Interval interval;
  interval.to_ns = now_ns;
  if (journal.seen) add_commits(now, &journal, &interval);
  for (const Wait &wait : waits) {
    interval.all[kWaits][octave_of(wait.ns)]++;
    if (wait.ns >= kFloorNs) interval.long_ones[kWaits].push_back(wait);
  }
  journal.seen = true;
  journal.last = now;
  journal.looked_ns = now_ns;
  if (!service.serves) {  // nothing of that is the journal's
    journal.window.clear();
    return;
  }
  for (auto &list : interval.long_ones)
    std::erase_if(list, [&](const Wait &wait) { return wait.begin_ns < service.since_ns; });
  journal.window.push_back(std::move(interval));
  journal.history.fade(now_ns);

  const auto busy = slow(journal), standing = held(look, now, journal);
  const auto &found = standing ? standing : busy;
  if (!busy) journal.slow_since_ns = 0;
  if (busy && journal.slow_since_ns == 0) journal.slow_since_ns = now_ns;
  const bool learns = !journal.open && (!busy || since(now_ns, journal.slow_since_ns) >= kLearnAfterNs);
  while (journal.window.front().to_ns + kWindowNs < now_ns) {
    if (learns) journal.history.add(journal.window.front().all);
    journal.window.pop_front();
  }
  const bool blamed = found && (standing || look.crowded(now.device));
  if (!journal.open && blamed) {
    Episode episode;
    episode.id = look.new_id();
    episode.device = now.device;
    episode.kind = Kind::kJournal;
    episode.begin_ns = std::max(found->begin_ns, service.since_ns);
    episode.usual_ns = found->usual_ns;
    episode.oldest_request_ns = found->longest_ns;
    episode.inflight = now.outstanding;
    journal.open = episode;
    changes->opened.push_back(episode);
  }
  if (!journal.open) return;
  Episode &open = *journal.open;
  if (blamed) {
    journal.slow_seen_ns = found->last_ns;
    open.oldest_request_ns = std::max(open.oldest_request_ns, found->longest_ns);
  }
  open.inflight = std::max(open.inflight, now.outstanding);
  if (!found || since(now_ns, journal.slow_seen_ns) >= kGoneNs) {
    close(journal.slow_seen_ns, &journal, changes);
  } else if (since(now_ns, open.begin_ns) >= Detector::kUsualAfterNs) {
    open.became_usual = true;
    close(now_ns, &journal, changes);
    journal.history.forget();
  }
}

Detector::Changes JournalWatch::look(const Look &look) {
  Detector::Changes changes;
  const uint32_t waiting_for = whose_waits(look);
  std::vector<Wait> waits = std::exchange(waits_, {});
  for (const JournalActivity &now : look.journals)
    look_at(look, now, now.number == waiting_for ? std::move(waits) : std::vector<Wait>{}, &changes);
  return changes;
}

std::vector<Episode> JournalWatch::forget(uint64_t now_ns) {
  Detector::Changes changes;
  for (auto &[number, journal] : journals_)
    if (journal.open) close(now_ns, &journal, &changes);
  journals_.clear();
  waits_.clear();
  return std::move(changes.closed);
}

std::vector<Episode> JournalWatch::open() const {
  std::vector<Episode> result;
  for (const auto &[number, journal] : journals_)
    if (journal.open) result.push_back(*journal.open);
  return result;
}

}  // namespace flushlight::stalls
