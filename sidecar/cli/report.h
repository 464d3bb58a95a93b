// SPDX-License-Identifier: GPL-2.0-or-later
// flushlight report and flushlight status.
#pragma once
#include "sidecar/cli/client.h"

namespace flushlight::cli {

struct ReportOptions {
  Connection connection;
  bool json = false;
  bool recent = false;  // statements of the last five minutes
  size_t limit = 10;
};
int report(const ReportOptions &options);
int status(const Connection &connection, bool json);

}  // namespace flushlight::cli
