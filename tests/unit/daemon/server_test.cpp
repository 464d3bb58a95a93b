// SPDX-License-Identifier: GPL-2.0-or-later
// The socket and what strangers may do to it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <random>

#include "fixture.h"

namespace flushlight::test {
namespace {

using Server = DaemonTest;

fl_end as_end(const std::string &packet) {
  fl_end end{};
  EXPECT_EQ(packet.size(), sizeof end);
  std::memcpy(&end, packet.data(), std::min(packet.size(), sizeof end));
  return end;
}

TEST_F(Server, HandsOutSealedMemory) {
  start();
  RawClient client = attached("one", 3);
  EXPECT_EQ(client.welcome().slot_count, 3u);
  EXPECT_EQ(client.welcome().descriptors, 2u);
  EXPECT_EQ(client.welcome().token, 0u);
  EXPECT_EQ(client.welcome().first_slot, 0u);
  EXPECT_EQ(client.control()->magic, FL_CONTROL_MAGIC);
  EXPECT_EQ(client.control()->tracing, 0u);
  EXPECT_EQ(client.control()->epoch, client.welcome().epoch);
  const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(fcntl(client.rings_fd(), F_GET_SEALS) & size_seals, size_seals);
  EXPECT_EQ(fcntl(client.control_fd(), F_GET_SEALS) & size_seals, size_seals);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, client.control_fd(), 0), MAP_FAILED)
      << "a database may not write the control page";
  EXPECT_LT(write(client.control_fd(), "x", 1), 0);
}

TEST_F(Server, HeartbeatFollowsTheClock) {
  start();
  RawClient client = attached("one");
  const uint64_t before = client.control()->heartbeat_ns;
  clock_.advance_ns(FL_HEARTBEAT_INTERVAL_NS);
  settle();
  EXPECT_EQ(client.control()->heartbeat_ns, before + FL_HEARTBEAT_INTERVAL_NS);
}

TEST_F(Server, TracedHandOutHasLedgerTokenAndRange) {
  start(true);
  RawClient client = attached("one", 100);
  EXPECT_EQ(client.welcome().descriptors, 3u);
  EXPECT_EQ(client.welcome().token, 77u);
  EXPECT_EQ(client.welcome().first_slot, 10u);
  EXPECT_EQ(client.welcome().slot_count, 4u);
  EXPECT_EQ(client.welcome().ledger_slots, 256u);
  EXPECT_EQ(client.control()->tracing, 1u);
  client.fd.reset();
  settle();
  ASSERT_EQ(kernel_->revoked.size(), 1u);
  EXPECT_EQ(kernel_->revoked[0].token, 77u);
}

TEST_F(Server, FullLedgerStillAttaches) {
  start(true);
  kernel_->grant_fails = true;
  RawClient client = attached("one", 2);
  EXPECT_EQ(client.welcome().descriptors, 2u);
  EXPECT_EQ(client.welcome().slot_count, 2u);
}

TEST_F(Server, MemoryOfAllRingsIsBounded) {
  config_.ring_memory_max_bytes = 3 * (FL_RING_HEAD_BYTES + config_.ring_data_bytes);
  start();
  RawClient first = attached("one", 2);
  RawClient second = connected();
  ASSERT_TRUE(second.hello("one", 2));
  settle();
  const fl_end end = as_end(second.receive());
  EXPECT_EQ(end.message.type, FL_MESSAGE_REFUSED);
  EXPECT_EQ(end.status, static_cast<uint32_t>(EAGAIN));
  EXPECT_NE(std::string(end.text).find("rings.memory_max_bytes"), std::string::npos) << end.text;
  first.fd.reset();
  settle();
  attached("one", 2);
}

TEST_F(Server, StrangersAreRefusedWithTheRemedy) {
  config_.allowed_peers = PeerList{false, {12345}};
  start();
  RawClient client = connected();
  const fl_end end = as_end(client.receive());
  EXPECT_EQ(end.message.type, FL_MESSAGE_REFUSED);
  EXPECT_EQ(end.status, static_cast<uint32_t>(EACCES));
  EXPECT_NE(std::string(end.text).find("allowed_peers"), std::string::npos) << end.text;
  fl_command command{};
  command.message = message_head(FL_MESSAGE_COMMAND, sizeof command);
  command.code = FL_COMMAND_OFF;
  EXPECT_TRUE(client.send_struct(command)) << "the door is not closed in its face";
  settle();
  client.receive();
  EXPECT_TRUE(client.closed());
  EXPECT_FALSE(daemon_->state().off) << "a stranger is not heard";
  EXPECT_EQ(daemon_->state().refused_peers, 1u);
}

TEST_F(Server, StrangersDoNotHoldDescriptors) {
  config_.allowed_peers = PeerList{false, {12345}};
  start();
  std::vector<RawClient> strangers;
  for (int i = 0; i < 200; i++) strangers.push_back(connected());
  size_t open = 0;
  for (RawClient &stranger : strangers) {
    EXPECT_EQ(as_end(stranger.receive()).status, static_cast<uint32_t>(EACCES));
    stranger.receive();
    open += !stranger.closed();
  }
  EXPECT_LE(open, SocketServer::kRefusedMax);
  clock_.advance_ms(3000);
  settle();
  for (RawClient &stranger : strangers) {
    stranger.receive();
    EXPECT_TRUE(stranger.closed());
  }
}

TEST_F(Server, UnknownMessagesAreRefusedAndClosed) {
  start();
  const auto refused = [this](std::string_view sent) {
    RawClient client = connected();
    EXPECT_TRUE(client.send(sent));
    settle();
    const fl_end end = as_end(client.receive());
    client.receive();
    return end.message.type == FL_MESSAGE_REFUSED && end.status == EPROTO && client.closed();
  };
  const auto bytes_of = [](auto value) { return std::string(reinterpret_cast<const char *>(&value), sizeof value); };
  EXPECT_TRUE(refused("x"));
  EXPECT_TRUE(refused(std::string(300, '\0')));
  EXPECT_TRUE(refused(bytes_of(message_head(FL_MESSAGE_HELLO, sizeof(fl_message))))) << "a HELLO that is too short";
  EXPECT_TRUE(refused(bytes_of(message_head(FL_MESSAGE_WELCOME, sizeof(fl_message)))));
  EXPECT_TRUE(refused(bytes_of(message_head(static_cast<fl_message_type>(999), sizeof(fl_message)))));
  fl_query query{};
  query.message = message_head(FL_MESSAGE_QUERY, sizeof query);
  query.column_count = 1;  // and no name
  EXPECT_TRUE(refused(bytes_of(query)));
  query.column_count = UINT32_MAX;
  EXPECT_TRUE(refused(bytes_of(query)));
  fl_hello hello{};
  hello.message = message_head(FL_MESSAGE_HELLO, sizeof hello);
  hello.engine = FL_ENGINE_PROGRAM;
  EXPECT_TRUE(refused(bytes_of(hello))) << "no instance name";
  hello.instance[0] = 'x';
  hello.engine = 99;
  EXPECT_TRUE(refused(bytes_of(hello))) << "an engine that nobody knows";
}

TEST_F(Server, ALongerMessageOfANewerPeerIsFine) {
  start();
  RawClient client = connected();
  std::string packet(sizeof(fl_command) + 64, '\0');
  fl_command command{};
  command.message = message_head(FL_MESSAGE_COMMAND, packet.size());
  command.message.version = FL_PROTOCOL_VERSION + 1;
  command.code = FL_COMMAND_PING;
  std::memcpy(packet.data(), &command, sizeof command);
  ASSERT_TRUE(client.send(packet));
  settle();
  const fl_end end = as_end(client.receive());
  EXPECT_EQ(end.message.type, FL_MESSAGE_END);
  EXPECT_EQ(end.status, 0u);
}

TEST_F(Server, RandomPacketsDoNoHarm) {
  start();
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; i++) {
    RawClient client;
    ASSERT_TRUE(client.connect(config_.socket_path));
    std::string packet(random() % 700 + 1, '\0');
    for (char &byte : packet) byte = static_cast<char>(random());
    if (i % 2 == 0 && packet.size() >= sizeof(fl_message)) {  // a good head: deeper into the code
      const auto head = message_head(static_cast<fl_message_type>(random() % 9), packet.size());
      std::memcpy(packet.data(), &head, sizeof head);
    }
    EXPECT_TRUE(client.send(packet));
    daemon_->step(0);
    daemon_->step(0);
  }
  settle();
  EXPECT_EQ(run_command(FL_COMMAND_PING).status, 0u);
}

TEST_F(Server, TooLongAPacketIsRefused) {
  start();
  RawClient client = connected();
  const int big = 1 << 20;
  setsockopt(client.fd.get(), SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
  ASSERT_TRUE(client.send(std::string(FL_PACKET_BYTES_MAX + 8, 'x')));
  settle();
  EXPECT_EQ(as_end(client.receive()).status, static_cast<uint32_t>(EPROTO));
}

TEST_F(Server, SecondHelloOnAConnectionIsRefused) {
  start();
  RawClient client = attached("one");
  ASSERT_TRUE(client.hello("one", 1));
  settle();
  EXPECT_EQ(as_end(client.receive()).status, static_cast<uint32_t>(EPROTO));
  settle();
  EXPECT_TRUE(daemon_->intake().leases().empty());
}

TEST_F(Server, DescriptorsThatAClientSendsAreNotKept) {
  start();
  RawClient client = connected();
  const auto count = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto before = count();
  for (int i = 0; i < 20; i++) {
    fl_command command{};
    command.message = message_head(FL_MESSAGE_COMMAND, sizeof command);
    command.code = FL_COMMAND_PING;
    iovec part{&command, sizeof command};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int sent = 0;
    std::memcpy(CMSG_DATA(head), &sent, sizeof sent);
    ASSERT_GT(sendmsg(client.fd.get(), &message, 0), 0);
    settle();
    EXPECT_FALSE(client.receive().empty());
  }
  EXPECT_EQ(count(), before);
}

TEST_F(Server, AThousandConnections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 3000) GTEST_SKIP() << "only " << limit.rlim_max << " descriptors allowed";
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 1000; i++) {
    clients.push_back(attached(i % 2 == 0 ? "even" : "odd"));
    ASSERT_FALSE(HasFailure()) << "connection " << i;
    RawRing ring = clients.back().ring(0);
    ring.write(session_record(static_cast<uint64_t>(i) + 1, "user", "db"));
    ring.write(bytes(commit(static_cast<uint64_t>(i) + 1, 5, 1)));
  }
  EXPECT_EQ(daemon_->intake().leases().size(), 1000u);
  const Table rows = rows_of("statements", "even");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("commits").integer, 500);
  clients.clear();
  for (int i = 0; i < 20; i++) settle();
  EXPECT_TRUE(daemon_->intake().leases().empty());
}

TEST_F(Server, WhatWasWrittenBeforeTheEndOfAConnectionCounts) {
  start();
  {
    RawClient client = attached("one");
    client.ring(0).write(session_record(1, "user", "db"));
    client.ring(0).write(bytes(commit(1, 5, 1)));
  }
  settle();
  EXPECT_TRUE(daemon_->intake().leases().empty());
  const Table rows = rows_of("statements", "one");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("commits").integer, 1);
}

TEST_F(Server, DisconnectInTheMiddleOfAnAnswer) {
  start();
  RawClient writer = attached("one");
  for (uint64_t i = 0; i < 3000; i++) {
    writer.ring(0).write(bytes(commit(1, i + 1, 1)));
    if (i % 50 == 0) rows_of("health");
  }
  {
    RawClient reader = connected();
    ASSERT_TRUE(reader.query("statements", columns_of("statements"), "one"));
    daemon_->step(0);
    reader.receive();
  }
  settle();
  EXPECT_EQ(run_command(FL_COMMAND_PING).status, 0u);
  EXPECT_EQ(rows_of("statements", "one").size(), 3000u);
}

TEST_F(Server, SlowReaderIsDroppedAndStallsNobody) {
  start();
  RawClient writer = attached("one");
  for (uint64_t i = 0; i < 3000; i++) {
    writer.ring(0).write(bytes(commit(1, i + 1, 1)));
    if (i % 50 == 0) rows_of("health");
  }
  RawClient slow = connected();
  ASSERT_TRUE(slow.query("statements", columns_of("statements"), "one"));
  settle();
  EXPECT_EQ(run_command(FL_COMMAND_PING).status, 0u) << "others are served meanwhile";
  clock_.advance_ns(SocketServer::kReadDeadlineNs + 2'000'000'000);
  settle();
  while (!slow.receive().empty()) {
  }
  EXPECT_TRUE(slow.closed());
  settle();
  clock_.advance_ms(1100);
  settle();
  EXPECT_EQ(daemon_->state().dropped_readers, 1u);
}

TEST_F(Server, IdleConnectionsWithoutALeaseGo) {
  start();
  RawClient idle = connected();
  RawClient lease = attached("one");
  clock_.advance_ns(SocketServer::kIdleNs + 2'000'000'000);
  settle();
  idle.receive();
  EXPECT_TRUE(idle.closed());
  lease.receive();
  EXPECT_FALSE(lease.closed());
}

TEST_F(Server, SecondDaemonOnTheSocketRefusesToStart) {
  start();
  Daemon second(config_, clock_, nullptr, "");
  const auto started = second.start();
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().text.find("another flushlightd"), std::string::npos) << started.error().text;
  EXPECT_EQ(run_command(FL_COMMAND_PING).status, 0u) << "the first one goes on";
}

TEST_F(Server, AFileThatIsNoSocketIsNotRemoved) {
  { std::fclose(std::fopen(config_.socket_path.c_str(), "w")); }
  Daemon daemon(config_, clock_, nullptr, "");
  EXPECT_FALSE(daemon.start());
  EXPECT_TRUE(std::filesystem::exists(config_.socket_path));
  std::filesystem::remove(config_.socket_path);
}

TEST_F(Server, OffAndOn) {
  start(true);
  RawClient client = attached("one");
  EXPECT_EQ(run_command(FL_COMMAND_OFF).status, 0u);
  EXPECT_EQ(client.control()->off, 1u);
  EXPECT_EQ(client.control()->tracing, 0u);
  EXPECT_FALSE(kernel_->is_enabled);
  EXPECT_EQ(run_command(FL_COMMAND_ON).status, 0u);
  EXPECT_EQ(client.control()->off, 0u);
  EXPECT_EQ(client.control()->tracing, 1u);
  EXPECT_TRUE(kernel_->is_enabled);
}

TEST_F(Server, InstancesThatWentMakeRoom) {
  start();
  RawClient stays = attached("stays");
  stays.ring(0).write(bytes(commit(1, 5, 1)));
  for (int i = 0; i < 1100; i++) {
    RawClient passing = attached("passing-" + std::to_string(i));
    ASSERT_FALSE(HasFailure()) << i;
    passing.ring(0).write(bytes(commit(1, 5, 1)));
    clock_.advance_ms(1);
  }
  settle();
  EXPECT_LE(daemon_->intake().instances().size(), 1024u);
  EXPECT_EQ(rows_of("statements", "stays").size(), 1u);
  EXPECT_EQ(rows_of("statements", "passing-1099").size(), 1u);
  EXPECT_TRUE(rows_of("statements", "passing-0").empty());
  for (const auto &row : rows_of("statements")) EXPECT_EQ(row.at("instance").type, FL_CELL_TEXT);
}

TEST_F(Server, UnknownViewAndCommand) {
  start();
  RawClient client = connected();
  ASSERT_TRUE(client.query("nonsense", {"a"}, ""));
  EXPECT_EQ(read_answer(client, {"a"}).end.status, static_cast<uint32_t>(ENOENT));
  ASSERT_TRUE(client.command(4711));
  EXPECT_EQ(read_answer(client, {}).end.status, static_cast<uint32_t>(EPROTO));
}

TEST_F(Server, ReloadTakesWhatItCan) {
  start();
  RawClient client = attached("one");
  Config wanted = config_;
  wanted.full_query_text = false;
  wanted.socket_path = "/somewhere/else";
  wanted.allowed_peers.any = true;
  daemon_->reload(wanted);
  EXPECT_EQ(client.control()->query_text, 0u);
  EXPECT_EQ(run_command(FL_COMMAND_PING).status, 0u);
}

}  // namespace
}  // namespace flushlight::test
