// SPDX-License-Identifier: GPL-2.0-or-later
// `flushlight advise`: the view advice for people, and its snippets for files.
#pragma once
#include <string>

#include "sidecar/cli/client.h"

namespace flushlight::cli {

struct AdviseOptions {
  Connection connection;
  bool json = false;
  bool all = false;      // what will not help, what was dismissed or judged long ago, too
  std::string snippets;  // not empty: only the lines of this kind (sql, my.cnf, …), ready for a file
};
int advise(const AdviseOptions &options);

// The parts that need no daemon, for tests.
std::string advice_text(const ViewTable &advice, bool all);
std::string snippets_text(const ViewTable &advice, const std::string &kind);

}  // namespace flushlight::cli
