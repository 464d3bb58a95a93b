// SPDX-License-Identifier: GPL-2.0-or-later
// Texts, names, configuration, facts about devices.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "file_tree.h"
#include "sidecar/base/config.h"
#include "sidecar/base/config_settings.h"
#include "sidecar/base/symbols.h"
#include "sidecar/base/text.h"
#include "sidecar/host/block_devices.h"
#include "sidecar/join/texts.h"

namespace flushlight::test {
namespace {

TEST(Text, OnlyValidUtf8Passes) {
  EXPECT_EQ(sanitize_utf8("grün €😀", 100), "grün €😀");
  EXPECT_EQ(sanitize_utf8("a\xff\xfe"
                          "b",
                          100),
            "a??b");
  EXPECT_EQ(sanitize_utf8("\xc0\x80", 100), "??") << "overlong";
  EXPECT_EQ(sanitize_utf8("\xed\xa0\x80", 100), "???") << "surrogate";
  EXPECT_EQ(sanitize_utf8(std::string_view("a\0b\n\x7f", 5), 100), "a b  ");
  EXPECT_EQ(sanitize_utf8("\xe2\x82", 100), "??") << "cut off";
  EXPECT_EQ(sanitize_utf8("\xc2\x9b"
                          "31m\xc2\xa0",
                          100),
            " 31m\xc2\xa0")
      << "controls beyond ASCII";
}

TEST(Text, CutsAtACharacterBorder) {
  EXPECT_EQ(sanitize_utf8("ab€", 4), "ab");
  EXPECT_EQ(sanitize_utf8("ab€", 5), "ab€");
  char field[5];
  fill_field(field, "ab€x");
  EXPECT_STREQ(field, "ab");
}

TEST(Symbols, BoundedAndStable) {
  SymbolTable symbols(4);
  EXPECT_EQ(symbols.intern(""), SymbolTable::kNone);
  const Symbol a = symbols.intern("a"), b = symbols.intern("b");
  EXPECT_EQ(symbols.intern("a"), a);
  EXPECT_NE(a, b);
  EXPECT_EQ(symbols.intern("c"), SymbolTable::kOverflow);
  EXPECT_EQ(symbols.text(b), "b");
}

TEST(Texts, LeastRecentlyUsedGoFirst) {
  TextStore texts(2);
  texts.put(1, 1, "one", false);
  texts.put(1, 2, "two", true);
  EXPECT_NE(texts.find(1, 1), nullptr);
  texts.put(1, 3, "three", false);
  EXPECT_EQ(texts.find(1, 2), nullptr);
  EXPECT_EQ(texts.find(1, 1)->text, "one");
  EXPECT_EQ(texts.find(2, 1), nullptr) << "another instance";
}

std::string config_error(const std::string &text) {
  Config config;
  const auto result = read_config_text(text, "f.toml", &config);
  return result ? "" : result.error().text;
}

TEST(ConfigFile, ReadsEverySection) {
  Config config = default_config();
  const auto result = read_config_text(R"(
[socket]
path = "/run/x.sock"
mode = "0660"
allowed_peers = ["root", 4711]
[tracing]
enabled = false
ledger_slots = 8192
max_cpu_percent = 12.5
[rings]
data_bytes = 65536
[statistics]
slow_commit_threshold_ms = 5
query_text = "digest_only"
[log]
level = "debug"
format = "json"
)",
                                       "f.toml", &config);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(config.socket_path, "/run/x.sock");
  EXPECT_EQ(config.socket_mode, 0660u);
  EXPECT_TRUE(config.allowed_peers.allows(4711));
  EXPECT_TRUE(config.allowed_peers.allows(geteuid()));
  EXPECT_FALSE(config.allowed_peers.allows(4712));
  EXPECT_FALSE(config.tracing);
  EXPECT_EQ(config.ledger_slots, 8192u);
  EXPECT_DOUBLE_EQ(config.max_cpu_percent, 12.5);
  EXPECT_EQ(config.ring_data_bytes, 65536u);
  EXPECT_DOUBLE_EQ(config.slow_commit_threshold_ms, 5);
  EXPECT_FALSE(config.full_query_text);
  EXPECT_EQ(config.log_format, LogFormat::kJson);
  EXPECT_TRUE(check_config(config));
}

TEST(ConfigFile, AnOctalNumberMeansWhatItSays) {
  Config config;
  for (const char *mode : {"\"0660\"", "0o660", "660"}) {
    const auto result = read_config_text(std::string("[socket]\nmode = ") + mode + "\n", "f.toml", &config);
    ASSERT_TRUE(result) << mode << ": " << result.error().text;
    EXPECT_EQ(config.socket_mode, 0660u) << mode;
  }
  ASSERT_TRUE(read_config_text("[statistics]\nstatements_max = 0o1750\n", "f.toml", &config));
  EXPECT_EQ(config.statements_max, 1000u);
}

TEST(ConfigFile, AFolderIsNoFile) {
  Config config;
  EXPECT_FALSE(read_config_file("/tmp", &config));
  EXPECT_FALSE(read_config_file("/nonexistent", &config));
}

TEST(ConfigFile, ErrorsNameFileLineAndKey) {
  EXPECT_EQ(config_error("[socket]\n\nnope = 1\n"), "f.toml:3: there is no setting socket.nope");
  EXPECT_EQ(config_error("[rings]\ndata_bytes = 5000\n").find("f.toml:2: rings.data_bytes: '5000'"), 0u);
  EXPECT_EQ(config_error("[rings]\ndata_bytes = 10000\n"), "f.toml:2: rings.data_bytes: '10000' is not a power of two");
  EXPECT_EQ(config_error("x = 1\n").find("f.toml:1:"), 0u);
  EXPECT_EQ(config_error("[socket\n").find("f.toml:1:"), 0u);
  EXPECT_EQ(config_error("[socket]\npath = \"relative\"\n"),
            "f.toml:2: socket.path: 'relative' is not an absolute path");
  EXPECT_NE(config_error("[socket]\nallowed_peers = [\"no-such-user\"]\n"), "");
  EXPECT_NE(config_error("[socket]\nallowed_peers = [[1]]\n"), "");
  EXPECT_NE(config_error("[log]\nlevel = \"loud\"\n"), "");
}

TEST(ConfigFile, PeersAny) {
  Config config;
  ASSERT_TRUE(read_config_text("[socket]\nallowed_peers = \"any\"\n", "f", &config));
  EXPECT_TRUE(config.allowed_peers.allows(99999));
}

TEST(Config, EverySettingSurvivesItsOwnText) {
  const Config defaults = default_config();
  for (const Setting &setting : settings()) {
    Config config;
    const std::string text = setting.get(defaults);
    if (text.empty()) continue;
    const auto result = setting.set(text, &config);
    EXPECT_TRUE(result) << setting.key;
    EXPECT_EQ(setting.get(config), text) << setting.key;
  }
}

TEST(Config, ReloadKeepsWhatNeedsARestart) {
  Config before, after;
  after.socket_path = "/other";
  after.statements_max = 777;
  const auto changes = compare_configs(before, after);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_FALSE(changes[0].reloadable);
  EXPECT_TRUE(changes[1].reloadable);
  apply_reloadable(after, &before);
  EXPECT_EQ(before.socket_path, FL_SOCKET_PATH_DEFAULT);
  EXPECT_EQ(before.statements_max, 777u);
}

TEST(Config, SettingsThatDoNotFitTogether) {
  Config config;
  config.pool_slots = config.ledger_slots;
  EXPECT_FALSE(check_config(config));
  Config small;
  small.ring_memory_max_bytes = 1u << 20;
  EXPECT_FALSE(check_config(small));
}

using FakeSys = FileTree;

TEST_F(FakeSys, DiskWithAPartition) {
  put("block/vdb/dev", "254:16");
  put("block/vdb/size", "1000");
  put("block/vdb/queue/scheduler", "none [mq-deadline] kyber");
  put("block/vdb/queue/nr_requests", "128");
  put("block/vdb/queue/write_cache", "write back");
  put("block/vdb/queue/wbt_lat_usec", "2000");
  put("block/vdb/inflight", "       1        3");
  put("block/vdb/vdb1/partition", "1");
  put("block/vdb/vdb1/dev", "254:17");
  put("block/loop5/dev", "7:5");
  put("block/loop5/size", "0");
  const BlockDevices devices = read_block_devices(root_,
                                                  "36 35 254:17 / /var/lib/my\\040data rw,noatime - ext4 /dev/vdb1 rw\n"
                                                  "37 35 254:17 /x /bind rw master:1 shared:2 - ext4 /dev/vdb1 rw\n"
                                                  "38 35 0:22 / /proc rw - proc proc rw\nnonsense\n");
  ASSERT_EQ(devices.size(), 1u) << "an empty loop device is left out";
  const BlockDevice &disk = devices.at(device_number(254, 16));
  EXPECT_EQ(disk.name, "vdb");
  EXPECT_EQ(disk.transport, "virtio");
  EXPECT_EQ(disk.scheduler, "mq-deadline");
  EXPECT_EQ(disk.mount_point, "/var/lib/my data,/bind");
  EXPECT_EQ(disk.file_system, "ext4");
  EXPECT_EQ(disk.nr_requests, 128);
  EXPECT_EQ(disk.wbt_lat_us, 2000);
  EXPECT_EQ(disk.inflight, 4);
  EXPECT_FALSE(disk.fua) << "not there: not known";
}

}  // namespace
}  // namespace flushlight::test
