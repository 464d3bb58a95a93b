// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/probe_progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace flushlight::cli {
namespace {

constexpr uint64_t kSilentNs = 2'000'000'000;
constexpr uint64_t kLineEveryNs = 5'000'000'000;  // where lines cannot be written over
constexpr uint64_t kSilenceOfDeviceNs = 1'000'000'000;
constexpr std::chrono::milliseconds kPeriod{250};

double seconds_between(uint64_t from_ns, uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0;
}

}  // namespace

std::string progress_line(const ProgressState &state, uint64_t now_ns, uint64_t slice_end_ns, uint64_t deadline_ns) {
  const double left = seconds_between(now_ns, deadline_ns);
  if (state.preparing) return fmt::format("writing the probe's file; at most {:.0f} s in all", left);
  std::string line = fmt::format("{}/{} {}", state.index + 1, state.count, state.pattern);
  if (state.last_p50_ms) line += fmt::format(", the one before: p50 {:.3f} ms", *state.last_p50_ms);
  // Nothing can be taken back from a device that does not answer.
  if (now_ns > slice_end_ns + kSilenceOfDeviceNs)
    return line + fmt::format("; waits for the device since {:.0f} s", seconds_between(slice_end_ns, now_ns));
  return line + fmt::format("; {:.0f} s left", left);
}

ProbeProgress::ProbeProgress(const probe::Governor *governor, bool quiet)
    : governor_(governor), begun_ns_(governor->clock().now_ns()), terminal_(isatty(STDERR_FILENO) == 1) {
  if (!quiet && governor->limits().total_ns > kSilentNs) ticker_.emplace(kPeriod, [this] { show(); });
}

ProbeProgress::~ProbeProgress() {
  ticker_.reset();
  if (shown_ns_ != 0 && terminal_) std::fputs("\r\x1b[K", stderr);
}

void ProbeProgress::begins(size_t index, size_t count, const probe::Pattern &pattern) {
  const std::lock_guard guard(lock_);
  state_ = {false, index, count, pattern.name, state_.last_p50_ms, governor_->clock().now_ns()};
}

void ProbeProgress::ended(const probe::Outcome &outcome) {
  const std::lock_guard guard(lock_);
  state_.last_p50_ms = outcome.total.percentile_ms(0.5);
}

void ProbeProgress::show() {
  const uint64_t now = governor_->clock().now_ns();
  if (now < begun_ns_ + kSilentNs || (!terminal_ && shown_ns_ != 0 && now < shown_ns_ + kLineEveryNs)) return;
  shown_ns_ = now;
  std::string line;
  {
    const std::lock_guard guard(lock_);
    line = progress_line(state_, now, governor_->slice_end_ns(), governor_->deadline_ns());
  }
  std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace flushlight::cli
