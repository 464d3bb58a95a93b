// SPDX-License-Identifier: GPL-2.0-or-later
// Made-up servers for tests of rules: healthy, or with one thing wrong.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sidecar/advise/advice.h"

namespace flushlight::advise::test {

inline constexpr uint64_t kMs = 1'000'000;

// n commits of so many ms, all but 0.1 ms of it `cause` on `path`.
inline void set_commits(Facts *facts, double ms, int cause, int path = FL_PATH_SELF, uint64_t n = 6000,
                        double window_s = 600) {
  Commits &commits = facts->commits;
  commits = {};
  commits.window_s = window_s;
  commits.commits = commits.accounted = n;
  commits.sessions = 8;
  commits.p50_ms = ms;
  commits.p99_ms = 2 * ms;
  const auto duration = static_cast<uint64_t>(ms * 1e6), oncpu = std::min<uint64_t>(duration, kMs / 10);
  CommitSample sample;
  sample.duration_ns = duration;
  sample.vector_ns[FL_CAUSE_ONCPU] = oncpu;
  sample.vector_ns[cause] += duration - oncpu;
  sample.vector_ns[FL_VECTOR_PATH(FL_PATH_SELF)] = oncpu;
  sample.vector_ns[FL_VECTOR_PATH(path)] += duration - oncpu;
  sample.syncs = 1;
  sample.work = 1;
  for (int i = 0; i < 200; i++) commits.samples.push_back(sample);
  commits.commit_ns = n * duration;
  commits.work = n;
  for (int i = 0; i < FL_VECTOR_COUNT; i++) commits.vector_ns[i] = n * sample.vector_ns[i];
  commits.digests = {{77, "UPDATE t SET v = ? WHERE id = ?", n, n * duration, 50 * n, false}};
  commits.roles = {{"app", n, n * duration}};
}

inline void set(Facts *facts, const std::string &name, const std::string &value, const std::string &origin = "default",
                bool needs_restart = false, const std::string &unit = "") {
  facts->server.settings[name] = {value, unit, origin, needs_restart, false};
}

// A window of 600 s in which a counter grew.
inline void count(Facts *facts, const std::string &name, double grown, double before = 1000) {
  facts->server.earlier[name] = before;
  facts->server.statistics[name] = before + grown;
}

inline Facts host() {
  Facts facts;
  facts.instance = "made up";
  facts.server.earlier_ns = 1'000'000'000;
  facts.server.read_ns = 601'000'000'000;
  facts.host.kernel = 6012;
  facts.host.kernel_release = "6.12.9";
  facts.host.cpus = 16;
  facts.host.memory_bytes = int64_t{128} << 30;
  facts.host.dirty_ratio = 20;
  facts.host.dirty_background_ratio = 10;
  facts.host.dirty_bytes = 0;
  facts.host.swappiness = 60;
  facts.host.swap_bytes = 0;
  facts.host.overcommit_memory = 0;
  facts.host.io_uring_disabled = 0;
  facts.host.io_uring_error = 0;
  facts.device = LogDevice{};
  BlockDevice &device = facts.device->device;
  device.name = "nvme0n1";
  device.transport = "nvme";
  device.scheduler = "none";
  device.nr_requests = 1023;
  device.tag_depth = 1023;
  device.nomerges = 0;
  device.rq_affinity = 1;
  device.read_ahead_kb = 128;
  device.rotational = 0;
  device.write_cache = "write back";
  device.wbt_lat_us = 0;
  facts.device->flush_p50_ms = 0.3;
  facts.device->flushes = 5000;
  facts.device->write_p50_ms = 0.08;
  facts.journal = JournalFacts{};
  facts.journal->name = "nvme0n1p1";
  facts.journal->mount_point = "/var/lib/db";
  facts.journal->file_system = "ext4";
  facts.journal->options = "barrier,commit=5,data=ordered";
  facts.journal->log_bytes = int64_t{1} << 30;
  facts.journal->fast_commit = false;
  facts.free_bytes = int64_t{500} << 30;
  set_commits(&facts, 0.4, FL_CAUSE_FLUSH);
  return facts;
}

inline Facts mariadb() {
  Facts facts = host();
  facts.engine = facts.server.engine = FL_ENGINE_MARIADB;
  facts.server.version = 101118;
  for (const auto &[name, value] :
       std::vector<std::pair<const char *, const char *>>{{"innodb_flush_log_at_trx_commit", "1"},
                                                          {"innodb_flush_log_at_timeout", "1"},
                                                          {"sync_binlog", "0"},
                                                          {"log_bin", "OFF"},
                                                          {"wsrep_on", "OFF"},
                                                          {"innodb_flush_method", "O_DIRECT"},
                                                          {"innodb_doublewrite", "ON"},
                                                          {"innodb_flush_neighbors", "0"},
                                                          {"innodb_log_file_buffering", "OFF"},
                                                          {"innodb_io_capacity", "200"},
                                                          {"innodb_max_dirty_pages_pct", "90"},
                                                          {"innodb_log_file_size", "1073741824"},
                                                          {"binlog_commit_wait_usec", "100000"},
                                                          {"binlog_commit_wait_count", "0"}})
    set(&facts, name, value);
  set(&facts, "innodb_use_native_aio", "ON", "COMPILE-TIME", true);
  set(&facts, "innodb_log_buffer_size", "16777216", "COMPILE-TIME", true);
  facts.files.redo = LogFile{6000, 100 << 20, 1800};
  return facts;
}

inline Facts postgresql(int version = 180000) {
  Facts facts = host();
  facts.engine = facts.server.engine = FL_ENGINE_POSTGRESQL;
  facts.server.version = version;
  for (const auto &[name, value] :
       std::vector<std::pair<const char *, const char *>>{{"fsync", "on"},
                                                          {"full_page_writes", "on"},
                                                          {"data_sync_retry", "off"},
                                                          {"synchronous_commit", "on"},
                                                          {"wal_sync_method", "fdatasync"},
                                                          {"checkpoint_completion_target", "0.9"},
                                                          {"wal_compression", "lz4"},
                                                          {"commit_delay", "0"},
                                                          {"wal_recycle", "on"},
                                                          {"wal_init_zero", "on"},
                                                          {"max_connections", "100"}})
    set(&facts, name, value);
  set(&facts, "max_wal_size", "17179869184", "configuration file", false, "B");
  set(&facts, "checkpoint_timeout", "900000", "configuration file", false, "ms");
  set(&facts, "wal_buffers", "16777216", "default", true, "B");
  set(&facts, "wal_writer_delay", "200", "default", false, "ms");
  if (version >= 180000) {
    set(&facts, "io_method", "worker", "default", true);
    set(&facts, "io_workers", "3");
  }
  facts.files.wal = LogFile{6000, 100 << 20, 1800};
  return facts;
}

inline const Advice *find(const std::vector<Advice> &advice, const std::string &rule) {
  for (const Advice &one : advice)
    if (one.rule == rule) return &one;
  return nullptr;
}

inline bool says(const Advice *advice, const std::string &words) {
  return advice != nullptr && (advice->evidence + advice->risk + advice->effect).find(words) != std::string::npos;
}

// No way to write anything down contains these words.
inline bool writes(const std::vector<Advice> &advice, const std::string &words) {
  for (const Advice &one : advice)
    if (apply_text(one).find(words) != std::string::npos) return true;
  return false;
}

inline std::string all_text(const std::vector<Advice> &advice) {
  std::string text;
  for (const Advice &one : advice) text += one.rule + " [" + one.suggested + "]: " + one.evidence + "\n";
  return text;
}

}  // namespace flushlight::advise::test
