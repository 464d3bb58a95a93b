// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
namespace flushlight::cli {
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;       // doctor: something optional is missing; status: something is not ok
inline constexpr int kExitUnreachable = 2;  // status: no daemon; doctor: something required is missing
inline constexpr int kExitStopped = 3;      // probe: ended early
inline constexpr int kExitUsage = 64;
}  // namespace flushlight::cli
