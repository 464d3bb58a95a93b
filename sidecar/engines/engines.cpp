// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/engines/engines.h"

#include <functional>

namespace flushlight {

EngineHistory::EngineHistory(std::unique_ptr<EngineReader> reader, fl_engine engine, std::string target,
                             std::string instance)
    : reader_(std::move(reader)) {
  last_.engine = engine;
  last_.target = std::move(target);
  last_.instance = std::move(instance);
}

EngineFacts EngineHistory::read(uint64_t now_ns) {
  auto read = reader_->read();
  if (!read) {  // said once, not at every reading
    if (last_.error != read.error().text)
      spdlog::warn("settings of {} cannot be read: {}", last_.target, read.error().text);
    last_.error = read.error().text;
    return last_;
  }
  if (!last_.error.empty()) spdlog::info("settings of {} are read again", last_.target);
  EngineFacts facts = std::move(*read);
  facts.engine = last_.engine;
  facts.target = last_.target;
  facts.instance = last_.instance;
  facts.read_ns = now_ns;
  // Statistics of another server or of before a restart or reset are no beginning of a window.
  const auto uptime = facts.statistic("server.uptime_s"), before = last_.statistic("server.uptime_s");
  if (facts.version != last_.version || (uptime && before && *uptime < *before)) samples_.clear();
  // Nor is what was counted under other settings evidence about these.
  for (const auto &[name, setting] : facts.settings)
    if (const EngineSetting *old = last_.setting(name); old != nullptr && old->value != setting.value) {
      samples_.clear();
      break;
    }
  while (samples_.size() > 1 && samples_[1].at_ns + kWindowNs <= now_ns) samples_.pop_front();
  if (samples_.empty() || now_ns >= samples_.back().at_ns + kKeepEveryNs)
    samples_.push_back({now_ns, facts.statistics});
  facts.earlier = samples_.front().statistics;
  facts.earlier_ns = samples_.front().at_ns;
  last_ = facts;
  return facts;
}

void Engines::start(const Config &config) {
  struct Kind {
    fl_engine engine;
    const std::vector<std::string> &entries;
    Result<EngineTarget> (*parse)(std::string_view);
    std::unique_ptr<EngineReader> (*make)(EngineTarget, uint32_t);
  };
  const Kind kinds[] = {
      {FL_ENGINE_POSTGRESQL, config.postgresql_targets, parse_postgresql_target, make_postgresql_reader},
      {FL_ENGINE_MARIADB, config.mariadb_targets, parse_mariadb_target, make_mariadb_reader}};
  for (const Kind &kind : kinds) {
    for (const std::string &entry : kind.entries) {
      auto target = kind.parse(entry);
      if (!target) continue;  // the configuration was checked
      auto history = std::make_shared<EngineHistory>(kind.make(*target, config.engines_timeout_ms), kind.engine, entry,
                                                     target->instance);
      targets_.push_back(std::make_unique<Refreshed<EngineFacts>>("settings"));
      targets_.back()->start([history, clock = SystemClock()] { return history->read(clock.now_ns()); },
                             std::chrono::milliseconds(config.engines_interval_ms));
    }
  }
}

std::vector<std::shared_ptr<const EngineFacts>> Engines::latest() const {
  std::vector<std::shared_ptr<const EngineFacts>> all;
  for (const auto &target : targets_) all.push_back(target->latest());
  return all;
}

void Engines::set(EngineFacts facts) {
  for (const auto &target : targets_)
    if (target->latest()->target == facts.target) return target->set(std::move(facts));
  targets_.push_back(std::make_unique<Refreshed<EngineFacts>>("settings"));
  targets_.back()->set(std::move(facts));
}

}  // namespace flushlight
