// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/probe/queue_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "sidecar/host/text_files.h"

namespace flushlight::probe {
namespace {

namespace fs = std::filesystem;

constexpr const char *kSchema = "flushlight-probe-queue/1";
constexpr size_t kStateBytesMax = 4096;
constexpr const char *kSuffix = ".json";
constexpr int kLockTries = 20;
constexpr std::chrono::milliseconds kLockNap{100};

std::string state_path(const StatePaths &paths, const std::string &device) {
  return paths.folder + "/" + device + kSuffix;
}

Error not_trusted(const std::string &path, const char *why) {
  return Error{EPERM,
               fmt::format("{} {}: it was not written by flushlight probe; look at it, then delete it", path, why)};
}

// Nobody but this user may have written there.
Result<> check_owner(const std::string &path, const struct stat &status) {
  if (status.st_uid != geteuid()) return not_trusted(path, "belongs to another user");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return not_trusted(path, "can be written by others");
  return Ok{};
}

// Opens the folder and takes its lock. restoring: a folder that does not exist gives an empty descriptor.
Result<UniqueFd> lock_folder(const std::string &folder, bool restoring) {
  if (!restoring && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error(errno, folder);
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (restoring && errno == ENOENT) return UniqueFd();
    return system_error(errno, folder);
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return system_error(errno, folder);
  if (auto owned = check_owner(folder, status); !owned) return owned.error();
  // The guard of a run that was killed holds it for as long as it takes to put things back.
  for (int tries = restoring ? kLockTries : 0; flock(fd.get(), LOCK_EX | LOCK_NB) != 0; tries--) {
    if (tries > 0) {
      std::this_thread::sleep_for(kLockNap);
      continue;
    }
    return Error{EBUSY, "another flushlight probe --matrix is at work: wait for its end, or end it"};
  }
  return fd;
}

Result<> write_all(int fd, const std::string &text, const std::string &path) {
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return system_error(errno, path);
  return fsync(fd) == 0 ? Result<>(Ok{}) : system_error(errno, path);
}

Result<> save(const SavedQueue &saved, const StatePaths &paths, int folder_fd) {
  const std::string path = state_path(paths, saved.device), fresh = path + ".new";
  {
    unlink(fresh.c_str());
    const UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return system_error(errno, fresh);
    if (auto written = write_all(fd.get(), to_text(saved), fresh); !written) return written;
  }
  if (rename(fresh.c_str(), path.c_str()) != 0) return system_error(errno, path);
  fsync(folder_fd);
  return Ok{};
}

Result<SavedQueue> load(const std::string &path, const std::string &device) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return system_error(errno, path);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return system_error(errno, path);
  if (!S_ISREG(status.st_mode)) return not_trusted(path, "is not a file");
  if (auto owned = check_owner(path, status); !owned) return owned.error();
  std::string text(kStateBytesMax + 1, '\0');
  const ssize_t got = read(fd.get(), text.data(), text.size());
  if (got < 0) return system_error(errno, path);
  if (static_cast<size_t>(got) > kStateBytesMax) return not_trusted(path, "is too long");
  text.resize(static_cast<size_t>(got));
  auto saved = parse_saved(text, device);
  if (!saved) return Error{saved.error().code, path + ": " + saved.error().text};
  return saved;
}

// The lock is held by the caller.
Result<std::string> restore_one(const std::string &device, const StatePaths &paths) {
  const std::string path = state_path(paths, device);
  const auto saved = load(path, device);
  if (!saved) return saved.error();
  const auto forget = [&path](std::string text) { return unlink(path.c_str()), text; };
  if (saved->boot_id != read_first_line(paths.boot_id))
    return forget("nothing to put back: the host has booted since, and settings do not survive that");
  const auto queue = Queue::open(device, paths.sys);
  if (!queue) return forget("nothing to put back: the device is gone");
  if (queue->number() != saved->number) return forget("nothing to put back: the name belongs to another device now");
  if (auto applied = queue->apply(saved->settings); !applied) return applied.error();
  return forget("put back: " + text_of(saved->settings));
}

std::vector<std::string> saved_devices(const StatePaths &paths) {
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(paths.folder, error))
    if (entry.path().extension() == kSuffix && is_device_name(entry.path().stem().string()))
      devices.push_back(entry.path().stem());
  return devices;
}

// The guard's life: until the pipe closes. A byte before that: all is well.
[[noreturn]] void guard_main(int pipe_fd, const std::string &device, const StatePaths &paths) {
  setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(number, SIG_IGN);
  const int null = open("/dev/null", O_RDWR);
  for (const int standard : {0, 1, 2}) dup2(null, standard);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(pipe_fd, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 0) (void)restore_one(device, paths);
  _exit(0);
}

}  // namespace

std::string to_text(const SavedQueue &saved) {
  const nlohmann::ordered_json json = {{"schema", kSchema},
                                       {"boot_id", saved.boot_id},
                                       {"device", saved.device},
                                       {"number", saved.number},
                                       {"scheduler", saved.settings.scheduler},
                                       {"nr_requests", saved.settings.nr_requests},
                                       {"nomerges", saved.settings.nomerges}};
  return json.dump(2) + "\n";
}

Result<SavedQueue> parse_saved(const std::string &text, const std::string &device) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto text_at = [&json](const char *key) {
    return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>()
                                                                           : std::string();
  };
  const auto number_at = [&json](const char *key) {
    return json.is_object() && json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : -1;
  };
  if (text_at("schema") != kSchema) return Error{EINVAL, "is not a state of flushlight probe, or of another version"};
  SavedQueue saved;
  saved.device = text_at("device");
  saved.number = text_at("number");
  saved.boot_id = text_at("boot_id");
  saved.settings = {text_at("scheduler"), number_at("nr_requests"), number_at("nomerges")};
  if (saved.device != device || !is_device_name(saved.device))
    return Error{EINVAL, "names another device than its own name does"};
  if (!is_sane(saved.settings)) return Error{EINVAL, "has settings that no queue has"};
  return saved;
}

Result<std::vector<Restored>> restore_all(const StatePaths &paths) {
  std::vector<Restored> done;
  const auto lock = lock_folder(paths.folder, true);
  if (!lock) return lock.error();
  if (!*lock) return done;
  for (const std::string &device : saved_devices(paths)) {
    auto restored = restore_one(device, paths);
    if (!restored) return restored.error();
    done.push_back({device, *restored});
  }
  return done;
}

Result<std::unique_ptr<QueueKeeper>> QueueKeeper::begin(const Queue &queue, const StatePaths &paths) {
  std::unique_ptr<QueueKeeper> keeper(new QueueKeeper(queue, paths));
  keeper->done_ = true;  // until there is something to put back
  auto lock = lock_folder(paths.folder, false);
  if (!lock) return lock.error();
  keeper->lock_ = std::move(*lock);
  if (const auto left = saved_devices(paths); !left.empty())
    return Error{
        EEXIST, fmt::format("an earlier run was killed and left the settings of {} changed: flushlight probe --restore "
                            "puts them back",
                            left[0])};
  auto settings = queue.read();
  if (!settings) return settings.error();
  keeper->saved_ = {queue.name(), queue.number(), read_first_line(paths.boot_id), *settings};
  if (auto saved = save(keeper->saved_, paths, keeper->lock_.get()); !saved) return saved.error();
  keeper->done_ = false;
  if (auto started = keeper->start_guard(); !started) return started.error();
  return keeper;
}

Result<> QueueKeeper::start_guard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "pipe");
  UniqueFd reading(ends[0]);
  alive_ = UniqueFd(ends[1]);
  guard_ = fork();
  if (guard_ < 0) return system_error(errno, "fork");
  if (guard_ == 0) {
    alive_.reset();  // else its own end would keep the pipe open
    guard_main(reading.get(), saved_.device, paths_);
  }
  return Ok{};
}

Result<> QueueKeeper::put_back() {
  if (done_) return Ok{};
  auto restored = restore_one(saved_.device, paths_);
  if (!restored) return restored.error();
  done_ = true;
  return Ok{};
}

QueueKeeper::~QueueKeeper() {
  (void)put_back();
  if (guard_ <= 0) return;
  const char done = 'd';
  if (done_) (void)!write(alive_.get(), &done, 1);  // else it tries once more
  alive_.reset();
  waitpid(guard_, nullptr, 0);
}

}  // namespace flushlight::probe
