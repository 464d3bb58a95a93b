// SPDX-License-Identifier: GPL-2.0-or-later
#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sidecar/base/config_settings.h"

namespace flushlight {
namespace {

// A value as the text that the settings table reads; nothing for types that no setting has.
std::optional<std::string> value_text(const toml::node &node) {
  if (const auto text = node.value<std::string>(); node.is_string()) return text;
  if (const auto *number = node.as_integer()) {
    const bool octal = (node.as_integer()->flags() & toml::value_flags::format_as_octal) != toml::value_flags::none;
    return octal ? fmt::format("0o{:o}", number->get()) : fmt::to_string(number->get());
  }
  if (const auto *number = node.as_floating_point()) return fmt::to_string(number->get());
  if (const auto *boolean = node.as_boolean()) return boolean->get() ? "on" : "off";
  const auto *list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::string joined;
  for (const toml::node &element : *list) {
    const auto text = element.is_array() ? std::nullopt : value_text(element);
    if (!text) return std::nullopt;
    joined += (joined.empty() ? "" : ",") + *text;
  }
  return joined;
}

struct Place {
  const std::string &path;
  [[nodiscard]] Error error(const toml::source_region &source, std::string_view text) const {
    return Error{EINVAL, fmt::format("{}:{}: {}", path, source.begin.line, text)};
  }
};

Result<> read_section(const std::string &section, const toml::table &table, const Place &place, Config *config) {
  for (const auto &[name, node] : table) {
    const std::string key = section + "." + std::string(name.str());
    const Setting *setting = find_setting(key);
    if (setting == nullptr) return place.error(name.source(), "there is no setting " + key);
    const auto text = value_text(node);
    if (!text) return place.error(node.source(), key + ": a value of this type makes no sense here");
    if (auto result = setting->set(*text, config); !result)
      return place.error(node.source(), key + ": " + result.error().text);
  }
  return Ok{};
}

}  // namespace

Result<> read_config_text(const std::string &text, const std::string &path, Config *config) {
  const Place place{path};
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) return place.error(parsed.error().source(), parsed.error().description());
  for (const auto &[name, node] : parsed.table()) {
    const auto *section = node.as_table();
    if (section == nullptr)
      return place.error(name.source(), fmt::format("'{}' stands outside a [section]", name.str()));
    if (auto result = read_section(std::string(name.str()), *section, place, config); !result) return result;
  }
  return Ok{};
}

Result<> read_config_file(const std::string &path, Config *config) {
  if (std::filesystem::is_directory(path)) return system_error(EISDIR, "reading the configuration " + path);
  std::ifstream file(path);
  if (!file) return system_error(errno, "opening the configuration " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return read_config_text(text.str(), path, config);
}

}  // namespace flushlight
