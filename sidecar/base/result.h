// SPDX-License-Identifier: GPL-2.0-or-later
// A value or an error that a DBA can act on. Recoverable failures travel in it; exceptions stop at thread
// roots. (std::expected is C++23, and Debian 12 packages no back-port.)
#pragma once
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace flushlight {

struct Error {
  int code = 0;      // errno value, or 0
  std::string text;  // cause and remedy
};

struct Ok {};

template <typename T = Ok>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T &operator*() { return std::get<0>(state_); }
  const T &operator*() const { return std::get<0>(state_); }
  T *operator->() { return &std::get<0>(state_); }
  const T *operator->() const { return &std::get<0>(state_); }
  const Error &error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

inline Error system_error(int code, std::string what) {
  return Error{code, std::move(what) + ": " + std::strerror(code)};
}

}  // namespace flushlight
