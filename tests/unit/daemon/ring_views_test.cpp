// SPDX-License-Identifier: GPL-2.0-or-later
// rings: what was not observed is NULL, and whose a ring is only some may know.
#include "fixture.h"

namespace flushlight::test {
namespace {

class RingViews : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    start(true);
    kernel::Ring ring;
    ring.owner = ring.user = 4321;
    ring.owner_name = ring.user_name = "importer";
    ring.descriptor = 5;
    ring.created = true;
    ring.counted_ns = clock_.now_ns();
    ring.flags = 0xa | 1u << 31;
    ring.sq_entries = 8;
    ring.submitted = 1000;
    ring.punts = 12;
    ring.timed = 4;
    ring.time_ns = 8'000'000;
    ring.buckets.assign(FL_HISTOGRAM_BUCKETS, 0);
    ring.buckets[fl_histogram_bucket(2'000'000)] = 4;
    ring.poller = kernel::Ring::Poller::kWaitsForCpu;
    ring.poller_tid = 4322;
    ring.poller_wait_ns = 5'000'000;
    kernel_->ring_list = {ring, kernel::Ring{}};
  }
};

TEST_F(RingViews, WhatWasNotObservedIsNull) {
  const Table rows = rows_of("rings");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("setup_flags").text, "SQPOLL, CQSIZE, bit 31");
  EXPECT_EQ(rows[0].at("submissions").integer, 1000);
  EXPECT_EQ(rows[0].at("worker_punts").integer, 12);
  EXPECT_EQ(rows[0].at("failed_submissions").type, FL_CELL_NULL) << "this kernel does not tell";
  EXPECT_DOUBLE_EQ(rows[0].at("mean_ms").real, 2);
  EXPECT_NEAR(rows[0].at("p50_ms").real, 2, 0.07);
  EXPECT_EQ(rows[0].at("sqpoll").text, "waits for a CPU");
  EXPECT_DOUBLE_EQ(rows[0].at("sqpoll_starved_ms").real, 5);
  EXPECT_EQ(rows[0].at("sqpoll_cpu").type, FL_CELL_NULL) << "bound to none";
  EXPECT_EQ(rows[0].at("created_at").type, FL_CELL_TIME);
  for (const char *name : {"process_id", "descriptor", "created_at", "mean_ms", "p99_ms", "timed_requests", "sqpoll",
                           "sqpoll_thread_id", "sqpoll_run_ms", "sqpoll_starved_ms", "cq_overflows"})
    EXPECT_EQ(rows[1].at(name).type, FL_CELL_NULL) << name;
}

TEST_F(RingViews, WhoseIsToldToThoseWhoMaySeeAll) {
  EXPECT_EQ(rows_of("rings")[0].at("process").text, "importer");
  const Table rows = rows_of("rings", "", "alice", false);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("process").text, "<insufficient privilege>");
  EXPECT_EQ(rows[0].at("used_by").text, "<insufficient privilege>");
  for (const char *name : {"process_id", "used_by_id", "descriptor", "sqpoll_thread_id"})
    EXPECT_EQ(rows[0].at(name).type, FL_CELL_NULL) << name;
  EXPECT_EQ(rows[0].at("submissions").integer, 1000);
}

}  // namespace
}  // namespace flushlight::test
