// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/interrupts.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

namespace fs = std::filesystem;
constexpr size_t kTableMax = 8u << 20;  // hundreds of CPUs and thousands of queues

// "0-3,8" → 0 1 2 3 8
std::vector<int> parse_list(const std::string &list) {
  std::vector<int> numbers;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string part = list.substr(at, end - at);
    const size_t dash = part.find('-');
    const auto first = to_number(part);
    const auto last = dash == std::string::npos ? first : to_number(part.substr(dash + 1));
    for (int64_t i = first.value_or(0); first && last && i <= *last && numbers.size() < 65536; i++)
      numbers.push_back(static_cast<int>(i));
    at = end + 1;
  }
  return numbers;
}

}  // namespace

void Interrupts::read() {
  const std::string text = read_text_file(root_ + "/proc/interrupts", kTableMax);
  const auto lines = split_lines(text);
  if (lines.empty()) return;
  std::vector<int> cpus;
  for (const std::string_view word : split_words(lines[0]))
    if (word.starts_with("CPU")) cpus.push_back(static_cast<int>(to_number(word.substr(3)).value_or(-1)));
  if (cpus != cpus_) {  // a CPU came or went: the columns are others now
    cpus_ = cpus;
    first_.clear();
    node_of_.clear();
    nodes_.clear();
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(root_ + "/sys/devices/system/node", error)) {
      const std::string name = entry.path().filename();
      const auto node = name.starts_with("node") ? to_number(name.substr(4)) : std::nullopt;
      if (!node) continue;
      nodes_.insert(static_cast<int>(*node));
      for (const int cpu : parse_list(read_first_line(entry.path() / "cpulist")))
        node_of_[cpu] = static_cast<int>(*node);
    }
  }
  latest_.clear();
  for (size_t i = 1; i < lines.size(); i++) {
    const auto words = split_words(lines[i]);
    if (words.size() < cpus_.size() + 1 || !words[0].ends_with(':')) continue;
    const auto number = to_number(words[0].substr(0, words[0].size() - 1));
    if (!number) continue;  // NMI and the like
    Counts &counts = latest_[*number];
    for (size_t cpu = 0; cpu < cpus_.size(); cpu++)
      counts.push_back(static_cast<uint64_t>(to_number(words[cpu + 1]).value_or(0)));
    first_.try_emplace(*number, counts);
  }
}

InterruptShares Interrupts::shares(const std::string &device) const {
  // The interrupts are those of the first folder upwards that has any: the PCI device.
  std::error_code error;
  fs::path folder(device);
  while (folder.has_relative_path() && !fs::exists(folder / "msi_irqs", error)) folder = folder.parent_path();
  if (!folder.has_relative_path()) return {};
  Counts taken(cpus_.size());
  for (const auto &entry : fs::directory_iterator(folder / "msi_irqs", error)) {
    const auto number = to_number(entry.path().filename().string());
    const auto now = number ? latest_.find(*number) : latest_.end();
    if (now == latest_.end()) continue;
    const Counts &before = first_.at(*number);
    for (size_t cpu = 0; cpu < taken.size(); cpu++)
      if (now->second[cpu] > before[cpu]) taken[cpu] += now->second[cpu] - before[cpu];
  }
  const uint64_t total = std::accumulate(taken.begin(), taken.end(), uint64_t{0});
  if (total < kEnough) return {};
  InterruptShares shares;
  shares.top = static_cast<double>(*std::max_element(taken.begin(), taken.end())) / static_cast<double>(total);
  const int64_t node = read_number(folder / "numa_node").value_or(-1);
  if (nodes_.size() == 1) shares.cross_node = 0;  // there is no other
  if (nodes_.size() <= 1 || node < 0) return shares;
  uint64_t elsewhere = 0;
  for (size_t i = 0; i < taken.size(); i++) {
    const auto found = node_of_.find(cpus_[i]);
    if (found == node_of_.end() || found->second != node) elsewhere += taken[i];
  }
  shares.cross_node = static_cast<double>(elsewhere) / static_cast<double>(total);
  return shares;
}

}  // namespace flushlight
