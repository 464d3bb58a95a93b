// SPDX-License-Identifier: GPL-2.0-or-later
// flc_normalize as the tests call it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine_client/client.h"

namespace flushlight {

struct Normalized {
  std::string text;
  uint64_t digest = 0;
  bool truncated = false;
};

inline Normalized normalize(std::string_view query, flc_tokenizer_options options, size_t capacity = 4096) {
  // Exactly sized copies, so that AddressSanitizer sees every byte too many.
  const std::vector<char> input(query.begin(), query.end());
  std::vector<char> text(capacity);
  Normalized result;
  size_t length = 0;
  result.digest =
      flc_normalize(input.data(), input.size(), &options, text.data(), text.size(), &length, &result.truncated);
  result.text.assign(text.data(), length);
  return result;
}

inline constexpr flc_tokenizer_options kMariaDb{
    .ansi_strings = false, .no_backslash_escapes = false, .ansi_quotes = false};
inline constexpr flc_tokenizer_options kMariaDbAnsiQuotes{
    .ansi_strings = false, .no_backslash_escapes = false, .ansi_quotes = true};
inline constexpr flc_tokenizer_options kMariaDbNoBackslash{
    .ansi_strings = false, .no_backslash_escapes = true, .ansi_quotes = false};
inline constexpr flc_tokenizer_options kPostgreSql{
    .ansi_strings = true, .no_backslash_escapes = true, .ansi_quotes = false};

inline Normalized mariadb(std::string_view query) { return normalize(query, kMariaDb); }
inline Normalized postgresql(std::string_view query) { return normalize(query, kPostgreSql); }

}  // namespace flushlight
