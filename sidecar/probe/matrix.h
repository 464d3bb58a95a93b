// SPDX-License-Identifier: GPL-2.0-or-later
// The same patterns under each combination of a queue's settings. Root's command line only.
#pragma once
#include <nlohmann/json.hpp>

#include "sidecar/probe/queue_settings.h"
#include "sidecar/probe/runner.h"

namespace flushlight::probe {

struct MatrixRow {
  QueueSettings settings;
  bool present = false;  // the settings as they were: measured first and last, which shows what a repetition changes
  bool applied = false;
  std::string refusal;  // of the kernel
  std::vector<Outcome> outcomes;
};

struct Matrix {
  std::string device;
  Place place;
  std::vector<MatrixRow> rows;
  Stop stopped = Stop::kNone;
  std::string stop_detail;
  uint64_t took_ns = 0;
};

// What rows are compared by: the tail of the first pattern, or its median where too few operations have a tail.
std::optional<double> figure_of(const MatrixRow &row);
struct MatrixJudgement {
  std::optional<size_t> best;  // a row that is better than every measurement of the present settings; nothing: none is
  std::string text;
};
MatrixJudgement judge_matrix(const Matrix &matrix);

// Changes the queue and does not put it back: that is the caller's QueueKeeper.
Result<Matrix> run_matrix(const Request &request, const Queue &queue, const std::vector<QueueSettings> &combinations,
                          Governor *governor, Progress *progress);

nlohmann::ordered_json to_json(const Matrix &matrix);

}  // namespace flushlight::probe
