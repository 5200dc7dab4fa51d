// Each part of the key decides, and what should not decide does not.
#include "plugins/graph_cache/fixture.h"

#include "compile/graph_cache_key.h"
#include "config/config.h"
#include "core/dispatch.h"
#include "graph/text/parse.h"

#include <tenon/autocast.h>
#include <tenon/tenon.h>

#include <chrono>
#include <fstream>
#include <set>

namespace tenon {
namespace {

namespace fs = std::filesystem;

const char* const base_text = R"(tng 1
  graph @f {
    input %x: f32[4, 8]
    constant %c: f32[2] = [1.0, 2.0]
    %y: f32[4, 8] = aten.relu.default(%x)
    %z: f32[4, 8] = aten.mul.Scalar(%y, 2.0)
    output %z
  })";

struct Call {
  std::string backend = "inductor";
  CompileRequest request;
};

std::string key_of(const Graph& graph, Call call = {}) {
  call.request.grad_enabled = thread_modes.grad_enabled;
  GraphKey key = graph_key(graph, call.request, cache_identity(call.backend, call.request, graph));
  EXPECT_EQ(key.bypass, "");
  return key.folder + "/" + key.digest;
}

std::string key_of(const std::string& text, Call call = {}) {
  return key_of(*parse_graph(text), std::move(call));
}

/// The base with one piece of its text replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text(base_text);
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  EXPECT_NE(text, base_text);
  return text;
}

using GraphCacheKeys = GraphCacheTest;

TEST_F(GraphCacheKeys, EqualGraphsHaveEqualKeys) {
  EXPECT_EQ(key_of(base_text), key_of(base_text));
}

TEST_F(GraphCacheKeys, EachPartOfTheGraphDecides) {
  std::set<std::string> keys{key_of(base_text)};
  std::vector<std::pair<std::string, std::string>> changes = {
      {"f32[4, 8]", "f64[4, 8]"},                                     // dtype
      {"f32[4, 8]", "f32[5, 8]"},                                     // shape
      {"input %x: f32[4, 8]", "input %x: f32[4, 8] strides [1, 4]"},  // layout
      {"input %x: f32[4, 8]", "input %x: f32[4, 8] offset 3"},
      {"input %x: f32[4, 8]", "input %x: f32[4, 8] requires_grad"},
      {"input %x: f32[4, 8]", "input %x: f32[4, 8] parameter static_address"},
      {"[1.0, 2.0]", "[1.0, 2.5]"},  // a constant
      {"aten.relu.default", "aten.abs.default"},
      {"(%y, 2.0)", "(%y, 3.0)"},
      {"output %z", "output %z, %y"},
  };
  for (const auto& [from, to] : changes)
    EXPECT_TRUE(keys.insert(key_of(with(from, to))).second) << from << " to " << to;
}

TEST_F(GraphCacheKeys, AutogradCacheNormalizeInputsLeavesOutTheirNames) {
  std::string renamed = with("%x", "%other");
  EXPECT_EQ(key_of(renamed), key_of(base_text));
  auto flag = config::patch({{"functorch.autograd_cache_normalize_inputs", false}});
  EXPECT_NE(key_of(renamed), key_of(base_text));
}

TEST_F(GraphCacheKeys, NamesOfNodesAndPlacesInSourcesDoNotDecide) {
  EXPECT_EQ(key_of(with("%y", "%between")), key_of(base_text));
  EXPECT_EQ(key_of(with("(%x)", "(%x)  {at \"model.cpp\":7}")), key_of(base_text));
}

TEST_F(GraphCacheKeys, ExampleSizesDoNotDecideButWhatIsKnownDoes) {
  auto sized = [](const std::string& symbol) {
    return key_of("tng 1\ngraph @f {\n symbol " + symbol +
                  " from size(%x, 0)\n input %x: f32[s0]\n %y: f32[s0] = "
                  "aten.relu.default(%x)\n output %y\n}");
  };
  EXPECT_EQ(sized("s0 in [2, 64] hint 5"), sized("s0 in [2, 64] hint 6"));
  EXPECT_NE(sized("s0 in [2, 64] hint 5"), sized("s0 in [2, 32] hint 5"));
}

TEST_F(GraphCacheKeys, FlagsThatDecideWhatIsCompiledDecide) {
  std::set<std::string> keys{key_of(base_text)};
  for (const auto& [flag, value] : std::map<std::string, config::Value>{
           {"functorch.activation_memory_budget", 0.5},
           {"functorch.cse", false},
           {"functorch.donated_buffer", false},
           {"functorch.recompute_views", true},
           {"functorch.backward_pass_autocast", std::string("off")},
           {"functorch.functionalize_rng_ops", true},
           {"compiler.partition_cost", std::string("storage")},
           {"compiler.cache_key_tag", std::string("nightly")},
           {"inductor.max_fusion_size", int64_t{3}}}) {
    auto patch = config::patch({{flag, value}});
    EXPECT_TRUE(keys.insert(key_of(base_text)).second) << flag;
  }
  auto debug = config::patch({{"functorch.debug_partitioner", true}});
  EXPECT_EQ(key_of(base_text), *keys.find(key_of(base_text))) << "a flag for looking on";
}

// Replaces the first of `from` in a file, which keeps its size and its times.
void patch_file(const std::string& path, const std::string& from, const std::string& to) {
  auto time = std::filesystem::last_write_time(path);
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, to.size(), to);
  std::ofstream(path + ".new", std::ios::binary) << bytes;
  std::filesystem::rename(path + ".new", path);
  std::filesystem::last_write_time(path, time);
}

TEST_F(GraphCacheKeys, TheWayOfTheCallDecides) {
  std::set<std::string> keys{key_of(base_text)};
  Call call;
  call.request.dynamic = true;
  EXPECT_TRUE(keys.insert(key_of(base_text, call)).second) << "dynamic";
  call = {};
  call.request.deterministic = true;
  EXPECT_TRUE(keys.insert(key_of(base_text, call)).second) << "deterministic";
  call = {};
  call.request.options_toml = "winograd = \"off\"";
  EXPECT_TRUE(keys.insert(key_of(base_text, call)).second) << "options";
  {
    NoGradGuard off;
    EXPECT_TRUE(keys.insert(key_of(base_text)).second) << "grad mode";
  }
  for (Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    call = {};
    call.request.autocast.cpu = {.dtype = dtype};
    EXPECT_TRUE(keys.insert(key_of(base_text, call)).second) << "autocast " << name_of(dtype);
  }
  EXPECT_TRUE(keys.insert(key_of(base_text, {.backend = "aot_eager"})).second) << "backend";
}

TEST_F(GraphCacheKeys, OptionsThatChangeNoCodeDoNotDecide) {
  Call call;
  call.request.options_toml = "verify = true";
  EXPECT_EQ(key_of(base_text, call), key_of(base_text));
}

// As after an update of the plugin: the same version, another file.
TEST_F(GraphCacheKeys, AnotherFileOfThePluginDecides) {
  fs::path copies = fs::path(folder_) / "plugins";
  fs::create_directory(copies);
  fs::path copy = copies / "tenon_inductor.so";
  fs::copy_file(fs::path(TENON_PLUGIN_DIR) / "tenon_inductor.so", copy);
  set_plugin_search({copy.string()}, {});
  std::string first = key_of(base_text);
  // The time alone does not: it differs between copies, and is the same for all files of an image.
  fs::last_write_time(copy, fs::last_write_time(copy) + std::chrono::seconds(5));
  rescan_plugins();
  EXPECT_EQ(key_of(base_text), first);
  // The note of the build ID: sizes of name and ID, type, name.
  std::string note("\4\0\0\0\24\0\0\0\3\0\0\0GNU\0", 16);
  patch_file(copy, note, note + "other content");
  rescan_plugins();
  EXPECT_NE(key_of(base_text), first);
  set_plugin_search({}, {TENON_PLUGIN_DIR});
}

TEST_F(GraphCacheKeys, RandomKeysDiffer) { EXPECT_NE(random_digest(), random_digest()); }

}  // namespace
}  // namespace tenon
