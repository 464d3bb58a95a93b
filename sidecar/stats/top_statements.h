// SPDX-License-Identifier: GPL-2.0-or-later
// The statements that have rows of their own where there is no room for all (metrics). One that has had a row keeps it
// unless another has twice its commit time: a series that comes and goes spoils rates, its own and that of the rest.
// Owner: main thread.
#pragma once
#include <cstddef>
#include <map>
#include <unordered_set>
#include <vector>

#include "sidecar/stats/statement_table.h"

namespace flushlight {

class TopStatements {
 public:
  using Entry = StatementTable::Rows::value_type;
  struct Chosen {
    std::vector<const Entry *> top;         // by commit time
    std::map<uint32_t, StatementRow> rest;  // by instance: all others in one row, evicted ones included
  };

  explicit TopStatements(size_t max) : max_(max) {}
  void set_max(size_t max) { max_ = max; }
  Chosen choose(const StatementTable &table);

 private:
  size_t max_;
  std::unordered_set<StatementKey, StatementKeyHash> members_;
};

}  // namespace flushlight
