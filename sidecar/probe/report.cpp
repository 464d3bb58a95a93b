// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/report.h"

#include "sidecar/base/version.h"

namespace flushlight::probe {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T> &value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

Json histogram_of(const Times &times) {
  Json buckets = Json::array();
  for (uint32_t bucket = 0; bucket < FL_HISTOGRAM_BUCKETS; bucket++) {
    const uint64_t count = times.histogram().count(bucket);
    if (count == 0) continue;
    const auto high = bucket_high_ns(bucket);
    buckets.push_back(Json::array({static_cast<double>(fl_histogram_low(bucket)) / 1e6,
                                   high ? Json(static_cast<double>(*high) / 1e6) : Json(nullptr), count}));
  }
  return buckets;
}

Json outcome_json(const Outcome &outcome) {
  const Pattern &pattern = outcome.pattern;
  const std::string_view setting =
      is_log(pattern) ? row_of(pattern.log).wal_sync_method : row_of(pattern.read).io_method;
  Json json;
  json["name"] = pattern.name;
  json["group"] = group_name(pattern.group);
  json["method"] = method_name(pattern);
  json["postgresql"] = text_or_null(setting);
  json["block_bytes"] = pattern.block_bytes;
  json["depth"] = pattern.depth;
  json["state"] = state_name(outcome.state);
  json["reason"] = text_or_null(outcome.reason);
  const bool ran = outcome.began_ns != 0;
  json["began_ns"] = ran ? Json(outcome.began_ns) : Json(nullptr);
  json["ended_ns"] = ran && outcome.ended_ns != 0 ? Json(outcome.ended_ns) : Json(nullptr);
  const auto rate = outcome.per_second();
  json["per_second"] = or_null(rate);
  json["mb_per_second"] = rate ? Json(*rate * pattern.block_bytes / 1e6) : Json(nullptr);
  json.update(to_json(outcome.total));
  json["write"] = outcome.write.count() > 0 ? to_json(outcome.write) : Json(nullptr);
  json["sync"] = outcome.sync.count() > 0 ? to_json(outcome.sync) : Json(nullptr);
  json["cpu_wait_percent"] = or_null(outcome.cpu_wait_percent());
  const bool bulk = pattern.group == Group::kLogBulk && outcome.ended_ns > outcome.began_ns;
  json["bulk_mb_per_second"] =
      bulk ? Json(static_cast<double>(outcome.bulk_bytes) / 1e6 / seconds(outcome.ended_ns - outcome.began_ns))
           : Json(nullptr);
  json["bulk_direct"] = bulk ? Json(outcome.bulk_direct) : Json(nullptr);
  json["histogram"] = histogram_of(outcome.total);
  return json;
}

Json ranking_json(const Ranking &ranking) {
  Json methods = Json::array();
  for (const RankedMethod &ranked : ranking.methods)
    methods.push_back({{"method", ranked.method},
                       {"p50_ms", ranked.p50_ms},
                       {"p99_ms", or_null(ranked.p99_ms)},
                       {"bulk_p50_ms", or_null(ranked.bulk_p50_ms)},
                       {"bulk_p99_ms", or_null(ranked.bulk_p99_ms)},
                       {"as_good_as_best", ranked.as_good_as_best}});
  return {{"methods", methods}, {"text", ranking.text}};
}

Json place_json(const Place &place) {
  Json devices = Json::array();
  for (const BlockDevice &device : place.devices) devices.push_back(to_json(device));
  return {{"directory", place.directory},
          {"file_system", text_or_null(place.file_system)},
          {"mount_point", text_or_null(place.mount_point)},
          {"mount_options", text_or_null(place.mount_options)},
          {"disk", text_or_null(place.disk)},
          {"devices", devices}};
}

}  // namespace

Json to_json(const Times &times) {
  Json json;
  json["operations"] = times.count();
  json["min_ms"] = or_null(times.min_ms());
  json["mean_ms"] = or_null(times.mean_ms());
  for (const NamedPercentile &percentile : kPercentiles)
    json[std::string(percentile.name) + "_ms"] = or_null(times.percentile_ms(percentile.q));
  json["max_ms"] = or_null(times.max_ms());
  return json;
}

Json to_json(const BlockDevice &device) {
  return {{"name", device.name},
          {"transport", text_or_null(device.transport)},
          {"model", text_or_null(device.model)},
          {"firmware", text_or_null(device.firmware)},
          {"scheduler", text_or_null(device.scheduler)},
          {"nr_requests", or_null(device.nr_requests)},
          {"tag_depth", or_null(device.tag_depth)},
          {"nomerges", or_null(device.nomerges)},
          {"rotational", or_null(device.rotational)},
          {"write_cache", text_or_null(device.write_cache)},
          {"fua", or_null(device.fua)}};
}

Json to_json(const Report &report) {
  const Run &run = report.run;
  Json json;
  json["schema"] = kSchema;
  json["version"] = kVersion;
  json["started_at"] = report.started_at;
  json["seconds"] = seconds(run.took_ns);
  json["prepared_seconds"] = seconds(run.prepared_ns);
  json["place"] = place_json(run.place);
  json["limits"] = {
      {"seconds", seconds(report.limits.total_ns)},
      {"written_mb_max", report.limits.written_bytes_max >> 20},
      {"per_second_max", report.limits.per_second_max > 0 ? Json(report.limits.per_second_max) : Json(nullptr)},
      {"reserve_percent", 100 * report.reserve_share},
      {"data_mb", run.data_bytes >> 20},
      {"log_mb", run.log_bytes >> 20},
      {"workers", report.workers}};
  json["written_bytes"] = report.written_bytes;
  json["stopped"] =
      run.stopped == Stop::kNone ? Json(nullptr) : Json{{"cause", stop_name(run.stopped)}, {"detail", run.stop_detail}};
  json["watch"] = {{"state", report.watch.state},
                   {"detail", text_or_null(report.watch.detail)},
                   {"baseline_p99_ms", or_null(report.watch.baseline_p99_ms)},
                   {"limit_ms", or_null(report.watch.limit_ms)},
                   {"worst_p99_ms", or_null(report.watch.worst_p99_ms)},
                   {"commits", report.watch.commits}};
  json["flush"] = {{"state", flush_state_name(report.flush.state)},
                   {"pattern", text_or_null(report.flush.pattern)},
                   {"p50_ms", or_null(report.flush.p50_ms)},
                   {"limit_ms", report.flush.limit_ms},
                   {"power_loss_protection", report.power_loss_protection ? "declared" : "not declared"},
                   {"text", report.flush.text}};
  json["wal_sync_method"] = ranking_json(report.ranking);
  Json patterns = Json::array();
  for (const Outcome &outcome : run.outcomes) patterns.push_back(outcome_json(outcome));
  json["patterns"] = patterns;
  return json;
}

}  // namespace flushlight::probe
