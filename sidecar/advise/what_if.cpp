// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/what_if.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>

namespace flushlight::advise {
namespace {

constexpr size_t kSamplesMin = 50;

constexpr int kStorage[] = {FL_CAUSE_FLUSH, FL_CAUSE_WRITE, FL_CAUSE_QUEUE, FL_CAUSE_THROTTLE};

double storage_ns(const CommitSample &sample) {
  double sum = 0;
  for (const int cause : kStorage) sum += static_cast<double>(sample.cause(cause));
  return sum;
}

Outcome outcome_of(std::span<const CommitSample> samples, const std::function<double(const CommitSample &)> &ns) {
  if (samples.size() < kSamplesMin) return {{}, {}, "too few commits with an account"};
  std::vector<double> values;
  values.reserve(samples.size());
  for (const CommitSample &sample : samples) values.push_back(ns(sample) / 1e6);
  return {percentile_of(values, 0.5), percentile_of(values, 0.99), ""};
}

// Work that a leader did for others (it ran while they waited) goes with its sync.
double led_work_ns(const CommitSample &sample) {
  return sample.followed ? static_cast<double>(sample.cause(FL_CAUSE_LOCK)) : 0;
}

double without_part_ns(const CommitSample &sample, double part_ns) {
  const auto duration = static_cast<double>(sample.duration_ns);
  const auto cpu = static_cast<double>(sample.cause(FL_CAUSE_CPU)),
             oncpu = static_cast<double>(sample.cause(FL_CAUSE_ONCPU));
  const double asleep = duration - cpu - oncpu;
  const double cpu_part = asleep > 0 ? cpu * std::min(1.0, part_ns / asleep) : 0;
  return std::max(oncpu, duration - part_ns - cpu_part);
}

}  // namespace

double percentile_of(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(rank);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (rank - static_cast<double>(low));
}

double time_without_sync_ns(const CommitSample &sample, double keep_write_ns) {
  const double kept = std::min(static_cast<double>(sample.cause(FL_CAUSE_WRITE)), keep_write_ns);
  return without_part_ns(sample, storage_ns(sample) + led_work_ns(sample) - kept);
}

Outcome without_sync(std::span<const CommitSample> samples, const WithoutSync &how) {
  const double keep_ns = how.write_ms.value_or(0) * 1e6;
  return outcome_of(samples, [&](const CommitSample &sample) { return time_without_sync_ns(sample, keep_ns); });
}

Outcome with_share_of_sync(std::span<const CommitSample> samples, double share) {
  return outcome_of(samples, [&](const CommitSample &sample) {
    return without_part_ns(sample, (1 - share) * (storage_ns(sample) + led_work_ns(sample)));
  });
}

Outcome without_journal(std::span<const CommitSample> samples) {
  return outcome_of(samples, [](const CommitSample &sample) {
    return without_part_ns(sample, static_cast<double>(sample.path(FL_PATH_JOURNAL)));
  });
}

namespace {

// What group commit does: who finds no sync running leads one for all that wait; who comes during one waits for the
// next. Sessions come back after a pause.
class GroupModel {
 public:
  GroupModel(std::vector<double> sync_ms, double think_ms, size_t sessions, double delay_ms)
      : sync_ms_(std::move(sync_ms)), think_ms_(think_ms), sessions_(sessions), delay_ms_(delay_ms) {}

  std::vector<double> run() {
    constexpr size_t kCommits = 5000;
    std::vector<double> times;
    std::priority_queue<double, std::vector<double>, std::greater<>> arrivals;
    for (size_t i = 0; i < sessions_; i++) arrivals.push(pause());
    double free_at = 0;
    while (times.size() < kCommits) {
      const double first = arrivals.top();
      const double begin = std::max(first, free_at) + delay_ms_;
      std::vector<double> group;
      while (!arrivals.empty() && arrivals.top() <= begin) {
        group.push_back(arrivals.top());
        arrivals.pop();
      }
      free_at = begin + sync_ms_[random_() % sync_ms_.size()];
      for (const double arrived : group) {
        times.push_back(free_at - arrived);
        arrivals.push(free_at + pause());
      }
    }
    return times;
  }

 private:
  double pause() { return think_ms_ <= 0 ? 0 : std::exponential_distribution<double>(1 / think_ms_)(random_); }

  std::vector<double> sync_ms_;
  double think_ms_;
  size_t sessions_;
  double delay_ms_;
  std::mt19937_64 random_{1};  // the same answer each time
};

}  // namespace

Outcome with_group_delay(const Commits &commits, double delay_ms) {
  constexpr double kReproduces = 0.25;
  std::vector<double> sync_ms;
  for (const CommitSample &sample : commits.samples)
    if (!sample.followed && sample.syncs > 0) sync_ms.push_back(storage_ns(sample) / 1e6);
  if (sync_ms.size() < kSamplesMin || commits.sessions < 2 || commits.rate() <= 0 || !commits.p50_ms)
    return {{}, {}, "too few commits that synced for themselves alone"};
  const auto sessions = static_cast<double>(commits.sessions);
  const double think_ms = std::max(0.0, 1e3 * sessions / commits.rate() - commits.mean_ms());
  const auto run = [&](double delay) { return GroupModel(sync_ms, think_ms, commits.sessions, delay).run(); };
  const double now_ms = percentile_of(run(0), 0.5);
  if (std::abs(now_ms - *commits.p50_ms) > kReproduces * *commits.p50_ms)
    return {{}, {}, "a model of the group commit does not reproduce what was measured"};
  const std::vector<double> then = run(delay_ms);
  return {percentile_of(then, 0.5), percentile_of(then, 0.99), ""};
}

}  // namespace flushlight::advise
