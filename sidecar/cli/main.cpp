// SPDX-License-Identifier: GPL-2.0-or-later
// flushlight: the command line for people.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "sidecar/base/version.h"
#include "sidecar/cli/doctor.h"
#include "sidecar/cli/exit_codes.h"
#include "sidecar/cli/probe.h"
#include "sidecar/cli/report.h"

namespace flushlight::cli {
namespace {

int command(const Connection &connection, const fl_command &message, const char *done) {
  auto result = check_instance(connection);
  if (result) result = run_command(connection, message);
  if (!result) {
    std::fprintf(stderr, "flushlight: %s\n", result.error().text.c_str());
    return kExitFailed;
  }
  std::printf("%s\n", done);
  return kExitDone;
}

int run(int argc, char **argv) {
  CLI::App app{
      "flushlight: where each millisecond of a commit went\n\n"
      "Exit codes: 0 done; 1 failed (doctor: something optional is missing; status: something is not ok); "
      "2 (doctor: something required is missing; status: no daemon); 3 (probe: ended early); 64 wrong usage"};
  app.set_version_flag("--version", std::string("flushlight ") + kVersion);
  app.require_subcommand(1);
  ReportOptions options;
  Connection &connection = options.connection;
  app.add_option("--socket", connection.socket_path, "socket of flushlightd")->capture_default_str();
  app.add_option("--timeout-ms", connection.deadline_ms, "how long to wait for the daemon")->capture_default_str();
  app.fallthrough();  // the options above may stand after the subcommand

  std::string btf_path;
  auto *doctor_command = app.add_subcommand("doctor", "what is there, what is missing, what that costs, how to fix it");
  doctor_command->add_flag("--json", options.json, "for machines");
  doctor_command->add_option("--btf", btf_path, "kernel type information, if not /sys/kernel/btf/vmlinux");

  auto *report_command = app.add_subcommand("report", "statements, slow commits, devices, health");
  report_command->add_flag("--json", options.json, "for machines: the rows of the views");
  report_command->add_flag("--recent", options.recent, "statements of the last five minutes only");
  report_command->add_option("--limit", options.limit, "rows of each table")->capture_default_str();
  report_command->add_option("--instance", connection.instance, "one server only");

  auto *status_command = app.add_subcommand("status", "health: is everything well?");
  status_command->add_flag("--json", options.json, "for machines");
  status_command->add_option("--instance", connection.instance, "one server only");

  auto *off_command = app.add_subcommand("off", "stop all tracing and recording, at once");
  auto *on_command = app.add_subcommand("on", "start it again");

  fl_command reset{};
  reset.code = FL_COMMAND_RESET;
  bool minmax_only = false;
  auto *reset_command = app.add_subcommand("reset", "forget statistics; without filters slow commits too");
  reset_command->add_option("--instance", connection.instance, "one server only");
  reset_command->add_option("--userid", reset.userid, "PostgreSQL role oid");
  reset_command->add_option("--dbid", reset.dbid, "PostgreSQL database oid");
  int64_t queryid = 0;
  reset_command->add_option("--queryid", queryid, "statement digest");
  reset_command->add_flag("--minmax-only", minmax_only, "minimum and maximum only");

  ProbeOptions probe_options;
  auto *probe_command = add_probe_command(&app, &probe_options);

  // Its name holds the device's, so that nobody confirms the wrong one: no option that a parser could know.
  std::vector<std::string> arguments;  // last one first, as the parser wants them
  for (int i = argc - 1; i > 0; i--)
    (std::string_view(argv[i]).starts_with(kConfirmation) ? probe_options.confirmation : arguments)
        .emplace_back(argv[i]);
  try {
    app.parse(std::move(arguments));
    if (!probe_options.confirmation.empty() && !probe_command->parsed())
      throw CLI::ExtrasError(probe_options.confirmation);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  if (doctor_command->parsed()) return doctor(connection, btf_path, options.json);
  if (report_command->parsed()) return report(options);
  if (status_command->parsed()) return status(connection, options.json);
  if (probe_command->parsed()) {
    probe_options.connection = connection;
    return probe(probe_options);
  }
  fl_command message{};
  if (off_command->parsed()) {
    message.code = FL_COMMAND_OFF;
    return command(connection, message, "flushlight is off");
  }
  if (on_command->parsed()) {
    message.code = FL_COMMAND_ON;
    return command(connection, message, "flushlight is on");
  }
  if (reset_command->parsed()) {
    reset.queryid = static_cast<uint64_t>(queryid);
    reset.flags = minmax_only ? FL_RESET_MINMAX_ONLY : 0;
    return command(connection, reset, "reset");
  }
  return kExitUsage;
}

}  // namespace
}  // namespace flushlight::cli

int main(int argc, char **argv) {
  try {
    return flushlight::cli::run(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "flushlight: %s\n", error.what());
    return flushlight::cli::kExitFailed;
  }
}
