// SPDX-License-Identifier: GPL-2.0-or-later
// Rings: good records, wandering sessions, and everything that a hostile process could write.
#include <random>

#include "fixture.h"

namespace flushlight::test {
namespace {

using IntakeTest = DaemonTest;

TEST_F(IntakeTest, RecordsWrapAroundTheEnd) {
  start();
  RawClient client = attached("one");
  RawRing ring = client.ring(0);
  ring.write(session_record(1, "user", "db"));
  for (int i = 0; i < 2000; i++) {  // more than ten times the ring
    ring.write(bytes(commit(1, 5, 1)));
    ring.write(text_record(5, std::string(static_cast<size_t>(i % 900), 'x')));
    if (i % 10 == 0) {
      clock_.advance_ms(20);
      daemon_->step(0);
    }
  }
  const Table rows = rows_of("statements", "one");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("commits").integer, 2000);
  EXPECT_EQ(daemon_->intake().instance("one")->bad_records, 0u);
  EXPECT_EQ(daemon_->intake().instance("one")->orphans, 0u);
}

TEST_F(IntakeTest, ASessionIntroducedInAnotherRingIsKnown) {
  start();
  RawClient client = attached("one", 2, FL_ENGINE_MARIADB);
  client.ring(1).write(session_record(9, "wanderer", "db"));  // ring 0 is read first
  client.ring(1).write(text_record(5, "INSERT ?"));
  client.ring(0).write(bytes(statement(9, 5, 2)));
  const Table rows = rows_of("statements", "one");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("user_name").text, "wanderer");
  EXPECT_EQ(rows[0].at("query").text, "INSERT ?");
  EXPECT_EQ(daemon_->intake().instance("one")->orphans, 0u);
}

TEST_F(IntakeTest, EndedSessionsAreForgottenAfterTheirLastRecord) {
  start();
  RawClient client = attached("one", 2, FL_ENGINE_MARIADB);
  client.ring(0).write(session_record(9, "user", "db"));
  client.ring(0).write(session_end_record(9));
  client.ring(1).write(bytes(statement(9, 5, 2)));
  rows_of("health");
  client.ring(1).write(bytes(statement(9, 5, 2)));  // was on its way
  rows_of("health");
  EXPECT_EQ(daemon_->intake().leases().front()->session_count(), 0u);
  for (const auto &row : rows_of("statements", "one")) EXPECT_EQ(row.at("user_name").text, "user");
}

TEST_F(IntakeTest, RecordsOfUnknownSessionsCountAsOrphans) {
  start();
  RawClient client = attached("one");
  client.ring(0).write(bytes(commit(4, 5, 1)));
  const Table rows = rows_of("statements", "one");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("user_name").type, FL_CELL_NULL);
  EXPECT_EQ(daemon_->intake().instance("one")->orphans, 1u);
}

TEST_F(IntakeTest, WildHeads) {
  start();
  RawClient client = attached("one");
  RawRing ring = client.ring(0);
  for (const uint64_t head :
       {uint64_t{1} << 40, UINT64_MAX, uint64_t{7}, uint64_t{client.welcome().ring_data_bytes + 8}, UINT64_MAX - 7}) {
    ring.head()->head = head;
    rows_of("health");
  }
  EXPECT_GT(daemon_->intake().instance("one")->bad_records, 0u);
  // A producer that starts well again is heard again.
  ring.head()->head = ring.head()->tail;
  ring.write(bytes(commit(1, 5, 1)));
  EXPECT_EQ(rows_of("statements", "one").size(), 1u);
}

TEST_F(IntakeTest, WildCountersAreNotBelieved) {
  start();
  RawClient client = attached("one");
  client.ring(0).head()->commits_seen = UINT64_MAX / 2;
  client.ring(0).head()->dropped = 3;
  rows_of("health");
  EXPECT_EQ(daemon_->intake().instance("one")->commits_seen, 0u);
  EXPECT_EQ(daemon_->intake().instance("one")->dropped, 3u);
  EXPECT_EQ(daemon_->intake().instance("one")->bad_records, 1u);
}

TEST_F(IntakeTest, BadRecordsAreCountedAndLeftOut) {
  start();
  RawClient client = attached("one");
  RawRing ring = client.ring(0);
  uint64_t bad = 0;
  const auto expect_bad = [&](const std::string &record, const char *what) {
    ring.write(record);
    rows_of("health");
    EXPECT_EQ(daemon_->intake().instance("one")->bad_records, ++bad) << what;
  };
  auto commit_record = commit(1, 5, 1);
  commit_record.kind = 7;
  expect_bad(bytes(commit_record), "kind");
  commit_record = commit(1, 5, 1);
  commit_record.begin_ns = UINT64_MAX - 5;
  expect_bad(bytes(commit_record), "future");
  commit_record = commit(1, 5, 1);
  commit_record.duration_ns = UINT64_MAX;
  expect_bad(bytes(commit_record), "duration");
  fl_record_session session{};
  session.user_length = 60000;
  expect_bad(make_record(FL_RECORD_SESSION, session), "string length");
  session.user_length = 100;
  expect_bad(make_record(FL_RECORD_SESSION, session), "string beyond the record");
  fl_record_text text{};
  text.text_length = 500;
  expect_bad(make_record(FL_RECORD_TEXT, text), "text beyond the record");
  fl_record_header short_one{8, FL_RECORD_COMMIT, 1};
  expect_bad(std::string(reinterpret_cast<const char *>(&short_one), 8), "too short for its type");
  fl_record_header no_length{0, FL_RECORD_COMMIT, 1};
  expect_bad(std::string(reinterpret_cast<const char *>(&no_length), 8), "no length");
  fl_record_header too_long{8192, FL_RECORD_COMMIT, 1};
  expect_bad(std::string(reinterpret_cast<const char *>(&too_long), 8), "longer than what is there");
  EXPECT_TRUE(rows_of("statements", "one").empty());
  ring.write(bytes(commit(1, 5, 1)));
  EXPECT_EQ(rows_of("statements", "one").size(), 1u);
}

TEST_F(IntakeTest, UnknownTypesOfANewerClientAreSkippedAndCounted) {
  start();
  RawClient client = attached("one");
  const fl_record_header future{8, 99, 7};
  client.ring(0).write(std::string(reinterpret_cast<const char *>(&future), 8));
  client.ring(0).write(bytes(commit(1, 5, 1)));
  EXPECT_EQ(rows_of("statements", "one").size(), 1u);
  EXPECT_EQ(daemon_->intake().instance("one")->unknown_records, 1u);
}

TEST_F(IntakeTest, ImplausibleAccountsAreNotObserved) {
  start();
  RawClient client = attached("one");
  auto record = commit(1, 5, 10);
  record.vector_ns[FL_CAUSE_READ] = UINT64_MAX - 3;
  client.ring(0).write(bytes(record));
  const Table rows = rows_of("statements", "one");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("flush_ms").type, FL_CELL_NULL);
  EXPECT_EQ(rows[0].at("coverage").real, 0);
  EXPECT_EQ(daemon_->intake().instance("one")->implausible, 1u);
}

TEST_F(IntakeTest, RandomBytesInTheRing) {
  start();
  RawClient client = attached("one", 2);
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; round++) {
    RawRing ring = client.ring(static_cast<uint32_t>(round % 2));
    std::string noise(random() % 4096 / 8 * 8 + 8, '\0');
    for (char &byte : noise) byte = static_cast<char>(random());
    if (round % 3 == 0) {  // a good head, so that the fields themselves are tried
      const fl_record_header header{static_cast<fl_u32>(noise.size()), static_cast<fl_u16>(random() % 6), 1};
      std::memcpy(noise.data(), &header, sizeof header);
    }
    if (ring.free_bytes() >= noise.size()) ring.write_raw(noise);
    clock_.advance_ms(20);
    daemon_->step(0);
  }
  for (const CatalogView &view : catalog_views()) rows_of(view.name);
  EXPECT_GT(daemon_->intake().instance("one")->bad_records, 0u);
}

TEST_F(IntakeTest, SessionsOfAHostileClientAreBounded) {
  start();
  RawClient client = attached("one");
  RawRing ring = client.ring(0);
  for (uint64_t i = 0; i < 60'000; i++) {
    ring.write(session_record(i + 1, "u", "d"));
    if (i % 200 == 0) {
      clock_.advance_ms(20);
      daemon_->step(0);
    }
  }
  EXPECT_LE(daemon_->intake().leases().front()->session_count(), 20'000u);
}

TEST_F(IntakeTest, PaceFollowsTheLoad) {
  start();
  RawClient client = attached("one");
  for (int i = 0; i < 20; i++) {
    clock_.advance_ms(20);
    daemon_->step(0);
  }
  EXPECT_EQ(daemon_->intake().interval_ns(), 10'000'000u);
  for (int i = 0; i < 120; i++) client.ring(0).write(bytes(commit(1, 5, 1)));
  clock_.advance_ms(20);
  daemon_->step(0);
  EXPECT_LE(daemon_->intake().interval_ns(), 5'000'000u);
}

}  // namespace
}  // namespace flushlight::test
