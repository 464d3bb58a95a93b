// SPDX-License-Identifier: GPL-2.0-or-later
// Time of flc_normalize at 40, 400 and 4,000 bytes of a statement.
#include <benchmark/benchmark.h>

#include <string>

#include "engine_client/client.h"

namespace {

// An INSERT of many rows is the long statement that commits see most.
std::string rows_of(size_t bytes) {
  std::string query = "INSERT INTO t(a,b) VALUES (17,'abc')";
  while (query.size() + 12 <= bytes) query += ", (123,'def')";
  query.resize(bytes, ' ');
  return query;
}

// Words and operators: nothing to skip, the most work per byte.
std::string words_of(size_t bytes) {
  std::string query = "SELECT a.id FROM orders a WHERE a.id = 5";
  while (query.size() < bytes) query += " AND a.customer_name = b.customer_name OR a.city LIKE 'x%'";
  query.resize(bytes);
  return query;
}

std::string blob_of(size_t bytes) {
  std::string query = "INSERT INTO t VALUES (1, '";
  query.resize(bytes - 2, 'x');
  return query + "')";
}

void normalize(benchmark::State &state, std::string (*make)(size_t)) {
  const std::string query = make(static_cast<size_t>(state.range(0)));
  const flc_tokenizer_options options{.ansi_strings = false, .no_backslash_escapes = false, .ansi_quotes = false};
  char text[FL_TEXT_BYTES_MAX];
  size_t length = 0;
  bool truncated = false;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        flc_normalize(query.data(), query.size(), &options, text, sizeof text, &length, &truncated));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}

}  // namespace

BENCHMARK_CAPTURE(normalize, words, words_of)->Arg(40)->Arg(400)->Arg(4000);
BENCHMARK_CAPTURE(normalize, rows, rows_of)->Arg(40)->Arg(400)->Arg(4000);
BENCHMARK_CAPTURE(normalize, blob, blob_of)->Arg(40)->Arg(400)->Arg(4000);
BENCHMARK_MAIN();
