// SPDX-License-Identifier: GPL-2.0-or-later
// Stalls, devices and files in words, for several views.
// Owner: main thread.
#pragma once
#include <string>

#include "sidecar/serve/latency.h"
#include "sidecar/serve/view.h"

namespace flushlight {

// Below its mount point where that is clear; otherwise the last parts of its path. Empty: not known.
std::string file_text(const kernel::FileName &file, const ViewContext &context);
// Who keeps the journal busy that a commit waited for.
std::string crowd_words(const stalls::Culprit &culprit, const ViewContext &context);
// What happened and who is to blame, in one sentence without an end. Files are named to those who may see all.
std::string stall_verdict(const stalls::Stall &stall, const ViewContext &context);
// The same for a commit that it hit.
std::string stall_words(const stalls::Stall &stall, const ViewContext &context);

}  // namespace flushlight
