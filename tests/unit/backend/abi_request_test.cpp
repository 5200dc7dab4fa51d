// The cache key of a request: equal for equal code, another one for whatever can change it.
#include "backend/abi/abi_request.h"

#include <gtest/gtest.h>

#include "backend/compile/plugin_cache.h"
#include "config/config.h"
#include "graph/text/parse.h"

namespace tenon {
namespace {

BackendManifest manifest_with_options() {
  ManifestResult parsed = parse_manifest(R"(manifest = 1
[plugin]
name = "keyed"
version = "0.1.0"
abi = "1.0"
[[backend]]
name = "keyed"
description = "has options"
[[backend.option]]
name = "level"
type = "int"
default = 1
doc = "changes the code"
[[backend.option]]
name = "dump"
type = "bool"
default = false
doc = "changes nothing"
affects_cache = false
)",
                                         "keyed.so");
  EXPECT_FALSE(parsed.diagnosis) << to_text(parsed.diagnosis);
  return parsed.manifest.backends.at(0);
}

CompileRequest request_for(const std::string& op) {
  CompileRequest request;
  request.graph = parse_graph("tng 1\ngraph {\n  input %x: f32[2]\n  %y: f32[2] = aten." + op +
                              ".default(%x)\n  output %y\n}\n");
  request.stage = Stage::inference;
  return request;
}

std::string key_of(const CompileRequest& request, const CacheScope* cache = nullptr) {
  static const auto* manifest = new BackendManifest(manifest_with_options());
  AbiRequest rq(*manifest, "keyed", request, cache);
  return {rq.abi.cache_key.data, rq.abi.cache_key.size};
}

TEST(CacheKey, IsEqualForEqualRequests) {
  EXPECT_EQ(key_of(request_for("relu")), key_of(request_for("relu")));
  EXPECT_EQ(key_of(request_for("relu")).size(), 64u);
}

TEST(CacheKey, ChangesWithWhateverChangesTheCode) {
  CompileRequest request = request_for("relu");
  std::string key = key_of(request);
  EXPECT_NE(key, key_of(request_for("exp")));
  CompileRequest other = request;
  other.stage = Stage::captured;
  EXPECT_NE(key, key_of(other));
  other = request;
  other.mutated_inputs = {0};
  EXPECT_NE(key, key_of(other));
  other = request;
  other.options_toml = "level = 2";
  EXPECT_NE(key, key_of(other));
  auto patch = config::patch({{"dynamo.specialize_int", true}});
  EXPECT_NE(key, key_of(request));
}

TEST(CacheKey, ChangesWithTheFingerprintAndTheTag) {
  CompileRequest request = request_for("relu");
  std::string key = key_of(request);
  CacheScope old{"llvm 19", ""}, recent{"llvm 20", ""};
  EXPECT_NE(key_of(request, &old), key);
  EXPECT_NE(key_of(request, &old), key_of(request, &recent));
  auto patch = config::patch({{"compiler.cache_key_tag", "nightly"}});
  EXPECT_NE(key, key_of(request));
}

TEST(CacheKey, StaysWithOptionsAndFlagsThatChangeNothing) {
  CompileRequest request = request_for("relu");
  std::string key = key_of(request);
  CompileRequest other = request;
  other.options_toml = "dump = true";
  EXPECT_EQ(key, key_of(other));
  auto patch = config::patch({{"dynamo.recompile_limit", int64_t{3}}});
  EXPECT_EQ(key, key_of(request));
}

}  // namespace
}  // namespace tenon
