// aot_function, aot_module and memory_efficient_fusion: who compiles which half, and how it is cut.
#include "backend/backend.h"
#include "graph/artifact.h"
#include "graph/text/print.h"
#include "ops/decompose.h"
#include "ops/op_table.h"
#include "unit/distance.h"
#include "unit/message_of.h"

#include <tenon/functorch.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class FunctorchCompilers : public testing::Test {
 protected:
  void SetUp() override {
    seen().clear();
    for (std::string name : {"first_half", "second_half"})
      register_backend(
          name,
          [name](const CompileRequest& request) {
            seen().push_back({name, to_text(*request.graph), request.graph->outputs().size()});
            return interpreter_artifact(request.graph);
          },
          {}, Stage::inference);
  }
  struct Seen {
    std::string backend, text;
    size_t n_outputs;
  };
  static std::vector<Seen>& seen() {
    static std::vector<Seen> graphs;
    return graphs;
  }
};

Tensor chain(const Tensor& x) { return hardswish(x.sin().exp().cos()); }

std::vector<float> gradient_of(const Tensor& loss, const Tensor& x) {
  loss.backward();
  return x.grad().to_vector<float>();
}

TEST_F(FunctorchCompilers, EachHalfGoesToItsOwn) {
  auto f = aot_function(chain, {.fw_compiler = "first_half", .bw_compiler = "second_half"});
  Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
  EXPECT_EQ(gradient_of(f(x).sum(), x), gradient_of(chain(y).sum(), y));
  ASSERT_EQ(seen().size(), 2u);
  EXPECT_EQ(seen()[0].backend, "first_half");
  EXPECT_EQ(seen()[1].backend, "second_half");
}

TEST_F(FunctorchCompilers, TheDefaultPartitionSavesMoreThanTheMinimumCut) {
  for (const char* partition : {"default", "min_cut"}) {
    auto f = aot_function(chain, {.fw_compiler = "first_half", .partition = partition});
    Tensor x = ones({3}).requires_grad_();
    f(x).sum().backward();
  }
  ASSERT_EQ(seen().size(), 4u);
  EXPECT_GT(seen()[0].n_outputs, seen()[2].n_outputs);
  EXPECT_EQ(seen()[2].n_outputs, 1u);  // all of the backward is computed from x
}

TEST_F(FunctorchCompilers, MemoryEfficientFusionCutsAndTakesSmallOpsApart) {
  auto f = memory_efficient_fusion(chain, {.fw_compiler = "first_half"});
  Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
  EXPECT_EQ(gradient_of(f(x).sum(), x), gradient_of(chain(y).sum(), y));
  ASSERT_EQ(seen().size(), 2u);
  EXPECT_EQ(seen()[0].n_outputs, 1u);
  EXPECT_THAT(seen()[0].text, Not(HasSubstr("hardswish")));
  EXPECT_THAT(seen()[1].text, Not(HasSubstr("hardswish_backward")));
}

TEST_F(FunctorchCompilers, OverridesOfMemoryEfficientFusionWin) {
  auto f = memory_efficient_fusion(
      chain, {.fw_compiler = "first_half", .partition = "default", .decompositions = "none"});
  Tensor x = ones({3}).requires_grad_();
  f(x).sum().backward();
  ASSERT_EQ(seen().size(), 2u);
  EXPECT_GT(seen()[0].n_outputs, 1u);
  EXPECT_THAT(seen()[0].text, HasSubstr("hardswish"));
}

TEST_F(FunctorchCompilers, WithoutGradientsTheForwardsBackendGetsTheWholeGraph) {
  auto f = aot_function(chain, {.fw_compiler = "first_half", .bw_compiler = "second_half"});
  EXPECT_TRUE(f(ones({3})).equal(chain(ones({3}))));
  ASSERT_EQ(seen().size(), 1u);
  EXPECT_EQ(seen()[0].backend, "first_half");
}

TEST_F(FunctorchCompilers, AModuleKeepsItsParameters) {
  nn::Linear layer(3, 2);
  auto f = aot_module([layer](const Tensor& x) { return layer(x); }, {.fw_compiler = "first_half"});
  Tensor x = ones({4, 3});
  f(x).sum().backward();
  EXPECT_EQ(layer.weight.grad().to_vector<float>(), (std::vector<float>(6, 4)));
  EXPECT_EQ(seen().size(), 2u);
}

TEST_F(FunctorchCompilers, TheDefaultBackendComputesWhatEagerDoes) {
  auto f = memory_efficient_fusion([](const Tensor& x) { return gelu(x).mul(x).sum(); });
  Tensor x = linspace(-2, 2, 33).requires_grad_(), y = linspace(-2, 2, 33).requires_grad_();
  f(x).backward();
  gelu(y).mul(y).sum().backward();
  EXPECT_LT(distance(x.grad(), y.grad()), 1e-5);
}

// PyTorch's 22 without forms that write, and without the seven of the next test.
TEST_F(FunctorchCompilers, DefaultDecompositionsAreThoseOfPyTorch) {
  EXPECT_THAT(default_decompositions(),
              UnorderedElementsAre("aten.elu_backward.default", "aten.gelu_backward.default",
                                   "aten.hardsigmoid.default", "aten.hardsigmoid_backward.default",
                                   "aten.hardswish.default", "aten.hardswish_backward.default",
                                   "aten.hardtanh.default", "aten.hardtanh_backward.default",
                                   "aten.leaky_relu_backward.default", "aten.masked_fill.Scalar",
                                   "aten.masked_fill.Tensor", "aten.sigmoid_backward.default",
                                   "aten.silu_backward.default", "aten.tanh_backward.default",
                                   "aten.threshold_backward.default"));
}

// As docs/decisions.md says it: two are core, one is a view without parts, one has a kernel only,
// and three have no row.
TEST_F(FunctorchCompilers, WhatDefaultDecompositionsLeaveOutHasAReason) {
  for (const std::string& name : default_decompositions()) {
    const OpEntry* op = find_op(name);
    ASSERT_TRUE(op) << name;
    EXPECT_TRUE(can_decompose(*op) && !op->def->core) << name;
  }
  for (const char* name : {"aten.elu.default", "aten.leaky_relu.default"})
    EXPECT_TRUE(find_op(name)->def->core) << name;
  EXPECT_TRUE(find_op("aten.detach.default")->def->view);
  EXPECT_TRUE(find_op("aten.conj_physical.default")->def->eager);
  for (const char* name : {"aten.detach.default", "aten.conj_physical.default"})
    EXPECT_FALSE(can_decompose(*find_op(name))) << name;
  for (const char* name : {"aten.cudnn_batch_norm.default",
                           "aten.cudnn_batch_norm_backward.default", "aten.is_same_size.default"})
    EXPECT_FALSE(find_op(name)) << name;
}

TEST_F(FunctorchCompilers, WrongChoicesAreErrors) {
  EXPECT_THAT(message_of([] { aot_function(chain, {.partition = "max_cut"}); }),
              HasSubstr("partition = \"max_cut\": expected default or min_cut"));
  EXPECT_THAT(message_of([] { aot_function(chain, {.bw_compiler = "no_such"}); }),
              HasSubstr("there is no backend 'no_such'"));
  EXPECT_THAT(message_of([] { aot_function(chain, {.decompositions = "some"}); }),
              HasSubstr("there is no decomposition set 'some'"));
}

/// A folder that is gone after the test.
class FunctorchFolders : public FunctorchCompilers {
 protected:
  void SetUp() override {
    FunctorchCompilers::SetUp();
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon_functorch_XXXXXX");
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FunctorchFolders, EachCompilerOfTheTableGivesTheSameNumbers) {
  Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
  std::vector<float> expected = gradient_of(chain(y).sum(), y);
  for (const std::string& name :
       {functorch::ts_compile(), functorch::simple_ts_compile(), functorch::nop(),
        functorch::debug_nop(), functorch::graph_dumper_aot("chain", folder_.string(), true),
        functorch::debug_compile(folder_.string())}) {
    auto f = aot_function(chain, {.fw_compiler = name});
    x.set_grad({});
    std::vector<float> found = gradient_of(f(x).sum(), x);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5f) << name;
  }
}

TEST_F(FunctorchFolders, DumpedGraphsStandInAFolderEach) {
  auto f = aot_function(
      chain, {.fw_compiler = functorch::graph_dumper_aot("chain", folder_.string(), true)});
  Tensor x = ones({3}).requires_grad_();
  f(x).sum().backward();
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "chain"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  ASSERT_EQ(names.size(), 3u);
  std::string number = names[0].substr(names[0].rfind('_'));
  EXPECT_EQ(names, (std::vector<std::string>{"chain_backward" + number, "chain_forward" + number,
                                             "chain_joint" + number}));
  for (const std::string& name : names) {
    for (const std::string& file :
         {std::string("graph.tng"), std::string("command.sh"), name + ".input"})
      EXPECT_TRUE(fs::exists(folder_ / "chain" / name / file)) << name << "/" << file;
    bool is_called = name.find("joint") == name.npos;
    EXPECT_EQ(fs::exists(folder_ / "chain" / name / "inputs.safetensors"), is_called) << name;
    std::vector<Tensor> inputs =
        functorch::get_inputs((folder_ / "chain" / name / "graph.tng").string());
    ASSERT_FALSE(inputs.empty());
    EXPECT_EQ(inputs[0].size(0), 3);
  }
}

/// Status of the one command of a folder, begun elsewhere in a process of its own that has nothing
/// of our environment, as on another machine; what it says.
struct Again {
  int status;
  std::string told;
};
std::filesystem::path tenon_program() {
  return std::filesystem::canonical("/proc/self/exe").parent_path() / "tenon";
}
Again run_again(const std::filesystem::path& folder, const std::string& more = "") {
  std::filesystem::path out = folder / "told.txt";
  std::string line = "cd / && env -i ASAN_OPTIONS=\"$ASAN_OPTIONS\" PATH='" +
                     tenon_program().parent_path().string() + "':\"$PATH\" sh '" +
                     (folder / "command.sh").string() + "'" + more + " > '" + out.string() +
                     "' 2>&1";
  int status = std::system(line.c_str());
  std::ifstream in(out);
  return {status, {std::istreambuf_iterator<char>(in), {}}};
}

// Wherever it was carried, on another backend, too.
TEST_F(FunctorchFolders, DumpedGraphsRunAgain) {
  namespace fs = std::filesystem;
  if (!fs::exists(tenon_program())) GTEST_SKIP() << "the program is not built";
  auto body = [](const Tensor& x, SymInt n) {
    return (x.slice(0, 0, n) * 2.0).sin().sum() + arange(4096).sum().to(x.dtype());
  };
  auto f = aot_function(
      body, {.fw_compiler = functorch::graph_dumper_aot("again", folder_.string(), true)});
  for (int64_t n : {3, 4, 5}) {
    Tensor x = ones({n + 2}).requires_grad_();
    f(x, n).backward();
  }
  fs::rename(folder_ / "again", folder_ / "moved");
  int n_folders = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "moved"))
    for (const char* more : {"", " --backend aot_eager"}) {
      ++n_folders;
      Again again = run_again(entry.path(), more);
      EXPECT_EQ(again.status, 0) << entry.path() << more << "\n" << again.told;
    }
  EXPECT_GE(n_folders, 12);  // two versions at least, of three graphs
}

TEST_F(FunctorchFolders, ADrawingHasTheFormatOfItsName) {
  std::string file = (folder_ / "forward.svg").string();
  auto f = aot_function(chain, {.fw_compiler = functorch::draw_graph_compile(file)});
  NoGradGuard no_grad;
  f(ones({3}));
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(text, testing::StartsWith("<svg "));
  EXPECT_THAT(text, HasSubstr("aten.sin.default"));
}

TEST_F(FunctorchFolders, WhatDebugCompileKeepsCanBeRunAgain) {
  auto f = aot_function(chain, {.fw_compiler = functorch::debug_compile(folder_.string())});
  NoGradGuard no_grad;
  f(ones({3}));
  namespace fs = std::filesystem;
  fs::path made;
  for (const auto& entry : fs::directory_iterator(folder_)) made = entry.path();
  for (std::string file : {"graph.tng", "flags.toml", "command.sh", "inputs.safetensors"})
    EXPECT_TRUE(fs::exists(made / file)) << file;
  if (!fs::exists(tenon_program())) GTEST_SKIP() << "the program is not built";
  fs::path moved = folder_ / "moved elsewhere";
  fs::rename(made, moved);
  Again again = run_again(moved);
  EXPECT_EQ(again.status, 0) << again.told;
  EXPECT_THAT(again.told, HasSubstr("out.0: f32[3]"));
  EXPECT_THAT(again.told, HasSubstr("backend ts: compiled"));
}

TEST_F(FunctorchCompilers, ACompilerOfTheProgramGetsBothHalves) {
  int graphs = 0;
  std::string counting = functorch::compiler(
      "counting", [&graphs](const compiler::Graph& graph, std::span<const Tensor>) {
        ++graphs;
        return [graph](const std::vector<Tensor>& inputs) { return graph.run(inputs); };
      });
  auto f = aot_function(chain, {.fw_compiler = counting});
  Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
  EXPECT_EQ(gradient_of(f(x).sum(), x), gradient_of(chain(y).sum(), y));
  EXPECT_EQ(graphs, 2);
}

TEST_F(FunctorchFolders, MadeUpIntegersAreThoseThatWereKept) {
  auto body = [](const Tensor& x, const Tensor& at) { return x.index_select(0, at).sin(); };
  auto f = aot_function(
      body, {.fw_compiler = functorch::graph_dumper_aot("picked", folder_.string(), true)});
  Tensor at = tensor(std::vector<int64_t>{7, 0, 5});
  NoGradGuard no_grad;
  f(rand({8, 2}), at);
  std::filesystem::path made;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "picked"))
    made = entry.path();
  std::vector<Tensor> inputs = functorch::get_inputs((made / "graph.tng").string());
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[1].to_vector<int64_t>(), at.to_vector<int64_t>());
  EXPECT_LT(inputs[0].min().item<float>(), 0.0f) << "reals are made up, and rand() gives none";
  std::filesystem::remove(made / "inputs.safetensors");
  for (int64_t i : functorch::get_inputs((made / "graph.tng").string())[1].to_vector<int64_t>())
    EXPECT_TRUE(i == 0 || i == 1);
}

TEST_F(FunctorchFolders, MadeUpInputsHaveTheStridesOfTheGraph) {
  std::string file = (folder_ / "graph.tng").string();
  std::ofstream(file) << "tng 1\ngraph @f {\n  input %x: f32[2, 3] strides [1, 2]\n"
                         "  input %i: i64[50]\n  output %x, %i\n}\n";
  std::vector<Tensor> inputs = functorch::get_inputs(file);
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].stride(0), 1);
  EXPECT_EQ(inputs[0].stride(1), 2);
  for (int64_t i : inputs[1].to_vector<int64_t>()) EXPECT_TRUE(i == 0 || i == 1);
  EXPECT_THAT(message_of([] { functorch::get_inputs("/nowhere/graph.tng"); }),
              HasSubstr("/nowhere/graph.tng cannot be read"));
}

}  // namespace
}  // namespace tenon
