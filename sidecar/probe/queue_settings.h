// SPDX-License-Identifier: GPL-2.0-or-later
// The settings of a block queue that --matrix tries. Root's command line only: the daemon never links this.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/result.h"

namespace flushlight::probe {

struct QueueSettings {
  std::string scheduler;
  int64_t nr_requests = 0;
  int64_t nomerges = 0;
  bool operator==(const QueueSettings &) const = default;
};
std::string text_of(const QueueSettings &settings);
// What may come from a state file: names and numbers that are such, nothing else reaches sysfs.
bool is_device_name(std::string_view name);
bool is_sane(const QueueSettings &settings);

class Queue {
 public:
  // An error where there is no such device or its queue has no such settings.
  static Result<Queue> open(const std::string &name, const std::string &sys = "/sys");

  [[nodiscard]] Result<QueueSettings> read() const;
  // All three, verified; an error says what the kernel took instead.
  [[nodiscard]] Result<> apply(const QueueSettings &settings) const;
  [[nodiscard]] std::vector<std::string> schedulers() const;
  [[nodiscard]] const std::string &name() const { return name_; }
  [[nodiscard]] std::string number() const;  // "7:0"

 private:
  Queue(std::string name, std::string folder) : name_(std::move(name)), folder_(std::move(folder)) {}
  [[nodiscard]] Result<> write(const char *file, const std::string &value) const;

  std::string name_, folder_;
};

// The present settings first, then every other combination. Sizes beyond the tag depth promise what the device does not
// have: older kernels show them and clamp, newer ones refuse. Tag depth unknown: the present size only.
std::vector<QueueSettings> combinations(const QueueSettings &now, const std::vector<std::string> &schedulers,
                                        std::optional<int64_t> tag_depth);

}  // namespace flushlight::probe
