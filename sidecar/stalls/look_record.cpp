// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/stalls/look_record.h"

#include <nlohmann/json.hpp>

namespace flushlight::stalls {
namespace {

using nlohmann::json;

// A histogram as place and count, one after the other; most of it is empty.
template <typename Buckets>
json sparse(const Buckets &buckets) {
  json list = json::array();
  for (size_t i = 0; i < buckets.size(); i++) {
    if (buckets[i] == 0) continue;
    list.push_back(i);
    list.push_back(buckets[i]);
  }
  return list;
}

template <typename Buckets>
void fill(const json &list, Buckets *buckets) {
  for (size_t i = 0; i + 1 < list.size(); i += 2) buckets->at(list.at(i).get<size_t>()) = list.at(i + 1);
}

json to_json(const kernel::FileName &file) { return json::array({file.device, file.inode, file.path, file.is_whole}); }

kernel::FileName to_file(const json &from) { return {from.at(0), from.at(1), from.at(2), from.at(3)}; }

json to_json(const kernel::DeviceActivity &from) {
  json octaves = json::array();
  for (const kernel::Octaves &of_operation : from.completed) octaves.push_back(sparse(of_operation));
  return json::array({from.device, from.at_device, from.flushing, from.queued, from.oldest_issue_ns,
                      from.oldest_start_ns, from.oldest_operation, octaves});
}

kernel::DeviceActivity to_activity(const json &from) {
  kernel::DeviceActivity device;
  device.device = from.at(0);
  device.at_device = from.at(1);
  device.flushing = from.at(2);
  device.queued = from.at(3);
  device.oldest_issue_ns = from.at(4);
  device.oldest_start_ns = from.at(5);
  device.oldest_operation = from.at(6);
  for (size_t operation = 0; operation < device.completed.size(); operation++)
    fill(from.at(7).at(operation), &device.completed[operation]);
  return device;
}

json to_json(const kernel::SlowRequest &from) {
  return json::array({from.device, from.operation, from.start_ns, from.issue_ns, from.complete_ns, from.sector,
                      from.bytes, from.tid, from.process, to_json(from.file)});
}

kernel::SlowRequest to_request(const json &from) {
  return {from.at(0), from.at(1), from.at(2), from.at(3), from.at(4),
          from.at(5), from.at(6), from.at(7), from.at(8), to_file(from.at(9))};
}

json to_json(const kernel::JournalCommits &from) {
  return json::array({from.device, from.disk, from.in_progress_ns, static_cast<int>(from.phase), from.sum_ns,
                      from.buckets.size(), sparse(from.buckets)});
}

kernel::JournalCommits to_journal(const json &from) {
  kernel::JournalCommits journal;
  journal.device = from.at(0);
  journal.disk = from.at(1);
  journal.in_progress_ns = from.at(2);
  journal.phase = static_cast<kernel::JournalCommits::Phase>(from.at(3).get<int>());
  journal.sum_ns = from.at(4);
  journal.buckets.resize(from.at(5));
  fill(from.at(6), &journal.buckets);
  return journal;
}

// What a culprit is found from.
json to_json(const kernel::Writer &from) {
  return json::array({from.tgid, from.process, to_json(from.file), from.bytes, from.syncs, from.recent_bytes,
                      from.recent_syncs, from.last_ns, from.cgroup});
}

kernel::Writer to_writer(const json &from) {
  kernel::Writer writer;
  writer.tgid = from.at(0);
  writer.process = from.at(1);
  writer.file = to_file(from.at(2));
  writer.bytes = from.at(3);
  writer.syncs = from.at(4);
  writer.recent_bytes = from.at(5);
  writer.recent_syncs = from.at(6);
  writer.last_ns = from.at(7);
  writer.cgroup = from.at(8);
  return writer;
}

template <typename T>
json list_of(const std::vector<T> &from) {
  json list = json::array();
  for (const T &one : from) list.push_back(to_json(one));
  return list;
}

template <typename T>
std::vector<T> list_from(const json &from, T (*convert)(const json &)) {
  std::vector<T> list;
  for (const json &one : from) list.push_back(convert(one));
  return list;
}

}  // namespace

std::string to_text(const LookRecord &look) {
  json text = {{"now", look.now_ns}, {"unix", look.unix_ns}, {"devices", list_of(look.devices)}};
  for (const kernel::DeviceActivity &device : look.devices)
    if (const auto found = look.stats.find(device.device); found != look.stats.end())
      text["stats"].push_back({found->first, found->second.completed, found->second.bytes, found->second.inflight});
  if (!look.requests.empty()) text["requests"] = list_of(look.requests);
  if (!look.journals.empty()) text["journals"] = list_of(look.journals);
  if (look.writers) {
    text["writers"] = list_of(*look.writers);
    text["databases"] = look.databases;
  }
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<LookRecord> parse_look(std::string_view bytes) {
  try {
    const json text = json::parse(bytes);
    const json none = json::array();
    LookRecord look;
    look.now_ns = text.at("now");
    look.unix_ns = text.at("unix");
    look.devices = list_from(text.at("devices"), to_activity);
    for (const json &disk : text.value("stats", none)) look.stats[disk.at(0)] = {disk.at(1), disk.at(2), disk.at(3)};
    look.requests = list_from(text.value("requests", none), to_request);
    look.journals = list_from(text.value("journals", none), to_journal);
    if (text.contains("writers")) look.writers = list_from(text.at("writers"), to_writer);
    look.databases = text.value("databases", std::set<uint32_t>{});
    return look;
  } catch (const std::exception &) {
    return std::nullopt;
  }
}

}  // namespace flushlight::stalls
