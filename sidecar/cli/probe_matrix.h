// SPDX-License-Identifier: GPL-2.0-or-later
// flushlight probe --matrix and --restore.
#pragma once
#include <string>
#include <vector>

#include "sidecar/cli/probe.h"
#include "sidecar/probe/matrix.h"

namespace flushlight::cli {

// Whether the command line confirms that this device's queue may be changed; an error names what does not belong
// there. Nothing given is no error: a terminal can still be asked.
Result<bool> confirmed(const std::string &device, const std::vector<std::string> &rest);
// The device must be what the directory lies on: changing another one would tell nothing.
Result<> check_device(const std::string &device, const probe::Place &place);
std::string matrix_text(const probe::Matrix &matrix);

int probe_matrix(const ProbeOptions &options);
int restore_queues(const ProbeOptions &options);

}  // namespace flushlight::cli
