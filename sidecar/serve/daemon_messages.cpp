// SPDX-License-Identifier: GPL-2.0-or-later
// The daemon's side of abi/attach.h. Whatever arrives is checked before it is believed.
#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "sidecar/base/log.h"
#include "sidecar/base/text.h"
#include "sidecar/host/process.h"
#include "sidecar/serve/daemon.h"
#include "sidecar/serve/view.h"

namespace flushlight {
namespace {

constexpr uint32_t kColumnsMax = 256;

template <typename T>
T copy_of(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

void Daemon::on_message(Connection &connection, std::span<const std::byte> bytes) {
  struct Kind {
    uint16_t type;
    size_t bytes;
    void (Daemon::*handle)(Connection &, std::span<const std::byte>);
  };
  static constexpr Kind kKinds[] = {{FL_MESSAGE_HELLO, sizeof(fl_hello), &Daemon::on_hello},
                                    {FL_MESSAGE_QUERY, sizeof(fl_query), &Daemon::on_query},
                                    {FL_MESSAGE_COMMAND, sizeof(fl_command), &Daemon::on_command}};
  if (bytes.size() < sizeof(fl_message)) return refuse(connection, EPROTO, "the packet is shorter than its head");
  const auto head = copy_of<fl_message>(bytes);
  if (head.magic != FL_MESSAGE_MAGIC || head.length != bytes.size())
    return refuse(connection, EPROTO, "this is not a message of flushlight");
  for (const Kind &kind : kKinds) {
    if (head.type != kind.type) continue;
    if (bytes.size() < kind.bytes)
      return refuse(
          connection, EPROTO,
          fmt::format("a message of type {} needs {} bytes, this one has {}", kind.type, kind.bytes, bytes.size()));
    return (this->*kind.handle)(connection, bytes);
  }
  refuse(connection, EPROTO,
         fmt::format("messages of type {} are not known here (protocol version {})", head.type, FL_PROTOCOL_VERSION));
}

void Daemon::refuse(Connection &connection, uint32_t status, const std::string &text) {
  if (status == EPROTO) state_.refused_messages++;
  spdlog::debug("refused a message of process {}: {}", connection.peer_pid, text);
  reply(connection, {make_end(FL_MESSAGE_REFUSED, status, 0, text)});
  server_.close_when_sent(connection);
}

void Daemon::reply(Connection &connection, std::vector<Packet> packets) {
  if (server_.send(connection, std::move(packets))) return;
  // Too much waits to be read. The refusal itself is small; if even that does not fit, the connection goes.
  if (!server_.send(connection,
                    {make_end(FL_MESSAGE_END, EAGAIN, 0, "the daemon is busy with other answers: try again")}))
    server_.close_when_sent(connection);
}

void Daemon::on_hello(Connection &connection, std::span<const std::byte> bytes) {
  if (connection.lease != nullptr) return refuse(connection, EPROTO, "this connection has attached already");
  if (auto result = welcome(connection, copy_of<fl_hello>(bytes)); !result)
    refuse(connection, static_cast<uint32_t>(result.error().code), result.error().text);
}

Result<> Daemon::welcome(Connection &connection, const fl_hello &hello) {
  if (const Instance *old = intake_.superfluous_instance(field_text(hello.instance), connection.peer_uid)) {
    statistics_.reset({.instance = old->id});
    intake_.forget(old->id);
  }
  auto instance = intake_.find_or_add_instance(hello, connection.peer_uid);
  if (!instance) return instance.error();
  fl_hello asked = hello;
  asked.slots_wanted = intake_.slots_for(hello.slots_wanted);
  kernel::Lease range;
  if (kernel_ != nullptr) {
    if (auto granted = kernel_->grant(asked)) {
      range = *granted;
    } else {
      (*instance)->not_attached++;
      spdlog::warn("no range of the ledger for a process of {}: {}; its commits have no causes", (*instance)->name,
                   granted.error().text);
    }
  }
  const uint32_t slots = range.slot_count > 0 ? range.slot_count : asked.slots_wanted;
  auto lease = intake_.attach(*instance, slots, range);
  if (!lease) {
    if (range.slot_count > 0) kernel_->revoke(range);
    return lease.error();
  }
  connection.lease = *lease;
  if (recorder_ != nullptr) {
    fl_hello granted = asked;
    granted.slots_wanted = slots;
    recorder_->attached((*lease)->number(), granted);
  }
  (*instance)->process = static_cast<uint32_t>(connection.peer_pid);
  if ((*instance)->cgroup.empty()) (*instance)->cgroup = read_cgroup_text((*instance)->process);
  const bool forks = (*instance)->is(FL_ENGINE_POSTGRESQL);
  (*instance)->server_process = forks ? read_thread_facts((*instance)->process).parent : (*instance)->process;

  fl_welcome welcome{};
  welcome.message = make_header(FL_MESSAGE_WELCOME, sizeof welcome);
  welcome.token = range.token;
  welcome.epoch = epoch_;
  welcome.first_slot = range.first_slot;
  welcome.slot_count = slots;
  welcome.ledger_version = FL_LEDGER_VERSION;
  welcome.ring_data_bytes = intake_.limits().ring_data_bytes;
  std::vector<int> descriptors = {control_.fd(), (*lease)->memory_fd()};
  if (range.slot_count > 0) {
    welcome.ledger_slots = kernel_->ledger_slots();
    descriptors.push_back(kernel_->ledger_fd());
  }
  welcome.descriptors = static_cast<fl_u32>(descriptors.size());
  const Packet packet(reinterpret_cast<const char *>(&welcome), sizeof welcome);
  if (auto sent = server_.send_descriptors(connection, packet, descriptors); !sent) {
    spdlog::info("a process of {} went away while attaching: {}", (*instance)->name, sent.error().text);
    connection.dead = true;
    return Ok{};
  }
  (*lease)->close_descriptor();
  spdlog::debug("process {} of {} attached with {} slots", connection.peer_pid, (*instance)->name, slots);
  return Ok{};
}

// Whose rows a peer may have: everything for root and the daemon's own user, else its own server's.
Result<uint32_t> Daemon::instance_for(const Connection &connection, const std::string &name) const {
  if (name.empty()) {
    if (is_owner_of_all(connection.peer_uid)) return uint32_t{0};
    return Error{EACCES, "only root and the daemon's own user may ask for all instances: name one"};
  }
  const Instance *instance = intake_.instance(name);
  if (instance == nullptr) return ViewContext::kNoInstance;
  if (instance->owner != connection.peer_uid && !is_owner_of_all(connection.peer_uid))
    return Error{EACCES, fmt::format("instance '{}' belongs to user {}", name, instance->owner)};
  return instance->id;
}

void Daemon::on_query(Connection &connection, std::span<const std::byte> bytes) {
  const auto query = copy_of<fl_query>(bytes);
  std::vector<std::string_view> columns;
  if (query.column_count > kColumnsMax || !read_column_names(bytes.subspan(sizeof query), query.column_count, &columns))
    return refuse(connection, EPROTO, "the list of columns is damaged");
  const auto answer = [&](uint32_t status, const std::string &text) {
    reply(connection, {make_end(FL_MESSAGE_END, status, 0, text)});
  };
  const std::string name = field_text(query.view);
  const View *view = find_view(name);
  if (view == nullptr) return answer(ENOENT, fmt::format("there is no view '{}' in this version of flushlightd", name));
  const auto instance = instance_for(connection, field_text(query.instance));
  if (!instance) return answer(static_cast<uint32_t>(instance.error().code), instance.error().text);

  intake_.drain();  // read your writes
  const std::string user_name = field_text(query.user_name);
  const HostReadings host = facts_.latest();
  const ViewContext context{clock_,        statistics_, intake_,  texts_,    symbols_,
                            kernel_.get(), host,        state_,   *instance, (query.flags & FL_QUERY_SEE_ALL) != 0,
                            user_name,     nullptr,     &stalls_, &engines_, &advisor_};
  RowsWriter writer;
  view->run(context, columns, &writer);
  const uint32_t rows = writer.rows();
  std::vector<Packet> packets = writer.take();
  packets.push_back(make_end(FL_MESSAGE_END, 0, rows, ""));
  reply(connection, std::move(packets));
}

void Daemon::publish_metrics() {
  intake_.drain();
  const HostReadings host = facts_.latest();
  constexpr bool kSeeAll = true;  // digests; there are no texts in the metrics
  const ViewContext context{clock_, statistics_, intake_, texts_,           symbols_, kernel_.get(), host,     state_,
                            0,      kSeeAll,     "",      &top_statements_, &stalls_, &engines_,     &advisor_};
  metrics_.publish(gather_metrics(context));
}

void Daemon::on_command(Connection &connection, std::span<const std::byte> bytes) {
  const auto result = run_command(connection, copy_of<fl_command>(bytes));
  reply(connection,
        {result ? make_end(FL_MESSAGE_END, 0, 0, "")
                : make_end(FL_MESSAGE_END, static_cast<uint32_t>(result.error().code), 0, result.error().text)});
}

Result<> Daemon::run_command(const Connection &connection, const fl_command &command) {
  const auto only_owner = [&]() -> Result<> {
    if (is_owner_of_all(connection.peer_uid)) return Ok{};
    return Error{EACCES, "only root and the daemon's own user may switch flushlight off and on"};
  };
  switch (command.code) {
    case FL_COMMAND_PING:
      return Ok{};
    case FL_COMMAND_OFF:
    case FL_COMMAND_ON:
      if (auto allowed = only_owner(); !allowed) return allowed;
      set_off(command.code == FL_COMMAND_OFF,
              fmt::format("switched off by `flushlight off` (user {}); `flushlight on` switches it on again",
                          connection.peer_uid));
      return Ok{};
    case FL_COMMAND_RESET: {
      const auto instance = instance_for(connection, field_text(command.instance));
      if (!instance) return instance.error();
      if (*instance == ViewContext::kNoInstance) return Ok{};  // nothing is known of it: nothing to forget
      intake_.drain();
      if (recorder_ != nullptr) recorder_->command(command);
      statistics_.reset(
          {*instance, command.userid, command.dbid, command.queryid, (command.flags & FL_RESET_MINMAX_ONLY) != 0});
      return Ok{};
    }
    default:
      return Error{EPROTO, fmt::format("command {} is not known in this version of flushlightd", command.code)};
  }
}

}  // namespace flushlight
