// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses to listen on, as administrators write them.
#pragma once
#include <string>
#include <utility>

#include "sidecar/base/result.h"

namespace flushlight {

// "127.0.0.1:9188" or "[::1]:9188" into host and port; an error says what would be right. Names are not looked up.
Result<std::pair<std::string, std::string>> split_listen_address(const std::string &address);

}  // namespace flushlight
