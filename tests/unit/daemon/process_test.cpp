// SPDX-License-Identifier: GPL-2.0-or-later
// The real flushlightd as a process (without tracing): killed, taken over, stopped, reloaded; and databases'
// own client library against it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "engine_client/client.h"
#include "raw_client.h"
#include "sidecar/cli/client.h"
#include "sidecar/cli/doctor.h"
#include "sidecar/cli/exit_codes.h"
#include "sidecar/cli/report.h"

namespace flushlight::test {
namespace {

using std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(20);

class Process : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/flushlight-process-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    socket_ = folder_ + "/socket";
    connection_.socket_path = socket_;
  }
  void TearDown() override {
    flc_detach();
    if (child_ > 0) stop(SIGKILL);
    std::filesystem::remove_all(folder_);
  }
  // Runs flushlightd and returns its process id; its log goes to a file.
  pid_t spawn(std::vector<std::string> arguments, rlim_t descriptors = 0) {
    arguments.insert(arguments.begin(),
                     {FLUSHLIGHTD_PATH, "--socket", socket_, "--tracing", "off", "--metrics-listen", ""});
    const pid_t child = fork();
    if (child != 0) return child;
    const rlimit limit{descriptors, descriptors};
    if (descriptors != 0) setrlimit(RLIMIT_NOFILE, &limit);
    const int log = open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(log, STDERR_FILENO);
    std::vector<char *> argv;
    for (auto &argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  void start(const std::vector<std::string> &arguments = {}) {
    child_ = spawn(arguments);
    ASSERT_TRUE(eventually([this] { return ping(); })) << log();
  }
  int stop(int signal) {
    kill(child_, signal);
    int status = 0;
    waitpid(std::exchange(child_, 0), &status, 0);
    return status;
  }
  template <typename Condition>
  static bool eventually(const Condition &condition) {
    const auto deadline = steady_clock::now() + kPatience;
    while (steady_clock::now() < deadline) {
      if (condition()) return true;
      poll(nullptr, 0, 5);
    }
    return false;
  }
  bool ping() {
    fl_command command{};
    command.code = FL_COMMAND_PING;
    return static_cast<bool>(cli::run_command(connection_, command));
  }
  std::string log() {
    std::ifstream file(folder_ + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void configure_client() {
    flc_config config{};
    config.socket_path = socket_.c_str();
    config.hello.engine = FL_ENGINE_PROGRAM;
    config.hello.slots_wanted = 4;
    std::strcpy(config.hello.instance, "process-test");
    flc_configure(&config);
  }
  bool attach() {
    return eventually([] { return flc_attach_step(50); });
  }
  static void write_commit(uint64_t queryid) {
    flc_thread *thread = flc_thread_self();
    ASSERT_NE(thread, nullptr);
    fl_record_commit record{};
    record.header = {sizeof record, FL_RECORD_COMMIT, 1};
    record.session_id = 1;
    record.queryid = queryid;
    record.duration_ns = 20'000'000;
    record.begin_ns = flc_now_ns() - record.duration_ns;
    flc_count_commit(thread);
    EXPECT_TRUE(flc_write(thread, &record));
  }
  size_t commits() {
    const auto table = cli::fetch_view(connection_, "statements");
    EXPECT_TRUE(table) << table.error().text;
    double sum = 0;
    if (table)
      for (size_t row = 0; row < table->rows.size(); row++) sum += table->number(row, "commits");
    return static_cast<size_t>(sum);
  }

  std::string folder_, socket_;
  cli::Connection connection_;
  pid_t child_ = 0;
};

TEST_F(Process, ReadYourWrites) {
  start();
  configure_client();
  ASSERT_TRUE(attach());
  for (size_t i = 1; i <= 200; i++) {
    write_commit(i % 7 + 1);
    ASSERT_EQ(commits(), i);
  }
  const auto health = cli::fetch_view(connection_, "health");
  ASSERT_TRUE(health);
  for (size_t row = 0; row < health->rows.size(); row++)
    EXPECT_TRUE(health->text(row, "instance").empty() || health->text(row, "lost") == "0");
}

TEST_F(Process, KilledDaemonIsReplacedAndClientsComeBack) {
  start();
  configure_client();
  ASSERT_TRUE(attach());
  write_commit(1);
  EXPECT_EQ(commits(), 1u);
  stop(SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(socket_)) << "a killed daemon leaves its socket";
  start();
  ASSERT_TRUE(eventually([] { return !flc_active(flc_now_ns()) || flc_attach_step(0); }));
  ASSERT_TRUE(attach());
  ASSERT_TRUE(eventually([this] {  // attached to the new one
    const auto info = cli::fetch_view(connection_, "statements_info");
    flc_attach_step(50);
    return info && !info->rows.empty();
  }));
  write_commit(1);
  EXPECT_EQ(commits(), 1u);
}

TEST_F(Process, CleanStopLeavesNothingAndHurtsNoClient) {
  start();
  configure_client();
  ASSERT_TRUE(attach());
  const int status = stop(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << log();
  EXPECT_FALSE(std::filesystem::exists(socket_));
  EXPECT_FALSE(std::filesystem::exists(socket_ + ".lock"));
  write_commit(1);  // into memory that is still there
}

TEST_F(Process, SecondOneExitsAndTheFirstGoesOn) {
  start();
  const pid_t second = spawn({});
  int status = 0;
  waitpid(second, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_NE(log().find("another flushlightd"), std::string::npos);
  EXPECT_TRUE(ping());
}

TEST_F(Process, ReloadSaysWhatItCannotChange) {
  const std::string config = folder_ + "/config.toml";
  std::ofstream(config) << "[statistics]\nstatements_max = 500\n[tracing]\nledger_slots = 8192\n";
  start({"--config", config});
  std::ofstream(config) << "[statistics]\nstatements_max = 600\n[tracing]\nledger_slots = 16384\n";
  kill(child_, SIGHUP);
  EXPECT_TRUE(eventually([this] { return log().find("configuration read again") != std::string::npos; })) << log();
  EXPECT_NE(log().find("statistics.statements_max: 500 -> 600"), std::string::npos) << log();
  EXPECT_NE(log().find("tracing.ledger_slots: 8192 -> 16384 takes effect after a restart"), std::string::npos) << log();
  std::ofstream(config) << "[statistics]\nstatements_max = no\n";
  kill(child_, SIGHUP);
  EXPECT_TRUE(eventually([this] { return log().find("configuration not taken over") != std::string::npos; })) << log();
  EXPECT_TRUE(ping()) << "it goes on with what it had";
}

TEST_F(Process, TellsTheServiceManager) {
  const std::string path = folder_ + "/notify";
  const UniqueFd notify(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(notify.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  setenv("WATCHDOG_USEC", "200000", 1);
  start();
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
  const auto next = [&]() -> std::string {
    pollfd wait{notify.get(), POLLIN, 0};
    char text[256];
    if (poll(&wait, 1, 20'000) != 1) return "";
    const ssize_t got = recv(notify.get(), text, sizeof text, 0);
    return {text, static_cast<size_t>(std::max<ssize_t>(got, 0))};
  };
  EXPECT_EQ(next(), "READY=1");
  EXPECT_EQ(next(), "WATCHDOG=1");
  EXPECT_EQ(next(), "WATCHDOG=1");
  stop(SIGTERM);
  std::string last;
  for (pollfd wait{notify.get(), POLLIN, 0}; poll(&wait, 1, 0) == 1;) last = next();
  EXPECT_EQ(last, "STOPPING=1");
}

TEST_F(Process, BadConfigurationIsRefusedWithItsLine) {
  const std::string config = folder_ + "/config.toml";
  std::ofstream(config) << "[rings]\ndata_bytes = 3\n";
  for (const std::vector<std::string> &arguments :
       {std::vector<std::string>{"--config", config, "--check-config"}, {"--config", config}, {"--no-such-flag"}}) {
    int status = 0;
    waitpid(spawn(arguments), &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
  }
  EXPECT_NE(log().find("config.toml:2: rings.data_bytes"), std::string::npos) << log();
}

TEST_F(Process, OutOfDescriptorsItSaysSoAndServesTheOthers) {
  child_ = spawn({}, 40);
  ASSERT_TRUE(eventually([this] { return ping(); })) << log();
  std::vector<RawClient> clients(60);
  std::string refusal;
  for (RawClient &client : clients) {
    ASSERT_TRUE(client.connect(socket_));
    client.hello("crowd", 1);
  }
  EXPECT_TRUE(eventually([&] {
    for (RawClient &client : clients) {
      const std::string packet = client.receive();
      fl_end end{};
      if (packet.size() == sizeof end) std::memcpy(&end, packet.data(), sizeof end);
      if (end.status == EAGAIN) refusal = end.text;
    }
    return !refusal.empty();
  }));
  EXPECT_NE(refusal.find("LimitNOFILE"), std::string::npos) << refusal;
  clients[0].fd.reset();
  EXPECT_TRUE(eventually([this] { return ping(); })) << "a descriptor is free again";
}

TEST_F(Process, AStrangerReadsHowToBeAllowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  start();
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(1);
    const auto table = cli::fetch_view(connection_, "health");
    _exit(!table && table.error().text.find("allowed_peers") != std::string::npos ? 0 : 2);
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The name is free when its last process is gone. What that server did is not for whoever takes the name next.
TEST_F(Process, ANameThatPassesToAnotherUserIsEmpty) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  start({"--allow-peers", "any"});
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  configure_client();
  ASSERT_TRUE(attach());
  write_commit(1);
  ASSERT_EQ(commits(), 1u);
  flc_detach();
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(1);
    RawClient taker;
    for (bool taken = false; !taken;) {  // until the daemon has seen the owner go
      if (!taker.connect(socket_) || !taker.hello("process-test", 1)) _exit(2);
      while (!(taken = taker.take_welcome()) && !taker.closed()) {
      }
    }
    cli::Connection named = connection_;
    named.instance = "process-test";
    const auto table = cli::fetch_view(named, "statements");
    _exit(!table ? 3 : table->rows.empty() ? 0 : 4);
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "4: it saw the other user's statements";
}

// Another user, in a process of its own: what it gets of what belongs to root.
TEST_F(Process, RightsOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  start({"--allow-peers", "any"});
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  configure_client();
  ASSERT_TRUE(attach());
  write_commit(1);
  ASSERT_EQ(commits(), 1u);
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(1);
    const auto refused = [](const auto &result, const char *why) {
      return !result && result.error().text.find(why) != std::string::npos;
    };
    cli::Connection mine = connection_, all = connection_;
    mine.instance = "mine";
    cli::Connection roots = connection_;
    roots.instance = "process-test";
    fl_command off{}, reset{};
    off.code = FL_COMMAND_OFF;
    reset.code = FL_COMMAND_RESET;
    if (!refused(cli::fetch_view(all, "statements"), "root")) _exit(2);
    if (!refused(cli::fetch_view(roots, "statements"), "belongs to user 0")) _exit(3);
    if (!refused(cli::run_command(all, off), "root")) _exit(4);
    if (!refused(cli::run_command(roots, reset), "belongs to user 0")) _exit(5);
    if (!refused(cli::run_command(all, reset), "root")) _exit(6);
    RawClient client;
    if (!client.connect(socket_) || !client.hello("process-test", 1)) _exit(7);
    std::string packet;
    while (packet.empty() && !client.closed()) packet = client.receive();
    fl_end end{};
    if (packet.size() != sizeof end) _exit(8);
    std::memcpy(&end, packet.data(), sizeof end);
    if (end.status != EACCES) _exit(13);
    RawClient own;
    if (!own.connect(socket_) || !own.hello("mine", 1)) _exit(9);
    while (!own.take_welcome())
      if (own.closed()) _exit(10);
    own.ring(0).write(session_record(1, "me", "db"));
    if (!cli::fetch_view(mine, "statements")) _exit(11);
    if (!cli::run_command(mine, reset)) _exit(12);
    _exit(0);
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(commits(), 1u) << "nothing of root's was touched";
}

TEST_F(Process, AnUnknownInstanceIsAMistake) {
  start();
  configure_client();
  ASSERT_TRUE(attach());
  EXPECT_TRUE(cli::check_instance(connection_));
  connection_.instance = "process-test";
  EXPECT_TRUE(cli::check_instance(connection_));
  connection_.instance = "process-tset";
  EXPECT_FALSE(cli::check_instance(connection_));
  EXPECT_EQ(cli::status(connection_, true), cli::kExitFailed);
}

TEST_F(Process, WithoutADaemonTheCommandLineNamesTheRemedy) {
  const auto table = cli::fetch_view(connection_, "health");
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().text.find(socket_), std::string::npos) << table.error().text;
}

TEST(Doctor, ExitCodes) {
  using kernel::Feature;
  EXPECT_EQ(cli::doctor_exit_code({{"a", true, true}, {"b", true, false}}), 0);
  EXPECT_EQ(cli::doctor_exit_code({{"a", true, true}, {"b", false, false}}), 1);
  EXPECT_EQ(cli::doctor_exit_code({{"a", false, true}, {"b", false, false}}), 2);
}

}  // namespace
}  // namespace flushlight::test
