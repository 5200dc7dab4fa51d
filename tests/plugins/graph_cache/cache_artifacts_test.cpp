// What one process has compiled, carried to another one as bytes.
#include "plugins/graph_cache/fixture.h"

#include "config/config.h"
#include "unit/message_of.h"

#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace tenon {
namespace {

using compiler::load_cache_artifacts;
using compiler::save_cache_artifacts;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CacheArtifactsTest : public GraphCacheTest {
 protected:
  /// As another machine: a cache that is empty.
  void begin_elsewhere() {
    fs::remove_all(folder_);
    std::string pattern = (fs::temp_directory_path() / "graph_cache_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("TENON_CACHE_DIR", folder_.c_str(), 1);
    counted();
  }
  static std::vector<float> train_and_infer() {
    auto f = compile([](const Tensor& x) { return (x.sin() * x).sum(); }, {.backend = "inductor"});
    auto g =
        compile([](const Tensor& x) { return (x * 2.0).relu() + 1.0; }, {.backend = "inductor"});
    Tensor x = (arange(12, Dtype::f32) / 7.0).requires_grad_();
    f(x).backward();
    std::vector<float> out = x.grad().to_vector<float>();
    for (float v : g(x.detach()).to_vector<float>()) out.push_back(v);
    return out;
  }
};

TEST_F(CacheArtifactsTest, AnotherPlaceCompilesNothing) {
  std::vector<float> first = train_and_infer();
  EXPECT_EQ(counted(), "miss 2 saved 2");
  compiler::CacheArtifacts saved = save_cache_artifacts();
  EXPECT_GE(saved.info.n_entries, 4u);  // graphs and their code
  EXPECT_GT(saved.bytes.size(), saved.info.n_bytes);
  begin_elsewhere();
  compiler::CacheArtifactInfo loaded = load_cache_artifacts(saved.bytes);
  EXPECT_EQ(loaded.n_entries, saved.info.n_entries);
  EXPECT_EQ(train_and_infer(), first);
  EXPECT_EQ(counted(), "hit 2");
  EXPECT_EQ(load_cache_artifacts(saved.bytes).n_entries, 0u);  // they are there
}

TEST_F(CacheArtifactsTest, AnotherProcessCompilesNothing) {
  std::string file = folder_ + ".artifacts";
  pid_t child = ::fork();
  if (child == 0) {
    train_and_infer();
    std::ofstream(file, std::ios::binary) << save_cache_artifacts().bytes;
    ::_exit(0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  std::stringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  fs::remove(file);
  begin_elsewhere();
  load_cache_artifacts(bytes.str());
  train_and_infer();
  EXPECT_EQ(counted(), "hit 2");
}

TEST_F(CacheArtifactsTest, OnlyWhatThisProcessHasUsedIsSaved) {
  EXPECT_EQ(save_cache_artifacts().info.n_entries, 0u);
  train_and_infer();
  size_t n = save_cache_artifacts().info.n_entries;
  fs::remove_all(folder_);  // evicted
  EXPECT_EQ(save_cache_artifacts().info.n_entries, 0u);
  train_and_infer();
  EXPECT_EQ(save_cache_artifacts().info.n_entries, n);
}

TEST_F(CacheArtifactsTest, DamagedBytesAndNoCacheAreErrors) {
  train_and_infer();
  std::string bytes = save_cache_artifacts().bytes;
  bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 1);
  begin_elsewhere();
  EXPECT_THAT(message_of<UserError>([&] { load_cache_artifacts(bytes); }), HasSubstr("damaged"));
  EXPECT_TRUE(files("aot").empty());
  auto patch = config::patch({{"compiler.force_disable_caches", true}});
  compiler::CacheArtifacts none = save_cache_artifacts();
  EXPECT_EQ(none.info.n_entries, 0u);
  EXPECT_THAT(message_of<UserError>([&] { load_cache_artifacts(none.bytes); }),
              HasSubstr("force_disable_caches"));
}

}  // namespace
}  // namespace tenon
