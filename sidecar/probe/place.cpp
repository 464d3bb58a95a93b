// SPDX-License-Identifier: GPL-2.0-or-later
// What lies below a directory: mount, device, disks.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>

#include "sidecar/host/layers.h"
#include "sidecar/host/text_files.h"
#include "sidecar/probe/target.h"

namespace flushlight::probe {
namespace {

namespace fs = std::filesystem;

bool lies_below(const std::string &directory, const std::string &mount_point) {
  if (mount_point == "/") return true;
  return directory == mount_point || directory.starts_with(mount_point + "/");
}

// A file system may show a device number of its own (btrfs): then the mount's source is the device.
uint32_t device_of(const std::string &directory, const Mount &mount, const std::string &sys) {
  const auto known = [&sys](dev_t number) {
    std::error_code error;
    return fs::exists(sys + "/dev/block/" + std::to_string(major(number)) + ":" + std::to_string(minor(number)), error);
  };
  struct stat status {};
  if (stat(directory.c_str(), &status) == 0 && known(status.st_dev))
    return device_number(major(status.st_dev), minor(status.st_dev));
  if (stat(mount.source.c_str(), &status) == 0 && S_ISBLK(status.st_mode) && known(status.st_rdev))
    return device_number(major(status.st_rdev), minor(status.st_rdev));
  return 0;
}

std::string disk_of(uint32_t device, const std::string &sys) {
  std::error_code error;
  const fs::path folder =
      fs::canonical(sys + "/dev/block/" + std::to_string(device >> 20) + ":" + std::to_string(device & 0xfffff), error);
  if (error) return "";
  return fs::exists(folder / "partition", error) ? folder.parent_path().filename() : folder.filename();
}

std::vector<std::string> split_commas(const std::string &text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

}  // namespace

Place describe_place(const std::string &directory, const std::string &sys, const std::string &mount_info_path) {
  Place place;
  std::error_code error;
  const fs::path real = fs::canonical(directory, error);
  place.directory = error ? directory : real.string();
  const std::string mount_info = read_text_file(mount_info_path);
  Mount mount;
  for (const Mount &found : parse_mounts(mount_info))  // the last one of equals is the one on top
    if (lies_below(place.directory, found.mount_point) && found.mount_point.size() >= mount.mount_point.size())
      mount = found;
  place.file_system = mount.file_system;
  place.mount_point = mount.mount_point;
  place.mount_options = mount.options + (mount.super_options.empty() ? "" : "," + mount.super_options);
  place.source = mount.source;
  place.device = device_of(place.directory, mount, sys);
  if (place.device == 0) return place;
  place.disk = disk_of(place.device, sys);
  BlockDevices devices = read_block_devices(sys, mount_info);
  add_layers(sys, read_text_file("/proc/diskstats"), &devices);
  for (const auto &[number, device] : devices)
    if (device.name == place.disk) place.disks = split_commas(device.leaves);
  if (place.disks.empty()) place.disks = {place.disk};
  for (const auto &[number, device] : devices)
    if (std::find(place.disks.begin(), place.disks.end(), device.name) != place.disks.end())
      place.devices.push_back(device);
  return place;
}

}  // namespace flushlight::probe
