// SPDX-License-Identifier: GPL-2.0-or-later
// A client that speaks the socket's protocol byte by byte and can lie wherever it likes.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/attach.h"
#include "sidecar/base/unique_fd.h"
#include "sidecar/serve/cell.h"

namespace flushlight::test {

using Table = std::vector<std::map<std::string, Cell>>;

// A record followed by strings, padded, with its head filled in.
std::string record_bytes(fl_record_type type, const void *fixed, size_t fixed_bytes, std::string_view tail = {});

std::string session_record(uint64_t session_id, std::string_view user, std::string_view database, uint64_t userid = 0,
                           uint64_t dbid = 0);
std::string text_record(uint64_t queryid, std::string_view text, bool truncated = false);
std::string session_end_record(uint64_t session_id);
template <typename Record>
std::string make_record(fl_record_type type, const Record &record) {
  return record_bytes(type, &record, sizeof record);
}

// One ring of a hand-out, producer's side.
class RawRing {
 public:
  RawRing(void *memory, uint32_t data_bytes) : memory_(static_cast<char *>(memory)), data_bytes_(data_bytes) {}
  void write(std::string_view record);     // with padding before the end, as the rules say
  void write_raw(std::string_view bytes);  // as they are
  [[nodiscard]] fl_ring_head *head() const { return reinterpret_cast<fl_ring_head *>(memory_); }
  [[nodiscard]] uint64_t free_bytes() const { return data_bytes_ - (head()->head - head()->tail); }

 private:
  char *memory_;
  uint32_t data_bytes_;
};

struct Unmap {
  size_t bytes = 0;
  void operator()(char *memory) const;
};

class RawClient {
 public:
  RawClient() = default;
  RawClient(RawClient &&) = default;
  RawClient &operator=(RawClient &&) = default;

  bool connect(const std::string &path);
  bool send(std::string_view bytes);
  template <typename T>
  bool send_struct(const T &value) {
    return send({reinterpret_cast<const char *>(&value), sizeof value});
  }
  // Empty: nothing there. closed() tells whether the other side is gone.
  std::string receive();
  [[nodiscard]] bool closed() const { return closed_; }

  bool hello(std::string_view instance, uint32_t slots, fl_engine engine = FL_ENGINE_PROGRAM, uint32_t file_system = 0);
  // Takes the WELCOME and maps what came with it.
  bool take_welcome();
  [[nodiscard]] const fl_welcome &welcome() const { return welcome_; }
  [[nodiscard]] const fl_control *control() const { return reinterpret_cast<const fl_control *>(control_.get()); }
  [[nodiscard]] int control_fd() const { return fds_[0].get(); }
  [[nodiscard]] int rings_fd() const { return fds_[1].get(); }
  RawRing ring(uint32_t index);

  bool query(std::string_view view, const std::vector<std::string> &columns, std::string_view instance,
             std::string_view user = {}, bool see_all = true);
  bool command(uint32_t code, std::string_view instance = {}, uint64_t queryid = 0, uint32_t flags = 0,
               uint64_t userid = 0);

  UniqueFd fd;

 private:
  fl_welcome welcome_{};
  std::vector<UniqueFd> fds_;
  std::unique_ptr<char, Unmap> control_, rings_;
  bool closed_ = false;
};

fl_message message_head(fl_message_type type, size_t bytes);
// The rows in a ROWS packet; nothing if it is damaged.
std::optional<Table> decode_rows(std::string_view packet, const std::vector<std::string> &columns);

}  // namespace flushlight::test
