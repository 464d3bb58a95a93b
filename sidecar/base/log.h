// SPDX-License-Identifier: GPL-2.0-or-later
// Logging set-up. Lines are written by a thread of spdlog's: the daemon's main thread never waits for
// whoever reads its standard error (a journal on the stalled disk); in a jam the oldest lines are dropped.
#pragma once
#include <spdlog/spdlog.h>

#include <string>

namespace flushlight {

enum class LogFormat { kText, kJson };

void start_logging(const std::string &level, LogFormat format);
void set_log_level(const std::string &level);
void stop_logging();

}  // namespace flushlight
