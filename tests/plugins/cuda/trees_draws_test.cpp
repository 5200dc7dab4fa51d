// Random numbers of recorded functions: each call draws what a direct call draws, however often it
// was recorded, and whatever failed.
#include "trees_test.h"

namespace tenon {
namespace {

using Known = FloatKernels::Known;

/// Draws twice, and copies its input through a kernel in between, which is a library's where it is
/// not known.
Tensors two_draws(FloatKernels& k, tn_call& c, Known known) {
  Tensor y = new_floats({2}), z = new_floats({2}), t = new_floats({2});
  uint64_t seed = 0, offset = 0;
  EXPECT_EQ(told(cuda_api().reserve_random(0, c.stream, 3, &seed, &offset)), "");
  k.shift_by_draw(c, y, input(c, 0), seed, offset + 1);
  k.sum(c, t, input(c, 0), input(c, 0), known);
  EXPECT_EQ(told(cuda_api().reserve_random(0, c.stream, 5, &seed, &offset)), "");
  k.shift_by_draw(c, z, t, seed, offset);
  return {y, z};
}

/// What the first elements of its results are in five calls, and where the generator is then.
struct Drawn {
  Floats numbers;
  uint64_t offset;
  bool operator==(const Drawn&) const = default;
};
Drawn drawn_by(RecordedFunction& f, const std::function<void(int)>& before_call = {}) {
  manual_seed(7);
  Drawn out;
  for (int i = 0; i < 5; ++i) {
    if (i == 3) manual_seed(11);
    Tensor x = on_gpu(2, i);
    if (before_call) before_call(i);
    Tensors results = f({x});
    if (before_call) before_call(-1);
    for (const Tensor& t : results) out.numbers.push_back(t.to_vector<float>()[1]);
  }
  out.offset = rng_state().offset;
  return out;
}

class DrawingFunction : public RecordedFunction {
 public:
  DrawingFunction(FloatKernels& k, Known known, uint32_t flags)
      : RecordedFunction({.flags = flags, .inputs = {0}, .results = {0, 0}},
                         [&k, known](tn_call& c) { return two_draws(k, c, known); }) {}
};

TEST_F(CudaTrees, DrawsGoOnFromReplayToReplayAsTheyDoDirectly) {
  FloatKernels k;
  DrawingFunction directly(k, Known::yes, TN_CUDA_FN_DIRECT);
  Drawn wanted = drawn_by(directly);
  for (auto flags : {0u, uint32_t{TN_CUDA_FN_RECORD_AT_ONCE}}) {
    DrawingFunction f(k, Known::yes, flags);
    EXPECT_EQ(drawn_by(f), wanted);
    EXPECT_EQ(f.count("replays"), flags ? 4 : 3);
  }
}

// What a library reads is copied, which the first attempt finds out: the second one is the same call.
TEST_F(CudaTrees, AFunctionThatIsRecordedTwiceInOneCallDrawsOnce) {
  FloatKernels k;
  DrawingFunction directly(k, Known::no, TN_CUDA_FN_DIRECT), f(k, Known::no, 0);
  Drawn wanted = drawn_by(directly);
  EXPECT_EQ(drawn_by(f), wanted);
  EXPECT_EQ(f.launches(), 3) << "the warm-up, and two recordings";
  EXPECT_EQ(f.count("replays"), 3);
}

TEST_F(CudaTrees, AFailureOfAnyCallLeavesTheDrawsAsTheyAre) {
  FloatKernels k;
  for (auto known : {Known::yes, Known::no}) {
    DrawingFunction directly(k, known, TN_CUDA_FN_DIRECT);
    Drawn wanted = drawn_by(directly);
    for (int turn : {1, 2}) {
      uint64_t nth = 1;
      for (std::string failed = "none"; !failed.empty(); ++nth) {
        DrawingFunction f(k, known, 0);
        auto fail = [&](int call) {
          if (call == turn) fail_at("*", nth, 999);
          if (call >= 0) return;
          if (failed_call()) failed = failed_call();
          fail_at("*", 0, 0);
        };
        failed.clear();
        Drawn found = drawn_by(f, fail);
        EXPECT_EQ(found.numbers, wanted.numbers) << failed << " in call " << turn;
        EXPECT_EQ(found.offset, wanted.offset) << failed << " in call " << turn;
        ASSERT_LT(nth, 200u);
      }
      EXPECT_GT(nth, 5u);
    }
  }
  synchronize(gpu);
}

TEST_F(CudaTrees, AnOutOfMemoryAttemptAndTheNextOneDrawOnce) {
  FloatKernels k;
  DrawingFunction directly(k, Known::yes, TN_CUDA_FN_DIRECT);
  Drawn wanted = drawn_by(directly);
  constexpr int32_t out_of_memory = 2;
  for (uint64_t nth : {1, 2}) {
    DrawingFunction f(k, Known::yes, 0);
    empty_cache(gpu);
    EXPECT_EQ(drawn_by(f,
                       [&](int call) {
                         if (call == 1) fail_at("cuMemCreate", nth, out_of_memory);
                         if (call < 0) fail_at("", 0, 0);
                       }),
              wanted);
  }
}

}  // namespace
}  // namespace tenon
