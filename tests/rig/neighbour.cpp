// SPDX-License-Identifier: GPL-2.0-or-later
// rig-neighbour: another process that uses the same file system, until it is killed.
//
//   direct    threads that overwrite with O_DIRECT, one write each at a time: keeps the queue full
//   buffered  threads that overwrite through the page cache: dirty pages without end
//   synced    the same, but each syncs its file after every pass: write-back that somebody waits for
//   extend    threads that append and fsync, and begin anew at --file-mb: the journal of the file system
//
// Says "writing" when every thread has its file. Threads share nothing.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Options {
  std::string mode;
  std::string folder;
  unsigned threads = 1;
  size_t block_bytes = 64 << 10;
  size_t file_bytes = 32 << 20;
  unsigned blocks_per_sync = 16;  // extend
};

[[noreturn]] void fail(const char *what) {
  std::perror(what);
  std::_Exit(1);
}

void put(int fd, const void *data, size_t bytes, off_t at) {
  if (pwrite(fd, data, bytes, at) != static_cast<ssize_t>(bytes)) fail("rig-neighbour: write");
}

void work(const Options &options, unsigned number, std::latch &ready) {
  const std::string path = options.folder + "/neighbour" + std::to_string(number);
  const bool direct = options.mode == "direct", extend = options.mode == "extend", synced = options.mode == "synced";
  std::unique_ptr<char, decltype(&std::free)> block(static_cast<char *>(std::aligned_alloc(4096, options.block_bytes)),
                                                    &std::free);
  std::fill_n(block.get(), options.block_bytes, static_cast<char>('a' + number % 26));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (direct ? O_DIRECT : 0), 0600);
  if (fd < 0) fail(path.c_str());
  if (!extend) {
    for (size_t at = 0; at < options.file_bytes; at += options.block_bytes)
      put(fd, block.get(), options.block_bytes, static_cast<off_t>(at));
    if (fsync(fd) != 0) fail("rig-neighbour: fsync");
  }
  ready.count_down();
  size_t at = 0;
  for (unsigned written = 1;; ++written) {
    put(fd, block.get(), options.block_bytes, static_cast<off_t>(at));
    at += options.block_bytes;
    const bool pass = at + options.block_bytes > options.file_bytes;
    if ((extend && written % options.blocks_per_sync == 0) || (synced && pass))
      if (fsync(fd) != 0) fail("rig-neighbour: fsync");
    if (!pass) continue;
    at = 0;
    if (extend && ftruncate(fd, 0) != 0) fail("rig-neighbour: truncate");
  }
}

}  // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("A process that writes beside a database");
  app.add_option("--mode", options.mode)->required()->check(CLI::IsMember({"direct", "buffered", "synced", "extend"}));
  app.add_option("--folder", options.folder)->required();
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_option("--block-bytes", options.block_bytes)->check(CLI::Range(4096, 16 << 20));
  app.add_option("--file-bytes", options.file_bytes);
  app.add_option("--blocks-per-sync", options.blocks_per_sync)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::latch ready(options.threads);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.threads; ++i) threads.emplace_back(work, std::cref(options), i, std::ref(ready));
  ready.wait();
  std::puts("writing");
  std::fflush(stdout);
  for (std::thread &thread : threads) thread.join();
}
