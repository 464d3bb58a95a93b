// SPDX-License-Identifier: GPL-2.0-or-later
// A probe's report for people.
#pragma once
#include <string>

#include "sidecar/probe/report.h"

namespace flushlight::cli {

// Columns low_ms, high_ms, count, share in percent, bar: one line for each power of two that was hit and those between.
std::string histogram_text(const probe::Times &times);
std::string probe_text(const probe::Report &report, bool all_histograms);
void print_probe(const probe::Report &report, bool all_histograms);

}  // namespace flushlight::cli
