// SPDX-License-Identifier: GPL-2.0-or-later
// Names (users, databases) as small numbers, so that keys compare and hash in no time. Bounded: a client
// that invents names without end gets kOverflow for all further ones.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace flushlight {

using Symbol = uint32_t;

class SymbolTable {
 public:
  static constexpr Symbol kNone = 0;  // unknown: NULL
  static constexpr Symbol kOverflow = 1;

  explicit SymbolTable(size_t capacity = 100'000) : capacity_(capacity), texts_{"", "<too many names>"} {}

  Symbol intern(std::string_view text) {
    if (text.empty()) return kNone;
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    if (texts_.size() >= capacity_) return kOverflow;
    const auto id = static_cast<Symbol>(texts_.size());
    ids_.emplace(texts_.emplace_back(text), id);
    return id;
  }
  [[nodiscard]] const std::string &text(Symbol symbol) const { return texts_[symbol]; }

 private:
  size_t capacity_;
  std::deque<std::string> texts_;  // addresses stay
  std::unordered_map<std::string_view, Symbol> ids_;
};

}  // namespace flushlight
