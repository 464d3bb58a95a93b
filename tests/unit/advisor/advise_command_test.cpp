// SPDX-License-Identifier: GPL-2.0-or-later
// What `flushlight advise` prints of the view's rows.
#include <gtest/gtest.h>

#include <map>

#include "sidecar/cli/advise.h"

namespace flushlight::cli {
namespace {

using Row = std::map<std::string_view, std::string>;

ViewTable table_of(const std::vector<Row> &rows) {
  ViewTable table;
  table.view = "advice";
  table.columns = {"instance",
                   "id",
                   "state",
                   "kind",
                   "rule",
                   "scope",
                   "setting",
                   "value_now",
                   "value_suggested",
                   "evidence",
                   "effect",
                   "predicted_p50_ms",
                   "predicted_p99_ms",
                   "measured_p50_ms",
                   "measured_p99_ms",
                   "confidence",
                   "risk",
                   "apply",
                   "revert",
                   "authority"};
  for (const Row &row : rows) {
    std::vector<Cell> cells;
    for (const std::string_view column : table.columns) {
      const auto found = row.find(column);
      if (found == row.end())
        cells.push_back(null_cell());
      else if (column.ends_with("_ms"))
        cells.push_back(double_cell(std::stod(found->second)));
      else
        cells.push_back(text_cell(found->second));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

const Row kBuffer = {{"instance", "m"},        {"state", "open"},
                     {"kind", "server"},       {"rule", "a"},
                     {"setting", "b"},         {"value_now", "1"},
                     {"value_suggested", "2"}, {"apply", "sql: SET GLOBAL b = 2;\nmy.cnf: b = 2"},
                     {"evidence", "figures"}};
const Row kDurability = {{"instance", "m"},
                         {"state", "open"},
                         {"kind", "durability"},
                         {"rule", "d"},
                         {"setting", "flush"},
                         {"value_now", "1"},
                         {"value_suggested", "2"},
                         {"predicted_p50_ms", "0.5"},
                         {"predicted_p99_ms", "2"},
                         {"risk", "may lose commits"},
                         {"apply", "sql: SET GLOBAL flush = 2;\nmy.cnf: flush = 2"}};
const Row kNo = {
    {"instance", "m"}, {"state", "open"}, {"kind", "no"}, {"rule", "no.x"}, {"evidence", "x will not help"}};

TEST(AdviseCommand, SnippetsOfOneKindAndNothingUnsafeUnasked) {
  const ViewTable table = table_of({kBuffer, kDurability, kNo});
  EXPECT_EQ(snippets_text(table, "sql"),
            "-- m, b: now 1\nSET GLOBAL b = 2;\n-- m, flush: now 1\n-- left out, because commits may be lost: may lose "
            "commits\n-- SET GLOBAL flush = 2;\n");
  EXPECT_EQ(snippets_text(table, "my.cnf"),
            "# m, b: now 1\nb = 2\n# m, flush: now 1\n# left out, because commits may be lost: may lose commits\n# "
            "flush = 2\n");
  EXPECT_EQ(snippets_text(table, "udev"), "");
}

TEST(AdviseCommand, OnlyWhatIsOpenMakesSnippets) {
  Row done = kBuffer;
  done["state"] = "verified";
  EXPECT_EQ(snippets_text(table_of({done}), "sql"), "");
}

TEST(AdviseCommand, TextLeavesOutWhatWillNotHelpUnlessAsked) {
  const ViewTable table = table_of({kBuffer, kDurability, kNo});
  const std::string text = advice_text(table, false), all = advice_text(table, true);
  EXPECT_EQ(text.find("x will not help"), std::string::npos);
  EXPECT_NE(text.find("1 more say what will not help"), std::string::npos);
  EXPECT_NE(all.find("x will not help"), std::string::npos);
  EXPECT_NE(text.find("[server] b: 1 -> 2 (open"), std::string::npos) << text;
  EXPECT_NE(text.find("may lose commits"), std::string::npos);
  EXPECT_NE(text.find("commits: p50"), std::string::npos);
  EXPECT_NE(advice_text(table_of({kNo}), false).find("Nothing to change."), std::string::npos);
  EXPECT_NE(advice_text(table_of({}), false).find("No advice yet"), std::string::npos);
}

}  // namespace
}  // namespace flushlight::cli
