// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/commit_window.h"

#include <algorithm>

namespace flushlight::advise {

uint64_t CommitWindow::random() {  // xorshift: fair enough to choose with
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return random_state_;
}

CommitWindow::Slice &CommitWindow::current(uint32_t instance) {
  Slices &slices = slices_[instance];
  const uint64_t now_ns = clock_.now_ns();
  if (slices.empty() || slices.back().end_ns != 0 || now_ns >= slices.back().begin_ns + slice_ns_) {
    // Slices leave no gaps: a second without commits is part of the time in which they came.
    uint64_t begin_ns = now_ns;
    if (!slices.empty()) {
      if (slices.back().end_ns == 0) slices.back().end_ns = now_ns;
      begin_ns = slices.back().end_ns;
    }
    while (slices.size() >= kSlicesKept) slices.pop_front();
    slices.emplace_back();
    slices.back().begin_ns = begin_ns;
  }
  return slices.back();
}

void CommitWindow::cut(uint32_t instance) {
  const auto found = slices_.find(instance);
  if (found != slices_.end() && !found->second.empty() && found->second.back().end_ns == 0)
    found->second.back().end_ns = clock_.now_ns();
}

void CommitWindow::on_commit(const JoinedCommit &event) { add(event, &current(event.instance.id)); }

void CommitWindow::add(const JoinedCommit &event, Slice *slice) {
  const fl_record_commit &record = event.record;
  Commits &sums = slice->sums;
  sums.commits++;
  sums.commit_ns += record.duration_ns;
  sums.work += record.work;
  slice->times.add(record.duration_ns);
  sums.led += event.role == Role::kLed;
  sums.followed += event.role == Role::kFollowed;
  sums.binlog += (record.flags & FL_COMMIT_BINLOG) != 0;
  if (slice->sessions.size() < kSessionsMax) slice->sessions.insert(record.session_id);

  const StatementKey &cause = event.has_cause ? event.cause : event.key;
  const auto place_of = [](auto *places, auto *list, auto key) {
    const auto found = places->find(key);
    if (found != places->end()) return found->second;
    if (list->size() >= kNamesMax) return UINT32_MAX;
    const auto place = static_cast<uint32_t>(list->size());
    list->emplace_back();
    places->emplace(key, place);
    return place;
  };
  const uint32_t digest = place_of(&slice->digest_places, &slice->digests, cause.queryid);
  const uint32_t role = place_of(&slice->role_places, &slice->roles, event.key.user);
  if (digest != UINT32_MAX) {
    DigestCommits &one = slice->digests[digest];
    one.queryid = static_cast<int64_t>(cause.queryid);
    one.commits++;
    one.commit_ns += record.duration_ns;
    one.work += record.work;
    one.explicit_commit = record.kind == FL_KIND_COMMIT;
  }
  if (role != UINT32_MAX) {
    slice->role_users.resize(slice->roles.size(), SymbolTable::kNone);
    slice->role_users[role] = event.key.user;
    slice->roles[role].commits++;
    slice->roles[role].commit_ns += record.duration_ns;
  }
  if (!event.accounted()) return;
  sums.accounted++;
  sums.syncs += record.syncs;
  for (int i = 0; i < FL_VECTOR_COUNT; i++) sums.vector_ns[i] += record.vector_ns[i];
  // A fair choice of all: each has the same chance to be kept.
  const bool room = slice->samples.size() < kSamplesPerSlice;
  const uint64_t place = room ? slice->samples.size() : random() % sums.accounted;
  if (room) slice->samples.emplace_back();
  if (place >= slice->samples.size()) return;
  CommitSample &sample = slice->samples[place];
  sample.duration_ns = record.duration_ns;
  std::copy(std::begin(record.vector_ns), std::end(record.vector_ns), sample.vector_ns);
  sample.work = record.work;
  sample.digest = digest;
  sample.role = role;
  sample.syncs = static_cast<uint32_t>(std::min<uint64_t>(record.syncs, UINT32_MAX));
  sample.followed = record.inherited_sync_ns > 0;
  sample.binlog = (record.flags & FL_COMMIT_BINLOG) != 0;
  sample.binlog_led = (record.flags & FL_COMMIT_BINLOG_LED) != 0;
}

CommitWindow::Found CommitWindow::between(uint32_t instance, uint64_t begin_ns, uint64_t end_ns) const {
  Found found;
  const auto slices = slices_.find(instance);
  if (slices == slices_.end()) return found;
  const uint64_t now_ns = clock_.now_ns();
  const auto end_of = [&](const Slice &slice) { return slice.end_ns != 0 ? slice.end_ns : now_ns; };
  std::vector<const Slice *> inside;
  double fewest = 1;  // of the accounted commits of a slice, so many are kept: the same share of all, to stay fair
  uint64_t accounted = 0, span_ns = 0;
  for (const Slice &slice : slices->second) {
    if (slice.begin_ns < begin_ns || end_of(slice) > end_ns) continue;
    inside.push_back(&slice);
    accounted += slice.sums.accounted;
    span_ns += end_of(slice) - slice.begin_ns;
    if (slice.sums.accounted > 0)
      fewest = std::min(fewest, static_cast<double>(slice.samples.size()) / static_cast<double>(slice.sums.accounted));
  }
  if (accounted > 0) fewest = std::min(fewest, static_cast<double>(kSamplesMax) / static_cast<double>(accounted));

  Commits &all = found.commits;
  LogHistogram times;
  std::unordered_set<uint64_t> sessions;
  std::unordered_map<int64_t, size_t> digest_places;
  std::unordered_map<Symbol, size_t> role_places;
  for (const Slice *slice : inside) {
    const Commits &sums = slice->sums;
    all.commits += sums.commits;
    all.accounted += sums.accounted;
    all.commit_ns += sums.commit_ns;
    all.work += sums.work;
    all.syncs += sums.syncs;
    all.led += sums.led;
    all.followed += sums.followed;
    all.binlog += sums.binlog;
    for (int i = 0; i < FL_VECTOR_COUNT; i++) all.vector_ns[i] += sums.vector_ns[i];
    times.merge(slice->times);
    sessions.insert(slice->sessions.begin(), slice->sessions.end());
    std::vector<uint32_t> digests, roles;
    for (const DigestCommits &digest : slice->digests) {
      const auto [place, is_new] = digest_places.emplace(digest.queryid, all.digests.size());
      if (is_new) {
        all.digests.emplace_back();
        all.digests.back().queryid = digest.queryid;
      }
      DigestCommits &into = all.digests[place->second];
      into.commits += digest.commits;
      into.commit_ns += digest.commit_ns;
      into.work += digest.work;
      into.explicit_commit = digest.explicit_commit;
      digests.push_back(static_cast<uint32_t>(place->second));
    }
    for (size_t i = 0; i < slice->roles.size(); i++) {
      const auto [place, is_new] = role_places.emplace(slice->role_users[i], all.roles.size());
      if (is_new) {
        all.roles.emplace_back();
        found.role_users.push_back(slice->role_users[i]);
      }
      all.roles[place->second].commits += slice->roles[i].commits;
      all.roles[place->second].commit_ns += slice->roles[i].commit_ns;
      roles.push_back(static_cast<uint32_t>(place->second));
    }
    const auto wanted = static_cast<size_t>(fewest * static_cast<double>(sums.accounted) + 0.5);
    for (size_t i = 0; i < std::min(wanted, slice->samples.size()); i++) {
      CommitSample sample = slice->samples[i * slice->samples.size() / std::max<size_t>(1, wanted)];
      sample.digest = sample.digest < digests.size() ? digests[sample.digest] : UINT32_MAX;
      sample.role = sample.role < roles.size() ? roles[sample.role] : UINT32_MAX;
      all.samples.push_back(sample);
    }
  }
  all.window_s = static_cast<double>(span_ns) / 1e9;
  all.sessions = sessions.size();
  const auto p50 = percentile_ns(times, 0.5), p99 = percentile_ns(times, 0.99);
  if (p50) all.p50_ms = *p50 / 1e6;
  if (p99) all.p99_ms = *p99 / 1e6;
  return found;
}

}  // namespace flushlight::advise
