// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/cli/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "sidecar/base/memory_file.h"
#include "sidecar/base/version.h"
#include "sidecar/cli/exit_codes.h"
#include "sidecar/host/kernel_port.h"
#include "sidecar/host/layers.h"

namespace flushlight::cli {
namespace {

using kernel::Feature;

constexpr uint64_t kMemlockWanted = 256ull << 20;
constexpr uint64_t kDescriptorsWanted = 4096;

Feature kernel_built() {
  return {"kernel side in this build",
          kernel_side_built(),
          false,
          kernel_side_built() ? "yes" : "built without it",
          "no causes: commit times and digests only (tier B)",
          "build with libbpf-dev, clang and bpftool installed"};
}

Feature shared_memory() {
  const auto file = MemoryFile::create("flushlight-doctor", 4096, MemoryFile::Access::kReadOnlyThere);
  return {"sealed shared memory (memfd)",
          static_cast<bool>(file),
          true,
          file ? "made and sealed" : file.error().text,
          "nothing works: databases and daemon share memory through it",
          "kernel 3.17 or newer, memfd_create allowed by seccomp"};
}

Feature memory_lock() {
  rlimit limit{};
  (void)getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool enough = geteuid() == 0 || limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= kMemlockWanted;
  return {"memory may be locked",
          enough,
          false,
          limit.rlim_max == RLIM_INFINITY ? "unlimited" : fmt::format("RLIMIT_MEMLOCK is {} bytes", limit.rlim_max),
          "under memory pressure a stalled disk can delay the views",
          "LimitMEMLOCK=infinity in the unit, or CAP_IPC_LOCK"};
}

Feature descriptors() {
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return {"file descriptors",
          limit.rlim_max >= kDescriptorsWanted,
          false,
          fmt::format("at most {}", limit.rlim_max),
          "PostgreSQL takes one for each session: further sessions stay unobserved",
          "LimitNOFILE=65536 in the unit"};
}

Feature block_layers() {
  const std::string layers = describe_layers_of_host();
  return {"block devices make requests themselves",
          layers.empty(),
          false,
          layers.empty() ? "all with a file system on them" : layers,
          "latency and stalls of a stacked device are those of the disks below it",
          "none needed where the disks below are named"};
}

Feature daemon_answers(const Connection &connection) {
  fl_command command{};
  command.code = FL_COMMAND_PING;
  const auto answered = run_command(connection, command);
  return {"flushlightd answers",
          static_cast<bool>(answered),
          false,
          answered ? "on " + connection.socket_path : answered.error().text,
          "no views, no statistics",
          "systemctl start flushlightd, or name its socket with --socket"};
}

// What a running daemon says about itself and its databases.
void add_health(const Connection &connection, std::vector<Feature> *features) {
  const auto health = fetch_view(connection, "health");
  if (!health) return;
  for (size_t row = 0; row < health->rows.size(); row++) {
    const std::string instance = health->text(row, "instance"), component = health->text(row, "component");
    const std::string state = health->text(row, "state");
    features->push_back({instance.empty() ? "daemon: " + component : fmt::format("{} {}", component, instance),
                         state == "ok", false,
                         state + (health->text(row, "detail").empty() ? "" : ": " + health->text(row, "detail")),
                         "see the view health", "as the detail says"});
  }
  const bool any_instance = std::any_of(features->begin(), features->end(), [](const Feature &feature) {
    return feature.name.starts_with("postgresql") || feature.name.starts_with("mariadb");
  });
  if (!any_instance)
    features->push_back({"a database is attached", false, false, "none has attached since the daemon's start",
                         "no commits are seen",
                         "MariaDB: INSTALL SONAME 'flushlight'; PostgreSQL: session_preload_libraries = 'flushlight', "
                         "reload, CREATE EXTENSION flushlight"});
}

const char *state_word(const Feature &feature) {
  return feature.present ? "present" : feature.required ? "MISSING" : "missing";
}

void print_text(const std::vector<Feature> &features) {
  size_t width = 0;
  for (const Feature &feature : features) width = std::max(width, feature.name.size());
  utsname host{};
  (void)uname(&host);
  fmt::print("flushlight {} on Linux {} ({}), user {}\n\n", kVersion, host.release, host.machine, geteuid());
  for (const Feature &feature : features) {
    fmt::print("{:<7}  {:<{}}  {}\n", state_word(feature), feature.name, width, feature.detail);
    if (feature.present) continue;
    fmt::print("{:<7}  {:<{}}  costs: {}\n", "", "", width, feature.cost);
    fmt::print("{:<7}  {:<{}}  fix:   {}\n", "", "", width, feature.remedy);
  }
  const auto missing = std::count_if(features.begin(), features.end(), [](const Feature &f) { return !f.present; });
  const auto required =
      std::count_if(features.begin(), features.end(), [](const Feature &f) { return !f.present && f.required; });
  fmt::print("\n{} of {} present; {} missing, of these {} required\n", features.size() - static_cast<size_t>(missing),
             features.size(), missing, required);
}

void print_json(const std::vector<Feature> &features) {
  nlohmann::ordered_json all;
  all["version"] = kVersion;
  all["exit_code"] = doctor_exit_code(features);
  auto &list = all["requirements"] = nlohmann::ordered_json::array();
  for (const Feature &feature : features)
    list.push_back({{"name", feature.name},
                    {"present", feature.present},
                    {"required", feature.required},
                    {"detail", feature.detail},
                    {"cost", feature.cost},
                    {"remedy", feature.remedy}});
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::vector<Feature> examine(const Connection &connection, const std::string &btf_path) {
  std::vector<Feature> features = {kernel_built()};
  kernel::Options options;
  options.btf_path = btf_path;
  for (Feature &feature : probe_kernel_features(options)) features.push_back(std::move(feature));
  features.push_back(shared_memory());
  features.push_back(block_layers());
  features.push_back(memory_lock());
  features.push_back(descriptors());
  features.push_back(daemon_answers(connection));
  if (features.back().present) add_health(connection, &features);
  return features;
}

int doctor_exit_code(const std::vector<Feature> &features) {
  int code = kExitDone;
  for (const Feature &feature : features)
    if (!feature.present) code = std::max(code, feature.required ? kExitUnreachable : kExitFailed);
  return code;
}

int doctor(const Connection &connection, const std::string &btf_path, bool json) {
  const std::vector<Feature> features = examine(connection, btf_path);
  if (json)
    print_json(features);
  else
    print_text(features);
  return doctor_exit_code(features);
}

}  // namespace flushlight::cli
