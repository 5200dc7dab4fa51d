// functorch.functionalize_rng_ops: seed and offset as inputs of compiled graphs, and numbers that
// stay what they are without it.
#include "backend/backend.h"
#include "core/random.h"
#include "graph/artifact.h"
#include "graph/text/print.h"
#include "ops/counter_based.h"
#include "ops/op_table.h"
#include "unit/message_of.h"

#include <tenon/plugin.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Its gradient draws, as a backward seldom does.
TENON_LIBRARY(functional_rng_test, lib) {
  lib.op("noisy(Tensor x) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x) { return x * 2; })
      .vjp([](const VjpCtx& c, const Tensor& dy) { return c.grads(dy * rand_like(dy)); });
}
const Op<Tensor(const Tensor&)> noisy{"functional_rng_test::noisy"};

class FunctionalRng : public testing::Test {
 protected:
  void SetUp() override {
    halves().clear();
    register_backend(
        "keeps_drawing",
        [](const CompileRequest& request) {
          halves().push_back(request);
          return interpreter_artifact(request.graph);
        },
        {}, Stage::inference);
  }
  static std::vector<CompileRequest>& halves() {
    static std::vector<CompileRequest> requests;
    return requests;
  }
  static size_t n_random(const Graph& graph) {
    size_t n = 0;
    for (const Node& node : graph.nodes()) n += (entry_of(node.op).tags & TN_TAG_RANDOM) != 0;
    return n;
  }
  static std::vector<std::string> input_names(const Graph& graph) {
    std::vector<std::string> names;
    for (ValueId v : graph.inputs()) names.push_back(display_name(graph, v));
    return names;
  }
};

TEST_F(FunctionalRng, TheGraphHasSeedAndOffsetAndGivesTheOffsetBehind) {
  auto flag = config::patch({{"functorch.functionalize_rng_ops", true}});
  auto f = compile([](const Tensor& x) { return x * rand_like(x); }, {.backend = "keeps_drawing"});
  manual_seed(7);
  f(ones({5}));
  ASSERT_EQ(halves().size(), 1u);
  const Graph& graph = *halves()[0].graph;
  EXPECT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(n_random(graph), 0u);
  std::vector<std::string> names = input_names(graph);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[1], "fwd_seed_1");
  EXPECT_EQ(names[2], "fwd_base_offset_1");
  EXPECT_THAT(to_text(graph), HasSubstr("tenon.philox_aten_rand_like.default"));
}

// Whatever is drawn, and however many draws there are: numbers and generator as without the flag.
TEST_F(FunctionalRng, NumbersAndGeneratorAreThoseOfTheRunWithoutIt) {
  std::vector<std::function<Tensor(const Tensor&)>> bodies = {
      [](const Tensor& x) { return x * rand_like(x) + randn({7}); },
      [](const Tensor& x) { return dropout(x, 0.5, true) + dropout(x, 0.25, true); },
      [](const Tensor& x) { return x + bernoulli(x.sigmoid()) + randint(3, 9, {7}); },
      [](const Tensor& x) { return x.index({randperm(7)}); },
      [](const Tensor& x) {
        Tensor y = x.clone();
        y.uniform_(-1, 1);
        return y + x;
      },
      [](const Tensor& x) { return x + 1; },
  };
  for (const char* backend : {"aot_eager", "inductor"}) {
    std::vector<std::string> known = list_backends({});
    if (std::ranges::find(known, backend) == known.end()) continue;
    for (size_t i = 0; i < bodies.size(); ++i) {
      Tensor x = linspace(-1, 1, 7);
      std::vector<Tensor> results;
      std::vector<RngState> states;
      for (bool functional : {false, true}) {
        auto flag = config::patch({{"functorch.functionalize_rng_ops", functional}});
        auto f = compile(bodies[i], {.backend = backend});
        manual_seed(11);
        f(x);
        results.push_back(f(x));
        states.push_back(rng_state());
      }
      EXPECT_TRUE(results[0].equal(results[1])) << backend << i;
      EXPECT_EQ(states[0].offset, states[1].offset) << backend << i;
    }
  }
}

TEST_F(FunctionalRng, CallsDifferAndSeedsRepeatThem) {
  auto flag = config::patch({{"functorch.functionalize_rng_ops", true}});
  auto f = compile([](const Tensor& x) { return x * rand_like(x); }, {.backend = "keeps_drawing"});
  Tensor x = ones({9});
  manual_seed(3);
  Tensor a = f(x), b = f(x);
  manual_seed(3);
  EXPECT_FALSE(a.equal(b));
  EXPECT_TRUE(a.equal(f(x)));
  EXPECT_TRUE(b.equal(f(x)));
  EXPECT_EQ(halves().size(), 1u);
}

TEST_F(FunctionalRng, TrainingGivesTheOffsetBeforeWhatIsSaved) {
  auto body = [](const Tensor& x, const Tensor& w) {
    return dropout(x.matmul(w), 0.5, true).sin();
  };
  std::vector<Tensor> gradients;
  for (bool functional : {false, true}) {
    halves().clear();
    auto flag = config::patch({{"functorch.functionalize_rng_ops", functional}});
    auto f = compile(body, {.backend = "keeps_drawing"});
    Tensor x = ones({4, 3}), w = full({3, 2}, 0.3).requires_grad_();
    manual_seed(5);
    f(x, w).sum().backward();
    gradients.push_back(w.grad());
  }
  EXPECT_TRUE(gradients[0].equal(gradients[1]));
  ASSERT_EQ(halves().size(), 2u);
  const CompileRequest& forward = halves()[0];
  const Graph& graph = *forward.graph;
  ASSERT_EQ(forward.stage, Stage::forward);
  ASSERT_GT(forward.n_saved, 0u);
  ValueId offset = graph.outputs()[graph.outputs().size() - forward.n_saved - 1];
  EXPECT_EQ(graph.value(offset).meta.dtype, Dtype::i64);
  EXPECT_EQ(n_random(graph), 0u);
  EXPECT_THAT(input_names(*halves()[1].graph), Not(testing::Contains("bwd_seed_1")));
}

// A backward that draws has a seed and an offset of its own, which begins where the generator is
// when the gradient arrives.
TEST_F(FunctionalRng, ABackwardThatDrawsHasItsOwnInputs) {
  auto flag = config::patch({{"functorch.functionalize_rng_ops", true}});
  auto f = compile([](const Tensor& x) { return noisy(x); }, {.backend = "keeps_drawing"});
  Tensor x = ones({6}).requires_grad_();
  manual_seed(9);
  Tensor y = f(x);
  RngState between = rng_state();
  y.sum().backward();
  ASSERT_EQ(halves().size(), 2u);
  EXPECT_THAT(input_names(*halves()[1].graph),
              testing::IsSupersetOf({"bwd_seed_1", "bwd_base_offset_1"}));
  set_rng_state(between);
  EXPECT_TRUE(x.grad().equal(rand({6})));
}

TEST_F(FunctionalRng, CounterBasedFormsDrawFromTheirArguments) {
  const OpEntry& rand_op = entry_of(op_id("aten.rand.default"));
  const OpEntry& form = counter_based_form(rand_op);
  EXPECT_EQ(&form, &counter_based_form(rand_op));
  EXPECT_EQ(form.name, "tenon.philox_aten_rand.default");
  EXPECT_EQ(form.tags & TN_TAG_RANDOM, 0u);
  manual_seed(21);
  Tensor expected = rand({10});
  RngState after = rng_state();
  manual_seed(1);
  RngState before = rng_state();
  std::vector<SymInt> size{10};
  Tensor seed = scalar_tensor(21, Dtype::i64), offset = scalar_tensor(0, Dtype::i64);
  Value args[] = {Value::of(seed), Value::of(offset), Value::of(SymIntList(List<SymInt>(size))),
                  Value{},         Value{},           Value{},
                  Value{}};
  Value results[2];
  dispatch(form, args, 7, results, 2);
  EXPECT_EQ(static_cast<uint64_t>(take<Tensor>(results[0]).item<int64_t>()), after.offset);
  EXPECT_TRUE(take<Tensor>(results[1]).equal(expected));
  EXPECT_EQ(rng_state(), before);
}

}  // namespace
}  // namespace tenon
