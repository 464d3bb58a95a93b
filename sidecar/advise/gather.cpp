// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/gather.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace flushlight::advise {
namespace {

std::string file_name(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// What kind of log a file is, by the names that the engines give.
enum class Log : uint8_t { kNone, kRedo, kBinlog, kWal };
Log log_kind(const kernel::Writer &writer, fl_engine engine) {
  const std::string &path = writer.file.path, name = file_name(path);
  if (engine == FL_ENGINE_POSTGRESQL) return path.find("pg_wal/") != std::string::npos ? Log::kWal : Log::kNone;
  if (name.starts_with("ib_logfile")) return Log::kRedo;
  // NAME.000123, the index aside
  const size_t dot = name.rfind('.');
  const bool numbered =
      dot != std::string::npos && name.size() - dot == 7 &&
      std::all_of(name.begin() + static_cast<long>(dot) + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return numbered ? Log::kBinlog : Log::kNone;
}

bool is_of(const kernel::Writer &writer, const Instance &instance) {
  if (instance.is(FL_ENGINE_POSTGRESQL)) return writer.process.starts_with("postgres");
  return writer.tgid == instance.process || writer.process.starts_with("mariadbd") ||
         writer.process.starts_with("mysqld");
}

void add(const kernel::Writer &writer, std::optional<LogFile> *into) {
  const bool is_new = !*into;
  if (is_new) into->emplace();
  LogFile &file = **into;
  file.syncs += writer.syncs;
  file.bytes += writer.bytes;
  if (writer.sync_ns && (is_new || file.sync_ms))
    file.sync_ms = file.sync_ms.value_or(0) + static_cast<double>(*writer.sync_ns) / 1e6;
  if (!writer.sync_ns) file.sync_ms.reset();
}

// Log files of the server, and the device that most syncs of them went to.
std::optional<uint32_t> find_logs(const Instance &instance, const std::vector<kernel::Writer> &writers,
                                  LogFiles *files) {
  std::map<uint32_t, uint64_t> syncs;
  for (const kernel::Writer &writer : writers) {
    if (!is_of(writer, instance) || writer.syncs == 0) continue;
    const Log log = log_kind(writer, static_cast<fl_engine>(instance.engine));
    if (log == Log::kNone) continue;
    add(writer, log == Log::kRedo ? &files->redo : log == Log::kBinlog ? &files->binlog : &files->wal);
    syncs[writer.file.device] += writer.syncs;
  }
  const auto most =
      std::max_element(syncs.begin(), syncs.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
  return most != syncs.end() ? std::optional(most->first) : std::nullopt;
}

std::optional<double> percentile_ms(const std::vector<kernel::DeviceHistogram> &histograms, uint32_t device,
                                    kernel::Operation operation, kernel::Stage stage, double q,
                                    uint64_t *count = nullptr) {
  for (const kernel::DeviceHistogram &histogram : histograms) {
    if (histogram.device != device || histogram.operation != operation || histogram.stage != stage) continue;
    if (count != nullptr)
      for (const uint64_t bucket : histogram.buckets) *count += bucket;
    const auto ns = percentile_ns(std::span<const uint64_t>(histogram.buckets), q);
    return ns ? std::optional(*ns / 1e6) : std::nullopt;
  }
  return std::nullopt;
}

void describe_device(uint32_t number, const Sources &sources, Facts *facts) {
  const auto known = sources.host.devices->find(number);
  if (known == sources.host.devices->end()) return;
  LogDevice device;
  device.device = known->second;
  using kernel::Operation;
  using kernel::Stage;
  device.flush_p50_ms =
      percentile_ms(sources.histograms, number, Operation::kFlush, Stage::kDevice, 0.5, &device.flushes);
  device.flush_p99_ms = percentile_ms(sources.histograms, number, Operation::kFlush, Stage::kDevice, 0.99);
  device.write_p50_ms =
      percentile_ms(sources.histograms, number, Operation::kWrite, Stage::kDevice, 0.5, &device.writes);
  device.write_p99_ms = percentile_ms(sources.histograms, number, Operation::kWrite, Stage::kDevice, 0.99);
  device.queue_p99_ms = percentile_ms(sources.histograms, number, Operation::kWrite, Stage::kQueue, 0.99);
  facts->power_loss_protected = sources.power_loss_protected.contains(device.device.name);
  for (const JournalFacts &journal : *sources.host.journals)
    if (journal.device == number || journal.name.starts_with(device.device.name)) facts->journal = journal;
  if (facts->journal) facts->free_bytes = facts->journal->free_bytes;
  facts->device = std::move(device);
}

}  // namespace

void Since::remember(uint64_t now_ns, std::vector<kernel::Writer> writers,
                     std::vector<kernel::DeviceHistogram> histograms) {
  std::erase_if(writers, [](const kernel::Writer &writer) { return writer.syncs == 0; });
  if (snapshots_.empty() || now_ns >= snapshots_.back().at_ns + every_ns_) {
    if (snapshots_.size() >= kSnapshotsMax) snapshots_.pop_front();
    snapshots_.push_back({now_ns, writers, histograms});
  }
  writers_ = std::move(writers);
  histograms_ = std::move(histograms);
}

const Since::Snapshot *Since::before(uint64_t from_ns) const {
  const Snapshot *found = nullptr;
  for (const Snapshot &snapshot : snapshots_)
    if (snapshot.at_ns <= from_ns || found == nullptr) found = &snapshot;
  return found;
}

std::vector<kernel::Writer> Since::writers(uint64_t from_ns) const {
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, const kernel::Writer *> then;
  if (const Snapshot *snapshot = before(from_ns))
    for (const kernel::Writer &writer : snapshot->writers)
      then[{writer.tgid, writer.file.device, writer.file.inode}] = &writer;
  std::vector<kernel::Writer> grown = writers_;
  for (kernel::Writer &writer : grown) {
    const auto found = then.find({writer.tgid, writer.file.device, writer.file.inode});
    if (found == then.end() || found->second->syncs > writer.syncs) continue;  // new, or counted anew
    writer.syncs -= found->second->syncs;
    writer.bytes -= std::min(writer.bytes, found->second->bytes);
    if (writer.sync_ns && found->second->sync_ns) *writer.sync_ns -= std::min(*writer.sync_ns, *found->second->sync_ns);
  }
  return grown;
}

std::vector<kernel::DeviceHistogram> Since::histograms(uint64_t from_ns) const {
  std::vector<kernel::DeviceHistogram> grown = histograms_;
  const Snapshot *snapshot = before(from_ns);
  if (snapshot == nullptr) return grown;
  for (kernel::DeviceHistogram &histogram : grown)
    for (const kernel::DeviceHistogram &old : snapshot->histograms)
      if (old.device == histogram.device && old.operation == histogram.operation && old.stage == histogram.stage)
        for (size_t i = 0; i < std::min(old.buckets.size(), histogram.buckets.size()); i++)
          histogram.buckets[i] -= std::min(histogram.buckets[i], old.buckets[i]);
  return grown;
}

Facts gather(const Instance &instance, const EngineFacts *server, CommitWindow::Found commits, const Sources &sources) {
  Facts facts;
  facts.instance = instance.name;
  facts.engine = static_cast<fl_engine>(instance.engine);
  if (server != nullptr) facts.server = *server;
  facts.host = *sources.host.tuning;
  for (const Pressure &pressure : *sources.host.pressures) {
    if (pressure.instance == 0) facts.host_pressure = pressure;
    if (pressure.instance == instance.id) facts.cgroup = pressure;
  }
  if (const auto limits = facts.host.servers.find(instance.id); limits != facts.host.servers.end())
    facts.limits = limits->second;
  facts.commits = std::move(commits.commits);
  for (size_t i = 0; i < facts.commits.roles.size(); i++)
    facts.commits.roles[i].name = sources.symbols.text(commits.role_users[i]);
  for (DigestCommits &digest : facts.commits.digests)
    if (const auto *text = sources.texts.find(instance.id, static_cast<uint64_t>(digest.queryid)))
      digest.query = text->text;
  std::sort(facts.commits.digests.begin(), facts.commits.digests.end(),
            [](const auto &a, const auto &b) { return a.commit_ns > b.commit_ns; });
  if (const auto device = find_logs(instance, sources.writers, &facts.files)) describe_device(*device, sources, &facts);
  return facts;
}

}  // namespace flushlight::advise
