// Backward passes over work that was recorded on several streams: in every order that the double's
// streams may take, gradients are those of one stream.
#include "device_work.h"

#include <tenon/autograd.h>
#include <tenon/compiled_autograd.h>

#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

constexpr uint64_t orders = 60;

class SingleOpStreams : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_THE_DOUBLE(); }
};

/// The work of `f` on a stream, behind what the caller has enqueued; the caller goes on behind it.
template <class F>
Tensor beside(const Stream& side, F&& f) {
  Stream callers = Stream::current(gpu);
  Event before(gpu), after(gpu);
  before.record(callers);
  side.wait(before);
  Tensor out;
  {
    StreamGuard on(side);
    out = f();
    after.record(side);
  }
  callers.wait(after);
  record_stream(out, callers);
  return out;
}

Tensor leaf(double value) { return moved(gpu, full({64}, value)).requires_grad_(); }
float first(const Tensor& t) { return t.select(0, 0).item<float>(); }

TEST_F(SingleOpStreams, NodesRunWhereTheyWereRecorded) {
  for (uint64_t seed = 0; seed < orders; ++seed) {
    seed_streams(seed);
    Stream side(gpu);
    Tensor x = leaf(3.0);
    record_stream(x, side);
    Stream seen = Stream::current(gpu);
    Tensor y = beside(side, [&] { return x * x; });
    autograd::register_hook(y, [&](const Tensor&) {
      seen = Stream::current(gpu);
      return Tensor();
    });
    (y * 0.5).sum().backward();
    EXPECT_EQ(seen, side);
    EXPECT_NE(Stream::current(gpu), side);
    EXPECT_EQ(first(x.grad()), 3.0f) << "seed " << seed;
  }
}

TEST_F(SingleOpStreams, BranchesOnTwoStreamsMeetInOneGradient) {
  for (uint64_t seed = 0; seed < orders; ++seed) {
    seed_streams(seed);
    Stream left(gpu), right(gpu);
    Tensor x = leaf(2.0);
    record_stream(x, left);
    record_stream(x, right);
    Tensor a = beside(left, [&] { return (x * x) * x; });
    Tensor b = beside(right, [&] { return (x * 0.75).exp(); });
    (a + b).sum().backward();
    EXPECT_NEAR(first(x.grad()), 12.0 + 0.75 * std::exp(1.5), 1e-4) << "seed " << seed;
  }
}

// The stream of a pass is not that of the forward; what the pass gives is used at once.
TEST_F(SingleOpStreams, TheCallerOfAPassFindsItsResultsOnHisStream) {
  for (uint64_t seed = 0; seed < orders; ++seed) {
    seed_streams(seed);
    Tensor x = leaf(3.0);
    Tensor y = x * x;
    Stream side(gpu);
    Event ready(gpu);
    ready.record(Stream::current(gpu));
    side.wait(ready);
    StreamGuard on(side);
    Tensor scale = moved(gpu, full({64}, 0.25));
    Tensor g = autograd::grad({y}, {x}, {.grad_outputs = {scale}})[0];
    Tensor twice = g * 2.0;
    EXPECT_EQ(first(twice), 3.0f) << "seed " << seed;
  }
}

// Gradients of earlier passes are on other streams than those of this one.
TEST_F(SingleOpStreams, PassesOfSeveralStreamsAddUp) {
  for (uint64_t seed = 0; seed < orders; ++seed) {
    seed_streams(seed);
    Tensor x = leaf(1.0);
    for (int i = 0; i < 3; ++i) {
      Stream side(gpu);
      record_stream(x, side);
      beside(side, [&] { return x * 0.5; }).sum().backward();
    }
    EXPECT_EQ(first(x.grad()), 1.5f) << "seed " << seed;
  }
}

TEST_F(SingleOpStreams, MemoryGoesBackBehindEveryStreamOfAPass) {
  for (uint64_t seed = 0; seed < orders; ++seed) {
    seed_streams(seed);
    Stream side(gpu);
    Tensor x = leaf(3.0);
    record_stream(x, side);
    Tensor y = beside(side, [&] { return (x * x).exp(); });
    y.sum().backward();
    Tensor g = x.grad() * 1.0;
    x.set_grad({});
    y = Tensor();
    Tensor other = moved(gpu, zeros({64}));  // may take the memory of the gradient
    EXPECT_NEAR(first(g), 6.0 * std::exp(9.0), 1.0) << "seed " << seed;
  }
}

TEST_F(SingleOpStreams, CompiledPassesLeaveSuchWorkToTheEngine) {
  auto scope = compiled_autograd::enable("aot_eager");
  for (uint64_t seed = 0; seed < 10; ++seed) {
    seed_streams(seed);
    Stream side(gpu);
    Tensor x = leaf(3.0);
    record_stream(x, side);
    beside(side, [&] { return x * x; }).sum().backward();
    EXPECT_EQ(first(x.grad()), 6.0f) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tenon
