// What a replay costs the host: twelve kernels over twenty tensors.
//
// TENON_TEST_REPLAYS: how many (200). valgrind --tool=callgrind --toggle-collect='*Function::run(*'
// counts the instructions of each.
#include "trees_test.h"

#include <cstdlib>

namespace tenon {
namespace {

// Sixteen inputs, of which pairs are added and the sums added up: twelve launches, four results.
Tensors sums(FloatKernels& k, tn_call& c) {
  Tensors out;
  for (size_t i = 0; i < 4; ++i) {
    Tensor a = new_floats({8}), b = new_floats({8}), z = new_floats({8});
    k.sum(c, a, input(c, 4 * i), input(c, 4 * i + 1));
    k.sum(c, b, input(c, 4 * i + 2), input(c, 4 * i + 3));
    k.sum(c, z, a, b);
    out.push_back(z);
  }
  return out;
}

TEST_F(CudaTrees, AReplayChangesOnlyNodesWhoseAddressesMoved) {
  FloatKernels k;
  RecordedFunction f({.inputs = std::vector<uint32_t>(16), .results = {0, 0, 0, 0}},
                     [&](tn_call& c) { return sums(k, c); });
  Tensors inputs;
  for (int i = 0; i < 16; ++i) inputs.push_back(on_gpu(8, i));
  for (int i = 0; i < 3; ++i) f(inputs);
  const char* given = std::getenv("TENON_TEST_REPLAYS");
  int n = given ? std::atoi(given) : 200;
  int before = f.count("changed_nodes");
  for (int i = 0; i < n; ++i) {
    Tensors out = f(inputs);
    if (i % 100 == 0) {
      EXPECT_EQ(out[3].to_vector<float>(), all(8, 12 + 13 + 14 + 15));
    }
  }
  EXPECT_EQ(f.count("replays"), n + 1);
  EXPECT_LE(f.count("changed_nodes") - before, 4 * n) << "those that write a result";
  inputs[5] = on_gpu(8, 100);
  before = f.count("changed_nodes");
  EXPECT_EQ(f(inputs)[1].to_vector<float>(), all(8, 4 + 100 + 6 + 7));
  EXPECT_LE(f.count("changed_nodes") - before, 5);
}

}  // namespace
}  // namespace tenon
