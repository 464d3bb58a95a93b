// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/join/texts.h"

namespace flushlight {

void TextStore::put(uint32_t instance, uint64_t queryid, std::string_view text, bool truncated) {
  const Key key{queryid, instance};
  if (const auto found = index_.find(key); found != index_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    if (found->second->text.text != text) found->second->text = {std::string(text), truncated};
    return;
  }
  by_use_.push_front({key, {std::string(text), truncated}});
  index_.emplace(key, by_use_.begin());
  while (index_.size() > capacity_) {
    index_.erase(by_use_.back().key);
    by_use_.pop_back();
  }
}

const StatementText *TextStore::find(uint32_t instance, uint64_t queryid) {
  const auto found = index_.find(Key{queryid, instance});
  if (found == index_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return &found->second->text;
}

void TextStore::clear() {
  index_.clear();
  by_use_.clear();
}

}  // namespace flushlight
