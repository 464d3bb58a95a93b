// SPDX-License-Identifier: GPL-2.0-or-later
// A change of a PostgreSQL setting, with all ways to write it down.
#pragma once
#include "sidecar/advise/families.h"

namespace flushlight::advise {

struct PostgresqlChange {
  const char *rule = nullptr, *setting = nullptr;
  std::string suggested = {};  // as postgresql.conf has it; empty: leave it
  std::string evidence = {}, effect = {}, risk = {}, authority = {};
  Confidence confidence = Confidence::kMedium;
  Kind kind = Kind::kServer;
};
Advice postgresql_advice(const Facts &facts, const PostgresqlChange &change);

}  // namespace flushlight::advise
