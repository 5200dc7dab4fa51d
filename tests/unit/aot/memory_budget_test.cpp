// autograd::MemoryBudget: a budget of its own for one function.
#include "backend/backend.h"
#include "graph/artifact.h"
#include "unit/message_of.h"

#include <tenon/memory_budget.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using autograd::MemoryBudget;
using testing::HasSubstr;

class MemoryBudgets : public testing::Test {
 protected:
  void SetUp() override {
    register_backend(
        "counts_saved",
        [](const CompileRequest& request) {
          if (request.stage == Stage::forward) n_saved() = request.n_saved;
          return interpreter_artifact(request.graph);
        },
        {}, Stage::inference);
  }
  static uint32_t& n_saved() {
    static uint32_t n = 0;
    return n;
  }

  // Three layers; what the products give is kept where nothing asks for less.
  static Tensor layers(const Tensor& x, const Tensor& w) {
    Tensor h = x;
    for (int i = 0; i < 3; ++i) h = gelu(h.matmul(w));
    return h;
  }
  template <class F>
  static Tensor gradient(F body) {
    auto f = compile(body, {.backend = "counts_saved"});
    Tensor x = full({64, 8}, 0.2, Dtype::f64);
    Tensor w = arange(64).to(Dtype::f64).mul(0.3).sin().reshape({8, 8}).requires_grad_();
    f(x, w).sum().backward();
    return w.grad();
  }
};

TEST_F(MemoryBudgets, StandInForTheFlag) {
  Tensor plain = gradient(layers);
  uint32_t all = n_saved();
  Tensor small = gradient([](const Tensor& x, const Tensor& w) {
    MemoryBudget budget(0);
    return layers(x, w);
  });
  EXPECT_LT(n_saved(), all);
  EXPECT_LT(plain.sub(small).abs().max().item<double>(), 1e-12);
  auto flag = config::patch({{"functorch.activation_memory_budget", 0.0}});
  gradient([](const Tensor& x, const Tensor& w) {
    MemoryBudget budget(1);
    return layers(x, w);
  });
  EXPECT_EQ(n_saved(), all);
}

TEST_F(MemoryBudgets, SeveralInOneGraphAreAnError) {
  EXPECT_THAT(message_of<UserError>([] {
                gradient([](const Tensor& x, const Tensor& w) {
                  MemoryBudget outer(0.5);
                  Tensor h = x.matmul(w);
                  MemoryBudget inner(0.25);
                  return h.sin();
                });
              }),
              HasSubstr("expected one budget in a graph, found 0.5 and 0.25"));
}

TEST_F(MemoryBudgets, OfAPartOfTheForwardAreAnError) {
  EXPECT_THAT(message_of<UserError>([] {
                gradient([](const Tensor& x, const Tensor& w) {
                  Tensor h = x.matmul(w);
                  MemoryBudget budget(0.5);
                  return h.sin();
                });
              }),
              HasSubstr("found 1 without"));
}

TEST_F(MemoryBudgets, SharesOutsideOfZeroAndOneAreRefused) {
  for (double share : {-0.1, 1.5})
    EXPECT_THAT(message_of<UserError>([&] { MemoryBudget budget(share); }),
                HasSubstr("expected a share of 0 to 1"));
}

// Dropout is among what could be run to be timed, and random examples are made for the rest.
TEST_F(MemoryBudgets, TimingOpsLeavesTheRandomNumbersAlone) {
  auto flags = config::patch({{"functorch.activation_memory_budget", 0.1},
                              {"functorch.activation_memory_budget_runtime_estimator", "profile"}});
  auto body = [](const Tensor& x, const Tensor& w) {
    Tensor h = x;
    for (int i = 0; i < 3; ++i) h = dropout(gelu(h.matmul(w)), 0.25, true);
    return h.sum();
  };
  auto f = compile(body, {.backend = "counts_saved"});
  Tensor x = ones({3, 8}), w = full({8, 8}, 0.2).requires_grad_();
  manual_seed(5);
  body(x, w);
  RngState after = rng_state();
  manual_seed(5);
  f(x, w);
  EXPECT_EQ(rng_state(), after);
}

TEST_F(MemoryBudgets, WithoutRecordingNothingHappens) {
  MemoryBudget budget(0);
  EXPECT_EQ(ones({2}).sum().item<float>(), 2);
}

}  // namespace
}  // namespace tenon
