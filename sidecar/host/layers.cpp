// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/layers.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

namespace fs = std::filesystem;

constexpr int kLayersMost = 8;
constexpr size_t kMountPointBytes = 512;

BlockDevice *named(const std::string &name, BlockDevices *devices) {
  for (auto &[number, device] : *devices)
    if (device.name == name) return &device;
  return nullptr;
}

// nvme0c1n2 is a path to nvme0n2; empty: the name is no path's.
std::string head_of_path(const std::string &name) {
  if (!name.starts_with("nvme")) return "";
  const size_t controller = name.find('c'), space = name.rfind('n');
  if (controller == std::string::npos || space < controller) return "";
  return name.substr(0, controller) + name.substr(space);
}

// A path is the same drive as its head; the queue is its own.
void add_path(const fs::path &folder, uint32_t number, BlockDevice *head, BlockDevices *devices) {
  BlockDevice path = *head;
  path.number = number;
  path.name = folder.filename();
  path.stacked = false;
  path.scheduler = active_choice(read_first_line(folder / "queue/scheduler"));
  const std::string requests = read_first_line(folder / "queue/nr_requests");
  int64_t nr_requests = 0;
  path.nr_requests.reset();
  if (std::from_chars(requests.data(), requests.data() + requests.size(), nr_requests).ec == std::errc{})
    path.nr_requests = nr_requests;
  head->parts.push_back(number);
  (*devices)[number] = std::move(path);
}

void add_paths(const std::string &sys, const std::string &disk_stats, BlockDevices *devices) {
  std::istringstream lines(disk_stats);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    uint32_t major = 0, minor = 0;
    std::string name;
    if (!(words >> major >> minor >> name) || name.find('/') != std::string::npos) continue;
    BlockDevice *head = named(head_of_path(name), devices);
    const fs::path folder = fs::path(sys) / "block" / name;
    if (head != nullptr && read_first_line(folder / "hidden") == "1")
      add_path(folder, device_number(major, minor), head, devices);
  }
}

// slaves/ holds what a device lies on; a partition stands for its disk.
void add_parts(const fs::path &folder, BlockDevice *device, BlockDevices *devices) {
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(folder / "slaves", error)) {
    const fs::path real = fs::canonical(entry.path(), error);
    if (error) continue;
    const bool partition = fs::exists(real / "partition", error);
    const BlockDevice *part = named(partition ? real.parent_path().filename() : real.filename(), devices);
    if (part != nullptr) device->parts.push_back(part->number);
  }
}

void hand_down_mounts(const BlockDevice &from, const BlockDevice &device, BlockDevices *devices, int layer) {
  for (const uint32_t number : device.parts) {
    const auto found = devices->find(number);
    if (found == devices->end() || layer > kLayersMost) continue;
    BlockDevice &part = found->second;
    if (part.mount_point.find(from.mount_point) == std::string::npos &&
        part.mount_point.size() + from.mount_point.size() < kMountPointBytes)
      part.mount_point += (part.mount_point.empty() ? "" : ",") + from.mount_point;
    if (part.file_system.empty()) part.file_system = from.file_system;
    hand_down_mounts(from, part, devices, layer + 1);
  }
}

}  // namespace

void add_layers(const std::string &sys, const std::string &disk_stats, BlockDevices *devices) {
  std::error_code error;
  for (auto &[number, device] : *devices) {
    const fs::path folder = fs::path(sys) / "block" / device.name;
    device.stacked = !fs::exists(folder / "mq", error);  // no queues of the block layer's: bios only pass through
    add_parts(folder, &device, devices);
  }
  const BlockDevices mounted = *devices;  // before any has handed its own down
  add_paths(sys, disk_stats, devices);
  for (const auto &[number, top] : mounted)
    if (!top.mount_point.empty()) hand_down_mounts(top, devices->at(number), devices, 0);
}

std::string describe_layers(const BlockDevices &devices) {
  std::string text;
  for (const auto &[number, device] : devices) {
    if (!device.stacked || device.mount_point.empty()) continue;
    std::string parts;
    for (const uint32_t part : device.parts)
      if (const auto found = devices.find(part); found != devices.end())
        parts += (parts.empty() ? "" : ", ") + found->second.name;
    text += (text.empty() ? "" : "; ") + device.name + " (" + device.mount_point + ") ";
    if (parts.empty())
      text += "makes no requests and lies on no disk that does: waits for it are not covered (other)";
    else
      text += "lies on " + parts +
              ": requests and their times are observed there, and what the layer itself holds back is queue";
  }
  return text;
}

std::string describe_layers_of_host() {
  BlockDevices devices = read_block_devices("/sys", read_text_file("/proc/self/mountinfo"));
  add_layers("/sys", read_text_file("/proc/diskstats"), &devices);
  return describe_layers(devices);
}

}  // namespace flushlight
