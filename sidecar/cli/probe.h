// SPDX-License-Identifier: GPL-2.0-or-later
// flushlight probe: measures the device under a directory.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "sidecar/cli/client.h"
#include "sidecar/probe/runner.h"

namespace flushlight::cli {

inline constexpr std::string_view kConfirmation = "--yes-change-";  // and the device's name

struct ProbeOptions {
  Connection connection;
  std::string directory;
  std::string only;
  bool quick = false, list = false, json = false, histogram = false, quiet = false, power_loss_protection = false;
  std::optional<double> seconds;
  uint64_t size_mb = 256;
  double reserve_percent = 5;
  uint64_t written_mb_max = 4096;
  double rate = 0;
  unsigned workers = 3;
  std::optional<double> stop_at_commit_p99_ms;  // 0: does not look

  bool matrix = false, restore = false;
  std::string device;
  std::vector<std::string> confirmation;  // the words that begin with it
  std::string state_folder;               // tests only
};

// The subcommand with its options; what it fills must outlive the parsing.
CLI::App *add_probe_command(CLI::App *app, ProbeOptions *options);
int probe(const ProbeOptions &options);

// Parts that --matrix uses too.
probe::Request make_request(const ProbeOptions &options);
probe::Limits limits_of(const ProbeOptions &options, double seconds_default);
int fail_probe(const Error &error);

}  // namespace flushlight::cli
