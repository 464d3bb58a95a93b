// SPDX-License-Identifier: GPL-2.0-or-later
// InnoDB's settings that cost nothing in safety: redo log, flushing, files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sidecar/advise/families.h"

namespace flushlight::advise {
namespace {

constexpr double kGiga = 1024.0 * 1024 * 1024;
constexpr int kEleven = 110000;

struct Change {
  const char *rule = nullptr, *setting = nullptr;
  std::string suggested = {}, evidence = {}, effect = {}, risk = {}, authority = {};
  Kind kind = Kind::kServer;
  Confidence confidence = Confidence::kMedium;
};

void suggest(const Facts &facts, const Change &change, std::vector<Advice> *out) {
  Advice advice;
  advice.rule = change.rule;
  advice.kind = change.suggested.empty() ? Kind::kNo : change.kind;
  advice.scope = "server";
  advice.setting = change.setting;
  advice.now = facts.server.text(change.setting);
  advice.suggested = change.suggested;
  advice.evidence = change.evidence;
  advice.effect = change.effect;
  advice.confidence = change.confidence;
  advice.risk = change.risk;
  advice.authority = change.authority;
  const EngineSetting *setting = facts.server.setting(change.setting);
  if (!change.suggested.empty() && setting != nullptr) {
    if (!setting->needs_restart) {
      advice.apply.push_back({"sql", fmt::format("SET GLOBAL {} = {};", change.setting, change.suggested)});
      advice.undo = fmt::format("SET GLOBAL {} = {};", change.setting, setting->value);
    } else {
      advice.undo = fmt::format("{} = {} and a restart", change.setting, setting->value);
    }
    advice.apply.push_back({"my.cnf", fmt::format("{} = {}", change.setting, change.suggested)});
    advice.apply.push_back({"replicas", "the same in their own my.cnf: settings are not replicated"});
  }
  out->push_back(std::move(advice));
}

// A log that is nearly full of changes not yet in the data files makes commits wait for page flushing.
void redo_size(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kFull = 0.75, kHours = 1;
  const auto age = facts.server.statistic("redo.checkpoint_age"),
             age_max = facts.server.statistic("redo.checkpoint_age_max"),
             size = facts.server.number("innodb_log_file_size"), written = facts.server.grown("redo.bytes");
  if (!age || !age_max || *age_max <= 0 || !size || !written || facts.server.window_s() <= 0) return;
  const double waits = facts.server.grown("innodb.buffer_flush_sync_waits").value_or(0);
  if (*age < kFull * *age_max && waits == 0) return;
  const double rate = *written / facts.server.window_s();
  double wanted = std::max(2 * *size, rate * 3600 * kHours);
  if (facts.free_bytes) wanted = std::min(wanted, *size + static_cast<double>(*facts.free_bytes) / 4);
  wanted = std::floor(wanted / (64 << 20)) * (64 << 20);
  if (wanted <= *size) return;
  const bool online = facts.server.version >= 100900;
  suggest(facts,
          {.rule = "mariadb.log_file_size",
           .setting = "innodb_log_file_size",
           .suggested = fmt::format("{:.0f}", wanted),
           .evidence = fmt::format(
               "the redo log is {} full of changes that are not in the data files, {:.0f} waits for that in "
               "{:.0f} s; {}/s are written, so it turns over in {:.0f} s",
               percent(*age / *age_max), waits, facts.server.window_s(), bytes_text(rate), *size / std::max(1.0, rate)),
           .effect = fmt::format("checkpoint distance {} instead of {}", bytes_text(wanted), bytes_text(*size)),
           .risk = fmt::format("recovery after a crash reads up to {} of log; it takes that much space{}",
                               bytes_text(wanted), online ? "" : "; older versions need a clean shutdown for it"),
           .authority = "MariaDB KB, innodb_log_file_size"},
          out);
}

void log_buffer(const Facts &facts, std::vector<Advice> *out) {
  constexpr double kBufferMax = 256.0 * 1024 * 1024;
  const auto waits = facts.server.grown("redo.buffer_waits"), size = facts.server.number("innodb_log_buffer_size");
  if (!waits || *waits <= 0 || !size || *size >= kBufferMax) return;
  suggest(facts,
          {.rule = "mariadb.log_buffer_size",
           .setting = "innodb_log_buffer_size",
           .suggested = fmt::format("{:.0f}", std::min(kBufferMax, 4 * *size)),
           .evidence = fmt::format("{:.0f} waits for room in the log buffer in {:.0f} s (Innodb_log_waits)", *waits,
                                   facts.server.window_s()),
           .risk = "memory only; nothing is lost",
           .authority = "MariaDB KB, innodb_log_buffer_size",
           .confidence = Confidence::kHigh},
          out);
}

void io_capacity(const Facts &facts, std::vector<Advice> *out) {
  const auto dirty = facts.server.statistic("pool.dirty_pages"), pages = facts.server.statistic("pool.pages"),
             most = facts.server.number("innodb_max_dirty_pages_pct"), now = facts.server.number("innodb_io_capacity");
  const double waits = facts.server.grown("pool.free_waits").value_or(0);
  if (!dirty || !pages || *pages <= 0 || !most || !now) return;
  const double share = *dirty / *pages;
  if (waits == 0 && share < 0.9 * *most / 100) return;
  suggest(facts,
          {.rule = "mariadb.io_capacity",
           .setting = "innodb_io_capacity",
           .suggested = fmt::format("{:.0f}", *now * 2),
           .evidence = fmt::format(
               "{} of the buffer pool is dirty (limit {:.0f} %), {:.0f} waits for a free page in {:.0f} s: page "
               "flushing does not keep up",
               percent(share), *most, waits, facts.server.window_s()),
           .risk = "more background writes beside the log's; watch the commits' queue and write time",
           .authority = "MariaDB KB, innodb_io_capacity"},
          out);
}

void flush_neighbors(const Facts &facts, std::vector<Advice> *out) {
  const std::string now = facts.server.text("innodb_flush_neighbors");
  if (now.empty() || now == "0" || now == "OFF" || !facts.device || facts.device->device.rotational != 0) return;
  suggest(facts,
          {.rule = "mariadb.flush_neighbors",
           .setting = "innodb_flush_neighbors",
           .suggested = "0",
           .evidence =
               fmt::format("{} does not rotate: writing a page's neighbours along makes more writes and saves no seek",
                           facts.device->device.name),
           .risk = "none for safety; commit time changes only where page writes disturb the log's",
           .authority = "MariaDB KB, innodb_flush_neighbors",
           .confidence = Confidence::kLow},
          out);
}

// O_DIRECT, or what took its place in 11.0.
void flush_method(const Facts &facts, std::vector<Advice> *out) {
  if (facts.server.version < kEleven) {
    const std::string method = facts.server.text("innodb_flush_method");
    if (method == "O_DIRECT_NO_FSYNC" || method == "nosync" || method == "littlesync") {
      suggest(
          facts,
          {.rule = "mariadb.flush_method",
           .setting = "innodb_flush_method",
           .suggested = "O_DIRECT",
           .evidence = fmt::format("with {} data files are not synced: a power loss may lose or damage pages", method),
           .risk = "none: this is the safe one",
           .authority = "MariaDB KB, innodb_flush_method",
           .confidence = Confidence::kHigh},
          out);
    } else if (method == "fsync" || method == "O_DSYNC") {
      suggest(facts,
              {.rule = "mariadb.flush_method",
               .setting = "innodb_flush_method",
               .suggested = "O_DIRECT",
               .evidence = fmt::format(
                   "with {} pages go through the page cache too, and its write-back comes in bursts beside the log's "
                   "syncs; the log's own sync does not change",
                   method),
               .risk = "a buffer pool that is too small reads more from the device",
               .authority = "MariaDB KB, innodb_flush_method",
               .confidence = Confidence::kLow},
              out);
    }
    return;
  }
  if (facts.server.is_on("innodb_data_file_buffering") != true) return;
  suggest(
      facts,
      {.rule = "mariadb.flush_method",
       .setting = "innodb_data_file_buffering",
       .suggested = "OFF",
       .evidence =
           "pages go through the page cache too (the successor of innodb_flush_method=fsync); its write-back comes in "
           "bursts beside the log's syncs",
       .risk = "a buffer pool that is too small reads more from the device",
       .authority = "MariaDB KB, innodb_data_file_buffering",
       .confidence = Confidence::kLow},
      out);
}

void doublewrite(const Facts &facts, std::vector<Advice> *out) {
  if (facts.server.is_on("innodb_doublewrite") != false) return;
  suggest(facts,
          {.rule = "mariadb.doublewrite",
           .setting = "innodb_doublewrite",
           .suggested = "ON",
           .evidence = "without it a page that was half written at a power loss is damaged for good, unless the "
                       "storage writes whole "
                       "pages at once; it is not on the way of a commit",
           .risk = "more page writes in the background",
           .authority = "MariaDB KB, InnoDB doublewrite buffer",
           .confidence = Confidence::kHigh},
          out);
}

constexpr RuleEntry kRules[] = {{"mariadb", redo_size},       {"mariadb", log_buffer},   {"mariadb", io_capacity},
                                {"mariadb", flush_neighbors}, {"mariadb", flush_method}, {"mariadb", doublewrite}};

}  // namespace

std::span<const RuleEntry> mariadb_rules() { return kRules; }

}  // namespace flushlight::advise
