// Recorded functions made of eager ops, against the same ops run directly: on a GPU, or over the
// double with kernels that fibers run.
#include "core/tensor/tensor_impl.h"
#include "cuda/double.h"
#include "cuda/recorded_function.h"
#include "needs_gpu.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

namespace tenon {
namespace {

using Tensors = std::vector<Tensor>;

class RecordedOps : public testing::Test {
 protected:
  void SetUp() override {
    TENON_NEEDS_A_GPU();
    manual_seed(7);
  }
};

Tensor random_there(std::vector<int64_t> sizes) {
  return moved(gpu, randn(IntList(sizes.data(), sizes.size())));
}

using Ops = std::function<Tensors(const Tensors&)>;

/// Calls it with new inputs, holds all results, and compares them with those of direct calls. Zero
/// launches: a driver may have it run directly.
void expect_same(const std::string& name, const std::vector<std::vector<int64_t>>& sizes,
                 const Ops& ops, size_t n_results = 1, int n_launches = 2) {
  SCOPED_TRACE(name);
  RecordedFunction f({.name = name,
                      .flags = TN_CUDA_FN_POISON | TN_CUDA_FN_CHECKED |
                               (n_launches ? uint32_t{TN_CUDA_FN_OR_ERROR} : 0),
                      .inputs = std::vector<uint32_t>(sizes.size()),
                      .results = std::vector<uint32_t>(n_results)},
                     [&](tn_call& c) {
                       Tensors in;
                       for (size_t i = 0; i < c.n_inputs; ++i) in.push_back(input(c, i));
                       return ops(in);
                     });
  std::vector<Tensors> given, gave;
  for (int i = 0; i < 6; ++i) {
    Tensors in;
    for (const auto& s : sizes) in.push_back(random_there(s));
    given.push_back(in);
    gave.push_back(f(in));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    Tensors wanted = ops(given[i]);
    for (size_t r = 0; r < n_results; ++r)
      EXPECT_TRUE(equal(to_cpu(gave[i][r]), to_cpu(wanted[r]))) << "call " << i << " result " << r;
  }
  if (n_launches == 0) return;
  EXPECT_EQ(f.launches(), n_launches) << f.report();
  EXPECT_EQ(f.count("recordings"), 1) << f.report();
  EXPECT_EQ(f.count("replays"), 4) << f.report();
}

TEST_F(RecordedOps, GiveWhatTheyGiveDirectly) {
  expect_same("pointwise", {{7, 33}, {33}},
              [](const Tensors& in) { return Tensors{(in[0] + in[1]).tanh() * in[0] * 0.37}; });
  expect_same(
      "rows", {{5, 130}},
      [](const Tensors& in) {
        return Tensors{in[0].softmax(-1), in[0].sum(1)};
      },
      2);
  // What a library reads is copied first, which the first recording finds out.
  expect_same(
      "product", {{9, 16}, {16, 5}, {5}},
      [](const Tensors& in) { return Tensors{(matmul(in[0], in[1]) + in[2]).relu()}; }, 1, 3);
}

// A driver for GPUs refuses to move a copy between kinds of memory.
#ifdef TENON_OVER_THE_DOUBLE
constexpr bool changes_copies = true;
#else
constexpr bool changes_copies = false;
#endif

TEST_F(RecordedOps, CopiesFillsAndViewsAreFollowed) {
  expect_same(
      "copies", {{4, 6}, {4, 6}},
      [](const Tensors& in) {
        Tensor copy = in[0].clone();
        copy.add_(in[1]);
        Tensor zero = zeros_like(in[0]);
        return Tensors{copy, copy.t(), cat({in[0], copy}, 1), zero + in[1]};
      },
      4, changes_copies ? 2 : 0);
}

TEST_F(RecordedOps, ParametersAreUpdatedInPlaceOnceACall) {
  RecordedFunction step({.name = "step",
                         .flags = TN_CUDA_FN_OR_ERROR,
                         .inputs = {TN_CUDA_INPUT_STATIC | TN_CUDA_INPUT_WRITTEN, 0},
                         .results = {}},
                        [](tn_call& c) {
                          input(c, 0).sub_(input(c, 1) * 0.5);
                          return Tensors{};
                        });
  Tensor here = randn({12}), there = moved(gpu, here);
  for (int i = 0; i < 6; ++i) {
    Tensor gradient = randn({12});
    step({there, moved(gpu, gradient)});
    here = here - gradient * 0.5;
    EXPECT_TRUE(equal(to_cpu(there), here)) << i;
  }
  EXPECT_EQ(step.count("replays"), 4);
}

TEST_F(RecordedOps, AReplayTakesTheHostLittleTime) {
  std::vector<uint32_t> inputs(16), results(4);
  RecordedFunction f({.name = "twenty tensors", .inputs = inputs, .results = results},
                     [](tn_call& c) {
                       Tensors out;
                       for (size_t i = 0; i < 4; ++i)
                         out.push_back(input(c, 4 * i) + input(c, 4 * i + 1) + input(c, 4 * i + 2) +
                                       input(c, 4 * i + 3));
                       return out;
                     });
  Tensors in;
  for (int i = 0; i < 16; ++i) in.push_back(random_there({256}));
  for (int i = 0; i < 3; ++i) f(in);
  synchronize(gpu);
  constexpr int calls = 1000;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) f(in);
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  synchronize(gpu);
  std::printf("a replay of 12 nodes with 20 tensors: %.2f us of the host\n", took.count() / calls);
  EXPECT_EQ(f.count("replays"), calls + 1);
}

}  // namespace
}  // namespace tenon
