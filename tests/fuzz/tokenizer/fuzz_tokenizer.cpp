// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer: any bytes, each dialect. Checks bounds (with AddressSanitizer), that a cut text keeps its
// digest, and that what comes out holds no quoted string.
#include <cstdlib>

#include "tests/unit/tokenizer/tokenizer_fixture.h"

using flushlight::normalize;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  flc_tokenizer_options options{};
  options.ansi_strings = data[0] & 1;
  options.no_backslash_escapes = data[0] & 2;
  options.ansi_quotes = data[0] & 4;
  const std::string_view query(reinterpret_cast<const char *>(data) + 2, size - 2);
  const flushlight::Normalized whole = normalize(query, options, 2 * size + 16);
  const flushlight::Normalized cut = normalize(query, options, data[1]);
  if (whole.digest == 0 || whole.digest != cut.digest || cut.text.size() > data[1]) abort();
  if (whole.text.compare(0, cut.text.size(), cut.text) != 0) abort();
  // No quote outside of a quoted identifier.
  char inside = 0;
  for (const char c : whole.text) {
    if (inside) {
      if (c == inside) inside = 0;
    } else if (c == '\'') {
      abort();
    } else if (c == '"' || (c == '`' && !options.ansi_strings)) {
      inside = c;
    }
  }
  return 0;
}
