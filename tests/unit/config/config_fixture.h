// The fixture of the tests of flags.
#pragma once

#include "config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tenon::config {

/// What the store has warned of in this test.
inline std::vector<std::string>& warnings() {
  static std::vector<std::string> lines;
  return lines;
}

/// Every test begins with its own folders, a clean environment and the defaults.
class Config : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("tenon_config_" + std::to_string(::getpid()));
    std::filesystem::create_directories(root_ / "project");
    std::filesystem::create_directories(root_ / "user/tenon");
    variable("XDG_CONFIG_HOME", (root_ / "user").string());
    variable("TENON_CONFIG_DIR", (root_ / "project").string());
    warnings().clear();
    sink_before_ = set_warning_sink([](std::string_view text) { warnings().emplace_back(text); });
    reload();
  }

  void TearDown() override {
    for (const std::string& name : variables_) ::unsetenv(name.c_str());
    std::filesystem::remove_all(root_);
    forget();
    set_warning_sink(sink_before_);
  }

  void variable(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  std::string file(const std::string& name, const std::string& text) {
    std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  static std::string text_of(const std::string& path) {
    std::stringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }

  std::filesystem::path root_;
  WarningSink sink_before_ = nullptr;
  std::vector<std::string> variables_;
};

/// The message of the ConfigError that `body` throws.
template <class F>
std::string error_of(F body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::config);
    return error.what();
  }
  return "no error";
}

}  // namespace tenon::config
