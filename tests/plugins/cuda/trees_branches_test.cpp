// Branches of recorded functions: what runs at once, and where the driver refuses that.
#include "trees_test.h"

#include <set>
#include <stdexcept>

namespace tenon {
namespace {

using testing::HasSubstr;

// Two branches write one tensor, which no code should do: it tells in which order they ran.
TEST_F(CudaTrees, BranchesOfARecordingRunInAnyOrder) {
  FloatKernels k;
  const tn_cuda_api& api = cuda_api();
  RecordedFunction f({.inputs = {0, 0}, .results = {0, 0}}, [&](tn_call& c) {
    Tensor a = input(c, 0), b = input(c, 1), t = new_floats({4}), y = new_floats({4});
    Tensor z = new_floats({4});
    uint32_t begin = 0, ends[2] = {};
    k.sum(c, y, a, a);
    EXPECT_EQ(told(api.mark_place(c.stream, &begin)), "");
    for (int branch = 0; branch < 2; ++branch) {
      EXPECT_EQ(told(api.continue_from(c.stream, &begin, 1)), "");
      k.sum(c, t, branch ? a : y, b);
      EXPECT_EQ(told(api.mark_place(c.stream, &ends[branch])), "");
    }
    EXPECT_EQ(told(api.continue_from(c.stream, ends, 2)), "");
    k.sum(c, z, t, y);
    return Tensors{z, y};
  });
  std::set<float> found;
  f({on_gpu(4, 1), on_gpu(4, 10)});  // directly: in order
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    seed_streams(seed);
    Tensors out = f({on_gpu(4, 1), on_gpu(4, 10)});
    found.insert(out[0].to_vector<float>()[3]);
    EXPECT_EQ(out[1].to_vector<float>(), all(4, 2));
  }
  seed_streams(1);
  EXPECT_EQ(found, (std::set<float>{11 + 2, 12 + 2}));
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, WhereTheDriverRefusesABranchTheFunctionRunsDirectly) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor y = new_floats({4});
    uint32_t place = 0;
    EXPECT_EQ(told(cuda_api().mark_place(c.stream, &place)), "");
    tn_status* branched = cuda_api().continue_from(c.stream, &place, 1);
    if (std::string why = told(branched); !why.empty()) throw std::runtime_error(why);
    k.sum(c, y, input(c, 0), input(c, 0));
    return Tensors{y};
  });
  f({on_gpu(4, 1)});
  fail_at("cuStreamUpdateCaptureDependencies", 1, 801);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(f({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(2 * i)));
  fail_at("", 0, 0);
  EXPECT_THAT(f.report(), HasSubstr("branching a recording"));
}

TEST_F(CudaTrees, APlaceThatWasNotMarkedIsAnError) {
  FloatKernels k;
  std::string why;
  RecordedFunction f({.inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor y = new_floats({4});
    uint32_t unknown = 7;
    why += told(cuda_api().continue_from(c.stream, &unknown, 1));
    k.sum(c, y, input(c, 0), input(c, 0));
    return Tensors{y};
  });
  f({on_gpu(4, 1)});
  EXPECT_EQ(why, "") << "nothing happens without a recording";
  f({on_gpu(4, 1)});
  EXPECT_THAT(why, HasSubstr("goes on from a place that it has not marked"));
}

}  // namespace
}  // namespace tenon
