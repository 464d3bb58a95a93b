// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/queue_settings.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sidecar/base/unique_fd.h"
#include "sidecar/host/block_devices.h"
#include "sidecar/host/text_files.h"

namespace flushlight::probe {
namespace {

constexpr int64_t kRequestsMin = 4;  // BLKDEV_MIN_RQ
constexpr int64_t kRequestsMax = 1 << 20;
constexpr int64_t kNomergesMax = 2;
constexpr int64_t kRequestsTried[] = {32, 128, 512};
constexpr size_t kNameBytesMax = 32;

bool of_name_characters(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '!' || c == '.';
  });
}

}  // namespace

std::string text_of(const QueueSettings &settings) {
  return fmt::format("scheduler {}, nr_requests {}, nomerges {}", settings.scheduler, settings.nr_requests,
                     settings.nomerges);
}

bool is_device_name(std::string_view name) { return of_name_characters(name) && name != "." && name != ".."; }

bool is_sane(const QueueSettings &settings) {
  return of_name_characters(settings.scheduler) && settings.nr_requests >= 1 && settings.nr_requests <= kRequestsMax &&
         settings.nomerges >= 0 && settings.nomerges <= kNomergesMax;
}

Result<Queue> Queue::open(const std::string &name, const std::string &sys) {
  if (!is_device_name(name))
    return Error{EINVAL,
                 fmt::format("'{}' is not the name of a block device: give one as in /sys/block (sda, nvme0n1)", name)};
  std::error_code error;
  Queue queue(name, sys + "/block/" + name);
  if (!std::filesystem::exists(queue.folder_, error))
    return Error{ENOENT,
                 fmt::format("no disk {} in {}/block (a partition has no queue of its own: name its disk)", name, sys)};
  if (auto settings = queue.read(); !settings) return settings.error();
  return queue;
}

Result<QueueSettings> Queue::read() const {
  QueueSettings settings;
  settings.scheduler = active_choice(read_first_line(folder_ + "/queue/scheduler"));
  const auto requests = read_number(folder_ + "/queue/nr_requests");
  const auto nomerges = read_number(folder_ + "/queue/nomerges");
  if (settings.scheduler.empty() || !requests || !nomerges)
    return Error{ENOTSUP,
                 fmt::format("{} has no queue settings (it is a stacked device: name a disk below it)", name_)};
  settings.nr_requests = *requests;
  settings.nomerges = *nomerges;
  return settings;
}

Result<> Queue::write(const char *file, const std::string &value) const {
  const std::string path = folder_ + "/queue/" + file;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!fd) return system_error(errno, path);
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return system_error(errno, fmt::format("{} = {}", path, value));
  return Ok{};
}

Result<> Queue::apply(const QueueSettings &settings) const {
  const auto before = read();
  if (!before) return before.error();
  if (before->scheduler != settings.scheduler)
    if (auto done = write("scheduler", settings.scheduler); !done) return done;
  // Always and by way of another value: after a change of scheduler the file may show a number that the tags do not
  // have, and writing what it shows changes nothing.
  const int64_t other = settings.nr_requests > kRequestsMin ? settings.nr_requests - 1 : settings.nr_requests + 1;
  for (const int64_t requests : {other, settings.nr_requests})
    if (auto done = write("nr_requests", fmt::to_string(requests)); !done) return done;
  if (auto done = write("nomerges", fmt::to_string(settings.nomerges)); !done) return done;
  const auto after = read();
  if (!after) return after.error();
  if (*after == settings) return Ok{};
  return Error{EINVAL, fmt::format("{}: the kernel took {} instead of {}", name_, text_of(*after), text_of(settings))};
}

std::vector<std::string> Queue::schedulers() const {
  std::vector<std::string> names;
  const std::string line = read_first_line(folder_ + "/queue/scheduler");
  for (std::string_view word : split_words(line)) {
    if (word.starts_with('[')) word = word.substr(1, word.size() - 2);
    names.emplace_back(word);
  }
  return names;
}

std::string Queue::number() const { return read_first_line(folder_ + "/dev"); }

std::vector<QueueSettings> combinations(const QueueSettings &now, const std::vector<std::string> &schedulers,
                                        std::optional<int64_t> tag_depth) {
  std::vector<int64_t> sizes = {now.nr_requests};
  if (tag_depth && *tag_depth < now.nr_requests) sizes.clear();
  if (tag_depth) {
    for (const int64_t tried : kRequestsTried)
      if (tried <= *tag_depth) sizes.push_back(tried);
    sizes.push_back(*tag_depth);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<QueueSettings> all = {now};
  for (const std::string &scheduler : schedulers)
    for (const int64_t size : sizes)
      for (int64_t nomerges = 0; nomerges <= kNomergesMax; nomerges++)
        if (const QueueSettings tried{scheduler, size, nomerges}; tried != now) all.push_back(tried);
  return all;
}

}  // namespace flushlight::probe
