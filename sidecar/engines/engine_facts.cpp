// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/engines/engine_facts.h"

#include <charconv>

namespace flushlight {

const EngineSetting *EngineFacts::setting(std::string_view name) const {
  const auto found = settings.find(name);
  return found != settings.end() ? &found->second : nullptr;
}

std::string EngineFacts::text(std::string_view name) const {
  const EngineSetting *found = setting(name);
  return found != nullptr ? found->value : "";
}

std::optional<double> EngineFacts::number(std::string_view name) const {
  const EngineSetting *found = setting(name);
  if (found == nullptr) return std::nullopt;
  double value = 0;
  const char *begin = found->value.data(), *end = begin + found->value.size();
  const auto parsed = std::from_chars(begin, end, value);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

std::optional<bool> EngineFacts::is_on(std::string_view name) const {
  const std::string value = text(name);
  if (value == "on" || value == "ON" || value == "1") return true;
  if (value == "off" || value == "OFF" || value == "0") return false;
  return std::nullopt;
}

std::optional<double> EngineFacts::statistic(std::string_view name) const {
  const auto found = statistics.find(name);
  return found != statistics.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<double> EngineFacts::grown(std::string_view name) const {
  const auto now = statistic(name);
  const auto before = earlier.find(name);
  if (!now || before == earlier.end() || earlier_ns >= read_ns || *now < before->second) return std::nullopt;
  return *now - before->second;
}

}  // namespace flushlight
