// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/block_devices.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "sidecar/base/text.h"

namespace flushlight {
namespace {

namespace fs = std::filesystem;

std::string read_line(const fs::path &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return sanitize_utf8(line, 256);
}

std::optional<int64_t> to_number(std::string_view text) {
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return number;
}

std::optional<uint32_t> to_device(const std::string &text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto major = to_number(text.substr(0, colon)), minor = to_number(text.substr(colon + 1));
  if (!major || !minor) return std::nullopt;
  return device_number(static_cast<uint32_t>(*major), static_cast<uint32_t>(*minor));
}

std::string transport_of(const std::string &name) {
  static constexpr std::pair<const char *, const char *> kPrefixes[] = {
      {"nvme", "nvme"},     {"vd", "virtio"},  {"sd", "scsi"}, {"loop", "loop"}, {"dm-", "dm"},
      {"md", "md"},         {"mmcblk", "mmc"}, {"xvd", "xen"}, {"nbd", "nbd"},   {"rbd", "rbd"},
      {"bcache", "bcache"}, {"zram", "zram"},  {"ram", "ram"}};
  for (const auto &[prefix, transport] : kPrefixes)
    if (name.starts_with(prefix)) return transport;
  return "";
}

std::optional<int64_t> read_inflight(const fs::path &path) {
  std::istringstream words(read_line(path));
  int64_t reads = 0, writes = 0;
  if (!(words >> reads >> writes)) return std::nullopt;
  return reads + writes;
}

BlockDevice read_device(const fs::path &folder, uint32_t number) {
  BlockDevice device;
  device.number = number;
  device.name = folder.filename();
  device.transport = transport_of(device.name);
  device.model = read_line(folder / "device/model");
  if (device.model.empty()) device.model = read_line(folder / "dm/name");
  const fs::path queue = folder / "queue";
  device.scheduler = active_choice(read_line(queue / "scheduler"));
  device.write_cache = read_line(queue / "write_cache");
  static constexpr std::pair<const char *, std::optional<int64_t> BlockDevice::*> kNumbers[] = {
      {"nr_requests", &BlockDevice::nr_requests}, {"nomerges", &BlockDevice::nomerges},
      {"rq_affinity", &BlockDevice::rq_affinity}, {"read_ahead_kb", &BlockDevice::read_ahead_kb},
      {"rotational", &BlockDevice::rotational},   {"fua", &BlockDevice::fua},
      {"wbt_lat_usec", &BlockDevice::wbt_lat_us}};
  for (const auto &[file, member] : kNumbers) device.*member = to_number(read_line(queue / file));
  device.inflight = read_inflight(folder / "inflight");
  return device;
}

// Octal escapes of the mount table: \040 is a blank.
std::string unescape(const std::string &text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return sanitize_utf8(plain, 512);
}

void add_mount(const std::string &mount_point, const std::string &file_system, BlockDevice *device) {
  if (device->mount_point.size() + mount_point.size() > 512) return;
  if (("," + device->mount_point + ",").find("," + mount_point + ",") != std::string::npos) return;
  device->mount_point += (device->mount_point.empty() ? "" : ",") + mount_point;
  if (device->file_system.empty()) device->file_system = file_system;
}

// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
void apply_mounts(const std::string &mount_info, const std::map<uint32_t, uint32_t> &disk_of, BlockDevices *devices) {
  std::istringstream lines(mount_info);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, numbers, root, mount_point, word, file_system;
    words >> id >> parent >> numbers >> root >> mount_point;
    while (words >> word && word != "-") {
    }
    words >> file_system;
    const auto number = to_device(numbers);
    if (!number || file_system.empty()) continue;
    const auto disk = disk_of.find(*number);
    if (disk == disk_of.end()) continue;
    add_mount(unescape(mount_point), file_system, &devices->at(disk->second));
  }
}

}  // namespace

uint32_t device_number(uint32_t major, uint32_t minor) { return major << 20 | minor; }

std::string active_choice(const std::string &choices) {
  const size_t open = choices.find('['), close = choices.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return choices;
  return choices.substr(open + 1, close - open - 1);
}

BlockDevices read_block_devices(const std::string &sys, const std::string &mount_info) {
  BlockDevices devices;
  std::map<uint32_t, uint32_t> disk_of;  // partitions and disks → disk
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(sys + "/block", error)) {
    const auto number = to_device(read_line(entry.path() / "dev"));
    if (!number) continue;
    if (read_line(entry.path() / "size") == "0") continue;  // an empty loop device
    devices.emplace(*number, read_device(entry.path(), *number));
    disk_of[*number] = *number;
    for (const auto &part : fs::directory_iterator(entry.path(), error))
      if (fs::exists(part.path() / "partition", error))
        if (const auto part_number = to_device(read_line(part.path() / "dev"))) disk_of[*part_number] = *number;
  }
  apply_mounts(mount_info, disk_of, &devices);
  return devices;
}

}  // namespace flushlight
