// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/block_devices.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "sidecar/host/layers.h"
#include "sidecar/host/text_files.h"

namespace flushlight {
namespace {

namespace fs = std::filesystem;

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
  const std::string line = read_first_line(path);
  const auto words = split_words(line);
  const auto reads = words.size() == 2 ? to_number(words[0]) : std::nullopt;
  const auto writes = reads ? to_number(words[1]) : std::nullopt;
  return writes ? std::optional(*reads + *writes) : std::nullopt;
}

// A device's own disk: partitions lie in the folder of theirs.
std::string disk_of_folder(const fs::path &folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  return fs::exists(real / "partition", error) ? real.parent_path().filename() : real.filename();
}

// dm and md name what they stand on; an NVMe head's paths are hidden disks, nvme<subsystem>c<controller>n<namespace>.
void collect_leaves(const fs::path &folder, int depth, std::set<std::string> *leaves) {
  constexpr int kDepthMax = 8;
  constexpr size_t kLeavesMax = 32;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(folder / "slaves", error)) {
    const std::string disk = disk_of_folder(entry.path());
    const fs::path below = folder.parent_path() / disk;
    if (disk.empty() || leaves->size() >= kLeavesMax) continue;
    const bool stacked = !fs::is_empty(below / "slaves", error) && !error;
    if (stacked && depth < kDepthMax)
      collect_leaves(below, depth + 1, leaves);
    else
      leaves->insert(disk);
  }
  const std::string name = folder.filename();
  const size_t n = name.rfind('n');
  if (!name.starts_with("nvme") || n <= 4 || name.find('c') != std::string::npos) return;
  for (const auto &entry : fs::directory_iterator(folder.parent_path(), error)) {
    const std::string path = entry.path().filename();
    if (path.starts_with(name.substr(0, n) + "c") && path.ends_with(name.substr(n))) leaves->insert(path);
  }
}

std::string leaves_of(const fs::path &folder) {
  std::set<std::string> leaves;
  collect_leaves(folder, 0, &leaves);
  std::string text;
  for (const std::string &leaf : leaves) text += (text.empty() ? "" : ",") + leaf;
  return text.substr(0, 190);
}

// How many requests one hardware queue of the device really takes: the driver's tags, less where the administrator
// (with no scheduler) or a SCSI device wants fewer. The kernel tells its own figure in debugfs only.
void read_tags(const fs::path &folder, BlockDevice *device) {
  std::error_code error;
  int64_t queues = 0;
  for ([[maybe_unused]] const auto &entry : fs::directory_iterator(folder / "mq", error)) queues++;
  if (queues == 0) return;
  device->hw_queues = queues;
  const fs::path debug = folder.parent_path().parent_path() / "kernel/debug/block" / device->name / "hctx0/tags";
  const std::string tags = read_text_file(debug, 4096);
  for (const std::string_view line : split_lines(tags))
    if (line.starts_with("depth=") && !device->tag_depth) device->tag_depth = to_number(line.substr(6));
  if (device->tag_depth) return;
  device->tag_depth = read_number(folder / "mq/0/nr_tags");
  if (!device->tag_depth) return;
  if (device->scheduler == "none" && device->nr_requests)
    device->tag_depth = std::min(*device->tag_depth, *device->nr_requests);
  if (const auto depth = read_number(folder / "device/queue_depth"); depth && *depth > 0)
    device->tag_depth = std::min(*device->tag_depth, *depth);
}

BlockDevice read_device(const fs::path &folder, uint32_t number) {
  BlockDevice device;
  device.number = number;
  device.name = folder.filename();
  device.transport = transport_of(device.name);
  device.model = read_first_line(folder / "device/model");
  if (device.model.empty()) device.model = read_first_line(folder / "dm/name");
  for (const char *file : {"device/firmware_rev", "device/rev"})  // NVMe, SCSI
    if (device.firmware.empty()) device.firmware = read_first_line(folder / file);
  device.leaves = leaves_of(folder);
  const fs::path queue = folder / "queue";
  device.scheduler = active_choice(read_first_line(queue / "scheduler"));
  device.write_cache = read_first_line(queue / "write_cache");
  static constexpr std::pair<const char *, std::optional<int64_t> BlockDevice::*> kNumbers[] = {
      {"nr_requests", &BlockDevice::nr_requests}, {"nomerges", &BlockDevice::nomerges},
      {"rq_affinity", &BlockDevice::rq_affinity}, {"read_ahead_kb", &BlockDevice::read_ahead_kb},
      {"rotational", &BlockDevice::rotational},   {"fua", &BlockDevice::fua},
      {"wbt_lat_usec", &BlockDevice::wbt_lat_us}};
  for (const auto &[file, member] : kNumbers) device.*member = to_number(read_first_line(queue / file));
  device.inflight = read_inflight(folder / "inflight");
  read_tags(folder, &device);
  return device;
}

void add_mount(const std::string &mount_point, const std::string &file_system, BlockDevice *device) {
  if (device->mount_point.size() + mount_point.size() > 512) return;
  if (("," + device->mount_point + ",").find("," + mount_point + ",") != std::string::npos) return;
  device->mount_point += (device->mount_point.empty() ? "" : ",") + mount_point;
  if (device->file_system.empty()) device->file_system = file_system;
}

void apply_mounts(const std::string &mount_info, const std::map<uint32_t, uint32_t> &disk_of, BlockDevices *devices) {
  for (const Mount &mount : parse_mounts(mount_info))
    if (const auto disk = disk_of.find(mount.device); disk != disk_of.end())
      add_mount(mount.mount_point, mount.file_system, &devices->at(disk->second));
}

}  // namespace

std::string active_choice(const std::string &choices) {
  const size_t open = choices.find('['), close = choices.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return choices;
  return choices.substr(open + 1, close - open - 1);
}

// reads merges sectors ms, writes merges sectors ms, inflight busy-ms weighted-ms, discards merges sectors ms,
// flushes ms
BlockRates BlockDeviceReader::rates_of(const std::string &name, uint64_t now_ns) {
  enum { kReads, kReadMerges, kReadSectors, kWrites = 4, kWriteMerges, kWriteSectors, kWeighted = 10, kDiscards };
  enum { kFlushes = 15 };
  constexpr double kSectorBytes = 512;
  Sample now{now_ns, {}};
  const std::string line = read_first_line(root_ + "/sys/block/" + name + "/stat");
  for (const std::string_view word : split_words(line)) now.figures.push_back(to_number(word).value_or(0));
  auto &samples = samples_[name];
  if (now.figures.size() <= kWeighted) return {};
  while (samples.size() > 1 && samples[1].at_ns + kWindowNs <= now_ns) samples.pop_front();
  BlockRates rates;
  if (!samples.empty() && samples.front().at_ns < now_ns && samples.front().figures.size() == now.figures.size()) {
    const Sample &then = samples.front();
    const double seconds = static_cast<double>(now_ns - then.at_ns) / 1e9;
    const auto passed = [&](size_t at) -> std::optional<double> {
      if (at >= now.figures.size() || now.figures[at] < then.figures[at])
        return std::nullopt;  // not told, or begun anew
      return static_cast<double>(now.figures[at] - then.figures[at]);
    };
    const auto rate = [&](size_t at) { return passed(at) ? std::optional(*passed(at) / seconds) : std::nullopt; };
    rates.reads = rate(kReads);
    rates.writes = rate(kWrites);
    rates.flushes = rate(kFlushes);
    rates.discards = rate(kDiscards);
    if (rate(kReadMerges) && rate(kWriteMerges)) rates.merges = *rate(kReadMerges) + *rate(kWriteMerges);
    const auto mean = [&](size_t sectors, size_t count) -> std::optional<double> {
      if (!passed(sectors) || passed(count).value_or(0) == 0) return std::nullopt;
      return *passed(sectors) * kSectorBytes / *passed(count);
    };
    rates.read_mean_bytes = mean(kReadSectors, kReads);
    rates.write_mean_bytes = mean(kWriteSectors, kWrites);
    if (passed(kWeighted)) rates.queue_mean = *passed(kWeighted) / 1e3 / seconds;
  }
  samples.push_back(std::move(now));
  return rates;
}

BlockDevices BlockDeviceReader::read(uint64_t now_ns) {
  BlockDevices devices =
      read_block_devices(root_ + "/sys", read_text_file(root_ + "/proc/self/mountinfo", size_t{4} << 20));
  add_layers(root_ + "/sys", read_text_file(root_ + "/proc/diskstats"), &devices);
  if (readings_++ % kInterruptsEvery == 0) interrupts_.read();
  std::erase_if(samples_, [&](const auto &entry) {
    return std::none_of(devices.begin(), devices.end(), [&](const auto &d) { return d.second.name == entry.first; });
  });
  for (auto &[number, device] : devices) {
    device.rates = rates_of(device.name, now_ns);
    std::error_code error;
    const fs::path own = fs::canonical(root_ + "/sys/block/" + device.name + "/device", error);
    if (!error) device.interrupts = interrupts_.shares(own);
  }
  return devices;
}

BlockDevices read_block_devices(const std::string &sys, const std::string &mount_info) {
  BlockDevices devices;
  std::map<uint32_t, uint32_t> disk_of;  // partitions and disks → disk
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(sys + "/block", error)) {
    const auto number = to_device(read_first_line(entry.path() / "dev"));
    if (!number) continue;
    if (read_first_line(entry.path() / "size") == "0") continue;  // an empty loop device
    devices.emplace(*number, read_device(entry.path(), *number));
    disk_of[*number] = *number;
    for (const auto &part : fs::directory_iterator(entry.path(), error))
      if (fs::exists(part.path() / "partition", error))
        if (const auto part_number = to_device(read_first_line(part.path() / "dev"))) disk_of[*part_number] = *number;
  }
  apply_mounts(mount_info, disk_of, &devices);
  return devices;
}

}  // namespace flushlight
