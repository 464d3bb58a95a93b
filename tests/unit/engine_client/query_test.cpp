// SPDX-License-Identifier: GPL-2.0-or-later
// Views and commands over the socket: good answers, broken ones, none at all.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "fake_daemon.h"

namespace flushlight::test {
namespace {

template <typename T>
void put(std::vector<char> &cells, uint8_t type, T value) {
  cells.push_back(static_cast<char>(type));
  const char *bytes = reinterpret_cast<const char *>(&value);
  cells.insert(cells.end(), bytes, bytes + sizeof(value));
}

void put_text(std::vector<char> &cells, const std::string &text) {
  put(cells, FL_CELL_TEXT, static_cast<uint32_t>(text.size()));
  cells.insert(cells.end(), text.begin(), text.end());
}

const char *const kColumns[] = {"a", "b", "c"};

struct Asked {
  flc_result *result;
  std::string error;
};

Asked ask(const std::string &path, uint32_t deadline_ms = 1000, bool (*cancelled)() = nullptr) {
  flc_query query{};
  query.socket_path = path.c_str();
  query.view = "statements";
  query.instance = "i";
  query.user_name = "u";
  query.columns = kColumns;
  query.column_count = 3;
  query.deadline_ms = deadline_ms;
  query.cancelled = cancelled;
  char error[256] = "";
  flc_result *result = flc_query_run(&query, error, sizeof(error));
  return {result, error};
}

TEST(Query, RowsOfAllTypesOverSeveralPackets) {
  std::vector<char> first;
  put(first, FL_CELL_INT, int64_t{-5});
  put(first, FL_CELL_DOUBLE, 1.5);
  put_text(first, "grüße");
  std::vector<char> second;
  put(second, FL_CELL_TIME, int64_t{1000});
  second.push_back(FL_CELL_NULL);
  put_text(second, "");
  FakeDaemon daemon({.answers = {rows_packet(1, first), rows_packet(1, second), end_packet(0, "")}});
  auto [result, error] = ask(daemon.path());
  ASSERT_NE(result, nullptr) << error;
  flc_cell cells[3];
  ASSERT_TRUE(flc_result_next(result, cells));
  EXPECT_EQ(cells[0].integer, -5);
  EXPECT_EQ(cells[1].real, 1.5);
  EXPECT_EQ(std::string(cells[2].text, cells[2].length), "grüße");
  ASSERT_TRUE(flc_result_next(result, cells));
  EXPECT_EQ(cells[0].type, FL_CELL_TIME);
  EXPECT_EQ(cells[1].type, FL_CELL_NULL);
  EXPECT_EQ(cells[2].length, 0U);
  EXPECT_FALSE(flc_result_next(result, cells));
  flc_result_free(result);
}

TEST(Query, BrokenCellsEndTheRowsAndNothingElse) {
  std::vector<char> good;
  for (int i = 0; i < 3; i++) put(good, FL_CELL_INT, int64_t{i});
  std::vector<char> lies = good;
  put(lies, FL_CELL_TEXT, uint32_t{0xffffffff});
  std::vector<char> unknown = good;
  unknown.push_back(99);
  for (const auto &cells : {lies, unknown, good}) {
    FakeDaemon daemon({.answers = {rows_packet(1000000, cells), end_packet(0, "")}});
    auto [result, error] = ask(daemon.path());
    ASSERT_NE(result, nullptr) << error;
    flc_cell row[3];
    EXPECT_TRUE(flc_result_next(result, row));
    EXPECT_FALSE(flc_result_next(result, row));
    EXPECT_FALSE(flc_result_next(result, row));
    flc_result_free(result);
  }
}

TEST(Query, ErrorsSayWhatAndWhy) {
  struct {
    std::vector<std::vector<char>> answers;
    const char *says;
  } const cases[] = {
      {{end_packet(EACCES, "you may not")}, "you may not"},
      {{end_packet(ENOENT, "")}, "No such file"},
      {{packet_of(FL_MESSAGE_REFUSED, end_packet(EPROTO, "old").data() + sizeof(fl_message),
                  sizeof(fl_end) - sizeof(fl_message))},
       "old"},
      {{packet_of(FL_MESSAGE_END, nullptr, 0)}, "too short"},
      {{packet_of(FL_MESSAGE_ROWS, nullptr, 0)}, "broken"},
      {{packet_of(FL_MESSAGE_WELCOME, "12345678", 8)}, "broken"},
      {{std::vector<char>(20, 'x')}, "another protocol"},
  };
  for (const auto &one : cases) {
    FakeDaemon daemon({.answers = one.answers});
    auto [result, error] = ask(daemon.path());
    EXPECT_EQ(result, nullptr);
    EXPECT_NE(error.find(one.says), std::string::npos) << error;
  }
}

TEST(Query, NobodyThereIsAnErrorAtOnce) {
  auto [result, error] = ask("/nonexistent/socket");
  EXPECT_EQ(result, nullptr);
  EXPECT_NE(error.find("is it running"), std::string::npos) << error;
}

TEST(Query, ASilentDaemonMeansTheDeadline) {
  FakeDaemon daemon({});
  uint64_t begin_ns = flc_now_ns();
  auto [result, error] = ask(daemon.path(), 50);
  uint64_t took_ns = flc_now_ns() - begin_ns;
  EXPECT_EQ(result, nullptr);
  EXPECT_NE(error.find("in time"), std::string::npos) << error;
  EXPECT_GE(took_ns, 50000000U);
  EXPECT_LT(took_ns, 1000000000U);
}

TEST(Query, CancelIsHeard) {
  FakeDaemon daemon({});
  auto [result, error] = ask(daemon.path(), 60000, [] { return true; });
  EXPECT_EQ(result, nullptr);
  EXPECT_EQ(error, "cancelled");
}

TEST(Command, OkAndRefused) {
  fl_command command{};
  command.code = FL_COMMAND_PING;
  char error[256] = "";
  {
    FakeDaemon daemon({.answers = {end_packet(0, "")}});
    EXPECT_TRUE(flc_command(daemon.path().c_str(), &command, 1000, error, sizeof(error))) << error;
  }
  {
    FakeDaemon daemon({.answers = {end_packet(EACCES, "root only")}});
    EXPECT_FALSE(flc_command(daemon.path().c_str(), &command, 1000, error, sizeof(error)));
    EXPECT_STREQ(error, "flushlightd: root only");
  }
  EXPECT_FALSE(flc_command("", &command, 1000, error, sizeof(error)));
}

}  // namespace
}  // namespace flushlight::test
