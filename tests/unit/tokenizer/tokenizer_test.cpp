// SPDX-License-Identifier: GPL-2.0-or-later
// flc_normalize, case by case.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine_client/tokenizer_keywords.h"
#include "tests/unit/tokenizer/tokenizer_fixture.h"

namespace flushlight {
namespace {

struct Case {
  std::string query;
  std::string text;
};

void check(const std::vector<Case> &cases, const flc_tokenizer_options &options) {
  for (const Case &c : cases) {
    const Normalized once = normalize(c.query, options);
    EXPECT_EQ(once.text, c.text) << "query: " << c.query;
    EXPECT_NE(once.digest, 0u);
    EXPECT_FALSE(once.truncated);
    const Normalized twice = normalize(once.text, options);
    EXPECT_EQ(twice.text, once.text) << "query: " << c.query;
    EXPECT_EQ(twice.digest, once.digest) << "query: " << c.query;
  }
}

TEST(Tokenizer, Basics) {
  check({{"select 1", "SELECT ?"},
         {"", ""},
         {"  \n\t ", ""},
         {"select 1;", "SELECT ?"},
         {"select 1 ; ; select 2;", "SELECT ?; SELECT ?"},
         {"select 1, 2; select 3", "SELECT ?, ...; SELECT ?"},
         {"Select  A.b ,\n c.*  from   T  where x=5 and y  >= 7", "SELECT A.b, c.* FROM T WHERE x = ? AND y >= ?"},
         {"select count(*) from `my table` t", "SELECT COUNT(*) FROM `my table` t"},
         {"insert into t(a,b) values(1,2)", "INSERT INTO t(a, b) VALUES (...)"},
         {"insert into t (a, b) VALUES (1, now())", "INSERT INTO t(a, b) VALUES (?, NOW())"},
         {"update t set a=a+1,b=-3 where id=7", "UPDATE t SET a = a + ?, b = ? WHERE id = ?"},
         {"commit", "COMMIT"},
         {"set @x := 5, @@session.y = 'on'", "SET @x := ?, @@session.y = ?"},
         {"select a->'$.b', c->>'$.d' from t", "SELECT a -> ?, c ->> ? FROM t"},
         {"select !a, ~b, a<=>null, c<>d, x||y", "SELECT ! a, ~ b, a <=> ?, c <> d, x || y"},
         {"select 1 limit 5 , 10", "SELECT ? LIMIT ?, ..."},
         {"select interval 1 day", "SELECT INTERVAL ? day"}},
        kMariaDb);
}

TEST(Tokenizer, Strings) {
  check({{"select 'a', 'it''s', 'b\\'c', \"d\\\"e\", \"f\"\"g\"", "SELECT ?, ..."},
         {"select 'a' 'b'  'c'", "SELECT ?"},
         {"select N'a', x'4D', X'4d', b'01', _utf8'abc', _utf8mb4 'abc', _binary x'00', _latin1 0x41", "SELECT ?, ..."},
         {"select _x from t where _y = 'a'", "SELECT _x FROM t WHERE _y = ?"},
         {"select date'2026-01-01', timestamp '2026-01-01 00:00:00', time \"1:2\"", "SELECT ?, ..."},
         {"select date(a), date from t", "SELECT DATE(a), DATE FROM t"},
         {"select 'abc\\", "SELECT ?"},
         {"select 'abc", "SELECT ?"},
         {"select \"abc from t where x = 'y'", "SELECT ?"},
         {"select `abc from t where x = 'y'", "SELECT ?"},
         {"select `a``b`, `c\\`", "SELECT `a``b`, `c\\`"}},
        kMariaDb);
  check({{"select 'C:\\', a, 'x'", "SELECT ?, a, ?"}}, kMariaDbNoBackslash);
  check({{"select \"a\" from \"t\" where x = 'y' # it's", "SELECT \"a\" FROM \"t\" WHERE x = ?"}}, kMariaDbAnsiQuotes);
}

TEST(Tokenizer, Numbers) {
  check({{"select 1, 1.5, .5, 1., 1e5, 1E-5, 1.5e+10, 0x1F, 0b101, 007", "SELECT ?, ..."},
         {"select -1, +2, - 3, -1.5e-3", "SELECT ?, ..."},
         {"select a-1, a - 1, a -1", "SELECT a - ?, a - ?, a - ?"},
         {"select (a)-1, 5-1, 'x'-1, `a`-1", "SELECT (a) - ?, ... - ?, ... - ?, `a` - ?"},
         {"select case when a then -1 else +1 end - 2", "SELECT CASE WHEN a THEN ? ELSE ? END - ?"},
         {"select - a, -(1), - - 1", "SELECT - a, - (?), ?"},
         {"select 5--1", "SELECT ? - ?"},
         {"select 12abc, 1_000_000", "SELECT ?, ..."},
         {"select t1.c2, t.1x from t1", "SELECT t1.c2, t ? FROM t1"}},
        kMariaDb);
}

TEST(Tokenizer, Comments) {
  check({{"/* x */ select /* 'y' */ 1 -- it's\n from t # don't\n where a = 1", "SELECT ? FROM t WHERE a = ?"},
         {"select 1 --", "SELECT ?"},
         {"select 1 -- ", "SELECT ?"},
         {"select 1 /* open", "SELECT ?"},
         {"select 1 /* a /* b */ + 2", "SELECT ? + ?"},
         {"select /*! straight_join */ 1", "SELECT STRAIGHT_JOIN ?"},
         {"select /*!50000 a, */ /*M!100100 'x', */ 1", "SELECT a, ?, ..."},
         {"select /*!99999 'a */ b' */ from secret", "SELECT ?"},
         {"select /*!99999 it's */ from t where x = 'secret'", "SELECT it ?"},
         {"select a*/b", "SELECT a * / b"},
         {"select 1/**/+/**/2", "SELECT ? + ?"}},
        kMariaDb);
}

// Where a comment ends decides what is a string: each of these showed SECRET once.
TEST(Tokenizer, CommentsThatEndElsewhere) {
  check({{"/*!99999 -- */ select 'a\nSECRET b'", "?"},
         {"/*!99999 # */ select 'a\nSECRET b'", "?"},
         {"/*!50000 select 1 -- x\n */ + 'SECRET'", "SELECT ? + ?"},
         {"select 1 --\x7f it's\n, 'SECRET b'", "SELECT ?, ..."}},
        kMariaDb);
  check({{"comment on table t is -- x\r'a\nSECRET b'", "comment ON TABLE t IS ?"}}, kPostgreSql);
}

// By PostgreSQL's rules a string goes on on a further line, and hexadecimal and bit strings know no escapes.
TEST(Tokenizer, StringsThatEndElsewhere) {
  check({{"select E'a'\n'b\\'SECRET c'", "SELECT ?"},
         {"select e'a' -- it's\n  'b\\'SECRET c', 1", "SELECT ?, ..."},
         {"select E'a' 'b\\' + c", "SELECT ? + c"},
         {"select 'a'\n'b\\' || 'SECRET'", "SELECT ? || ?"}},
        kPostgreSql);
  constexpr flc_tokenizer_options kEscapes{.ansi_strings = true, .no_backslash_escapes = false, .ansi_quotes = false};
  check({{"alter table t alter c set default b'\\' || 'SECRET'", "ALTER TABLE t ALTER c SET DEFAULT ? || ?"},
         {"select n'a\\' SECRET'", "SELECT ?"}},
        kEscapes);
}

TEST(Tokenizer, Lists) {
  check({{"select * from t where a in (1)", "SELECT * FROM t WHERE a IN (?)"},
         {"select * from t where a in (1,2)", "SELECT * FROM t WHERE a IN (...)"},
         {"select * from t where a in ( 'x' , -3, null, ?, 0x10 )", "SELECT * FROM t WHERE a IN (...)"},
         {"select * from t where a in (1, b)", "SELECT * FROM t WHERE a IN (?, b)"},
         {"select * from t where a in (b, 1, 2)", "SELECT * FROM t WHERE a IN (b, ?, ...)"},
         {"select * from t where a in (1, 2, b)", "SELECT * FROM t WHERE a IN (?, ..., b)"},
         {"select * from t where (a,b) in ((1,2),(3,4))", "SELECT * FROM t WHERE (a, b) IN ((...))"},
         {"insert into t values (1),(2),(3)", "INSERT INTO t VALUES (?)"},
         {"insert into t values (1,'a'), (2,'b') , (3,null)", "INSERT INTO t VALUES (...)"},
         {"insert into t values (1,now(),-2),(2,now(),3)", "INSERT INTO t VALUES (?, NOW(), ?)"},
         {"insert into t values (1,now()),(2,default)", "INSERT INTO t VALUES (?, NOW()), (?, DEFAULT)"},
         {"insert into t values (1,2),(3,4) on duplicate key update a=values(a), b=values(b)",
          "INSERT INTO t VALUES (...) ON DUPLICATE KEY UPDATE a = VALUES (a), b = VALUES (b)"},
         {"insert into t values ((1+2)),((3+4))", "INSERT INTO t VALUES ((? + ?))"},
         {"insert into t values (1,2),(3,4) returning id", "INSERT INTO t VALUES (...) RETURNING id"},
         {"insert into t values (1,2),(3,", "INSERT INTO t VALUES (...), (?,"},
         {"insert into t values (1,2),", "INSERT INTO t VALUES (...),"}},
        kMariaDb);
}

TEST(Tokenizer, NullAsLiteralOnlyWhereItIsAValue) {
  check({{"update t set a = null where b is null and c is not null",
          "UPDATE t SET a = ? WHERE b IS NULL AND c IS NOT NULL"},
         {"create table t (a int not null, b int null, c int default null)",
          "CREATE TABLE t(a INT NOT NULL, b INT NULL, c INT DEFAULT ?)"},
         {"select null, true, false", "SELECT ?, TRUE, FALSE"},
         {"alter table t add foreign key (a) references u(a) on delete set null",
          "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u(a) ON DELETE SET NULL"}},
        kMariaDb);
}

TEST(Tokenizer, Parameters) {
  check({{"select ? , a = :name, :1", "SELECT ?, a = ?, ..."}}, kMariaDb);
  check({{"select $1, a = :name, b::int, c[1:2], d ? 'k', e ?| array['x']",
          "SELECT ?, a = ?, b::int, c[? : ?], d ?, e ?| array[?]"}},
        kPostgreSql);
}

TEST(Tokenizer, Credentials) {
  check({{"create user u@localhost identified by 'secret'", "CREATE USER u@localhost IDENTIFIED BY ?"},
         {"create user 'u'@'%' identified by password '*ABC'", "CREATE USER ?@? IDENTIFIED BY PASSWORD ?"},
         {"create user u identified by secret", "CREATE USER u IDENTIFIED BY ?"},
         {"create user u identified by `secret`", "CREATE USER u IDENTIFIED BY ?"},
         {"create user u identified by select", "CREATE USER u IDENTIFIED BY ?"},
         {"alter user u identified via ed25519 using secret", "ALTER USER u IDENTIFIED via ed25519 USING ?"},
         {"grant all on *.* to u identified by secret with grant option",
          "GRANT ALL ON *.* TO u IDENTIFIED BY ? WITH GRANT OPTION"},
         {"set password = secret", "SET PASSWORD = ?"},
         {"set password for u@h = secret", "SET PASSWORD FOR u@h = ?"},
         {"set password for u@h = password(secret)", "SET PASSWORD FOR u@h = PASSWORD (?)"},
         {"change master to master_user=repl, master_password=secret, master_port=3306",
          "CHANGE MASTER TO master_user = repl, master_password = ?, master_port = ?"},
         {"select password from users where id = 5 and password is null",
          "SELECT PASSWORD FROM users WHERE id = ? AND PASSWORD IS NULL"}},
        kMariaDb);
  check({{"create user \"u\" identified by \"secret\"", "CREATE USER \"u\" IDENTIFIED BY ?"}}, kMariaDbAnsiQuotes);
  check({{"create role r login password 'secret' valid until '2030-01-01'",
          "CREATE ROLE r login PASSWORD ? valid UNTIL ?"},
         {"alter role r encrypted password secret", "ALTER ROLE r ENCRYPTED PASSWORD ?"}},
        kPostgreSql);
}

TEST(Tokenizer, PostgreSql) {
  check({{"select \"a b\", 'C:\\', 'd', E'it\\'s', e'x', U&'d\\0061t', U&\"d\\0061t\"",
          "SELECT \"a b\", ?, ..., U&\"d\\0061t\""},
         {"do $$ begin raise 'x'; end $$", "DO ?"},
         {"do $tag$ $$ 'x' $tag$ language plpgsql", "DO ? language plpgsql"},
         {"do $tag$ never ends $$ 'x'", "DO ?"},
         {"select a$1, $1, $12", "SELECT a$1, ?, ..."},
         {"select 1 /* a /* b */ 'c' */ + 2", "SELECT ? + ?"},
         {"select 1--x\n+2", "SELECT ? + ?"},
         {"select a @> b, c #>> '{x}', d <-> e, f !~~ 'x', -1, g-1",
          "SELECT a @> b, c #>> ?, d <-> e, f !~~ ?, ..., g - ?"},
         {"select a=-1, b@-1", "SELECT a = ?, b @- ?"},
         {"prepare transaction 'secret'", "PREPARE TRANSACTION ?"},
         {"comment on table t is 'secret'", "comment ON TABLE t IS ?"},
         {"call p(1, 'x', a)", "CALL p(?, ..., a)"},
         {"copy t from stdin", "COPY t FROM stdin"}},
        kPostgreSql);
}

TEST(Tokenizer, EqualDigests) {
  const std::vector<std::vector<std::string>> groups = {
      {"select * from t where a=1", "SELECT  *\nFROM t WHERE a = 'x'", "select * from t where a = -5 -- c",
       "/* c */ select * from t where a=?;", "select * from t where a = NULL"},
      {"insert into t values (1,2)", "insert into t values (?,?)", "insert into t values (1,2),(3,4),('x',NULL)",
       "INSERT INTO t VALUES(_binary'a',TIMESTAMP'2020-01-01')"},
      {"delete from t where a in (1,2,3)", "DELETE FROM t WHERE a IN ('x','y')"},
  };
  for (const auto &group : groups) {
    for (const std::string &query : group) {
      EXPECT_EQ(mariadb(query).digest, mariadb(group[0]).digest) << query;
      EXPECT_EQ(mariadb(query).text, mariadb(group[0]).text) << query;
    }
  }
  EXPECT_NE(mariadb("select a from t").digest, mariadb("select b from t").digest);
  EXPECT_NE(mariadb("select ab from t").digest, mariadb("select a b from t").digest);
  EXPECT_NE(mariadb("insert into t values (1,a),(2,b)").digest, mariadb("insert into t values (1,a)").digest);
}

TEST(Tokenizer, CutTextKeepsTheWholeDigest) {
  const std::string query = "select aaaa, b\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 from t where c in (1, 2, 3) and dddd = 4";
  const Normalized whole = mariadb(query);
  for (size_t capacity = 0; capacity <= whole.text.size() + 3; capacity++) {
    const Normalized cut = normalize(query, kMariaDb, capacity);
    EXPECT_EQ(cut.digest, whole.digest);
    EXPECT_EQ(cut.truncated, capacity < whole.text.size()) << capacity;
    EXPECT_LE(cut.text.size(), capacity);
    EXPECT_EQ(cut.text, whole.text.substr(0, cut.text.size()));
    if (cut.text.size() < whole.text.size()) {
      EXPECT_NE(static_cast<unsigned char>(whole.text[cut.text.size()]) & 0xc0, 0x80) << "inside a character";
      EXPECT_GE(cut.text.size() + 2, capacity);
    }
  }
}

// What was written beyond the capacity and taken back again does not count as cut.
TEST(Tokenizer, RowsTakenBackAreNotACut) {
  std::string query = "insert into t values (a, b)";
  for (int i = 0; i < 100; i++) query += ", (a, b)";
  const Normalized result = normalize(query, kMariaDb, 32);
  EXPECT_EQ(result.text, "INSERT INTO t VALUES (a, b)");
  EXPECT_FALSE(result.truncated);
}

TEST(Tokenizer, EveryKeywordIsFound) {
  unsigned count = 0;
  for (const keyword_bucket &bucket : keyword_buckets) {
    for (unsigned i = 0; i < bucket.count; i++) {
      const keyword &k = bucket.keywords[i];
      std::string lower(k.text, k.length);
      for (char &c : lower) c = static_cast<char>(tolower(c));
      EXPECT_EQ(mariadb("x " + lower).text, "x " + std::string(k.text, k.length));
      count++;
    }
  }
  EXPECT_GT(count, 200u);
}

}  // namespace
}  // namespace flushlight
