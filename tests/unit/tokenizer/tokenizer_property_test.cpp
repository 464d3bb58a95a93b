// SPDX-License-Identifier: GPL-2.0-or-later
// flc_normalize against thousands of generated statements: no literal survives, and what does not matter
// (white space, comments, letter case of keywords, values) does not change the digest. Seeded: a failure
// repeats.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "tests/unit/tokenizer/tokenizer_fixture.h"

namespace flushlight {
namespace {

constexpr char kMarker[] = "Zq7MARKER";  // in every literal and comment, nowhere else
constexpr char kNumber[] = "8675309";    // in every number

class Generator {
 public:
  Generator(uint32_t seed, bool postgresql) : random_(seed), postgresql_(postgresql) {}

  // One statement twice: the same tokens, with fresh literals, spaces, comments and letter case.
  std::pair<std::string, std::string> statement_pair() {
    const uint32_t shape = random_();
    return {render(shape), render(shape)};
  }

 private:
  uint32_t pick(uint32_t count) { return static_cast<uint32_t>(random_() % count); }

  std::string filling() {
    static constexpr std::array<const char *, 9> kInside = {"", "'", "\"", " it's ", "''", ";", "--", "\xc3\xa9", "?"};
    return std::string(kInside[pick(kInside.size())]) + kMarker + kInside[pick(kInside.size())];
  }

  static std::string quoted(const std::string &inside, char quote, bool backslash) {
    std::string result(1, quote);
    for (const char c : inside) {
      if (c == quote) result += backslash ? '\\' : quote;
      result += c;
    }
    return result + quote;
  }

  std::string string_literal() {
    const std::string inside = filling();
    if (postgresql_) {
      switch (pick(6)) {
        case 0:
          return "E" + quoted(inside + "\\\\", '\'', true);
        case 1:
          return "$$" + inside + "$$";
        case 2:
          return "$t1$ $$ " + inside + "$t1$";
        case 3:
          return quoted(inside + "\\", '\'', false);
        case 4:
          return "U&" + quoted(inside, '\'', false);
        default:
          return quoted(inside, '\'', false);
      }
    }
    switch (pick(6)) {
      case 0:
        return "_utf8mb4" + quoted(inside, '\'', true);
      case 1:
        return quoted(inside, '"', true);
      case 2:
        return quoted(inside, '"', false);
      case 3:
        return "n" + quoted(inside, '\'', false);
      case 4:
        return quoted(inside + "\\\\", '\'', true);
      default:
        return quoted(inside, '\'', pick(2) != 0);
    }
  }

  std::string number() {
    switch (pick(8)) {
      case 0:
        return std::string("-") + kNumber;
      case 1:
        return std::string(kNumber) + ".5e-3";
      case 2:
        return std::string(".") + kNumber;
      case 3:
        return std::string("0x") + kNumber;
      case 4:
        return std::string("+") + kNumber + "e+" + kNumber;
      case 5:
        return std::string("X'") + kNumber + "0'";
      default:
        return kNumber;
    }
  }

  std::string literal() { return pick(2) ? string_literal() : number(); }

  std::string space() {
    switch (pick(postgresql_ ? 6 : 7)) {
      case 0:
        return "\n";
      case 1:
        return " \t ";
      case 2:
        return std::string("/* it's ") + kMarker + " */";
      case 3:
        return std::string(" -- don't ") + kMarker + "\n";
      case 4:
        return postgresql_ ? std::string("/* a /* ' */ ") + kMarker + " */" : std::string("/**/");
      case 6:
        return std::string("# \" ") + kMarker + "\n";
      default:
        return " ";
    }
  }

  std::string word(const std::string &keyword) {
    std::string result = keyword;
    for (char &c : result)
      if (pick(2)) c = static_cast<char>(tolower(c));
    return space() + result + space();
  }

  std::string row(std::minstd_rand &shape) {
    static constexpr std::array<const char *, 4> kOthers = {"now()", "default", "a+", "f("};
    std::string result = "(";
    const uint32_t values = 1 + shape() % 4;
    for (uint32_t i = 0; i < values; i++) {
      if (i) result += "," + space();
      const uint32_t kind = static_cast<uint32_t>(shape() % 8);
      if (kind >= kOthers.size())
        result += literal();
      else if (kind == 2)
        result += std::string("a") + space() + "+" + space() + literal();
      else if (kind == 3)
        result += "f(" + literal() + ")";
      else
        result += kOthers[kind];
    }
    return result + space() + ")";
  }

  std::string render(uint32_t seed) {
    std::minstd_rand shape(seed);
    const std::string quote = postgresql_ ? "\"" : "`";
    const std::string table = shape() % 2 ? "tab" : quote + "my tab" + quote;
    switch (shape() % 6) {
      case 0: {
        std::string result = word("INSERT") + word("INTO") + table + word("VALUES");
        const uint32_t row_shape = static_cast<uint32_t>(shape());
        const uint32_t rows = 1 + pick(4);  // any number of equal rows
        for (uint32_t i = 0; i < rows; i++) {
          std::minstd_rand same(row_shape);
          result += (i ? "," : "") + space() + row(same) + space();
        }
        return result;
      }
      case 1:
        return word("UPDATE") + table + word("SET") + "a=" + literal() + "," + space() + "b" + space() + "=" +
               literal() + word("WHERE") + "c=" + literal();
      case 2: {
        std::string result = word("SELECT") + "*" + word("FROM") + table + word("WHERE") + "a" + word("IN") + "(";
        const uint32_t values = 2 + pick(5);
        for (uint32_t i = 0; i < values; i++) result += (i ? "," : "") + space() + literal();
        return result + ")" + word("AND") + "b" + word("IN") + "((" + literal() + "," + literal() + "))";
      }
      case 3:
        return word("CALL") + "p" + row(shape);
      case 4:
        return postgresql_ ? word("PREPARE") + word("TRANSACTION") + quoted(filling(), '\'', false)
                           : word("SET") + word("PASSWORD") + word("FOR") + "u@h =" + word(kMarker);
      default:
        return postgresql_ ? word("ALTER") + word("ROLE") + "r" + word("PASSWORD") + word(kMarker)
                           : word("CREATE") + word("USER") + "u" + word("IDENTIFIED") + word("BY") + word(kMarker);
    }
  }

  std::mt19937 random_;
  bool postgresql_;
};

bool has(const std::string &text, std::string needle) {
  std::string lower = text;
  for (char &c : lower) c = static_cast<char>(tolower(c));
  for (char &c : needle) c = static_cast<char>(tolower(c));
  return lower.find(needle) != std::string::npos;
}

class TokenizerProperty : public ::testing::TestWithParam<bool> {
 protected:
  flc_tokenizer_options options() const { return GetParam() ? kPostgreSql : kMariaDb; }
};

TEST_P(TokenizerProperty, NoLiteralSurvivesAndDigestsAreStable) {
  Generator generator(20260101, GetParam());
  for (int i = 0; i < 20000; i++) {
    const auto [first, second] = generator.statement_pair();
    const Normalized a = normalize(first, options());
    const Normalized b = normalize(second, options());
    ASSERT_FALSE(has(a.text, kMarker)) << first << "\n=> " << a.text;
    ASSERT_FALSE(has(a.text, kNumber)) << first << "\n=> " << a.text;
    ASSERT_EQ(a.text, b.text) << first << "\n" << second;
    ASSERT_EQ(a.digest, b.digest) << first << "\n" << second;
    const Normalized again = normalize(a.text, options());
    ASSERT_EQ(again.text, a.text) << first;
    ASSERT_EQ(again.digest, a.digest) << first;
  }
}

// A statement may be cut anywhere (max_allowed_packet, a dying client): what is left leaks nothing either.
TEST_P(TokenizerProperty, CutStatementsLeakNothing) {
  Generator generator(7, GetParam());
  for (int i = 0; i < 300; i++) {
    const std::string query = generator.statement_pair().first;
    for (size_t length = 0; length <= query.size(); length++) {
      const Normalized result = normalize(query.substr(0, length), options());
      ASSERT_FALSE(has(result.text, kMarker)) << query.substr(0, length) << "\n=> " << result.text;
      ASSERT_FALSE(has(result.text, kNumber)) << query.substr(0, length) << "\n=> " << result.text;
      ASSERT_NE(result.digest, 0u);
    }
  }
}

TEST_P(TokenizerProperty, RandomBytesStayInBounds) {
  static constexpr char kAlphabet[] = "'\"`$\\/*!-#?:;,.()@_aEeUuXx&0189 \n=<>+|M\xc3\xa9[]~\0";
  std::mt19937 random(42);
  for (int i = 0; i < 50000; i++) {
    std::string query(random() % 60, ' ');
    for (char &c : query) c = kAlphabet[random() % sizeof(kAlphabet)];
    const Normalized whole = normalize(query, options());
    const size_t capacity = random() % 40;
    const Normalized cut = normalize(query, options(), capacity);
    ASSERT_EQ(cut.digest, whole.digest);
    ASSERT_LE(cut.text.size(), capacity);
    ASSERT_EQ(cut.text, whole.text.substr(0, cut.text.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, TokenizerProperty, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "PostgreSql" : "MariaDb"; });

}  // namespace
}  // namespace flushlight
