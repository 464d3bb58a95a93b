// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/base/log.h"

#include <spdlog/async.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <nlohmann/json.hpp>

namespace flushlight {
namespace {

// %* : the message as a JSON string.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg &message, const std::tm &, spdlog::memory_buf_t &out) override {
    const std::string quoted = nlohmann::json(std::string(message.payload.data(), message.payload.size()))
                                   .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

constexpr size_t kQueueLines = 8192;

}  // namespace

void start_logging(const std::string &level, LogFormat format) {
  spdlog::init_thread_pool(kQueueLines, 1);
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::async_logger>("flushlightd", std::move(sink), spdlog::thread_pool(),
                                                       spdlog::async_overflow_policy::overrun_oldest);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == LogFormat::kJson)
    formatter->add_flag<JsonMessage>('*').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  else
    formatter->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
  logger->set_formatter(std::move(formatter));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  set_log_level(level);
}

void set_log_level(const std::string &level) { spdlog::set_level(spdlog::level::from_str(level)); }

void stop_logging() { spdlog::shutdown(); }

}  // namespace flushlight
