// SPDX-License-Identifier: GPL-2.0-or-later
// PostgreSQL's checkpoints: they do not hold up a commit by themselves, but each makes the next change of every page
// write it whole into the WAL, and its syncs go to the same device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sidecar/advise/postgresql_change.h"

namespace flushlight::advise {
namespace {

constexpr double kRequestedShare = 0.3;
constexpr double kCheckpointsForEvidence = 3;
constexpr double kMega = 1024.0 * 1024;
constexpr double kPageBytes = 8192;

// Checkpoints of the window, or of all time where too few fell into it.
struct Checkpoints {
  double timed = 0, requested = 0, wal_bytes = 0, images = 0, seconds = 0;
  [[nodiscard]] double all() const { return timed + requested; }
};
std::optional<Checkpoints> checkpoints_of(const EngineFacts &server) {
  const auto timed = server.grown("checkpoints.timed"), requested = server.grown("checkpoints.requested"),
             bytes = server.grown("wal.bytes"), images = server.grown("wal.full_page_images");
  if (!timed || !requested || !bytes || server.window_s() <= 0) return std::nullopt;
  const Checkpoints seen{*timed, *requested, *bytes, images.value_or(0), server.window_s()};
  return seen.all() >= kCheckpointsForEvidence ? std::optional(seen) : std::nullopt;
}

std::string megabytes(double bytes) {
  const double mega = std::ceil(bytes / kMega);
  return mega >= 4096 ? fmt::format("{:.0f}GB", std::ceil(mega / 1024)) : fmt::format("{:.0f}MB", mega);
}

void max_wal_size(const Facts &facts, std::vector<Advice> *out) {
  const auto seen = checkpoints_of(facts.server);
  const auto size = facts.server.number("max_wal_size"), timeout_ms = facts.server.number("checkpoint_timeout");
  if (!seen || !size || !timeout_ms || seen->requested < kRequestedShare * seen->all()) return;
  const double rate = seen->wal_bytes / seen->seconds, timeout_s = *timeout_ms / 1000;
  const double target = facts.server.number("checkpoint_completion_target").value_or(0.9);
  // WAL of one interval, of the checkpoint's own time after it, and room for bursts. Larger where images fall away.
  double wanted = rate * timeout_s * (1 + target) * 1.25;
  wanted = std::max(wanted, 2 * *size);
  std::string space;
  if (facts.free_bytes) {
    const double room = *size + static_cast<double>(*facts.free_bytes) / 2;
    if (wanted > room)
      space = fmt::format("; less than the load would need, for want of space ({} are free)",
                          bytes_text(static_cast<double>(*facts.free_bytes)));
    wanted = std::min(wanted, room);
    if (wanted < 1.5 * *size) return;  // no room that would change much
  }
  const double interval_s = seen->seconds / seen->all();
  const double then_s = std::min(timeout_s, interval_s * wanted / *size);
  const double image_share = std::min(1.0, seen->images * kPageBytes / std::max(1.0, seen->wal_bytes));
  Advice advice = postgresql_advice(
      facts,
      {.rule = "postgresql.max_wal_size",
       .setting = "max_wal_size",
       .suggested = megabytes(wanted),
       .evidence = fmt::format(
           "{:.0f} of {:.0f} checkpoints in {:.0f} s came because the WAL had reached max_wal_size ({}), one in "
           "{:.0f} s; {}/s of WAL, of these at most {} are images of whole pages after a checkpoint",
           seen->requested, seen->all(), seen->seconds, bytes_text(*size), interval_s, bytes_text(rate),
           percent(image_share)),
       .effect = fmt::format(
           "a checkpoint in {:.0f} s instead of {:.0f} s; where the same pages change again and again, "
           "{:.0f} images of whole pages in a second instead of {:.0f}",
           then_s, interval_s, seen->images / seen->seconds * interval_s / then_s, seen->images / seen->seconds),
       .risk = fmt::format("recovery after a crash replays up to {} of WAL; pg_wal takes up to that much space{}",
                           bytes_text(wanted), space),
       .authority = "PostgreSQL manual, WAL configuration",
       .confidence = Confidence::kHigh});
  // Each checkpoint makes the next change of a page write it whole: as many images for a commit as checkpoints.
  const auto commits = facts.server.grown("server.commits");
  if (commits && *commits > 0 && seen->images > 0) {
    const double images = seen->images / *commits;
    advice.measure = Measure{"wal.full_page_images", "server.commits", images, images * interval_s / then_s};
  }
  out->push_back(std::move(advice));
}

void checkpoint_timeout(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kShort = 300'000, kSuggested = 900'000;
  const auto now_ms = facts.server.number("checkpoint_timeout");
  const auto seen = checkpoints_of(facts.server);
  if (!now_ms || *now_ms >= kShort || !seen) return;
  out->push_back(postgresql_advice(
      facts, {.rule = "postgresql.checkpoint_timeout",
              .setting = "checkpoint_timeout",
              .suggested = "15min",
              .evidence = fmt::format("{:.0f} checkpoints in {:.0f} s, one at least every {:.0f} s", seen->all(),
                                      seen->seconds, *now_ms / 1000),
              .effect = fmt::format("a checkpoint in {:.0f} s instead of {:.0f} s, if max_wal_size allows",
                                    kSuggested / 1000, *now_ms / 1000),
              .risk = "recovery after a crash takes longer",
              .authority = "PostgreSQL manual, checkpoint_timeout"}));
}

void completion_target(const Facts &facts, std::vector<Advice> *out) {
  const auto now = facts.server.number("checkpoint_completion_target");
  if (!now || *now >= 0.9) return;
  out->push_back(postgresql_advice(
      facts, {.rule = "postgresql.checkpoint_completion_target",
              .setting = "checkpoint_completion_target",
              .suggested = "0.9",
              .evidence = fmt::format(
                  "checkpoints write their pages in {} of the interval; over 90 % of it they disturb commits less",
                  percent(*now)),
              .risk = "a little more WAL is kept; nothing is lost",
              .authority = "PostgreSQL manual, checkpoint_completion_target (0.9 is the default since 14)"}));
}

void wal_compression(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kImagesShare = 0.3;
  const auto seen = checkpoints_of(facts.server);
  const std::string now = facts.server.text("wal_compression");
  if (!seen || now != "off" || seen->wal_bytes <= 0) return;
  const double share = std::min(1.0, seen->images * kPageBytes / seen->wal_bytes);
  if (share < kImagesShare) return;
  out->push_back(
      postgresql_advice(facts, {.rule = "postgresql.wal_compression",
                                .setting = "wal_compression",
                                .suggested = facts.server.version >= 150000 ? "lz4" : "on",
                                .evidence = fmt::format("up to {} of {} of WAL in {:.0f} s are images of whole pages",
                                                        percent(share), bytes_text(seen->wal_bytes), seen->seconds),
                                .effect = "these images become smaller; by how much depends on the data",
                                .risk = "CPU time of the sessions that write; nothing is lost (never full_page_writes: "
                                        "without it pages are damaged at a crash)",
                                .authority = "PostgreSQL manual, wal_compression"}));
}

// Segments that are created anew are extended and synced on the way of commits.
void recycled_segments(const Facts &facts, std::vector<Advice> *out) {
  for (const char *setting : {"wal_recycle", "wal_init_zero"}) {
    if (facts.server.is_on(setting) != false || !share_is(facts.commits, FL_VECTOR_PATH(FL_PATH_JOURNAL), 0.1))
      continue;
    Advice advice = postgresql_advice(
        facts,
        {.rule = setting == std::string_view("wal_recycle") ? "postgresql.wal_recycle" : "postgresql.wal_init_zero",
         .setting = setting,
         .suggested = "on",
         .evidence = fmt::format(
             "{} of the commit time of {} went to the file system's journal: log files that are not there in full "
             "make each sync commit the journal too",
             percent(*facts.commits.path_share(FL_PATH_JOURNAL)), seen(facts.commits)),
         .risk = "none; a copy-on-write file system is the case for off",
         .authority = "PostgreSQL manual, wal_recycle and wal_init_zero"});
    predict(without_journal(facts.commits.samples), &advice);
    out->push_back(std::move(advice));
  }
}

constexpr RuleEntry kRules[] = {{"checkpoint", max_wal_size},
                                {"checkpoint", checkpoint_timeout},
                                {"checkpoint", completion_target},
                                {"checkpoint", wal_compression},
                                {"checkpoint", recycled_segments}};

}  // namespace

std::span<const RuleEntry> checkpoint_rules() { return kRules; }

}  // namespace flushlight::advise
