// SPDX-License-Identifier: GPL-2.0-or-later
// A recommendation, and the table of rules that make them. A rule is a pure function from facts to recommendations; it
// never writes a setting. Rules that say no count as much as the others.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/advise/facts.h"

namespace flushlight::advise {

// In this order they are given: the cheapest and safest first.
enum class Kind : uint8_t {
  kApplication,  // what the application does
  kGrouping,     // group commit
  kServer,       // settings of the server that cost nothing in safety
  kHost,         // kernel, file system, device
  kDurability,   // may lose transactions: last, and as narrow as possible
  kNo,           // not this: why a thing that guides name will not help, or what is no storage problem
};

enum class Confidence : uint8_t { kHigh, kMedium, kLow };

// A way to write it down: "sql", "my.cnf", "postgresql.conf", "sysctl", "udev", "fstab", "shell", "patroni", "operator",
// "replicas", "application".
struct Snippet {
  std::string where, text;
};

// What a change is judged by where it is not commit times: so much of a statistic for each of another.
struct Measure {
  std::string statistic, per;
  double now = 0, predicted = 0;
};

struct Advice {
  std::string rule;  // its id: stable, so that a change can be followed
  Kind kind = Kind::kServer;
  std::string scope;                                         // "server", "role app", "device nvme0n1", …
  std::string setting;                                       // empty: not about one
  std::string now;                                           // its value
  std::string suggested;                                     // empty: leave it
  std::string evidence;                                      // figures, with their window
  std::optional<double> predicted_p50_ms, predicted_p99_ms;  // of commits in scope; nothing: accounts cannot tell
  // Where it is not commit time that will change: what, from, to (checkpoints, WAL).
  std::string effect;
  std::optional<Measure> measure;
  Confidence confidence = Confidence::kMedium;
  std::string risk;
  std::vector<Snippet> apply;
  std::string undo;
  std::string authority;  // where it is documented
};

using Rule = void (*)(const Facts &, std::vector<Advice> *);
struct RuleEntry {
  std::string_view family;
  Rule rule;
};
// All rules; one file for each family.
const std::vector<RuleEntry> &rules();

// Runs them all and orders what they say. A server without any recommendation gets 'nothing to change'; one whose
// commits were not observed long enough gets nothing.
std::vector<Advice> advise(const Facts &facts);

std::string_view kind_name(Kind kind);
std::string_view confidence_name(Confidence confidence);
// "sql: SET GLOBAL …" a line each.
std::string apply_text(const Advice &advice);

}  // namespace flushlight::advise
