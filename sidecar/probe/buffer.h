// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for direct I/O, filled with bytes that differ every time: a device that compresses, or keeps equal blocks
// once, must not look faster than it is with a database's data.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace flushlight::probe {

// Small and good enough for offsets and bytes (xorshift64*).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : next() % limit; }

 private:
  uint64_t state_;
};

class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;
  static constexpr size_t kStampEvery = 512;

  explicit Buffer(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<uint8_t *>(
            std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment))) {
    if (!data_) throw std::bad_alloc();
    Random random(reinterpret_cast<uintptr_t>(this));
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes_; at += sizeof(uint64_t)) put(at, random.next());
  }
  // Each sector differs from all that were written before.
  void make_unique() {
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes_; at += kStampEvery) put(at, ++stamp_ * 0x9e3779b97f4a7c15u);
  }
  [[nodiscard]] uint8_t *data() { return data_.get(); }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(uint8_t *data) const { std::free(data); }
  };
  void put(size_t at, uint64_t value) { std::memcpy(data_.get() + at, &value, sizeof value); }

  size_t bytes_;
  std::unique_ptr<uint8_t, Free> data_;
  uint64_t stamp_ = 0;
};

}  // namespace flushlight::probe
