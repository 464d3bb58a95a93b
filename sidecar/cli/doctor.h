// SPDX-License-Identifier: GPL-2.0-or-later
// flushlight doctor: each requirement, whether it is there, what its absence costs, how to fix it.
#pragma once
#include <vector>

#include "sidecar/cli/client.h"
#include "sidecar/kernel/tracer.h"

namespace flushlight::cli {

std::vector<kernel::Feature> examine(const Connection &connection, const std::string &btf_path);
int doctor_exit_code(const std::vector<kernel::Feature> &features);
int doctor(const Connection &connection, const std::string &btf_path, bool json);

}  // namespace flushlight::cli
