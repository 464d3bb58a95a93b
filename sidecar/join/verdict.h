// SPDX-License-Identifier: GPL-2.0-or-later
// What a commit's account says, in words.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "abi/ledger.h"

namespace flushlight {

const char *cause_name(int cause);  // nullptr outside the range
const char *path_name(int path);
int largest_cause(std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns);
int largest_path(std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns);

// One sentence for a DBA. `accounted` false: the causes were not observed, and it says so.
std::string verdict(uint64_t duration_ns, std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns, bool accounted);

}  // namespace flushlight
