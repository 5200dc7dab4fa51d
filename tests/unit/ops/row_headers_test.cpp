// A new row compiles few files again: the generated headers of rows are included by who calls them,
// and by no header that all include.
#include "folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

/// What a file of the host includes, as it is written.
std::vector<std::string> included_by(const fs::path& file) {
  static const std::regex line(R"(^\s*#include ["<]([^">]+)[">])");
  std::vector<std::string> out;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);)
    if (std::smatch found; std::regex_search(text, found, line)) out.push_back(found[1]);
  return out;
}

/// Generated headers of rows that a file reaches, "tenon/ops.h" among them.
class Reach {
 public:
  const Names& of(const std::string& file) {
    auto [at, is_new] = known_.try_emplace(file);
    if (!is_new) return at->second;
    Names out;
    for (const std::string& name : included_by(root_ / file)) {
      if (name.starts_with("tenon/ops")) out.insert(name);
      for (const char* folder : {"", "include/"})
        if (fs::exists(root_ / (folder + name))) out.merge(Names(of(folder + name)));
    }
    return known_[file] = std::move(out);
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_ = source_path("host");
  std::map<std::string, Names> known_;
};

TEST(RowHeaders, FewFilesAreCompiledAgain) {
  Reach reach;
  std::map<std::string, int> users;
  int n_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(reach.root())) {
    if (entry.path().extension() != ".cpp") continue;
    ++n_files;
    for (const std::string& name : reach.of(fs::relative(entry.path(), reach.root()).string()))
      ++users[name];
  }
  ASSERT_GT(n_files, 300);
  ASSERT_GE(users.size(), 8u);
  // All rows at once: tests, examples and few others. One room: who calls its functions.
  for (const auto& [name, n] : users)
    EXPECT_LT(n, name == "tenon/ops.h" ? n_files / 12 : n_files / 4) << name;
}

TEST(RowHeaders, NoHeaderThatAllIncludeReachesThem) {
  Reach reach;
  for (const char* header : {"include/tenon/tensor.h", "core/tensor/tensor_impl.h", "ops/op.h",
                             "graph/graph.h", "backend/backend.h", "capture/trace.h"}) {
    ASSERT_TRUE(fs::exists(reach.root() / header)) << header;
    EXPECT_EQ(reach.of(header), Names()) << header;
  }
}

}  // namespace
}  // namespace tenon
