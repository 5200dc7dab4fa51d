// ts and nnc: programs as text and back, in files, over many sizes, by many threads, without LLVM.
#include "backend/abi/status.h"
#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/compile/call_backend.h"
#include "graph/interpret.h"
#include "graph/text/parse.h"
#include "plugins/own_process.h"

#include <tenon/functorch.h>
#include <tenon/load_model.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::string_view layers = R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 24]
  input %w: f32[24, 40]
  input %b: f32[40]
  %y: f32[s0, 40] = aten.addmm.default(%b, %x, %w)
  %t: f32[s0, 40] = aten.tanh.default(%y)
  %g: f32[s0, 40] = aten.sigmoid.default(%y)
  %p: f32[s0, 40] = aten.mul.Tensor(%t, %g)
  %v: f32[s0, 5, 8] = aten.view.default(%p, [s0, 5, 8])
  %q: f32[s0, 8, 5] = aten.permute.default(%v, [0, 2, 1])
  %c: f32[s0, 8, 5] = aten.clone.default(%q)
  %s: f32[s0, 8] = aten.sum.dim_IntList(%c, [2])
  output %c, %s
}
)";

CompileRequest request_for(std::shared_ptr<Graph> graph) {
  CompileRequest request;
  request.graph = std::move(graph);
  request.stage = Stage::inference;
  request.compile_id = "0/0";
  request.dynamic = true;
  return request;
}

std::vector<std::vector<float>> run(Artifact& artifact, const std::vector<Tensor>& inputs) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  int64_t syms[] = {inputs[0].size(0).guard_int()};
  std::vector<Tensor> outputs(2);
  artifact.call(heads, syms, outputs);
  std::vector<std::vector<float>> out;
  for (const Tensor& t : outputs) out.push_back(t.to_vector<float>());
  return out;
}

std::vector<Tensor> inputs_of(int64_t rows) {
  manual_seed(static_cast<uint64_t>(rows));
  return {randn({rows, 24}), randn({24, 40}), randn({40})};
}

void expect_near(const std::vector<std::vector<float>>& found,
                 const std::vector<std::vector<float>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].size(), expected[k].size());
    for (size_t i = 0; i < found[k].size(); ++i)
      ASSERT_NEAR(found[k][i], expected[k][i], 1e-4f) << "output " << k << ", element " << i;
  }
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  return text.replace(text.find(part), part.size(), by);
}

class Programs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_plugin_search({}, {}); }
};

TEST_P(Programs, SizesTakeTurns) {
  auto graph = parse_graph(layers);
  auto code = compile_with_backend(GetParam(), request_for(graph));
  auto reference = interpreter_artifact(graph);
  for (int64_t rows : {4, 1, 300, 4, 17, 1})
    expect_near(run(*code, inputs_of(rows)), run(*reference, inputs_of(rows)));
}

TEST_P(Programs, ThreadsHaveMemoryOfTheirOwn) {
  auto graph = parse_graph(layers);
  auto code = compile_with_backend(GetParam(), request_for(graph));
  auto reference = interpreter_artifact(graph);
  std::vector<std::thread> threads;
  for (int64_t rows : {3, 5, 64, 200}) {
    std::vector<Tensor> inputs = inputs_of(rows);
    auto expected = run(*reference, inputs);
    threads.emplace_back([&code, inputs, expected] {
      for (int i = 0; i < 50; ++i) expect_near(run(*code, inputs), expected);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_P(Programs, AWeightThatWasWrittenIsReadAgain) {
  auto graph = parse_graph(layers);
  CompileRequest request = request_for(graph);
  request.static_inputs = {1, 2};
  auto code = compile_with_backend(GetParam(), request);
  auto reference = interpreter_artifact(graph);
  std::vector<Tensor> inputs = inputs_of(6);
  expect_near(run(*code, inputs), run(*reference, inputs));
  inputs[1].mul_(2.0);
  expect_near(run(*code, inputs), run(*reference, inputs));
}

// ---- what blocks compute

/// As bits: NaN is equal to NaN, and -0 is not 0.
std::vector<std::vector<uint32_t>> bits_of(const std::vector<std::vector<float>>& outputs) {
  std::vector<std::vector<uint32_t>> out;
  for (const std::vector<float>& values : outputs) {
    auto& bits = out.emplace_back();
    for (float x : values) bits.push_back(std::isnan(x) ? 0x7fc00000 : std::bit_cast<uint32_t>(x));
  }
  return out;
}

constexpr std::string_view pairs = R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 40 from size(%x, 0)
  input %x: f32[s0]
  input %y: f32[s0]
  %m: f32[s0] = aten.mul.Tensor(%x, %y)
  %a: f32[s0] = aten.add.Tensor(%m, %x)
  %r: f32[s0] = aten.relu.default(%a)
  %n: f32[s0] = aten.sub.Tensor(%y, %a)
  %c: f32[s0] = aten.clamp.default(%n, -1.5, 2.0)
  %g: bool[s0] = aten.gt.Tensor(%x, %y)
  %w: f32[s0] = aten.where.self(%g, %r, %c)
  %d: f32[s0] = aten.minimum.default(%x, %y)
  %e: f32[s0] = aten.sub.Tensor(%d, %w)
  output %w, %e
}
)";

TEST_P(Programs, TwoPrimitivesInOneStepGiveTheBitsOfTwoSteps) {
  auto graph = parse_graph(pairs);
  auto code = compile_with_backend(GetParam(), request_for(graph));
  auto reference = interpreter_artifact(graph);
  float infinity = std::numeric_limits<float>::infinity();
  // No -0: which zero a minimum of both is, nobody promises.
  std::vector<float> special{std::nanf(""), infinity, -infinity, 0.0f, 3e38f, 1.0f, -2.5f, 1e-40f};
  for (int64_t n : {1, 7, 16, 64, 65, 511, 1000}) {
    std::vector<float> x, y;
    for (int64_t i = 0; i < n; ++i) {
      auto at = static_cast<size_t>(i);
      x.push_back(special[at % 8]), y.push_back(special[at / 8 % 8]);
    }
    std::vector<Tensor> inputs{tensor(x), tensor(y)};
    auto found = run(*code, inputs), expected = run(*reference, inputs);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(bits_of({{found[0][i], found[1][i]}}), bits_of({{expected[0][i], expected[1][i]}}))
          << n << ": x " << x[i] << ", y " << y[i];
  }
}

constexpr std::string_view extremes = R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 40 from size(%x, 0)
  input %x: f32[s0, 87]
  %a: f32[s0] = aten.amax.default(%x, [1])
  %b: f32[s0] = aten.amin.default(%x, [1])
  output %a, %b
}
)";

TEST_P(Programs, AnExtremeOfARowFindsEachElementAndNaN) {
  auto graph = parse_graph(extremes);
  auto code = compile_with_backend(GetParam(), request_for(graph));
  auto reference = interpreter_artifact(graph);
  for (float found : {9.0f, -9.0f, std::nanf("")}) {
    Tensor x = rand({87, 87});
    for (int64_t i = 0; i < 87; ++i) x.data_ptr<float>()[i * 88] = found;
    EXPECT_EQ(bits_of(run(*code, {x})), bits_of(run(*reference, {x}))) << found;
  }
}

constexpr std::string_view near_one = R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 40 from size(%x, 0)
  input %x: f32[s0]
  %a: f32[s0] = aten.expm1.default(%x)
  %b: f32[s0] = aten.log1p.default(%x)
  output %a, %b
}
)";

void expect_within(float found, double exact, double x) {
  auto nearest = static_cast<float>(exact);
  if (!std::isfinite(nearest) || nearest == 0) {
    EXPECT_EQ(bits_of({{found}}), bits_of({{nearest}})) << x;
    return;
  }
  double ulp = std::fabs(static_cast<double>(std::nextafter(nearest, 2 * nearest)) - nearest);
  EXPECT_LE(std::fabs(found - exact), 2.5 * ulp) << x;
}

TEST_P(Programs, FunctionsNearOneLoseNothing) {
  auto code = compile_with_backend(GetParam(), request_for(parse_graph(near_one)));
  float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0f,      -0.0f,         -1.0f,  -1.5f, infinity,
                       -infinity, std::nanf(""), 88.72f, 89.0f};
  for (int exponent = -140; exponent < 7; ++exponent)
    for (float m : {1.0f, 1.3f, 1.9f})
      x.push_back(std::ldexp(m, exponent)), x.push_back(std::ldexp(-m, exponent));
  auto found = run(*code, {tensor(x)});
  for (size_t i = 0; i < x.size(); ++i) {
    expect_within(found[0][i], std::expm1(static_cast<double>(x[i])), x[i]);
    expect_within(found[1][i], std::log1p(static_cast<double>(x[i])), x[i]);
  }
}

// ---- sizes that data decide

constexpr std::string_view divided = R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 4 from size(%x, 0)
  symbol u0 size_like in [0, inf] from size(%n, 0)
  input %x: f32[s0]
  %g: bool[s0] = aten.gt.Scalar(%x, 0)
  %m: f32[s0] = aten.mul.Tensor(%x, %x)
  %n: i64[u0, 1] = aten.nonzero.default(%g)
  aten._assert_scalar.default(u0 <= 100, "few are larger")
  %c: f32[u0, 1] = aten._to_copy.default(%n, dtype=f32)
  %o: f32[1] = aten.sum.dim_IntList(%c, [0])
  aten._assert_scalar.default(u0 <= 90, "fewer are larger")
  output %m, %o
}
)";

// The lone sum of the second half is the host's, and so are the assertions around it.
TEST_P(Programs, OfADividedGraphTwoOpsAreWorthAProgram) {
  auto graph = parse_graph(divided);
  auto code = compile_with_backend(GetParam(), request_for(graph));
  std::vector<Tensor> inputs{tensor(std::vector<float>{1, -2, 3, 4})};
  expect_near(run(*code, inputs), run(*interpreter_artifact(graph), inputs));
  EXPECT_THAT(code->describe(TN_DESC_STATS_JSON), HasSubstr("\"regions\":2"));
  std::string text = replaced(std::string(divided), "(%c, [0])", "(%n, [0], false, dtype=f32)");
  auto shorter =
      parse_graph(replaced(text, "  %c: f32[u0, 1] = aten._to_copy.default(%n, dtype=f32)\n", ""));
  auto lone = compile_with_backend(GetParam(), request_for(shorter));
  expect_near(run(*lone, inputs), run(*interpreter_artifact(shorter), inputs));
  EXPECT_THAT(lone->describe(TN_DESC_STATS_JSON), HasSubstr("\"regions\":1"));
}

// ---- images

constexpr std::string_view pooled = R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 3, 21, 13]
  %y: f32[s0, 3, 11, 7], %i: i64[s0, 3, 11, 7] = aten.max_pool2d_with_indices.default(%x, [3, 3], [2, 2], [1, 1], [1, 1], false)
  %z: f32[s0, 3, 7, 3] = aten.avg_pool2d.default(%x, [4, 6], [3, 4], [1, 2], false, true, none)
  output %y, %z
}
)";

TEST_P(Programs, WindowsSkipElementsAndReachBeyondTheRim) {
  auto graph = parse_graph(pooled);
  auto code = compile_with_backend(GetParam(), request_for(graph));
  auto reference = interpreter_artifact(graph);
  for (int64_t images : {1, 4, 30}) {
    manual_seed(3);
    std::vector<Tensor> inputs{randn({images, 3, 21, 13})};
    expect_near(run(*code, inputs), run(*reference, inputs));
  }
  EXPECT_THAT(code->describe(TN_DESC_STATS_JSON), HasSubstr("\"extern_calls\": 0,"));
}

/// The normalisation `%n` of a view of what a layer gives, whose weights are parameters.
std::shared_ptr<Graph> normalised_view(std::string_view nodes) {
  return parse_graph(
      "tng 1\ngraph @f {\n"
      "  input %x: f32[2, 8, 8]\n"
      "  input %w: f32[8, 8] parameter\n"
      "  input %k: f32[12, 8, 1, 1] parameter\n"
      "  input %p: f32[8] parameter\n" +
      std::string(nodes) + "\n  output %n, %o\n}\n");
}

// The scale of a norm goes into the weights only where it reads the layer's whole result, by
// channels, and nothing else does.
TEST_P(Programs, NormsOfViewsOfALayersResultLeaveItsWeights) {
  std::string images =
      "  %i: f32[2, 8, 8, 1] = aten.unsqueeze.default(%x, 3)\n"
      "  %c: f32[2, 12, 8, 1] = aten.convolution.default(%i, %k, none, [1, 1], [0, 0], [1, 1], "
      "false, [0, 0], 1)\n";
  std::string rows =
      "  %m: f32[16, 8] = aten.mm.default(%r, %w)\n"
      "  %v: f32[2, 8, 8] = aten.view.default(%m, [2, 8, 8])\n";
  std::string flat = "  %r: f32[16, 8] = aten.view.default(%x, [16, 8])\n" + rows;
  auto norm = [](std::string_view of, std::string_view dims) {
    return message(
        "  %n: f32[{}], %n1: f32[0], %n2: f32[0] = "
        "aten._native_batch_norm_legit_no_training.default(%{}, %p, %p, %p, %p, 0.1, 1e-5)\n"
        "  %o: f32[{}] = aten.relu.default(%n)",
        dims, of, dims);
  };
  const std::string graphs[] = {
      images +
          "  %s: f32[2, 8, 8, 1] strides [96, 8, 1, 1], %s1: f32[2, 4, 8, 1] strides "
          "[96, 8, 1, 1] offset 64 = aten.split_with_sizes.default(%c, [8, 4], 1)\n" +
          norm("s", "2, 8, 8, 1"),
      images + "  %t: f32[2, 8, 12, 1] strides [96, 1, 8, 1] = aten.transpose.int(%c, 1, 2)\n" +
          norm("t", "2, 8, 12, 1"),
      flat + norm("v", "2, 8, 8"),
      flat + "  %t: f32[2, 8, 8] strides [64, 1, 8] = aten.transpose.int(%v, 1, 2)\n" +
          norm("t", "2, 8, 8"),
  };
  for (const std::string& nodes : graphs) {
    SCOPED_TRACE(nodes);
    auto graph = normalised_view(nodes);
    auto code = compile_with_backend(GetParam(), request_for(graph));
    std::vector<Tensor> inputs{randn({2, 8, 8}), randn({8, 8}), randn({12, 8, 1, 1}), rand({8})};
    expect_near(run(*code, inputs), run(*interpreter_artifact(graph), inputs));
  }
}

/// Batch normalisation of convolved images, by their own statistics or by given ones.
std::shared_ptr<Graph> normalised_images(std::string_view norm) {
  return parse_graph(R"(tng 1
graph @f {
  symbol s0 in [1, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 8, 16, 16]
  input %w: f32[6, 8, 3, 3]
  input %b: f32[6]
  %c: f32[s0, 6, 16, 16] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
)" + std::string(norm) +
                     R"(
  %r: f32[s0, 6, 16, 16] = aten.relu.default(%n)
  output %r, %c
}
)");
}

TEST_P(Programs, StatisticsOfChannelsAreTakenOfImagesInRows) {
  auto own = normalised_images(
      "  %n: f32[s0, 6, 16, 16], %m: f32[6], %v: f32[6] = "
      "aten._native_batch_norm_legit.no_stats(%c, %b, %b, true, 0.1, 1e-5)");
  auto given = normalised_images(
      "  %n: f32[s0, 6, 16, 16], %m: f32[0], %v: f32[0] = "
      "aten._native_batch_norm_legit_no_training.default(%c, %b, %b, %b, %b, 0.1, 1e-5)");
  bool is_fused = GetParam() != std::string_view("simple_ts");
  for (auto& graph : {own, given}) {
    auto code = compile_with_backend(GetParam(), request_for(graph));
    std::vector<Tensor> inputs{randn({2, 8, 16, 16}), randn({6, 8, 3, 3}), rand({6})};
    expect_near(run(*code, inputs), run(*interpreter_artifact(graph), inputs));
    bool is_last = code->describe(TN_DESC_GRAPH).find(", 96, 6) = ") != std::string::npos;
    EXPECT_EQ(is_last, is_fused && graph == given) << code->describe(TN_DESC_GRAPH);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Programs, testing::Values("ts", "aot_ts", "simple_ts", "nnc"),
                         [](const auto& info) { return std::string(info.param); });

class Ts : public Programs {};

/// What ts saves is text.
std::string text_of(Artifact& artifact) { return artifact.save().bytes; }

TEST_P(Ts, ProgramsGoThroughText) {
  auto graph = parse_graph(layers);
  CompileRequest request = request_for(graph);
  auto code = compile_with_backend(GetParam(), request);
  std::string text = text_of(*code);
  EXPECT_TRUE(text.starts_with("program 3 ")) << text.substr(0, 40);
  for (unsigned char c : text) ASSERT_TRUE(c == '\n' || (c >= 32 && c < 127)) << int{c};
  auto again = load_with_backend(code->save(), request);
  EXPECT_EQ(text_of(*again), text);
  for (int64_t rows : {4, 33}) EXPECT_EQ(run(*again, inputs_of(rows)), run(*code, inputs_of(rows)));
}

TEST_P(Ts, DamagedTextIsRefused) {
  auto graph = parse_graph(layers);
  CompileRequest request = request_for(graph);
  SavedArtifact saved = compile_with_backend(GetParam(), request)->save();
  const std::string text = saved.bytes;
  auto load = [&](std::string bytes) {
    saved.bytes = std::move(bytes);
    return load_with_backend(saved, request);
  };
  for (size_t at : {size_t{9}, size_t{60}, text.size() / 2, text.size() - 2}) {
    std::string other = text;
    other[at] = other[at] == '7' ? '8' : '7';
    EXPECT_THROW(load(other), Error) << at;
    EXPECT_THROW(load(text.substr(0, at)), Error) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Ts, testing::Values("ts", "simple_ts"),
                         [](const auto& info) { return std::string(info.param); });

// ---- the run before the first call

/// How often each step of a program has run once it is compiled, as its profile says: for inputs with
/// data where `inputs` are given, else for fakes, as the host compiles.
std::vector<int> calls_of_steps(const char* name, const std::vector<Tensor>& inputs) {
  CompileRequest request = request_for(parse_graph(layers));
  request.options_toml = "profile = true\n";
  BackendChoice choice = choice_for(name, *request.graph).value();
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), choice.plugin);
  const tn_backend& table = *std::ranges::find_if(
      plugin.backends, [&](const tn_backend& b) { return view_of(b.name) == name; });
  AbiRequest abi(choice.manifest(), plugin.name, request);
  std::vector<tn_tensor*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  if (!inputs.empty()) abi.abi.example_inputs = heads.data();
  auto code = compile_whole({plugin, choice.manifest(), table}, abi);
  std::vector<int> out;
  auto facts = nlohmann::json::parse(code->describe(TN_DESC_STATS_JSON));
  for (const auto& item : facts["items"]) out.push_back(item.value("calls", 0));
  return out;
}

TEST(TsWarmUp, RunsOnInputsWithData) {
  set_plugin_search({}, {});
  for (const char* name : {"ts", "aot_ts"})
    EXPECT_THAT(calls_of_steps(name, inputs_of(4)), Each(1)) << name;
}

TEST(TsWarmUp, RunsNothingOnFakesNorInSimpleTs) {
  set_plugin_search({}, {});
  for (const char* name : {"ts", "aot_ts"}) EXPECT_THAT(calls_of_steps(name, {}), Each(0)) << name;
  EXPECT_THAT(calls_of_steps("simple_ts", inputs_of(4)), Each(0));
}

TEST(NncJit, CompilesBothHalvesWithNnc) {
  set_plugin_search({}, {});
  auto body = [](const Tensor& x) { return (x.sin() * x).sum(); };
  auto f = nnc_jit(body, {.name = "jitted"});
  Tensor x = linspace(-2, 2, 33).requires_grad_(), y = linspace(-2, 2, 33).requires_grad_();
  f(x).backward();
  body(y).backward();
  expect_near({x.grad().to_vector<float>()}, {y.grad().to_vector<float>()});
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(f.explain(), HasSubstr("nnc"));
}

TEST(TsFiles, ModelsCarryTheirPrograms) {
  set_plugin_search({}, {});
  std::string file = (std::filesystem::temp_directory_path() /
                      ("programs_" + std::to_string(::getpid()) + ".tenon"))
                         .string();
  Model model = load(TENON_TEST_DATA_DIR "/models/mlp_digits.pt2", {.backend = "ts"});
  Tensor x = arange(5 * 64).reshape({5, 64}) / 640.0;
  model.prepare({x});
  model.save(file);
  Model shipped = load(file);
  EXPECT_EQ(Tensor(shipped(x)).to_vector<float>(), Tensor(model(x)).to_vector<float>());
  EXPECT_EQ(shipped.compiles(), 0u);
  std::filesystem::remove(file);
}

TEST(ProgramsWithoutLlvm, NothingOfItIsMapped) {
  in_own_process([] {
    set_plugin_search({}, {});
    for (const char* backend : {"ts", "nnc"}) {
      auto code = compile_with_backend(backend, request_for(parse_graph(layers)));
      run(*code, inputs_of(3));
    }
    std::ifstream maps("/proc/self/maps");
    std::stringstream text;
    text << maps.rdbuf();
    EXPECT_THAT(text.str(), HasSubstr("/tenon_nnc.so"));
    for (const char* file : {"libLLVM", "tenon_inductor"})
      EXPECT_THAT(text.str(), testing::Not(HasSubstr(file)));
  });
}

}  // namespace
}  // namespace tenon
