// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/probe_matrix.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "sidecar/cli/exit_codes.h"
#include "sidecar/cli/layout.h"
#include "sidecar/cli/probe_progress.h"
#include "sidecar/cli/probe_watch.h"
#include "sidecar/probe/queue_state.h"

namespace flushlight::cli {
namespace {

constexpr double kSecondsDefault = 180;
constexpr double kSecondsOfARowMin = 0.5;
// Commits beside page writes, and the reads that queries wait for meanwhile.
constexpr const char *kPatterns = "log-bulk-8k-fdatasync,read-8k-depth16-worker";

probe::StatePaths state_paths(const ProbeOptions &options) {
  probe::StatePaths paths;
  if (!options.state_folder.empty()) paths.folder = options.state_folder;
  return paths;
}

Result<> check_root() {
  if (geteuid() == 0) return Ok{};
  return Error{EPERM, "--matrix changes a device's queue: only root can, on the command line"};
}

int usage(const std::string &text) {
  std::fprintf(stderr, "flushlight: %s\n", text.c_str());
  return kExitUsage;
}

bool ask(const std::string &device, size_t combinations) {
  if (isatty(STDIN_FILENO) != 1) return false;
  std::cerr << fmt::format(
      "{} combinations of scheduler, nr_requests and nomerges will be set on {} and put back at the end. "
      "Everything on that device is slower meanwhile.\nType {} to go on: ",
      combinations, device, device);
  std::string answer;
  return std::getline(std::cin, answer) && answer == device;
}

std::optional<int64_t> tag_depth_of(const std::string &device, const probe::Place &place) {
  for (const BlockDevice &known : place.devices)
    if (known.name == device) return known.tag_depth;
  return std::nullopt;
}

struct Plan {
  probe::Request request;
  std::optional<probe::Queue> queue;
  std::vector<probe::QueueSettings> combinations;
};

// All that can be refused before anything is changed.
Result<Plan> plan_matrix(const ProbeOptions &options, const probe::Limits &limits) {
  if (auto root = check_root(); !root) return root.error();
  Plan plan;
  plan.request = make_request(options);
  const auto place = probe::inspect(probe::trimmed(plan.request.target, plan.request.patterns));
  if (!place) return place.error();
  auto queue = probe::Queue::open(options.device);
  if (!queue) return queue.error();
  plan.queue = std::move(*queue);
  if (auto fits = check_device(options.device, *place); !fits) return fits.error();
  const auto now = plan.queue->read();
  if (!now) return now.error();
  plan.combinations = probe::combinations(*now, plan.queue->schedulers(), tag_depth_of(options.device, *place));
  const double needed = kSecondsOfARowMin * static_cast<double>(plan.combinations.size() + 1);
  if (static_cast<double>(limits.total_ns) / 1e9 < needed)
    return Error{EINVAL, fmt::format("{} combinations need {:.0f} s at least: --seconds gives them",
                                     plan.combinations.size(), needed)};
  return plan;
}

int print_matrix(const probe::Matrix &matrix, bool json) {
  if (json)
    fmt::print("{}\n", probe::to_json(matrix).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}", matrix_text(matrix));
  return matrix.stopped == probe::Stop::kNone ? kExitDone : kExitStopped;
}

// The keeper forks: nothing that has threads may live yet.
Result<probe::Matrix> run_plan(const Plan &plan, const ProbeOptions &options, const probe::Limits &limits) {
  ProbeWatch watch(options.connection, options.stop_at_commit_p99_ms);
  if (auto begun = watch.begin(); !begun) return begun.error();
  const auto keeper = probe::QueueKeeper::begin(*plan.queue, state_paths(options));
  if (!keeper) return keeper.error();
  const SystemClock clock;
  probe::Governor governor(clock, limits);
  auto matrix = [&] {
    ProbeProgress progress(&governor, options.quiet);
    const auto looking = watch.look_after(&governor);
    return probe::run_matrix(plan.request, *plan.queue, plan.combinations, &governor, &progress);
  }();
  if (auto back = (*keeper)->put_back(); !back)
    return Error{back.error().code,
                 fmt::format("{} could not be put back to {}: {}; flushlight probe --restore tries again",
                             options.device, text_of((*keeper)->before()), back.error().text)};
  return matrix;
}

}  // namespace

Result<bool> confirmed(const std::string &device, const std::vector<std::string> &rest) {
  for (const std::string &word : rest)
    if (word != std::string(kConfirmation) + device)
      return Error{EINVAL, word.starts_with(kConfirmation)
                               ? fmt::format("{} confirms another device than --device {}", word, device)
                               : fmt::format("{} is not an option of probe", word)};
  return !rest.empty();
}

Result<> check_device(const std::string &device, const probe::Place &place) {
  if (std::find(place.disks.begin(), place.disks.end(), device) != place.disks.end()) return Ok{};
  return Error{EINVAL, fmt::format("{} does not lie on {}: {}", place.directory, device,
                                   place.disk.empty() ? "its file system has no block device"
                                                      : fmt::format("it lies on {}", fmt::join(place.disks, ", ")))};
}

std::string matrix_text(const probe::Matrix &matrix) {
  using Align = TextTable::Align;
  std::vector<TextTable::Head> heads = {{"scheduler"}, {"nr_requests", Align::kRight}, {"nomerges", Align::kRight}};
  std::vector<const probe::MatrixRow *> sorted;
  for (const probe::MatrixRow &row : matrix.rows) sorted.push_back(&row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto *a, const auto *b) {
    const auto x = figure_of(*a), y = figure_of(*b);
    return x && y ? *x < *y : x.has_value() > y.has_value();
  });
  size_t patterns = 0;
  for (const probe::MatrixRow *row : sorted)
    if (patterns == 0)
      for (const probe::Outcome &outcome : row->outcomes) {
        heads.push_back({outcome.pattern.name + " p50", Align::kRight});
        heads.push_back({"p99", Align::kRight});
        patterns++;
      }
  heads.push_back({""});
  TextTable table(heads);
  const auto figure = [](const std::optional<double> &ms) {
    return ms ? fmt::format("{:.3f}", *ms) : std::string("-");
  };
  for (const probe::MatrixRow *row : sorted) {
    std::vector<std::string> cells = {row->settings.scheduler, fmt::to_string(row->settings.nr_requests),
                                      fmt::to_string(row->settings.nomerges)};
    for (size_t i = 0; i < patterns; i++) {
      const probe::Times *times = i < row->outcomes.size() ? &row->outcomes[i].total : nullptr;
      cells.push_back(figure(times != nullptr ? times->percentile_ms(0.5) : std::nullopt));
      cells.push_back(figure(times != nullptr ? times->percentile_ms(0.99) : std::nullopt));
    }
    cells.push_back(row->present ? "as it is" : row->refusal);
    table.add(std::move(cells));
  }
  std::string text = fmt::format("{} under {} (ms)\n{}\n{}\nEverything was put back.\n", matrix.device,
                                 matrix.place.directory, table.to_string(terminal_width()), judge_matrix(matrix).text);
  if (matrix.stopped != probe::Stop::kNone)
    text += fmt::format("Ended early ({}): {}\n", probe::stop_name(matrix.stopped), matrix.stop_detail);
  return text;
}

int probe_matrix(const ProbeOptions &asked) {
  ProbeOptions options = asked;
  if (options.only.empty()) options.only = kPatterns;
  if (options.device.empty()) return usage("--matrix changes a device's queue: name it with --device");
  const auto confirmation = confirmed(options.device, options.confirmation);
  if (!confirmation) return usage(confirmation.error().text);
  if (probe::select_patterns(options.only, options.quick).empty())
    return usage("no pattern has such a name: --list shows them");
  const probe::Limits limits = limits_of(options, kSecondsDefault);
  const auto plan = plan_matrix(options, limits);
  if (!plan) return fail_probe(plan.error());
  if (!*confirmation && !ask(options.device, plan->combinations.size()))
    return usage(fmt::format("not confirmed: {}{} says that the queue of {} may be changed", kConfirmation,
                             options.device, options.device));
  const SignalGuard signals;
  const auto matrix = run_plan(*plan, options, limits);
  return matrix ? print_matrix(*matrix, options.json) : fail_probe(matrix.error());
}

int restore_queues(const ProbeOptions &options) {
  if (auto root = check_root(); !root) return fail_probe(root.error());
  const auto restored = probe::restore_all(state_paths(options));
  if (!restored) return fail_probe(restored.error());
  for (const probe::Restored &one : *restored) fmt::print("{}: {}\n", one.device, one.text);
  if (restored->empty()) fmt::print("nothing to put back\n");
  return kExitDone;
}

}  // namespace flushlight::cli
