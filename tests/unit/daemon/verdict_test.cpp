// SPDX-License-Identifier: GPL-2.0-or-later
// The sentence for a DBA.
#include "sidecar/join/verdict.h"

#include <gtest/gtest.h>

#include <array>

namespace flushlight::test {
namespace {

using Vector = std::array<uint64_t, FL_VECTOR_COUNT>;
constexpr double kMs = 1e6;

Vector vector_of(std::initializer_list<std::pair<int, double>> parts_ms) {
  Vector vector{};
  for (const auto &[index, ms] : parts_ms) vector[index] = static_cast<uint64_t>(ms * kMs);
  return vector;
}
uint64_t ns(double ms) { return static_cast<uint64_t>(ms * kMs); }

TEST(Verdict, FlushOfTheJournal) {
  const auto vector = vector_of({{FL_CAUSE_FLUSH, 50.2}, {FL_CAUSE_CPU, 0.8}, {FL_VECTOR_PATH(FL_PATH_JOURNAL), 50.9}});
  EXPECT_EQ(verdict(ns(51), vector, true),
            "50.2 of 51.0 ms: waited for the device's cache flush; the file system's journal did the work");
}

TEST(Verdict, MixedPathsAreGivenInFigures) {
  const auto vector = vector_of({{FL_CAUSE_FLUSH, 100},
                                 {FL_VECTOR_PATH(FL_PATH_SELF), 30},
                                 {FL_VECTOR_PATH(FL_PATH_JOURNAL), 60},
                                 {FL_VECTOR_PATH(FL_PATH_PEER), 10}});
  const std::string text = verdict(ns(100), vector, true);
  EXPECT_NE(text.find("; the work was done for 30.0 ms by its own thread, 60.0 ms by the file system's journal, "
                      "10.0 ms by other threads' syncs"),
            std::string::npos)
      << text;
}

TEST(Verdict, SecondCauseIsNamedWhenItMatters) {
  const auto vector = vector_of({{FL_CAUSE_FLUSH, 30}, {FL_CAUSE_QUEUE, 15}, {FL_VECTOR_PATH(FL_PATH_SELF), 45}});
  const std::string text = verdict(ns(45), vector, true);
  EXPECT_NE(text.find("another 15.0 ms it waited for a request that the kernel had not yet issued"), std::string::npos)
      << text;
}

TEST(Verdict, StorageIsNotBlamedForOthers) {
  for (const int cause : {FL_CAUSE_CPU, FL_CAUSE_LOCK, FL_CAUSE_REPLICATION}) {
    const auto vector = vector_of({{cause, 20}, {FL_VECTOR_PATH(FL_PATH_SELF), 20}});
    const std::string text = verdict(ns(20), vector, true);
    EXPECT_NE(text.find("storage"), std::string::npos) << text;
    EXPECT_NE(text.find("not for"), std::string::npos) << text;
    EXPECT_EQ(text.find("did the work"), std::string::npos) << text;
  }
}

TEST(Verdict, UnobservedSaysSo) { EXPECT_NE(verdict(ns(20), Vector{}, false).find("not observed"), std::string::npos); }

TEST(Verdict, EveryCauseHasWords) {
  for (int cause = 0; cause < FL_CAUSE_COUNT; cause++) {
    const std::string text = verdict(ns(20), vector_of({{cause, 20}}), true);
    EXPECT_EQ(text.find("20.0 of 20.0 ms: "), 0u) << text;
    ASSERT_NE(cause_name(cause), nullptr);
  }
  EXPECT_EQ(cause_name(FL_CAUSE_COUNT), nullptr);
  EXPECT_EQ(path_name(-1), nullptr);
}

}  // namespace
}  // namespace flushlight::test
