// A cache folder for each test, and what the cache has counted meanwhile.
#pragma once

#include "backend/backend.h"
#include "backend/catalog.h"
#include "report/events.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tenon {

class GraphCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    set_plugin_search({}, {TENON_PLUGIN_DIR});
    std::string pattern = (std::filesystem::temp_directory_path() / "graph_cache_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("TENON_CACHE_DIR", folder_.c_str(), 1);
    counted();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// "miss 1 saved 1": since the last question, those that are not zero.
  std::string counted() {
    std::string out;
    std::vector<int64_t> now;
    for (const char* name : {"hit", "miss", "bypass", "saved"}) {
      now.push_back(report::counter(std::string("aot.cache_") + name).value());
      int64_t n = now.back() - (before_.empty() ? 0 : before_[now.size() - 1]);
      if (n) out += (out.empty() ? "" : " ") + std::string(name) + " " + std::to_string(n);
    }
    before_ = now;
    return out;
  }

  /// The files below one folder of the cache: "aot" or "artifacts".
  std::vector<std::filesystem::path> files(const std::string& kind) const {
    std::vector<std::filesystem::path> out;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_ + "/" + kind, error))
      if (entry.is_regular_file()) out.push_back(entry.path());
    return out;
  }

  std::string folder_;

 private:
  std::vector<int64_t> before_;
};

}  // namespace tenon
