// SPDX-License-Identifier: GPL-2.0-or-later
// rig-sql --engine E --socket S [--database D] [--user U] [--json] [--lines] SQL...
// Runs statements in one session. --json prints the rows of the last one as a JSON array of objects, numbers as
// numbers and NULL as null. --lines: then every line of standard input is a statement, and its rows are a line of JSON.
// Needs no client program of any engine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sql_client.h"

namespace {

nlohmann::ordered_json value_of(const std::optional<std::string> &value, rig::ColumnType type) {
  if (!value) return nullptr;
  switch (type) {
    case rig::ColumnType::integer:
      return std::strtoll(value->c_str(), nullptr, 10);
    case rig::ColumnType::real:
      return std::strtod(value->c_str(), nullptr);
    case rig::ColumnType::text:
      break;
  }
  return *value;
}

void query(rig::Session &session, const std::string &statement, bool json) {
  std::vector<rig::Row> rows;
  const auto columns = session.query(statement.c_str(), [&](rig::Row row) { rows.push_back(std::move(row)); });
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const rig::Row &row : rows) {
    nlohmann::ordered_json object;
    for (size_t c = 0; c < columns.size(); ++c) {
      object[columns[c].name] = value_of(row[c], columns[c].type);
      if (!json) std::printf("%s%s", c ? "\t" : "", row[c] ? row[c]->c_str() : "NULL");
    }
    if (!json) std::puts("");
    all.push_back(std::move(object));
  }
  if (json) std::puts(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void run(const rig::Address &address, const std::vector<std::string> &statements, bool json, bool lines) {
  auto session = rig::connect(address);
  for (size_t i = 0; i + 1 < statements.size(); ++i) session->execute(statements[i].c_str());
  query(*session, statements.back(), json || lines);
  std::fflush(stdout);
  for (std::string line; lines && std::getline(std::cin, line);) {
    query(*session, line, true);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs SQL in a private server");
  rig::Address address{.engine = "", .socket = "", .database = "", .user = ""};
  std::vector<std::string> statements;
  bool json = false, lines = false;
  app.add_option("--engine", address.engine)->required();
  app.add_option("--socket", address.socket)->required();
  app.add_option("--database", address.database);
  app.add_option("--user", address.user);
  app.add_flag("--json", json);
  app.add_flag("--lines", lines);
  app.add_option("sql", statements)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    run(address, statements, json, lines);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "rig-sql: %s\n", error.what());
    return 1;
  }
  return 0;
}
