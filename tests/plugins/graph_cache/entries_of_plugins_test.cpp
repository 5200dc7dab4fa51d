// What a plugin says beside its code: entries serve while it says the same, and else are misses.
#include "plugins/graph_cache/fixture.h"

#include "cache/artifact_cache.h"
#include "compile/compile_graph.h"
#include "compile/graph_cache_entry.h"
#include "config/config.h"
#include "graph/text/parse.h"
#include "saved/saved_artifact.h"
#include "unit/message_of.h"

#include <tenon/error.h>

#include <functional>

namespace tenon {
namespace {

class EntriesOfPlugins : public GraphCacheTest {
 protected:
  void SetUp() override {
    GraphCacheTest::SetUp();
    compiled();
    counted();
  }

  static std::shared_ptr<Graph> graph() {
    return parse_graph(R"(tng 1
      graph {
        input %x: f32[12]
        %s: f32[12] = aten.sin.default(%x)
        %c: f32[12] = aten.cos.default(%s)
        output %c
      })");
  }
  static std::shared_ptr<Artifact> compiled() { return compile_graph(graph(), {.backend = "ts"}); }

  /// Changes what the only entry says of its code.
  void change(const std::function<void(SavedArtifact&)>& f) {
    std::filesystem::path file = files("aot").at(0);
    CacheKey key{std::filesystem::relative(file.parent_path(), folder_).string(),
                 file.filename().string()};
    CacheEntry entry = read_entry(artifact_cache()->get(key).value(), *graph());
    f(entry.codes.at(0).code.value());
    ASSERT_TRUE(artifact_cache()->put(key, write_entry(entry), 1 << 30));
  }
};

TEST_F(EntriesOfPlugins, ServeUnderTheSameFingerprint) {
  compiled();
  EXPECT_EQ(counted(), "hit 1");
  change([](SavedArtifact& code) { code.fingerprint = "of another library"; });
  compiled();
  EXPECT_EQ(counted(), "miss 1 saved 1");
  compiled();
  EXPECT_EQ(counted(), "hit 1");
}

TEST_F(EntriesOfPlugins, ServeWhileTheFlagsAreAsThePluginReadThem) {
  auto patch = config::patch({{"dynamo.recompile_limit", int64_t{3}}});
  change([](SavedArtifact& code) { code.flags = {{"dynamo.recompile_limit", "3"}}; });
  compiled();
  EXPECT_EQ(counted(), "hit 1");
  auto other = config::patch({{"dynamo.recompile_limit", int64_t{4}}});
  compiled();
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(files("aot").size(), 2u) << "both are kept";
}

// Files of code have nobody who compiles anew.
TEST_F(EntriesOfPlugins, FilesOfCodeSayWhyTheyCannotServe) {
  CompileRequest request;
  request.stage = Stage::inference;
  request.graph = graph();
  SavedArtifact saved = compile_with_backend("ts", request)->save();
  EXPECT_EQ(message_of<BackendError>([&] { load_code(saved, request, "a.tenon"); }), "no error");
  saved.flags = {{"dynamo.recompile_limit", "77"}};
  auto patch = config::patch({{"dynamo.recompile_limit", int64_t{3}}});
  EXPECT_EQ(
      message_of<BackendError>([&] { load_code(saved, request, "a.tenon"); }),
      "BackendCompilerFailed: a.tenon: backend ts compiled with dynamo.recompile_limit = 77, which "
      "is 3 now; set it so, or compile again");
}

// Whoever runs it: nobody has chosen inductor_run.
TEST_F(EntriesOfPlugins, CodeKeepsTheNameOfItsMaker) {
  CompileRequest request;
  request.stage = Stage::inference;
  request.graph = graph();
  SavedArtifact saved = compile_with_backend("inductor", request)->save();
  EXPECT_EQ(saved.backend, "inductor");
  SavedArtifact again = load_code(saved, request, "a.tenon")->save();
  EXPECT_EQ(again.backend, "inductor");
  EXPECT_EQ(again.fingerprint, saved.fingerprint);
}

}  // namespace
}  // namespace tenon
