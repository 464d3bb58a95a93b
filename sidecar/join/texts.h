// SPDX-License-Identifier: GPL-2.0-or-later
// Normalised statement texts by instance and digest. Bounded: the ones not asked for longest go first.
// A client sends a text once per attachment, so texts outlive the rows that they belong to.
// Owner: main thread.
#pragma once
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace flushlight {

struct StatementText {
  std::string text;
  bool truncated = false;
};

class TextStore {
 public:
  explicit TextStore(size_t capacity) : capacity_(capacity) {}
  void set_capacity(size_t capacity) { capacity_ = capacity; }
  void put(uint32_t instance, uint64_t queryid, std::string_view text, bool truncated);
  // Marks it as used. nullptr: never seen, or gone.
  const StatementText *find(uint32_t instance, uint64_t queryid);
  void clear();  // query_text = digest_only
  [[nodiscard]] size_t size() const { return index_.size(); }

 private:
  struct Key {
    uint64_t queryid;
    uint32_t instance;
    bool operator==(const Key &) const = default;
  };
  struct Hash {
    size_t operator()(const Key &key) const { return key.queryid * 0x9e3779b97f4a7c15ull ^ key.instance; }
  };
  struct Held {
    Key key;
    StatementText text;
  };
  size_t capacity_;
  std::list<Held> by_use_;  // most recently used first
  std::unordered_map<Key, std::list<Held>::iterator, Hash> index_;
};

}  // namespace flushlight
