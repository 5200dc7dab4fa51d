// Code that was saved and is loaded again.
#include "plugins/regions/support.h"

#include "backend/backend.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>

namespace tenon {
namespace {

// What a backend keeps beside its code, such as plans of libraries, it looks for in the same place.
TEST(LoadedCode, FindsWhatItsCompileKept) {
  set_plugin_search({}, {TENON_KIT_PLUGIN_DIR});
  CompileRequest request;
  request.graph = graph_of("input %x: f32[7]\n%y: f32[7] = aten.cosh.default(%x)\noutput %y\n");
  request.compile_id = "0/0";
  auto artifact = compile_with_backend("complete", request);
  auto loaded = load_with_backend(artifact->save(), request);
  EXPECT_THAT(loaded->describe(TN_DESC_STATS_JSON), testing::HasSubstr("\"from_cache\": true"));
}

TEST(LoadedCode, OfAnotherFingerprintIsRefused) {
  set_plugin_search({}, {TENON_KIT_PLUGIN_DIR});
  CompileRequest request;
  request.graph = graph_of("input %x: f32[7]\n%y: f32[7] = aten.cosh.default(%x)\noutput %y\n");
  SavedArtifact saved = compile_with_backend("complete", request)->save();
  ASSERT_EQ(saved.flags.size(), 1u);
  EXPECT_EQ(saved.flags[0].key, "compiler.threads");
  load_with_backend(saved, request);
  saved.fingerprint = "another";
  EXPECT_EQ(message_of<BackendError>([&] { load_with_backend(saved, request); }),
            "BackendCompilerFailed: backend complete: load: its fingerprint is another one than "
            "when the code was saved, so what it saved cannot be used; compile again");
}

}  // namespace
}  // namespace tenon
