// The plugins that run graphs node by node: eager and its variants, aot_eager, print, debug_nop;
// and how plugins are found: listing loads nothing, a file dropped into a folder appears.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/compile/options.h"
#include "config/config.h"
#include "folders.h"
#include "graph/text/parse.h"
#include "ops/op_table.h"
#include "unit/message_of.h"

#include <tenon/compile.h>
#include <tenon/ops.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tenon {
namespace {

using ::testing::HasSubstr;

const std::string plugin_dir = TENON_PLUGIN_DIR;

/// y = relu(x + x)[:s0 rows of 3] and its transpose, sizes symbolic.
constexpr std::string_view symbolic = R"(tng 1
graph @f {
  symbol s0 in [2, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 3]
  %y: f32[s0, 3] = aten.add.Tensor(%x, %x)
  %t: f32[3, s0] strides [1, 3] = aten.transpose.int(%y, 0, 1)
  %v: f32[3*s0] = aten.view.default(%y, [3*s0])
  output %y, %t, %v
}
)";

std::shared_ptr<Artifact> compiled(const std::string& backend, std::shared_ptr<Graph> graph) {
  CompileRequest request;
  request.graph = std::move(graph);
  request.stage = Stage::inference;
  request.compile_id = "0/0";
  return compile_with_backend(backend, request);
}

std::vector<Tensor> run(Artifact& artifact, const Tensor& x, size_t n_outputs) {
  detail::TensorHead* inputs[] = {x.head()};
  int64_t syms[] = {x.size(0).guard_int()};
  std::vector<Tensor> outputs(n_outputs);
  artifact.call(inputs, syms, outputs);
  return outputs;
}

Tensor counting(int64_t rows) {
  Tensor x = make_tensor(IntList{std::vector<int64_t>{rows, 3}}, Dtype::f32);
  for (int64_t i = 0; i < 3 * rows; ++i) x.data_ptr<float>()[i] = static_cast<float>(i);
  return x;
}

bool is_mapped(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  return text.str().find(file) != std::string::npos;
}

class Backends : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {}); }  // the folder beside the program
};

TEST_F(Backends, ListingLoadsNothing) {
  std::vector<std::string> names = list_backends({});
  for (const char* name :
       {"eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager", "aot_eager",
        "aot_eager_default_partitioner", "aot_eager_decomp_partition", "print", "debug_nop"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  EXPECT_EQ(backend_info("aot_eager_decomp_partition").decompositions, "inductor");
  EXPECT_EQ(config::info("print.format").choices.size(), 3u);
  EXPECT_FALSE(is_mapped("/tenon_"));
  compiled("eager", parse_graph(symbolic));
  EXPECT_TRUE(is_mapped("/tenon_eager.so"));
  EXPECT_FALSE(is_mapped("/tenon_print.so"));
}

TEST_F(Backends, EachNameIsListedOnce) {
  std::vector<std::string> names = list_backends({});
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_TRUE(std::ranges::is_sorted(names));
  std::string told = message_of([] { backend_info("inductor_rum"); });
  EXPECT_EQ(told.find("inductor_run"), std::string::npos) << told;
  EXPECT_EQ(told.find("inductor, inductor"), std::string::npos) << told;
}

TEST_F(Backends, ThoseThatOnlyRunWhatOthersCompiledAreNotListed) {
  std::vector<std::string> names = list_backends({});
  size_t n_runtimes = 0;
  for (const BackendInfo& b : all_backends()) {
    if (std::ranges::find(b.tags, "runtime") == b.tags.end()) continue;
    ++n_runtimes;
    EXPECT_EQ(std::ranges::find(names, b.name), names.end()) << b.name;
    EXPECT_NE(default_backend(), b.name);
  }
  bool has_one = std::filesystem::exists(plugin_dir + "/tenon_inductor_run.so");
  EXPECT_EQ(n_runtimes, has_one ? 1u : 0u);
}

TEST_F(Backends, DroppedPluginAppears) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "tenon_plugins_XXXXXX").string();
  fs::path folder = mkdtemp(pattern.data());
  set_plugin_search({}, {folder.string()});
  auto is_listed = [] {
    std::vector<std::string> names = list_backends({});
    return std::find(names.begin(), names.end(), "debug_nop") != names.end();
  };
  EXPECT_FALSE(backend_info("eager").plugin.empty());
  bool before = is_listed() && backend_info("debug_nop").file.starts_with(folder.string());
  EXPECT_FALSE(before);
  fs::copy_file(fs::path(plugin_dir) / "tenon_debug_nop.so", folder / "tenon_debug_nop.so");
  ASSERT_TRUE(is_listed());
  EXPECT_EQ(backend_info("debug_nop").file, (folder / "tenon_debug_nop.so").string());
  auto artifact = compiled("debug_nop", parse_graph(symbolic));
  EXPECT_EQ(run(*artifact, counting(4), 3)[0].to_vector<float>()[5], 10.0f);
  fs::remove_all(folder);
}

TEST_F(Backends, AllRunTheGraph) {
  for (const char* name :
       {"eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager", "aot_eager",
        "aot_eager_default_partitioner", "aot_eager_decomp_partition", "debug_nop"}) {
    SCOPED_TRACE(name);
    auto artifact = compiled(name, parse_graph(symbolic));
    for (int64_t rows : {4, 7}) {
      std::vector<Tensor> out = run(*artifact, counting(rows), 3);
      EXPECT_EQ(out[0].to_vector<float>()[4], 8.0f);
      EXPECT_EQ(out[1].size(1).guard_int(), rows);
      EXPECT_EQ(out[2].size(0).guard_int(), 3 * rows);
    }
  }
}

// As PyTorch does it but for maximum and minimum of whole vectors, whose sign depends on the place.
TEST_F(Backends, OfTwoZerosTheFirstIsTheExtreme) {
  auto body = [](const Tensor& x, const Tensor& y) {
    return std::vector{minimum(x, y),  maximum(x, y),     fmin(x, y),        fmax(x, y),
                       clamp(x, y, y), clamp_min(x, 0.0), clamp_max(x, 0.0), clamp(x, -0.0, 0.0)};
  };
  std::vector<std::string> known = list_backends({});
  for (const char* name : {"eager", "aot_eager", "inductor", "ts", "nnc"}) {
    if (std::find(known.begin(), known.end(), name) == known.end()) continue;
    auto f = compile(body, {.backend = name});
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16})
      for (double sign : {0.0, -0.0}) {
        Tensor x = full({37}, sign, dtype), y = full({37}, -sign, dtype);
        std::vector<Tensor> results = f(x, y);
        for (size_t r = 0; r < results.size(); ++r)
          for (double v : results[r].to(Dtype::f64).to_vector<double>())
            ASSERT_EQ(std::signbit(v), std::signbit(sign))
                << name << ", result " << r << ", " << to_text(dtype);
      }
  }
}

TEST_F(Backends, PrintShowsTheGraph) {
  testing::internal::CaptureStdout();
  auto artifact = compiled("print", parse_graph(symbolic));
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("# inference graph 0/0"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.transpose.int(%y, 0, 1)"), std::string::npos) << text;
  EXPECT_EQ(run(*artifact, counting(4), 3)[0].to_vector<float>()[1], 2.0f);
}

// ---- options

/// What backend `print` writes for a compile with these options of the call.
std::string printed(const std::string& options_toml = "", const std::string& mode = "") {
  CompileRequest request;
  request.graph = parse_graph(symbolic);
  request.stage = Stage::inference;
  request.compile_id = "0/0";
  request.options_toml = options_toml;
  request.mode = mode;
  testing::internal::CaptureStdout();
  std::string error = message_of<Error>([&] { compile_with_backend("print", request); });
  std::string text = testing::internal::GetCapturedStdout();
  return error == "no error" ? text : error;
}

std::string format_of(const std::string& text) {
  if (text.find("digraph") != std::string::npos) return "dot";
  return text.find("%v0") != std::string::npos ? "canonical" : "text";
}

TEST_F(Backends, OptionsComeFromFlagsBelowTheCall) {
  EXPECT_EQ(format_of(printed()), "text");
  setenv("TENON_PRINT_FORMAT", "canonical", 1);
  config::reload();
  EXPECT_EQ(format_of(printed()), "canonical");
  config::set("print.format", "dot");
  EXPECT_EQ(format_of(printed()), "dot");
  {
    auto patch = config::patch({{"print.format", "text"}});
    EXPECT_EQ(format_of(printed()), "text");
    EXPECT_EQ(format_of(printed("format = \"canonical\"")), "canonical");
  }
  setenv("TENON_FORCE_PRINT_FORMAT", "dot", 1);
  config::reload();
  EXPECT_EQ(format_of(printed("format = \"canonical\"")), "dot");
  unsetenv("TENON_PRINT_FORMAT");
  unsetenv("TENON_FORCE_PRINT_FORMAT");
  config::forget();
}

TEST_F(Backends, UnknownOptionsOfABackendWithoutAnyNameNone) {
  EXPECT_EQ(message_of([] { check_backend_options("aot_eager", "", "fast = true"); }),
            "ConfigError: backend aot_eager has no option 'fast'; it has none; leave the option "
            "out, or name another backend");
}

TEST_F(Backends, UnknownOptionsComeWithTheNearest) {
  EXPECT_NE(
      printed("frmat = 1").find("backend print has no option 'frmat'; the nearest are format"),
      std::string::npos);
  EXPECT_NE(printed("", "fast").find("backend print has no mode 'fast'; the nearest are default"),
            std::string::npos);
  EXPECT_NE(
      message_of<Error>([] { config::set("print.frmat", "dot"); }).find("did you mean format"),
      std::string::npos);
  EXPECT_NE(message_of<Error>([] { config::set("print.format", 3); }).find("expects choice: text"),
            std::string::npos);
}

// What is wrong is told to each who asks, and once it is put right the option is there.
TEST_F(Backends, WrongVariablesOfOptionsAreTold) {
  BackendManifest kit;
  kit.name = "print_kit";
  kit.options.push_back({.name = "level",
                         .type = OptionType::integer,
                         .default_value = int64_t{1},
                         .env = "TENON_PRINT_KIT_LEVEL"});
  setenv("TENON_PRINT_KIT_LEVEL", "many", 1);
  for (int i = 0; i < 2; ++i)
    EXPECT_NE(message_of<Error>([&] { declare_options(kit); }).find("print_kit.level expects int"),
              std::string::npos);
  setenv("TENON_PRINT_KIT_LEVEL", "3", 1);
  declare_options(kit);
  EXPECT_EQ(config::get_as<int64_t>("print_kit.level"), 3);
  EXPECT_EQ(format_of(printed()), "text");
  setenv("TENON_PRINT_KIT_LEVL", "3", 1);
  config::reload();
  for (int i = 0; i < 2; ++i)
    EXPECT_NE(printed().find("did you mean TENON_PRINT_KIT_LEVEL"), std::string::npos);
  unsetenv("TENON_PRINT_KIT_LEVL");
  EXPECT_EQ(format_of(printed()), "text");
  unsetenv("TENON_PRINT_KIT_LEVEL");
}

TEST_F(Backends, ConfigsHasAFileForEachBackendWithOptions) {
  config::declare_all_options();
  std::vector<std::string> checked;
  for (const BackendInfo& backend : all_backends()) {
    std::vector<config::FlagInfo> flags = config::list();
    bool has_options = std::any_of(flags.begin(), flags.end(), [&](const config::FlagInfo& flag) {
      return flag.key.starts_with(backend.name + ".");
    });
    if (!has_options) continue;
    checked.push_back(backend.name);
    std::stringstream text;
    text << std::ifstream(source_path("configs/" + backend.name + ".toml")).rdbuf();
    EXPECT_EQ(text.str(), config::config_file_text(backend.name))
        << backend.name << ".toml is missing or old; run `tenon config write`";
  }
  EXPECT_NE(std::find(checked.begin(), checked.end(), "print"), checked.end());
}

// The graph promises what the kernel does not give: text, expected, found.
TEST_F(Backends, DebugNopFindsBrokenPromises) {
  // Text like that is refused when it is read; a graph that was built may still be wrong.
  auto told = [](size_t output, auto&& change) {
    std::shared_ptr<Graph> graph = parse_graph(symbolic);
    change(graph->value(graph->outputs()[output]).meta);
    auto artifact = compiled("debug_nop", graph);
    return message_of<Error>([&] { run(*artifact, counting(4), 3); });
  };
  EXPECT_THAT(told(0, [](TensorMeta& y) { y.sizes[1] = 5; }),
              HasSubstr("expected sizes (4, 5) as traced, found (4, 3)"));
  EXPECT_THAT(told(1,
                   [](TensorMeta& t) {
                     t.strides = Dims{t.sizes[1], 1};
                   }),
              HasSubstr("expected strides (4, 1) as traced, found (1, 3)"));
  EXPECT_THAT(told(0, [](TensorMeta& y) { y.dtype = Dtype::f64; }),
              HasSubstr("expected dtype f64 as traced, found f32"));
}

TEST_F(Backends, DebugNopIgnoresStridesThatAreNeverUsed) {
  constexpr std::string_view text = R"(tng 1
graph @f {
  input %x: f32[4, 3]
  %a: f32[1, 3] strides [7, 1] = aten.slice.Tensor(%x, 0, 0, 1)
  %b: f32[0, 3] strides [9, 2] = aten.slice.Tensor(%x, 0, 0, 0)
  output %a, %b
}
)";
  auto artifact = compiled("debug_nop", parse_graph(text));
  EXPECT_EQ(message_of<Error>([&] { run(*artifact, counting(4), 2); }), "no error");
}

// Sizes that data decide are read from the result that has them; later nodes compute with them.
TEST_F(Backends, DebugNopFollowsSizesThatDependOnData) {
  constexpr std::string_view text = R"(tng 1
graph @f {
  symbol u0 size_like in [0, 12] from size(%n, 0)
  input %x: f32[4, 3]
  %n: i64[u0, 2] strides [1, u0] = aten.nonzero.default(%x)
  %o: i64[2*u0] = aten.full.default([2*u0], 7, i64)
  output %n, %o
}
)";
  auto artifact = compiled("debug_nop", parse_graph(text));
  Tensor x = counting(4);
  detail::TensorHead* inputs[] = {x.head()};
  int64_t not_known_yet[] = {0};
  std::vector<Tensor> outputs(2);
  artifact->call(inputs, not_known_yet, outputs);
  EXPECT_EQ(to_text(outputs[0]), "i64[11, 2] strides [1, 11]");
  EXPECT_EQ(to_text(outputs[1]), "i64[22]");
}

// ---- schemas that lie

const OpDef lying_rows[] = {
    {.schema = "plugin_test::writes(Tensor x) -> Tensor",
     .meta = fn<like>,
     .eager =
         [](Tensor& out, const Tensor& x) {
           x.data_ptr<float>()[0] = 99;
           out.data_ptr<float>()[0] = 1;
         }},
    {.schema = "plugin_test::returns_itself(Tensor x) -> Tensor",
     .meta = fn<like>,
     .eager = [](const Tensor& x) { return x; }},
};

std::string told_of(const std::string& op) {
  static const bool added = [] {
    for (const OpDef& row : lying_rows) add_op(&row);
    return true;
  }();
  EXPECT_TRUE(added);
  std::string text = "tng 1\ngraph @f {\n  input %x: f32[4, 3]\n  %y: f32[4, 3] = plugin_test." +
                     op + ".default(%x)\n  output %y\n}\n";
  auto artifact = compiled("eager_debug", parse_graph(text));
  return message_of<Error>([&] { run(*artifact, counting(4), 1); });
}

TEST_F(Backends, EagerDebugFindsUndeclaredWrites) {
  EXPECT_NE(told_of("writes").find("changed argument x"), std::string::npos) << told_of("writes");
}

TEST_F(Backends, EagerDebugFindsUndeclaredAliases) {
  EXPECT_NE(told_of("returns_itself").find("gave a result in the storage of argument x"),
            std::string::npos)
      << told_of("returns_itself");
}

TEST_F(Backends, EagerDebugTakesOneTensorAsTwoArguments) {
  auto artifact = compiled("eager_debug", parse_graph(R"(tng 1
graph @f {
  input %x: f32[4, 3] alias 1
  %y: f32[4, 3] alias 1 = aten.mul_.Tensor(%x, %x)
  output %y
}
)"));
  EXPECT_EQ(message_of<Error>([&] { run(*artifact, counting(4), 1); }), "no error");
}

TEST_F(Backends, EagerNoExceptBlamesTheCapture) {
  auto artifact = compiled("eager_noexcept", parse_graph(symbolic));
  Tensor wrong = make_tensor(IntList{std::vector<int64_t>{4}}, Dtype::f32);
  std::string text = message_of<Error>([&] { run(*artifact, wrong, 3); });
  EXPECT_NE(text.find("unexpected error while the captured graph ran"), std::string::npos) << text;
}

}  // namespace
}  // namespace tenon
