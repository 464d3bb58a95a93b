// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "sidecar/base/version.h"
#include "sidecar/probe/report.h"

namespace flushlight::probe {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kMatrixSchema = "flushlight-probe-matrix/1";
constexpr double kBetterShare = 0.1;  // less than that is not worth a setting that has to be kept over every boot

void measure_row(const Request &request, Bench *bench, const Queue &queue, size_t rows_left, Governor *governor,
                 MatrixRow *row) {
  if (auto applied = queue.apply(row->settings); !applied) {
    row->refusal = applied.error().text;
    return;
  }
  row->applied = true;
  const size_t count = request.patterns.size();
  for (size_t i = 0; i < count; i++) {
    Outcome &outcome = row->outcomes.emplace_back();
    outcome.pattern = request.patterns[i];
    governor->check_time();
    governor->begin_slice((rows_left - 1) * count + count - i);
    if (governor->stopped() == Stop::kNone)
      bench->measure(&outcome);
    else
      outcome.reason = governor->detail();
  }
}

// For the line that says how far it is.
Pattern named(const QueueSettings &settings) {
  Pattern pattern;
  pattern.name = text_of(settings);
  return pattern;
}

template <typename T>
Json or_null(const std::optional<T> &value) {
  return value ? Json(*value) : Json(nullptr);
}

Json row_json(const MatrixRow &row) {
  Json patterns = Json::array();
  for (const Outcome &outcome : row.outcomes) {
    Json json = {{"name", outcome.pattern.name},
                 {"state", state_name(outcome.state)},
                 {"reason", outcome.reason.empty() ? Json(nullptr) : Json(outcome.reason)},
                 {"per_second", or_null(outcome.per_second())}};
    json.update(to_json(outcome.total));
    patterns.push_back(std::move(json));
  }
  return {{"scheduler", row.settings.scheduler},
          {"nr_requests", row.settings.nr_requests},
          {"nomerges", row.settings.nomerges},
          {"present", row.present},
          {"refusal", row.refusal.empty() ? Json(nullptr) : Json(row.refusal)},
          {"figure_ms", or_null(figure_of(row))},
          {"patterns", patterns}};
}

}  // namespace

std::optional<double> figure_of(const MatrixRow &row) {
  if (row.outcomes.empty() || row.outcomes[0].state != State::kMeasured) return std::nullopt;
  const Times &times = row.outcomes[0].total;
  const auto tail = times.percentile_ms(0.99);
  return tail ? tail : times.percentile_ms(0.5);
}

MatrixJudgement judge_matrix(const Matrix &matrix) {
  MatrixJudgement judgement;
  std::optional<double> present_best, present_worst;
  std::optional<size_t> best;
  size_t presents = 0;
  for (size_t i = 0; i < matrix.rows.size(); i++) {
    const auto figure = figure_of(matrix.rows[i]);
    if (!figure) continue;
    if (matrix.rows[i].present) {
      present_best = std::min(present_best.value_or(*figure), *figure);
      present_worst = std::max(present_worst.value_or(*figure), *figure);
      presents++;
    } else if (!best || *figure < *figure_of(matrix.rows[*best])) {
      best = i;
    }
  }
  if (presents < 2 || !best) {
    judgement.text = "nothing to say: the present settings were not measured twice, or no others were";
    return judgement;
  }
  const double figure = *figure_of(matrix.rows[*best]);
  const std::string shown = fmt::format("best: {} with {:.3f} ms; the present settings: {:.3f} and {:.3f} ms",
                                        text_of(matrix.rows[*best].settings), figure, *present_best, *present_worst);
  if (figure < *present_best * (1 - kBetterShare)) {
    judgement.best = best;
    judgement.text = shown + ". Repeat it under your own load before you believe it";
  } else {
    judgement.text = fmt::format("nothing to change: {}, and less than {:.0f} % better is not worth a setting", shown,
                                 100 * kBetterShare);
  }
  return judgement;
}

Result<Matrix> run_matrix(const Request &request, const Queue &queue, const std::vector<QueueSettings> &combinations,
                          Governor *governor, Progress *progress) {
  const uint64_t begin = governor->clock().now_ns();
  progress->preparing();
  const auto bench = Bench::prepare(request, governor);
  if (!bench) return bench.error();
  Matrix matrix;
  matrix.device = queue.name();
  matrix.place = (*bench)->place();
  for (const QueueSettings &settings : combinations)
    matrix.rows.push_back({settings, matrix.rows.empty(), false, "", {}});
  if (!combinations.empty()) matrix.rows.push_back({combinations[0], true, false, "", {}});
  for (size_t i = 0; i < matrix.rows.size(); i++) {
    governor->check_time();
    if (governor->stopped() != Stop::kNone) break;
    const size_t left = matrix.rows.size() - i;
    progress->begins(i, matrix.rows.size(), named(matrix.rows[i].settings));
    measure_row(request, bench->get(), queue, left, governor, &matrix.rows[i]);
    if (!matrix.rows[i].outcomes.empty()) progress->ended(matrix.rows[i].outcomes[0]);
  }
  matrix.stopped = governor->stopped();
  matrix.stop_detail = governor->detail();
  matrix.took_ns = governor->clock().now_ns() - begin;
  return matrix;
}

Json to_json(const Matrix &matrix) {
  const MatrixJudgement judgement = judge_matrix(matrix);
  Json rows = Json::array();
  for (const MatrixRow &row : matrix.rows) rows.push_back(row_json(row));
  return {{"schema", kMatrixSchema},
          {"version", kVersion},
          {"seconds", static_cast<double>(matrix.took_ns) / 1e9},
          {"device", matrix.device},
          {"directory", matrix.place.directory},
          {"stopped", matrix.stopped == Stop::kNone
                          ? Json(nullptr)
                          : Json{{"cause", stop_name(matrix.stopped)}, {"detail", matrix.stop_detail}}},
          {"best", or_null(judgement.best)},
          {"text", judgement.text},
          {"combinations", rows}};
}

}  // namespace flushlight::probe
