// SPDX-License-Identifier: GPL-2.0-or-later
// The table of settings, for the two readers of it: file and command line.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/config.h"

namespace flushlight {

struct Setting {
  const char *key;   // section.key in the file
  const char *flag;  // on the command line
  bool reloadable;   // by SIGHUP
  const char *help;
  std::function<Result<>(std::string_view, Config *)> set;
  std::function<std::string(const Config &)> get;
};
const std::vector<Setting> &settings();
const Setting *find_setting(std::string_view key);

}  // namespace flushlight
