// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/text.h"

#include <algorithm>
#include <cstdint>

namespace flushlight {
namespace {

// Bytes of the valid UTF-8 sequence at the start of `bytes`; 0 if there is none. Rejects overlong forms,
// surrogates and values beyond U+10FFFF.
size_t sequence_bytes(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  struct Form {
    uint8_t low, high;    // of the first byte
    size_t count;         // of all bytes
    uint8_t low2, high2;  // of the second byte
  };
  static constexpr Form kForms[] = {
      {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
      {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
      {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
  };
  for (const Form &form : kForms) {
    if (first < form.low || first > form.high) continue;
    if (bytes.size() < form.count || at(1) < form.low2 || at(1) > form.high2) return 0;
    for (size_t i = 2; i < form.count; i++)
      if ((at(i) & 0xc0) != 0x80) return 0;
    return form.count;
  }
  return 0;
}

// C0, DEL and C1: terminals obey them.
bool is_control(uint8_t first, uint8_t second) {
  return first < 0x20 || first == 0x7f || (first == 0xc2 && second < 0xa0);
}

}  // namespace

std::string sanitize_utf8(std::string_view bytes, size_t max_bytes) {
  std::string text;
  text.reserve(std::min(bytes.size(), max_bytes));
  while (!bytes.empty()) {
    const size_t count = sequence_bytes(bytes);
    const size_t taken = std::max<size_t>(count, 1);
    if (text.size() + taken > max_bytes) break;
    const auto first = static_cast<uint8_t>(bytes[0]);
    if (count == 0)
      text += '?';
    else if (count <= 2 && is_control(first, count == 2 ? static_cast<uint8_t>(bytes[1]) : 0))
      text += ' ';
    else
      text.append(bytes.substr(0, count));
    bytes.remove_prefix(taken);
  }
  return text;
}

void fill_field(char *field, size_t bytes, std::string_view text) {
  const std::string safe = sanitize_utf8(text, bytes - 1);
  std::memset(field, 0, bytes);
  std::copy(safe.begin(), safe.end(), field);
}

}  // namespace flushlight
