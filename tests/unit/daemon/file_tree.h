// SPDX-License-Identifier: GPL-2.0-or-later
// A folder of files that a test writes, to stand for /, /sys or the like; gone with the test.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace flushlight::test {

class FileTree : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/flushlight-tree-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string &path, const std::string &text) {
    const auto file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  std::string root_;
};

}  // namespace flushlight::test
