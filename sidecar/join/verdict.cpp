// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/join/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace flushlight {
namespace {

constexpr const char *kCauseNames[] = {
#define FL_X(ENUM, name, help) #name,
    FL_CAUSES(FL_X)
#undef FL_X
};
constexpr const char *kPathNames[] = {
#define FL_X(ENUM, name, help) #name,
    FL_PATHS(FL_X)
#undef FL_X
};

// Words for each cause. Where a path matters (somebody worked for it), `by_path` says that it is to be named.
struct CauseWords {
  int cause;
  const char *words;
  bool by_path;
};
constexpr CauseWords kCauseWords[] = {
    {FL_CAUSE_ONCPU, "ran on a CPU", false},
    {FL_CAUSE_FLUSH, "waited for the device's cache flush", true},
    {FL_CAUSE_WRITE, "waited for a write at the device", true},
    {FL_CAUSE_READ, "waited for a read at the device", true},
    {FL_CAUSE_QUEUE, "waited for a request that the kernel had not yet issued to the device", true},
    {FL_CAUSE_THROTTLE, "was held back by a cgroup I/O limit or dirty-page throttling, not by the device", true},
    {FL_CAUSE_CPU, "was ready to run but waited for a CPU, not for storage", false},
    {FL_CAUSE_REPLICATION, "waited for a replica, not for local storage", false},
    {FL_CAUSE_LOCK, "waited for a thread that was itself running (a lock holder or a group's leader), not for storage",
     false},
    {FL_CAUSE_IDLE, "waited for the client", false},
    {FL_CAUSE_OTHER, "was spent in waits that could not be explained", false},
};
static_assert(std::size(kCauseWords) == FL_CAUSE_COUNT);

constexpr const char *kPathWords[] = {
    "its own thread did the work",
    "the file system's journal did the work",
    "another session's or a background thread's sync did the work",
};
static_assert(std::size(kPathWords) == FL_PATH_COUNT);

constexpr const char *kPathOwners[] = {
    "its own thread",
    "the file system's journal",
    "other threads' syncs",
};
static_assert(std::size(kPathOwners) == FL_PATH_COUNT);

// Below this share no single path "did the work": the shares are given instead.
constexpr double kClearShare = 0.7;
constexpr double kPartShare = 0.05;  // smaller parts are not given
// A second cause is worth a word from this share of the commit on.
constexpr double kSecondShare = 0.2;

double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

int largest(std::span<const uint64_t> values) {
  return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

std::string path_part(std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns) {
  const auto paths = vector_ns.subspan<FL_CAUSE_COUNT>();
  uint64_t total = 0;
  for (const uint64_t value : paths) total += value;
  const int top = largest(paths);
  if (total == 0) return "";
  if (static_cast<double>(paths[top]) >= kClearShare * static_cast<double>(total))
    return fmt::format("; {}", kPathWords[top]);
  std::string parts;
  for (int path = 0; path < FL_PATH_COUNT; path++)
    if (static_cast<double>(paths[path]) >= kPartShare * static_cast<double>(total))
      parts += fmt::format("{}{:.1f} ms by {}", parts.empty() ? "" : ", ", ms(paths[path]), kPathOwners[path]);
  return "; the work was done for " + parts;
}

}  // namespace

const char *cause_name(int cause) { return cause >= 0 && cause < FL_CAUSE_COUNT ? kCauseNames[cause] : nullptr; }
const char *path_name(int path) { return path >= 0 && path < FL_PATH_COUNT ? kPathNames[path] : nullptr; }

int largest_cause(std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns) {
  return largest(vector_ns.first<FL_CAUSE_COUNT>());
}
int largest_path(std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns) {
  return largest(vector_ns.subspan<FL_CAUSE_COUNT>());
}

std::string verdict(uint64_t duration_ns, std::span<const uint64_t, FL_VECTOR_COUNT> vector_ns, bool accounted) {
  if (!accounted) return fmt::format("{:.1f} ms: what it waited for was not observed (see health)", ms(duration_ns));
  const int top = largest_cause(vector_ns);
  const CauseWords &words = kCauseWords[top];
  std::string sentence = fmt::format("{:.1f} of {:.1f} ms: {}", ms(vector_ns[top]), ms(duration_ns), words.words);
  if (words.by_path) sentence += path_part(vector_ns);

  std::array<uint64_t, FL_CAUSE_COUNT> others{};
  std::copy_n(vector_ns.begin(), FL_CAUSE_COUNT, others.begin());
  others[top] = 0;
  const int second = largest(others);
  if (others[second] > 0 && static_cast<double>(others[second]) >= kSecondShare * static_cast<double>(duration_ns))
    sentence += fmt::format("; another {:.1f} ms it {}", ms(others[second]), kCauseWords[second].words);
  return sentence;
}

}  // namespace flushlight
