// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/probe.h"

#include <fmt/format.h>

#include "sidecar/base/text.h"
#include "sidecar/cli/exit_codes.h"
#include "sidecar/cli/probe_matrix.h"
#include "sidecar/cli/probe_progress.h"
#include "sidecar/cli/probe_text.h"
#include "sidecar/cli/probe_watch.h"

namespace flushlight::cli {
namespace {

constexpr size_t kErrorBytesMax = 6000;
constexpr double kSecondsDefault = 60;

int list_patterns(const ProbeOptions &options) {
  for (const probe::Pattern &pattern : probe::select_patterns(options.only, options.quick))
    fmt::print("{}\n", pattern.name);
  return kExitDone;
}

Result<probe::Report> measure(const ProbeOptions &options, const probe::Request &request) {
  probe::Report report;
  ProbeWatch watch(options.connection, options.stop_at_commit_p99_ms);
  // Refusals first: nobody wants to wait for one.
  if (auto place = probe::inspect(probe::trimmed(request.target, request.patterns)); !place) return place.error();
  if (auto begun = watch.begin(); !begun) return begun.error();
  const SystemClock clock;
  report.started_at = utc_text(clock.unix_ns());
  report.limits = limits_of(options, kSecondsDefault);
  report.workers = options.workers;
  report.reserve_share = request.target.reserve_share;
  report.power_loss_protection = options.power_loss_protection;
  probe::Governor governor(clock, report.limits);
  {
    ProbeProgress progress(&governor, options.quiet);
    const auto looking = watch.look_after(&governor);
    auto run = probe::run(request, &governor, &progress);
    if (!run) return run.error();
    report.run = std::move(*run);
  }
  report.watch = watch.report();
  report.written_bytes = governor.written_bytes();
  report.flush = probe::judge_flush(report.run.outcomes, report.run.place, options.power_loss_protection);
  report.ranking = probe::rank_wal_sync_methods(report.run.outcomes);
  return report;
}

// CLI::Range lets "nan" pass: it is below no minimum.
CLI::Validator within(double low, double high) {
  return CLI::Validator(
      [low, high](std::string &text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return good ? std::string() : fmt::format("{} is not between {} and {}", text, low, high);
      },
      fmt::format("[{} to {}]", low, high));
}

}  // namespace

CLI::App *add_probe_command(CLI::App *app, ProbeOptions *options) {
  auto *command = app->add_subcommand("probe",
                                      "measure the device under a directory with the databases' own patterns\n\n"
                                      "Writes one file without a name below DIRECTORY (nothing stays, whatever ends "
                                      "the probe) and times log writes made\n"
                                      "durable in each way, the same beside a bulk writer, and random reads past the "
                                      "page cache. It ends by itself when the\n"
                                      "databases' commits suffer, if a flushlightd answers.\n"
                                      "Exit codes: 0 done; 1 refused or failed, the text says why; 3 ended early, what "
                                      "was measured is printed; 64 wrong usage");
  command->add_option("directory", options->directory, "where: a directory on the file system to be measured");
  command->add_option("--only", options->only,
                      "patterns by name, comma-separated, with * and ? (log-8k-*,read-*-sync)");
  command->add_flag("--quick", options->quick, "log writes and reads of 8 KB only");
  command->add_flag("--list", options->list, "print the names of the patterns and do nothing");
  command->add_flag("--json", options->json, "for machines: docs/probe.md says what the fields mean");
  command->add_flag("--histogram", options->histogram, "a histogram of each pattern");
  command->add_flag("--quiet", options->quiet, "no progress on stderr");
  command->add_option("--seconds", options->seconds, "for everything together (60; --matrix: 180)")
      ->check(within(0.05, 86400));
  command->add_option("--size-mb", options->size_mb, "of the file that is read from and that the bulk writer writes to")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{4}, uint64_t{1} << 20));
  command->add_option("--reserve-percent", options->reserve_percent, "of the file system, stays free")
      ->capture_default_str()
      ->check(within(0, 99));
  command->add_option("--written-mb-max", options->written_mb_max, "writes no more than that: flash wears")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24));
  command->add_option("--rate", options->rate, "operations per second at most (0: as fast as they go)")
      ->capture_default_str()
      ->check(within(0, 1e7));
  command->add_option("--workers", options->workers, "threads of the reads by workers, as PostgreSQL's io_workers")
      ->capture_default_str()
      ->check(CLI::Range(1, 32));
  command
      ->add_option("--stop-at-commit-p99-ms", options->stop_at_commit_p99_ms,
                   "end when the databases' commit p99 is above (default: three times what it was before; 0: never)")
      ->check(within(0, 3.6e6));
  command->add_flag("--matrix", options->matrix,
                    "try schedulers, queue sizes and merging on --device, and put everything back (root only)");
  command->add_option("--device", options->device,
                      "whose queue --matrix may change, as in /sys/block; the directory lies on it");
  command->add_flag("--restore", options->restore,
                    "put back what a --matrix that was killed had changed, and do nothing else");
  command->add_option("--state-folder", options->state_folder, "for tests")->group("");
  command->footer(
      "--yes-change-DEVICE: confirms that --matrix may change the queue of DEVICE (a terminal is asked otherwise)");
  command->add_flag("--power-loss-protection", options->power_loss_protection,
                    "you declare that the device's cache survives a power loss");
  return command;
}

probe::Request make_request(const ProbeOptions &options) {
  probe::Request request;
  request.target.directory = options.directory;
  request.target.data_bytes = options.size_mb << 20;
  request.target.reserve_share = options.reserve_percent / 100;
  request.patterns = probe::select_patterns(options.only, options.quick);
  request.workers = options.workers;
  return request;
}

probe::Limits limits_of(const ProbeOptions &options, double seconds_default) {
  return {static_cast<uint64_t>(options.seconds.value_or(seconds_default) * 1e9), options.written_mb_max << 20,
          options.rate};
}

// A path may hold anything, control characters for the terminal too.
int fail_probe(const Error &error) {
  std::fprintf(stderr, "flushlight: %s\n", sanitize_utf8(error.text, kErrorBytesMax).c_str());
  return kExitFailed;
}

int probe(const ProbeOptions &options) {
  if (options.restore) return restore_queues(options);
  if (options.list) return list_patterns(options);
  if (options.directory.empty()) {
    std::fprintf(stderr, "flushlight: probe: give a directory on the file system to be measured\n");
    return kExitUsage;
  }
  if (options.matrix) return probe_matrix(options);
  if (!options.device.empty() || !options.confirmation.empty()) {
    std::fprintf(
        stderr, "flushlight: --device and --yes-change-... belong to --matrix: without it the probe changes nothing\n");
    return kExitUsage;
  }
  const probe::Request request = make_request(options);
  if (request.patterns.empty()) {
    std::fprintf(stderr, "flushlight: no pattern is named like '%s': --list shows their names\n", options.only.c_str());
    return kExitUsage;
  }
  const SignalGuard signals;
  const auto report = measure(options, request);
  if (!report) return fail_probe(report.error());
  if (options.json)
    fmt::print("{}\n", probe::to_json(*report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    print_probe(*report, options.histogram);
  return report->run.stopped == probe::Stop::kNone ? kExitDone : kExitStopped;
}

}  // namespace flushlight::cli
