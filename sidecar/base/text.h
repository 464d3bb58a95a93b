// SPDX-License-Identifier: GPL-2.0-or-later
// Text that came from outside, made safe to show: valid UTF-8, no control characters, bounded.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace flushlight {

// Invalid bytes become '?', control characters a blank. Cuts at a character border at most max_bytes.
std::string sanitize_utf8(std::string_view bytes, size_t max_bytes);

// The text in a fixed field that may or may not be terminated.
template <size_t N>
std::string field_text(const char (&field)[N]) {
  return sanitize_utf8(std::string_view(field, strnlen(field, N)), N);
}

// Copies text into a fixed field, always terminated, cut at a character border.
void fill_field(char *field, size_t bytes, std::string_view text);
template <size_t N>
void fill_field(char (&field)[N], std::string_view text) {
  fill_field(field, N, text);
}

}  // namespace flushlight
