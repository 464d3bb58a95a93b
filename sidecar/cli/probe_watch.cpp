// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/probe_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace flushlight::cli {
namespace {

constexpr std::chrono::milliseconds kWatchPeriod{500}, kSignalPeriod{50}, kBaselineTime{1000};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> g_signal = 0;
struct sigaction g_before[std::size(kSignals)];

void on_signal(int number) {
  if (g_signal.exchange(number) != 0) _exit(128 + number);
}

}  // namespace

SignalGuard::SignalGuard() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (size_t i = 0; i < std::size(kSignals); i++) sigaction(kSignals[i], &action, &g_before[i]);
}

SignalGuard::~SignalGuard() {
  for (size_t i = 0; i < std::size(kSignals); i++) sigaction(kSignals[i], &g_before[i], nullptr);
}

int SignalGuard::received() { return g_signal; }

Result<> ProbeWatch::begin() {
  if (asked_ms_ == 0.0) {
    report_.detail = "asked not to";
    return Ok{};
  }
  const auto first = watch_.observe();
  if (!first) {
    if (asked_ms_)
      return Error{0, "--stop-at-commit-p99-ms needs the daemon, and it does not answer: " + first.error().text};
    report_.state = "no_daemon";
    report_.detail = first.error().text;
    return Ok{};
  }
  std::this_thread::sleep_for(kBaselineTime);
  const auto baseline = watch_.observe();
  if (!baseline) return baseline.error();
  report_.state = "watched";
  report_.baseline_p99_ms = baseline->p99_ms;
  report_.limit_ms = asked_ms_.value_or(CommitWatch::default_limit_ms(*baseline));
  if (!baseline->p99_ms) report_.detail = "too few commits before the probe began to know their usual p99";
  return Ok{};
}

ProbeWatch::Looking ProbeWatch::look_after(probe::Governor *governor) {
  signals_.emplace(kSignalPeriod, [governor] {
    if (const int number = SignalGuard::received())
      governor->stop(probe::Stop::kSignal, fmt::format("signal {}", number));
  });
  if (report_.state == "watched") commits_.emplace(kWatchPeriod, [this, governor] { look_once(governor); });
  return Looking(this);
}

void ProbeWatch::end() {
  commits_.reset();
  signals_.reset();
}

void ProbeWatch::look_once(probe::Governor *governor) {
  const auto window = watch_.observe();
  if (!window) {  // whoever wanted to be looked after is not any more: that is a reason to end
    governor->stop(probe::Stop::kCommits,
                   "the daemon that says how the commits are does not answer any more: " + window.error().text);
    return;
  }
  if (window->p99_ms) {
    report_.commits += window->commits;
    report_.worst_p99_ms = std::max(report_.worst_p99_ms.value_or(0), *window->p99_ms);
  }
  if (const auto text = CommitWatch::suffering(*window, *report_.limit_ms))
    governor->stop(probe::Stop::kCommits, *text);
}

}  // namespace flushlight::cli
