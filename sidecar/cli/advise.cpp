// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "sidecar/cli/exit_codes.h"
#include "sidecar/cli/layout.h"

namespace flushlight::cli {
namespace {

// How a comment begins in a file of this kind.
std::string_view comment_mark(std::string_view kind) { return kind == "sql" ? "-- " : "# "; }

std::string times_text(const ViewTable &advice, size_t row, const char *what, const char *p50, const char *p99) {
  if (advice.at(row, p50).type == FL_CELL_NULL) return "";
  return fmt::format("{}: p50 {}, p99 {}\n", what, duration_text(advice.number(row, p50)),
                     duration_text(advice.number(row, p99)));
}

// Words of a line that is too long for the terminal go to the next ones, indented.
std::string wrapped(std::string_view text, size_t indent) {
  const size_t width = std::max<size_t>(40, terminal_width()) - indent;
  std::string out;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.size() > width) {
      const size_t blank = line.rfind(' ', width);
      end = blank != std::string_view::npos && blank > 0 ? blank : line.find(' ');
      line = text.substr(0, end);
    }
    out += std::string(out.empty() ? 0 : indent, ' ') + std::string(line) + "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

std::string part(const char *name, const std::string &text) {
  constexpr size_t kIndent = 14;
  return text.empty() ? "" : fmt::format("  {:<12}{}", name, wrapped(text, kIndent));
}

bool is_hidden(const ViewTable &advice, size_t row) {
  const std::string state = advice.text(row, "state");
  return state == "dismissed" ||
         (advice.text(row, "kind") == "no" && advice.text(row, "rule") != "nothing" && state == "open");
}

std::string row_text(const ViewTable &advice, size_t row) {
  const std::string setting = advice.text(row, "setting"), suggested = advice.text(row, "value_suggested");
  std::string head = setting.empty() ? advice.text(row, "rule") : setting;
  if (!suggested.empty()) head += fmt::format(": {} -> {}", advice.text(row, "value_now"), suggested);
  std::string text = fmt::format("[{}] {} ({}, {} confidence) #{}\n", advice.text(row, "kind"), head,
                                 advice.text(row, "state"), advice.text(row, "confidence"), advice.text(row, "id"));
  text += part("where", advice.text(row, "instance") +
                            (advice.text(row, "scope") == "server" ? "" : ", " + advice.text(row, "scope")));
  text += part("evidence", advice.text(row, "evidence"));
  text += part("predicted",
               times_text(advice, row, "commits", "predicted_p50_ms", "predicted_p99_ms") + advice.text(row, "effect"));
  text += part("measured", times_text(advice, row, "commits", "measured_p50_ms", "measured_p99_ms"));
  text += part("risk", advice.text(row, "risk"));
  text += part("how", advice.text(row, "apply"));
  text += part("back", advice.text(row, "revert"));
  text += part("see", advice.text(row, "authority"));
  return text + "\n";
}

}  // namespace

std::string advice_text(const ViewTable &advice, bool all) {
  std::string text;
  size_t hidden = 0;
  for (size_t row = 0; row < advice.rows.size(); row++) {
    if (!all && is_hidden(advice, row))
      hidden++;
    else
      text += row_text(advice, row);
  }
  if (text.empty())
    text = hidden > 0 ? "Nothing to change.\n" : "No advice yet: it needs a hundred commits and a look at them.\n";
  if (hidden > 0) text += fmt::format("{} more say what will not help: flushlight advise --all\n", hidden);
  return text;
}

std::string snippets_text(const ViewTable &advice, const std::string &kind) {
  std::string text;
  const std::string_view mark = comment_mark(kind);
  for (size_t row = 0; row < advice.rows.size(); row++) {
    if (advice.text(row, "state") != "open") continue;
    const bool loses = advice.text(row, "kind") == "durability";
    const std::string apply = advice.text(row, "apply");
    std::string lines;
    for (size_t at = 0; at < apply.size();) {
      const size_t end = std::min(apply.find('\n', at), apply.size());
      const std::string line = apply.substr(at, end - at);
      at = end + 1;
      if (line.starts_with(kind + ": "))
        lines += (loses ? std::string(mark) : "") + line.substr(kind.size() + 2) + "\n";
    }
    if (lines.empty()) continue;
    text += fmt::format("{}{}, {}: now {}\n", mark, advice.text(row, "instance"), advice.text(row, "setting"),
                        advice.text(row, "value_now"));
    if (loses) text += fmt::format("{}left out, because commits may be lost: {}\n", mark, advice.text(row, "risk"));
    text += lines;
  }
  return text;
}

int advise(const AdviseOptions &options) {
  auto table = Result<ViewTable>(ViewTable{});
  if (const auto known = check_instance(options.connection); !known)
    table = known.error();
  else
    table = fetch_view(options.connection, "advice");
  if (!table) {
    std::fprintf(stderr, "flushlight: %s\n", table.error().text.c_str());
    return kExitFailed;
  }
  if (options.json)
    fmt::print("{}\n", table->to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}",
               options.snippets.empty() ? advice_text(*table, options.all) : snippets_text(*table, options.snippets));
  return kExitDone;
}

}  // namespace flushlight::cli
