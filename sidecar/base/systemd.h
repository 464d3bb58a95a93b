// SPDX-License-Identifier: GPL-2.0-or-later
// The service manager's notification protocol (one datagram), without a library: nothing happens where
// NOTIFY_SOCKET is not set.
#pragma once
#include <cstdint>
#include <string_view>

namespace flushlight {

// "READY=1", "STOPPING=1", "RELOADING=1", "WATCHDOG=1", "STATUS=…"; never blocks.
void notify_service_manager(std::string_view state);

// Interval at which WATCHDOG=1 is due (half of WATCHDOG_USEC); 0: no watchdog.
uint64_t watchdog_interval_ns();

}  // namespace flushlight
