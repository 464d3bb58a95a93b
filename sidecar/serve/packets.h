// SPDX-License-Identifier: GPL-2.0-or-later
// Messages of abi/attach.h as bytes.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/attach.h"
#include "sidecar/serve/cell.h"

namespace flushlight {

using Packet = std::string;

fl_message make_header(fl_message_type type, size_t bytes);
Packet make_end(fl_message_type type, uint32_t status, uint32_t rows, std::string_view text);

// Packs rows into as few ROWS packets as they need.
class RowsWriter {
 public:
  void put(const Cell &cell);
  void end_row();
  // All packets. The writer is empty afterwards.
  std::vector<Packet> take();
  [[nodiscard]] uint32_t rows() const { return rows_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  void close_packet();

  std::vector<Packet> done_;
  Packet current_;  // with room for the head
  uint32_t in_current_ = 0;
  std::string row_;
  uint32_t rows_ = 0;
  size_t bytes_ = 0;
};

// The column names after a fl_query; false: fewer than it says, or not terminated.
bool read_column_names(std::span<const std::byte> bytes, uint32_t count, std::vector<std::string_view> *names);

}  // namespace flushlight
