// SPDX-License-Identifier: GPL-2.0-or-later
#include "raw_client.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace flushlight::test {

fl_message message_head(fl_message_type type, size_t bytes) {
  return {FL_MESSAGE_MAGIC, FL_PROTOCOL_VERSION, static_cast<fl_u16>(type), static_cast<fl_u32>(bytes), 0};
}

std::string record_bytes(fl_record_type type, const void *fixed, size_t fixed_bytes, std::string_view tail) {
  std::string bytes(static_cast<const char *>(fixed), fixed_bytes);
  bytes += tail;
  bytes.resize((bytes.size() + 7) / 8 * 8);
  const fl_record_header header{static_cast<fl_u32>(bytes.size()), static_cast<fl_u16>(type), 1};
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::string session_record(uint64_t session_id, std::string_view user, std::string_view database, uint64_t userid,
                           uint64_t dbid) {
  fl_record_session record{};
  record.session_id = session_id;
  record.userid = userid;
  record.dbid = dbid;
  record.backend_start_unix_ns = 1'600'000'000'000'000'000;
  record.user_length = static_cast<fl_u16>(user.size());
  record.database_length = static_cast<fl_u16>(database.size());
  record.application_length = 3;
  record.address_length = 9;
  return record_bytes(FL_RECORD_SESSION, &record, sizeof record,
                      std::string(user) + std::string(database) + "app" + "127.0.0.1");
}

std::string text_record(uint64_t queryid, std::string_view text, bool truncated) {
  fl_record_text record{};
  record.queryid = queryid;
  record.text_length = static_cast<fl_u32>(text.size());
  record.flags = truncated ? FL_TEXT_TRUNCATED : 0;
  return record_bytes(FL_RECORD_TEXT, &record, sizeof record, text);
}

std::string session_end_record(uint64_t session_id) {
  fl_record_session_end record{};
  record.session_id = session_id;
  return make_record(FL_RECORD_SESSION_END, record);
}

void RawRing::write(std::string_view record) {
  const uint64_t at = head()->head % data_bytes_;
  if (at + record.size() > data_bytes_) {
    const fl_record_header pad{static_cast<fl_u32>(data_bytes_ - at), FL_RECORD_PAD, 1};
    std::memcpy(memory_ + FL_RING_HEAD_BYTES + at, &pad, sizeof pad);
    head()->head += data_bytes_ - at;
  }
  write_raw(record);
}

void RawRing::write_raw(std::string_view bytes) {
  const uint64_t at = head()->head % data_bytes_;
  const size_t first = std::min<size_t>(bytes.size(), data_bytes_ - at);
  std::memcpy(memory_ + FL_RING_HEAD_BYTES + at, bytes.data(), first);
  std::memcpy(memory_ + FL_RING_HEAD_BYTES, bytes.data() + first, bytes.size() - first);
  std::atomic_ref<uint64_t>(head()->head).store(head()->head + bytes.size(), std::memory_order_release);
}

void Unmap::operator()(char *memory) const { munmap(memory, bytes); }

bool RawClient::connect(const std::string &path) {
  fd.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return ::connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
}

bool RawClient::send(std::string_view bytes) {
  return ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

std::string RawClient::receive() {
  std::string bytes(FL_PACKET_BYTES_MAX, '\0');
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got <= 0) {
    closed_ |= got == 0 || (errno != EAGAIN && errno != EINTR);
    return "";
  }
  for (cmsghdr *head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(head) + i * sizeof(int), sizeof received);
      fds_.emplace_back(received);
    }
  }
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

bool RawClient::hello(std::string_view instance, uint32_t slots, fl_engine engine, uint32_t file_system) {
  fl_hello hello{};
  hello.message = message_head(FL_MESSAGE_HELLO, sizeof hello);
  hello.engine = engine;
  hello.slots_wanted = slots;
  hello.file_system = file_system;
  std::memcpy(hello.instance, instance.data(), std::min(instance.size(), sizeof hello.instance));
  std::strcpy(hello.engine_version, "1.2");
  std::strcpy(hello.client_version, "0.1");
  return send_struct(hello);
}

bool RawClient::take_welcome() {
  const std::string packet = receive();
  if (packet.size() < sizeof welcome_) return false;
  std::memcpy(&welcome_, packet.data(), sizeof welcome_);
  if (welcome_.message.type != FL_MESSAGE_WELCOME || fds_.size() != welcome_.descriptors) return false;
  void *control = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, control_fd(), 0);
  const size_t rings_bytes = size_t{welcome_.slot_count} * (FL_RING_HEAD_BYTES + welcome_.ring_data_bytes);
  void *rings = mmap(nullptr, rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rings_fd(), 0);
  if (control == MAP_FAILED || rings == MAP_FAILED) return false;
  control_ = {static_cast<char *>(control), Unmap{4096}};
  rings_ = {static_cast<char *>(rings), Unmap{rings_bytes}};
  return true;
}

RawRing RawClient::ring(uint32_t index) {
  return {rings_.get() + size_t{index} * (FL_RING_HEAD_BYTES + welcome_.ring_data_bytes), welcome_.ring_data_bytes};
}

bool RawClient::query(std::string_view view, const std::vector<std::string> &columns, std::string_view instance,
                      std::string_view user, bool see_all) {
  std::string names;
  for (const auto &column : columns) names.append(column.c_str(), column.size() + 1);
  fl_query query{};
  query.message = message_head(FL_MESSAGE_QUERY, sizeof query + names.size());
  std::memcpy(query.view, view.data(), std::min(view.size(), sizeof query.view));
  std::copy(instance.begin(), instance.end(), query.instance);
  std::copy(user.begin(), user.end(), query.user_name);
  query.flags = see_all ? FL_QUERY_SEE_ALL : 0;
  query.column_count = static_cast<fl_u32>(columns.size());
  return send(std::string(reinterpret_cast<const char *>(&query), sizeof query) + names);
}

bool RawClient::command(uint32_t code, std::string_view instance, uint64_t queryid, uint32_t flags, uint64_t userid) {
  fl_command command{};
  command.message = message_head(FL_MESSAGE_COMMAND, sizeof command);
  command.code = code;
  command.flags = flags;
  command.queryid = queryid;
  command.userid = userid;
  std::copy(instance.begin(), instance.end(), command.instance);
  return send_struct(command);
}

namespace {

struct Reader {
  std::string_view bytes;
  bool good = true;
  template <typename T>
  T take() {
    T value{};
    good = good && bytes.size() >= sizeof value;
    if (!good) return value;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
  }
  Cell cell() {
    Cell cell;
    cell.type = static_cast<fl_cell_type>(take<uint8_t>());
    if (cell.type == FL_CELL_INT || cell.type == FL_CELL_TIME) cell.integer = take<int64_t>();
    if (cell.type == FL_CELL_DOUBLE) cell.real = take<double>();
    if (cell.type == FL_CELL_TEXT) {
      const auto length = take<uint32_t>();
      good = good && bytes.size() >= length;
      if (!good) return cell;
      cell.text = bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
    return cell;
  }
};

}  // namespace

std::optional<Table> decode_rows(std::string_view packet, const std::vector<std::string> &columns) {
  Reader reader{packet};
  const auto head = reader.take<fl_rows>();
  if (!reader.good || head.message.type != FL_MESSAGE_ROWS || head.message.length != packet.size()) return std::nullopt;
  Table table;
  for (uint32_t i = 0; i < head.rows; i++) {
    auto &row = table.emplace_back();
    for (const auto &column : columns) row[column] = reader.cell();
  }
  if (!reader.good || !reader.bytes.empty()) return std::nullopt;
  return table;
}

}  // namespace flushlight::test
