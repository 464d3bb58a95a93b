// SPDX-License-Identifier: GPL-2.0-or-later
// A daemon in the test process: answers HELLO, QUERY and COMMAND as told, right or wrong, and lets the test
// write its control page and read its rings. Owner: the test; the answering thread only looks at `plan`.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine_client/client.h"

namespace flushlight::test {

struct Plan {
  enum class Answer { kWelcome, kRefuse, kHang, kClose, kShort, kWrongMagic, kWrongVersion };
  Answer answer = Answer::kWelcome;
  uint32_t slots = 4;
  bool ledger = false;
  int seals = 0x2 | 0x4 | 0x1;  // SHRINK, GROW, SEAL
  bool allocate = true;
  uint32_t send_descriptors = 0;            // 0: all
  std::function<void(fl_welcome &)> spoil;  // last change of the welcome
  std::vector<std::vector<char>> answers;   // packets that follow a QUERY or COMMAND
};

std::vector<char> packet_of(uint16_t type, const void *body, size_t bytes);
std::vector<char> end_packet(uint32_t status, const char *text);
std::vector<char> rows_packet(uint32_t rows, const std::vector<char> &cells);

class FakeDaemon {
 public:
  explicit FakeDaemon(Plan plan);
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon &) = delete;
  FakeDaemon &operator=(const FakeDaemon &) = delete;

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] fl_control *control() const { return control_; }
  [[nodiscard]] fl_slot *slot_in_range(uint32_t i) const { return ledger_ + kFirstSlot + i; }
  [[nodiscard]] fl_ring_head *ring(uint32_t i) const;
  [[nodiscard]] int greetings() const { return greetings_; }
  void beat() { __atomic_store_n(&control_->heartbeat_ns, flc_now_ns(), __ATOMIC_RELAXED); }
  void beat_stale() { __atomic_store_n(&control_->heartbeat_ns, flc_now_ns() - 3000000000ULL, __ATOMIC_RELAXED); }

  // Takes all records of a ring. PADs are checked and left out.
  std::vector<std::vector<char>> drain(uint32_t ring);

  static constexpr uint32_t kFirstSlot = 9;
  static constexpr uint32_t kRingBytes = 8192;

 private:
  void serve();
  void answer(int connection);
  void welcome(int connection);

  Plan plan_;
  std::string path_;
  std::string folder_;
  int listener_ = -1, stop_ = -1;
  int control_fd_ = -1, rings_fd_ = -1, ledger_fd_ = -1;
  fl_control *control_ = nullptr;
  char *rings_ = nullptr;
  fl_slot *ledger_ = nullptr;
  size_t rings_bytes_ = 0;
  std::vector<int> connections_;
  std::atomic<int> greetings_{0};
  std::thread thread_;
};

void configure(const std::string &path, uint32_t slots_wanted = 4);
int open_descriptors();

}  // namespace flushlight::test
