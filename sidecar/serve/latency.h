// SPDX-License-Identifier: GPL-2.0-or-later
// All histograms of the daemon, for the view latency and the metrics.
// Owner: main thread.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "sidecar/serve/view.h"

namespace flushlight {

struct LatencyHistogram {
  std::string object;     // device name, or commit
  uint32_t instance = 0;  // 0: of devices
  std::string_view operation, stage;
  uint64_t sum_ns = 0;
  std::function<uint64_t(uint32_t bucket)> count_of;
};
void each_latency_histogram(const ViewContext &context, const std::function<void(const LatencyHistogram &)> &visit);

std::string device_name(uint32_t number, const ViewContext &context);

}  // namespace flushlight
