// SPDX-License-Identifier: GPL-2.0-or-later
// See fake_daemon.h.
#include "fake_daemon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace flushlight::test {
namespace {

constexpr uint32_t kLedgerSlots = 64;
constexpr size_t kPageBytes = 4096;

int memory_file(const char *name, size_t bytes, bool allocate, int seals, void **pages) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  if (allocate) {
    EXPECT_EQ(posix_fallocate(fd, 0, static_cast<off_t>(bytes)), 0);
  }
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  EXPECT_NE(*pages, MAP_FAILED);
  return fd;
}

void fill(fl_message &message, uint16_t type, size_t bytes) {
  message = {FL_MESSAGE_MAGIC, FL_PROTOCOL_VERSION, type, static_cast<uint32_t>(bytes), 0};
}

}  // namespace

std::vector<char> packet_of(uint16_t type, const void *body, size_t bytes) {
  std::vector<char> packet(sizeof(fl_message) + bytes);
  fill(*reinterpret_cast<fl_message *>(packet.data()), type, packet.size());
  if (bytes > 0) memcpy(packet.data() + sizeof(fl_message), body, bytes);
  return packet;
}

std::vector<char> end_packet(uint32_t status, const char *text) {
  fl_end end{};
  end.status = status;
  strncpy(end.text, text, sizeof(end.text) - 1);
  return packet_of(FL_MESSAGE_END, reinterpret_cast<char *>(&end) + sizeof(fl_message),
                   sizeof(end) - sizeof(fl_message));
}

std::vector<char> rows_packet(uint32_t rows, const std::vector<char> &cells) {
  std::vector<char> body(8);
  memcpy(body.data(), &rows, 4);
  body.insert(body.end(), cells.begin(), cells.end());
  return packet_of(FL_MESSAGE_ROWS, body.data(), body.size());
}

FakeDaemon::FakeDaemon(Plan plan) : plan_(std::move(plan)) {
  char pattern[] = "/tmp/flushlight-test-XXXXXX";
  folder_ = mkdtemp(pattern);
  path_ = folder_ + "/s";
  void *pages = nullptr;
  control_fd_ = memory_file("control", kPageBytes, plan_.allocate, plan_.seals, &pages);
  control_ = static_cast<fl_control *>(pages);
  rings_bytes_ = static_cast<size_t>(plan_.slots) * (FL_RING_HEAD_BYTES + kRingBytes);
  rings_fd_ = memory_file("rings", rings_bytes_, plan_.allocate, plan_.seals, &pages);
  rings_ = static_cast<char *>(pages);
  ledger_fd_ = memory_file("ledger", kLedgerSlots * sizeof(fl_slot), plan_.allocate, plan_.seals, &pages);
  ledger_ = static_cast<fl_slot *>(pages);
  if (plan_.allocate) {
    control_->magic = FL_CONTROL_MAGIC;
    control_->version = FL_RING_VERSION;
    control_->epoch = 77;
    control_->query_text = 1;
    control_->tracing = plan_.ledger;
    beat();
  }

  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  stop_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  eventfd_write(stop_, 1);
  thread_.join();
  for (int fd : connections_) close(fd);
  for (int fd : {listener_, stop_, control_fd_, rings_fd_, ledger_fd_}) close(fd);
  munmap(control_, kPageBytes);
  munmap(rings_, rings_bytes_);
  munmap(ledger_, kLedgerSlots * sizeof(fl_slot));
  std::filesystem::remove_all(folder_);
}

void FakeDaemon::serve() {
  for (;;) {
    pollfd entries[2] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (poll(entries, 2, -1) < 0) continue;
    if (entries[1].revents != 0) return;
    int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) answer(connection);
  }
}

void FakeDaemon::answer(int connection) {
  std::vector<char> packet(FL_PACKET_BYTES_MAX);
  ssize_t got = recv(connection, packet.data(), packet.size(), 0);
  if (got < static_cast<ssize_t>(sizeof(fl_message))) {
    close(connection);
    return;
  }
  auto &message = *reinterpret_cast<fl_message *>(packet.data());
  if (message.type == FL_MESSAGE_HELLO) {
    greetings_++;
    welcome(connection);
    return;
  }
  for (const auto &one : plan_.answers) send(connection, one.data(), one.size(), MSG_NOSIGNAL);
  connections_.push_back(connection);
}

void FakeDaemon::welcome(int connection) {
  connections_.push_back(connection);
  fl_welcome welcome{};
  fill(welcome.message, FL_MESSAGE_WELCOME, sizeof(welcome));
  welcome.epoch = 77;
  welcome.token = plan_.ledger ? 0x123456789abcdefULL : 0;
  welcome.first_slot = plan_.ledger ? kFirstSlot : 0;
  welcome.slot_count = plan_.slots;
  welcome.ledger_slots = plan_.ledger ? kLedgerSlots : 0;
  welcome.ledger_version = plan_.ledger ? FL_LEDGER_VERSION : 0;
  welcome.ring_data_bytes = kRingBytes;
  welcome.descriptors = plan_.ledger ? 3 : 2;
  if (plan_.spoil) plan_.spoil(welcome);

  fl_end refused{};
  fill(refused.message, FL_MESSAGE_REFUSED, sizeof(refused));
  refused.status = EACCES;
  strcpy(refused.text, "not on the list");

  size_t bytes = sizeof(welcome);
  switch (plan_.answer) {
    case Plan::Answer::kWelcome:
      break;
    case Plan::Answer::kRefuse:
      send(connection, &refused, sizeof(refused), MSG_NOSIGNAL);
      return;
    case Plan::Answer::kHang:
      return;
    case Plan::Answer::kClose:
      shutdown(connection, SHUT_RDWR);
      return;
    case Plan::Answer::kShort:
      bytes -= 8;
      welcome.message.length -= 8;
      break;
    case Plan::Answer::kWrongMagic:
      welcome.message.magic ^= 1;
      break;
    case Plan::Answer::kWrongVersion:
      welcome.message.version = FL_PROTOCOL_VERSION + 2;
      break;
  }

  int descriptors[3] = {control_fd_, rings_fd_, ledger_fd_};
  uint32_t count = plan_.send_descriptors != 0 ? plan_.send_descriptors : (plan_.ledger ? 3 : 2);
  union {
    cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(descriptors))];
  } space{};
  iovec part{&welcome, bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space.bytes;
  header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
  cmsghdr *rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
  memcpy(CMSG_DATA(rights), descriptors, sizeof(int) * count);
  sendmsg(connection, &header, MSG_NOSIGNAL);
}

fl_ring_head *FakeDaemon::ring(uint32_t i) const {
  return reinterpret_cast<fl_ring_head *>(rings_ + static_cast<size_t>(i) * (FL_RING_HEAD_BYTES + kRingBytes));
}

std::vector<std::vector<char>> FakeDaemon::drain(uint32_t i) {
  std::vector<std::vector<char>> records;
  fl_ring_head *head = ring(i);
  const char *data = reinterpret_cast<const char *>(head) + FL_RING_HEAD_BYTES;
  uint64_t end = __atomic_load_n(&head->head, __ATOMIC_ACQUIRE);
  uint64_t at = head->tail;
  while (at < end) {
    size_t index = at % kRingBytes;
    fl_record_header header;
    memcpy(&header, data + index, sizeof(header));
    EXPECT_EQ(header.length % 8, 0U);
    EXPECT_GE(header.length, sizeof(header));
    EXPECT_LE(index + header.length, kRingBytes) << "a record wraps";
    if (::testing::Test::HasFailure()) break;
    if (header.type != FL_RECORD_PAD) records.emplace_back(data + index, data + index + header.length);
    at += header.length;
  }
  EXPECT_EQ(at, end);
  __atomic_store_n(&head->tail, end, __ATOMIC_RELEASE);
  return records;
}

void configure(const std::string &path, uint32_t slots_wanted) {
  flc_config config{};
  config.socket_path = path.c_str();
  config.hello.engine = FL_ENGINE_PROGRAM;
  config.hello.slots_wanted = slots_wanted;
  flc_detach();
  flc_configure(&config);
}

int open_descriptors() {
  int count = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    count++;
  }
  return count;
}

}  // namespace flushlight::test
