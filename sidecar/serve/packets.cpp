// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/packets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sidecar/base/text.h"

namespace flushlight {
namespace {

constexpr size_t kTextBytesMax = 4096;  // a view's text has 1024 characters of up to 4 bytes

template <typename T>
void append(const T &value, std::string *out) {
  out->append(reinterpret_cast<const char *>(&value), sizeof value);
}

}  // namespace

fl_message make_header(fl_message_type type, size_t bytes) {
  return {FL_MESSAGE_MAGIC, FL_PROTOCOL_VERSION, static_cast<fl_u16>(type), static_cast<fl_u32>(bytes), 0};
}

Packet make_end(fl_message_type type, uint32_t status, uint32_t rows, std::string_view text) {
  fl_end end{};
  end.message = make_header(type, sizeof end);
  end.status = status;
  end.rows = rows;
  fill_field(end.text, text);
  return Packet(reinterpret_cast<const char *>(&end), sizeof end);
}

void RowsWriter::put(const Cell &cell) {
  row_.push_back(static_cast<char>(cell.type));
  switch (cell.type) {
    case FL_CELL_NULL:
      break;
    case FL_CELL_INT:
    case FL_CELL_TIME:
      append(cell.integer, &row_);
      break;
    case FL_CELL_DOUBLE:
      append(cell.real, &row_);
      break;
    case FL_CELL_TEXT: {
      const std::string_view text = std::string_view(cell.text).substr(0, kTextBytesMax);
      append(static_cast<fl_u32>(text.size()), &row_);
      row_.append(text);
      break;
    }
  }
}

void RowsWriter::end_row() {
  if (!current_.empty() && current_.size() + row_.size() > FL_PACKET_BYTES_MAX) close_packet();
  if (current_.empty()) current_.resize(sizeof(fl_rows));
  current_ += row_;
  in_current_++;
  rows_++;
  row_.clear();
}

void RowsWriter::close_packet() {
  fl_rows head{};
  head.message = make_header(FL_MESSAGE_ROWS, current_.size());
  head.rows = in_current_;
  std::memcpy(current_.data(), &head, sizeof head);
  bytes_ += current_.size();
  done_.push_back(std::move(current_));
  current_.clear();
  in_current_ = 0;
}

std::vector<Packet> RowsWriter::take() {
  if (!current_.empty()) close_packet();
  return std::exchange(done_, {});
}

bool read_column_names(std::span<const std::byte> bytes, uint32_t count, std::vector<std::string_view> *names) {
  const char *at = reinterpret_cast<const char *>(bytes.data());
  const char *const end = at + bytes.size();
  for (uint32_t i = 0; i < count; i++) {
    const char *const stop = std::find(at, end, '\0');
    if (stop == end) return false;
    names->emplace_back(at, static_cast<size_t>(stop - at));
    at = stop + 1;
  }
  return true;
}

}  // namespace flushlight
