// SPDX-License-Identifier: GPL-2.0-or-later
// slownbd SOCKET_FD CONTROL MEGABYTES [--policy fifo]
//
// A network block device in memory, for one client (QEMU, which makes an NVMe drive of it) on a connected socket. It
// holds operations as the control block says, like slowfs. A write with FUA is a write here and a flush is a flush, as
// on a real drive; a file would be synced after each write with FUA. Ends when the client hangs up.
//
// Threads: main reads requests, workers hold and answer them. They share the memory of the disk (as a drive's own: the
// client does not write one block twice at once), the queue and the socket's sending side (one lock each).
// Protocol: NBD, fixed newstyle, simple replies (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).
#include <arpa/inet.h>
#include <endian.h>
#include <sys/uio.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "held.h"

namespace {

using rig::Kind;

constexpr uint64_t kGreeting = 0x4e42444d41474943, kOptionMagic = 0x49484156454f5054;
constexpr uint64_t kOptionReplyMagic = 0x3e889045565a9;
constexpr uint32_t kRequestMagic = 0x25609513, kReplyMagic = 0x67446698;
constexpr uint16_t kFixedNewstyle = 1, kNoZeroes = 2;
constexpr uint32_t kOptionExportName = 1, kOptionAbort = 2, kOptionInfo = 6, kOptionGo = 7;
constexpr uint32_t kReplyAck = 1, kReplyInfo = 3, kReplyUnsupported = 0x80000001;
constexpr uint16_t kInfoExport = 0, kInfoBlockSize = 3;
constexpr uint16_t kHasFlags = 1, kSendsFlush = 4, kSendsFua = 8, kSendsTrim = 32, kSendsZeroes = 64;
constexpr uint16_t kExportFlags = kHasFlags | kSendsFlush | kSendsFua | kSendsTrim | kSendsZeroes;
enum Command : uint16_t { kRead = 0, kWrite = 1, kHangUp = 2, kFlush = 3, kTrim = 4, kZeroes = 6 };
constexpr uint32_t kBlockBytes = 512, kMostBytes = 32u << 20, kOptionMost = 4096;
constexpr unsigned kWorkers = 64;

#pragma pack(push, 1)
struct OptionHeader {
  uint64_t magic;
  uint32_t option, length;
};
struct OptionReply {
  uint64_t magic;
  uint32_t option, type, length;
};
struct ExportInfo {
  uint16_t type;
  uint64_t size_bytes;
  uint16_t flags;
};
struct BlockSizeInfo {
  uint16_t type;
  uint32_t least, preferred, most;
};
struct Request {
  uint32_t magic;
  uint16_t flags, command;
  uint64_t cookie, offset_bytes;
  uint32_t length_bytes;
};
struct Reply {
  uint32_t magic, error;
  uint64_t cookie;
};
#pragma pack(pop)

struct Job {
  Request request;
  std::vector<char> data;
};

int client = -1;
rig::SlowControl *control = nullptr;
char *disk = nullptr;
uint64_t disk_bytes = 0;
std::mutex sending, queueing;
std::condition_variable queued;
std::deque<Job> queue;

bool receive(void *into, size_t bytes) {
  for (auto *at = static_cast<char *>(into); bytes > 0;) {
    const ssize_t got = read(client, at, bytes);
    if (got <= 0) {
      if (got < 0 && errno == EINTR) continue;
      return false;
    }
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool send_all(const void *from, size_t bytes) {
  for (const auto *at = static_cast<const char *>(from); bytes > 0;) {
    const ssize_t put = write(client, at, bytes);
    if (put <= 0) {
      if (put < 0 && errno == EINTR) continue;
      return false;
    }
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

bool answer_option(uint32_t option, uint32_t type, const void *data = nullptr, uint32_t length = 0) {
  const OptionReply reply{htobe64(kOptionReplyMagic), htonl(option), htonl(type), htonl(length)};
  return send_all(&reply, sizeof reply) && send_all(data, length);
}

bool answer_go(uint32_t option) {
  const ExportInfo info{htons(kInfoExport), htobe64(disk_bytes), htons(kExportFlags)};
  const BlockSizeInfo sizes{htons(kInfoBlockSize), htonl(kBlockBytes), htonl(4096), htonl(kMostBytes)};
  return answer_option(option, kReplyInfo, &info, sizeof info) &&
         answer_option(option, kReplyInfo, &sizes, sizeof sizes) && answer_option(option, kReplyAck);
}

// Options until the client goes over to requests; false: it does not.
bool shake_hands() {
  const uint64_t hello[] = {htobe64(kGreeting), htobe64(kOptionMagic)};
  const uint16_t flags = htons(kFixedNewstyle | kNoZeroes);
  uint32_t client_flags = 0;
  if (!send_all(hello, sizeof hello) || !send_all(&flags, sizeof flags) || !receive(&client_flags, sizeof client_flags))
    return false;
  for (;;) {
    OptionHeader header{};
    char data[kOptionMost];
    if (!receive(&header, sizeof header)) return false;
    const uint32_t option = ntohl(header.option), length = ntohl(header.length);
    if (be64toh(header.magic) != kOptionMagic || length > sizeof data || !receive(data, length)) return false;
    if (option == kOptionExportName || option == kOptionAbort) return false;  // QEMU asks to go
    const bool known = option == kOptionGo || option == kOptionInfo;
    if (known ? !answer_go(option) : !answer_option(option, kReplyUnsupported)) return false;
    if (option == kOptionGo) return true;
  }
}

bool within_disk(const Request &request) {
  return request.length_bytes <= kMostBytes && request.offset_bytes <= disk_bytes &&
         request.length_bytes <= disk_bytes - request.offset_bytes;
}

void serve(Job &job) {
  const Request &request = job.request;
  static constexpr Kind kKinds[] = {Kind::read, Kind::write, Kind::read, Kind::flush};
  const bool counted = request.command < std::size(kKinds);  // trims and zeroes are nobody's wait
  char *at = disk + request.offset_bytes;
  if (!counted) {
    std::memset(at, 0, request.length_bytes);
  } else {
    const rig::Held held(*control, kKinds[request.command], request.offset_bytes, request.length_bytes);
    if (request.command == kRead) job.data.assign(at, at + request.length_bytes);
    if (request.command == kWrite) std::memcpy(at, job.data.data(), job.data.size());
    held.log();
  }
  const Reply reply{htonl(kReplyMagic), 0, request.cookie};
  const std::lock_guard lock(sending);
  if (send_all(&reply, sizeof reply) && request.command == kRead) send_all(job.data.data(), job.data.size());
}

void work() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(queueing);
      queued.wait(lock, [] { return !queue.empty(); });
      job = std::move(queue.front());
      queue.pop_front();
    }
    serve(job);
  }
}

// false: the client has hung up, or made no sense.
bool take_request() {
  Job job;
  Request &request = job.request;
  if (!receive(&request, sizeof request) || ntohl(request.magic) != kRequestMagic) return false;
  request.command = ntohs(request.command);
  request.offset_bytes = be64toh(request.offset_bytes);
  request.length_bytes = ntohl(request.length_bytes);
  if (request.command == kHangUp || !within_disk(request)) return false;
  if (request.command == kWrite) {
    job.data.resize(request.length_bytes);
    if (!receive(job.data.data(), job.data.size())) return false;
  }
  {
    const std::lock_guard lock(queueing);
    queue.push_back(std::move(job));
  }
  queued.notify_one();
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  const bool fifo = argc == 6 && !std::strcmp(argv[4], "--policy") && !std::strcmp(argv[5], "fifo");
  if (argc != 4 && !fifo) {
    std::fprintf(stderr, "usage: slownbd SOCKET_FD CONTROL MEGABYTES [--policy fifo]\n");
    return 2;
  }
  client = std::atoi(argv[1]);
  disk_bytes = std::strtoull(argv[3], nullptr, 10) << 20;
  control = rig::open_control(argv[2]);
  if (control == nullptr) return 1;
  rig::prepare_process(fifo, MCL_ONFAULT);  // the disk is larger than what is used of it
  void *memory = mmap(nullptr, disk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("slownbd: memory of the disk");
    return 1;
  }
  disk = static_cast<char *>(memory);
  for (unsigned i = 0; i < kWorkers; i++) std::thread(work).detach();
  control->ready = 1;
  if (!shake_hands()) return 1;
  while (take_request()) {
  }
  _exit(0);  // workers may hold operations that nobody waits for any more
}
