// The cache of compiled graphs: what was compiled serves again with the same bits, whatever cannot
// serve is a miss, and what cannot be kept is counted or refused.
#include "plugins/graph_cache/fixture.h"

#include "cache/artifact_cache.h"
#include "compile/compile_graph.h"
#include "config/config.h"
#include "core/sym/shape_env.h"
#include "graph/text/parse.h"

#include <tenon/autocast.h>
#include <tenon/joint_pass.h>
#include <tenon/library.h>
#include <tenon/memory_budget.h>
#include <tenon/plugin.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace tenon {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class GraphCaching : public GraphCacheTest {
 protected:
  static Tensor rows(int64_t n) { return arange(n * 8, Dtype::f32).reshape({n, 8}) / 7.0; }
  static Tensor leaf(Tensor t) { return t.requires_grad_(); }

  struct Step {
    std::vector<float> loss, grad_x, grad_w;
    friend bool operator==(const Step&, const Step&) = default;
  };
  /// One step of training by a callable that nothing in this process knows yet.
  static Step train(const std::string& backend = "inductor") {
    auto f = compile([](const Tensor& x, const Tensor& w) { return (silu(x.matmul(w)) * x).sum(); },
                     {.backend = backend});
    Tensor x = leaf(rows(4)), w = leaf(rows(8) * 0.1);
    Tensor loss = f(x, w);
    loss.backward();
    return {loss.to_vector<float>(), x.grad().to_vector<float>(), w.grad().to_vector<float>()};
  }
  static std::vector<float> infer(const std::string& backend = "inductor", double by = 2) {
    auto f = compile([by](const Tensor& x) { return (x * by).relu() + 1; }, {.backend = backend});
    return f(rows(3)).to_vector<float>();
  }
  /// A folder with one graph and its code, and nothing counted.
  std::vector<float> only_one() {
    fs::remove_all(folder_);
    std::vector<float> out = infer();
    counted();
    return out;
  }
  static void flip(const fs::path& file, size_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    char byte = 0;
    stream.get(byte);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte ^ 0x40));
  }
};

TEST_F(GraphCaching, AGraphForInferenceServesAgain) {
  std::vector<float> first = infer();
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(infer(), first);
  EXPECT_EQ(counted(), "hit 1");
}

TEST_F(GraphCaching, ATrainingGraphServesAgainWithTheSameGradients) {
  int64_t compiles = report::counter("aot.backward_compiles").value();
  Step first = train();
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(train(), first);
  EXPECT_EQ(counted(), "hit 1");
  EXPECT_EQ(report::counter("aot.backward_compiles").value(), compiles + 1);
}

TEST_F(GraphCaching, ATrainingGraphIsSavedWithItsBackward) {
  auto f = compile([](const Tensor& x) { return (x * x).sum(); }, {.backend = "inductor"});
  Tensor x = leaf(rows(2));
  Tensor loss = f(x);
  EXPECT_EQ(counted(), "miss 1");
  loss.backward();
  EXPECT_EQ(counted(), "saved 1");
}

// A backward for some results only is the run's, and no part of the entry.
TEST_F(GraphCaching, ABackwardForSomeResultsIsNotKept) {
  auto step = [](bool begins_with_one) {
    auto f = compile([](const Tensor& x) { return std::tuple((x * x).sum(), x.exp().sum()); },
                     {.backend = "inductor"});
    Tensor x = leaf(rows(2));
    if (begins_with_one) {
      auto [square, power] = f(x);
      square.backward();
      x = leaf(rows(2));
    }
    auto [square, power] = f(x);
    (square + power).backward();
    return x.grad().to_vector<float>();
  };
  std::vector<float> expected = step(false);
  fs::remove_all(folder_);
  counted();
  EXPECT_EQ(step(true), expected);
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(step(true), expected);
  EXPECT_EQ(step(false), expected);
  EXPECT_EQ(counted(), "hit 2");
}

TEST_F(GraphCaching, MemoryBudgetsAndAutocastOfTheCallerDecide) {
  auto step = [](double budget, bool casts) {
    auto f = compile(
        [budget](const Tensor& x, const Tensor& w) {
          autograd::MemoryBudget share(budget);
          return (x.matmul(w).sin() * 2).cos().sum();
        },
        {.backend = "inductor"});
    Tensor x = leaf(rows(8)), w = leaf(rows(8) * 0.1);
    Tensor loss;
    {
      AutocastGuard cast({.enabled = casts});
      loss = f(x, w);
    }
    loss.backward();
  };
  step(1, false);
  step(0, false);
  step(1, true);
  EXPECT_EQ(counted(), "miss 3 saved 3");
  step(0, false);
  EXPECT_EQ(counted(), "hit 1");
}

TEST_F(GraphCaching, GraphsThatAPassChangesAreNotKept) {
  register_joint_pass("test.nothing", [](JointGraph&) {});
  auto flag = config::patch({{"functorch.joint_custom_pass", std::string("test.nothing")}});
  train();
  EXPECT_EQ(counted(), "bypass 1");
  infer();
  EXPECT_EQ(counted(), "miss 1 saved 1");  // has no joint graph
}

// Aliases, writes and views on the tape are put right by the wrapper that the entry describes.
TEST_F(GraphCaching, WritesAndViewsComeBack) {
  auto step = [] {
    auto f = compile(
        [](const Tensor& x, Tensor state) {
          Tensor y = x * 3;
          state.mul_(2);
          return std::tuple(y.t(), y, x.select(0, 1), state);
        },
        {.backend = "inductor"});
    Tensor x = leaf(rows(4)), state = rows(2);
    auto [turned, y, row, same] = f(x, state);
    EXPECT_EQ(turned.data_ptr<float>(), y.data_ptr<float>());
    (turned.sum() + row.sum()).backward();
    return std::pair(x.grad().to_vector<float>(), state.to_vector<float>());
  };
  auto first = step();
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(step(), first);
  EXPECT_EQ(counted(), "hit 1");
}

TEST_F(GraphCaching, SecondDerivativesComeFromTheKeptGraph) {
  auto second = [] {
    auto f = compile([](const Tensor& x) { return (x * x * x).sum(); }, {.backend = "inductor"});
    Tensor x = leaf(rows(1));
    f(x).backward();
    Tensor grad = autograd::grad({f(x)}, {x}, {.create_graph = true})[0];
    return autograd::grad({grad.sum()}, {x})[0].to_vector<float>();
  };
  std::vector<float> first = second();
  EXPECT_EQ(second(), first);
  EXPECT_EQ(counted(), "hit 1 miss 1 saved 1");
}

TEST_F(GraphCaching, ConstantsComeBack) {
  Tensor table = rows(20);
  auto f = [&] {
    auto g = compile([&](const Tensor& x) { return x + table.detach(); }, {.backend = "inductor"});
    return g(rows(20)).to_vector<float>();
  };
  std::vector<float> first = f();
  EXPECT_EQ(f(), first);
}

TEST_F(GraphCaching, EnableAutogradCacheSwitchesItOff) {
  auto off = config::patch({{"functorch.enable_autograd_cache", false}});
  infer();
  EXPECT_EQ(counted(), "");
  EXPECT_TRUE(files("aot").empty());
}

// ---- damage

TEST_F(GraphCaching, AFlippedByteIsAMiss) {
  for (const char* kind : {"aot", "artifacts"})
    for (int part = 0; part < 8; ++part) {
      std::vector<float> first = only_one();
      ASSERT_EQ(files(kind).size(), 1u);
      fs::path file = files(kind)[0];
      flip(file, fs::file_size(file) * static_cast<size_t>(part) / 8);
      EXPECT_EQ(infer(), first) << kind << " " << part;
      EXPECT_EQ(counted(), "miss 1 saved 1") << kind << " " << part;
    }
}

TEST_F(GraphCaching, AShortenedEntryIsAMiss) {
  for (const char* kind : {"aot", "artifacts"}) {
    std::vector<float> first = only_one();
    fs::resize_file(files(kind)[0], fs::file_size(files(kind)[0]) / 2);
    EXPECT_EQ(infer(), first);
    EXPECT_EQ(counted(), "miss 1 saved 1");
  }
}

// Whole, sealed and at the right place, but not what this program writes.
TEST_F(GraphCaching, AForeignEntryIsAMiss) {
  ArtifactCache store(folder_);
  auto put = [&](const char* kind, const std::string& bytes) {
    fs::path file = files(kind)[0];
    CacheKey key{fs::relative(file.parent_path(), folder_).string(), file.filename().string()};
    ASSERT_TRUE(store.put(key, bytes, int64_t{1} << 30));
  };
  for (const char* kind : {"aot", "artifacts"})
    for (const char* bytes : {"", "something else", "\x89TENON\r\n"}) {
      std::vector<float> first = only_one();
      put(kind, bytes);
      EXPECT_EQ(infer(), first);
      EXPECT_EQ(counted(), "miss 1 saved 1");
    }
}

// Its forward runs already when the code of the backward is asked for.
TEST_F(GraphCaching, ABackwardWhoseCodeIsGoneIsCompiledAgain) {
  Step first = train();
  EXPECT_EQ(files("artifacts").size(), 2u);
  auto f = compile([](const Tensor& x, const Tensor& w) { return (silu(x.matmul(w)) * x).sum(); },
                   {.backend = "inductor"});
  Tensor x = leaf(rows(4)), w = leaf(rows(8) * 0.1);
  counted();
  Tensor loss = f(x, w);
  EXPECT_EQ(counted(), "hit 1");
  fs::remove_all(folder_ + "/artifacts");
  int64_t compiles = report::counter("aot.backward_compiles").value();
  loss.backward();
  EXPECT_EQ(report::counter("aot.backward_compiles").value(), compiles + 1);
  EXPECT_EQ(w.grad().to_vector<float>(), first.grad_w);
}

TEST_F(GraphCaching, BundledAutogradCacheKeepsTheCodeInTheEntry) {
  for (bool bundled : {false, true}) {
    auto flag = config::patch({{"functorch.bundled_autograd_cache", bundled}});
    Step first = train();
    EXPECT_EQ(files("artifacts").empty(), bundled);
    fs::remove_all(folder_ + "/artifacts");
    counted();
    EXPECT_EQ(train(), first);
    EXPECT_EQ(counted(), bundled ? "hit 1" : "miss 1 saved 1");
    fs::remove_all(folder_ + "/aot");
    fs::remove_all(folder_ + "/artifacts");
  }
}

// ---- sizes

const char* const sized = R"(tng 1
  graph @f {
    symbol s0 in [2, 64] hint 5 from size(%x, 0)
    input %x: f32[s0, 8]
    %y: f32[s0, 8] = aten.relu.default(%x)
    output %y
  })";

TEST_F(GraphCaching, OneEntryServesAllSizes) {
  auto compiled = [&](const std::string& hint) {
    std::string text(sized);
    auto graph = parse_graph(text.replace(text.find("hint 5"), 6, "hint " + hint));
    return compile_graph(graph, {.backend = "inductor", .dynamic = true});
  };
  compiled("5");
  EXPECT_EQ(counted(), "miss 1 saved 1");
  auto code = compiled("9");
  EXPECT_EQ(counted(), "hit 1");
  Tensor x = rows(33) - 10, out[1];
  detail::TensorHead* in[] = {x.head()};
  int64_t sizes[] = {33};
  code->call(in, sizes, out);
  EXPECT_EQ(out[0].to_vector<float>(), x.relu().to_vector<float>());
}

// What the backend compiled of a graph in pieces has no saved form: a hit compiles the pieces.
TEST_F(GraphCaching, AGraphInPiecesIsNotInterpretedAfterwards) {
  auto kernels = [] {
    auto graph = parse_graph(R"(tng 1
      graph {
        symbol u0 size_like in [0, 12] from size(%i, 0)
        input %x: bool[12]
        input %y: f32[12]
        %i: i64[u0, 1] = aten.nonzero.default(%x)
        %s: f32[12] = aten.sin.default(%y)
        %c: f32[12] = aten.cos.default(%s)
        output %i, %c
      })");
    auto code = compile_graph(graph, {.backend = "inductor"});
    return nlohmann::json::parse(code->describe(TN_DESC_STATS_JSON)).value("kernels", 0);
  };
  EXPECT_EQ(kernels(), 1);
  EXPECT_EQ(kernels(), 1);
  EXPECT_EQ(counted(), "hit 1 miss 1 saved 1");
}

// A callable whose sizes are symbols: what the code takes for granted is guarded after a hit, too.
TEST_F(GraphCaching, ConditionsOnSizesComeBack) {
  auto calls = [](int64_t n) {
    auto f = compile([](const Tensor& x, const Tensor& y) { return (x + y).sum(0); },
                     {.backend = "inductor", .dynamic = true});
    std::vector<float> out = f(rows(n), rows(n)).to_vector<float>();
    Tensor found = f(rows(2 * n), rows(2 * n)), expected = (rows(2 * n) * 2).sum(0);
    EXPECT_LE(double((found - expected).abs().max().item<float>()), 1e-4);
    return out;
  };
  std::vector<float> first = calls(6);
  counted();
  EXPECT_EQ(calls(6), first);
  calls(11);
  EXPECT_EQ(counted(), "hit 2");
}

// ---- what has no key or no saved form

TEST_F(GraphCaching, ForceAutogradCacheKeepsTheGraphsOfOtherBackends) {
  std::vector<float> first = infer("aot_eager");
  EXPECT_EQ(counted(), "bypass 1");
  auto force = config::patch({{"functorch.force_autograd_cache", true}});
  EXPECT_EQ(infer("aot_eager"), first);
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(infer("aot_eager"), first);
  EXPECT_EQ(counted(), "hit 1");
  Step trained = train("aot_eager");
  EXPECT_EQ(train("aot_eager"), trained);
  EXPECT_EQ(counted(), "hit 1 miss 1 saved 1");
}

TEST_F(GraphCaching, StrictAutogradCacheRefusesABypass) {
  auto strict = config::patch({{"functorch.strict_autograd_cache", true}});
  infer();
  EXPECT_EQ(counted(), "miss 1 saved 1");
  try {
    infer("aot_eager");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), ErrorCode::backend_compiler_failed);
    EXPECT_THAT(error.what(), HasSubstr("aot_eager does not say that what it compiles can be"));
  }
  fs::remove_all(folder_ + "/artifacts");
  EXPECT_THROW(infer(), BackendError) << "code that is gone is not a plain miss";
}

TENON_LIBRARY(cached, lib) {
  lib.op("cube(Tensor x) -> Tensor")
      .like(0)
      .kernel([](Tensor& out, const Tensor& x) { out.copy_(x * x * x); })
      .vjp([](const VjpCtx& c, const Tensor& grad) {
        auto [x] = c.inputs<1>();
        return c.grads(grad * x * x * 3);
      });
  lib.op("scaled(Tensor x, *, float by=2.0) -> Tensor").formula<2>([](auto x, auto by) {
    return x * by;
  });
}

Tensor run_cube(bool with_grad) {
  const Op<Tensor(const Tensor&)> cube{"cached::cube"};
  auto f = compile([&](const Tensor& x) { return cube(x).sum(); }, {.backend = "inductor"});
  Tensor x = arange(4, Dtype::f32);
  if (!with_grad) return f(x);
  f(x.requires_grad_()).backward();
  return x.grad();
}

TEST_F(GraphCaching, AutogradCacheAllowCustomAutogradFunctionsKeepsThem) {
  std::vector<float> first = run_cube(true).to_vector<float>();
  EXPECT_EQ(counted(), "bypass 1");
  {
    auto strict = config::patch({{"functorch.strict_autograd_cache", true}});
    EXPECT_THROW(run_cube(true), BackendError);
  }
  auto allow = config::patch({{"functorch.autograd_cache_allow_custom_autograd_functions", true}});
  EXPECT_EQ(run_cube(true).to_vector<float>(), first);
  EXPECT_EQ(counted(), "miss 1 saved 1");
  EXPECT_EQ(run_cube(true).to_vector<float>(), first);
  EXPECT_EQ(counted(), "hit 1");
}

// The stages call nothing of an op whose gradient nobody wants, or that is a formula.
TEST_F(GraphCaching, OtherOpsOfAProgramAreKept) {
  run_cube(false);
  EXPECT_EQ(counted(), "miss 1 saved 1");
  run_cube(false);
  EXPECT_EQ(counted(), "hit 1");
}

TEST_F(GraphCaching, BypassAutogradCacheKeyKeepsWhatNobodyFinds) {
  auto flag = config::patch({{"functorch.bypass_autograd_cache_key", true}});
  run_cube(true);
  run_cube(true);
  EXPECT_EQ(counted(), "miss 2 saved 2");
}

// ---- processes

// The body of the processes that the tests below start.
TEST_F(GraphCaching, DISABLED_Child) {
  if (!std::getenv("TENON_TEST_SHARED_CACHE")) GTEST_SKIP() << "not started by another test";
  ::setenv("TENON_CACHE_DIR", std::getenv("TENON_TEST_SHARED_CACHE"), 1);
  Step step = train();
  std::ofstream out(std::getenv("TENON_TEST_ANSWER"));
  out << counted() << "\n";
  for (const auto* list : {&step.loss, &step.grad_x, &step.grad_w})
    for (float v : *list) out << std::hexfloat << v << " ";
}

std::string child_command(const std::string& cache, const std::string& answer) {
  return "TENON_TEST_SHARED_CACHE='" + cache + "' TENON_TEST_ANSWER='" + answer + "' '" +
         fs::read_symlink("/proc/self/exe").string() +
         "' --gtest_also_run_disabled_tests --gtest_filter=*DISABLED_Child > /dev/null 2>&1";
}

std::pair<std::string, std::string> answer_in(const std::string& file) {
  std::ifstream in(file);
  std::pair<std::string, std::string> out;
  std::getline(in, out.first);
  std::getline(in, out.second);
  return out;
}

TEST_F(GraphCaching, AnotherProcessFindsThem) {
  std::string answers[2], shared = folder_ + "/shared";
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(std::system(child_command(shared, folder_ + "/answer").c_str()), 0);
    auto [counts, numbers] = answer_in(folder_ + "/answer");
    EXPECT_EQ(counts, i == 0 ? "miss 1 saved 1" : "hit 1");
    answers[i] = numbers;
  }
  EXPECT_FALSE(answers[0].empty());
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(GraphCaching, ProcessesAtOnceDoNotDisturbEachOther) {
  std::string commands, shared = folder_ + "/shared";
  for (int i = 0; i < 4; ++i) {
    commands += "( " + child_command(shared, folder_ + "/answer" + std::to_string(i)) + " ) & ";
  }
  ASSERT_EQ(std::system((commands + "wait").c_str()), 0);
  std::string numbers = answer_in(folder_ + "/answer0").second;
  EXPECT_FALSE(numbers.empty());
  for (int i = 1; i < 4; ++i)
    EXPECT_EQ(answer_in(folder_ + "/answer" + std::to_string(i)).second, numbers);
}

}  // namespace
}  // namespace tenon
