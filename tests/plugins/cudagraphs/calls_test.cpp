// What the host and the backend tell of recordings, and what calls cost over time.
#include "graphs.h"

#include <tenon/compiler.h>
#include <tenon/report.h>

namespace tenon::graphs {
namespace {

using testing::HasSubstr;
using testing::Not;

class Calls : public Graphs {};

TEST_F(Calls, TheThirdCallIsAReplay) {
  auto f =
      compile([](const Tensor& x, const Tensor& y) { return (x * y + 1.0).relu(); }, recorded());
  Tensor x = arange(8, Dtype::f32) - 4.0;
  for (int i = 0; i < 5; ++i)
    expect_equal(f(there(x), there(x + double(i))), (x * (x + double(i)) + 1.0).relu());
  EXPECT_EQ(n_recordings(), 1);
  EXPECT_EQ(n_replays(), 3);
}

TEST_F(Calls, ExplainTellsOfRecordingsAndSkips) {
  auto f = compile([](const Tensor& x) { return (x * 2.0).relu() + 1.0; }, recorded());
  for (int i = 0; i < 4; ++i) f(there(ones({4})));
  EXPECT_THAT(f.explain(), HasSubstr(": 1 recording of 1 size, with "));
  auto g = compile([](const Tensor& x) { return x + rand_like(x); }, recorded());
  g(there(ones({4})));
  EXPECT_THAT(g.explain(),
              HasSubstr("not recorded: aten.rand_like.default draws random numbers on the CPU "
                        "(unsafe_op, "));
}

TEST_F(Calls, LogsNameRecordingsSkipsAndStaticInputs) {
  set_logs("cudagraphs,cudagraph_static_inputs");
  testing::internal::CaptureStderr();
  Tensor w = there(ones({4}));
  auto f = compile([&](const Tensor& x) { return x * w; }, recorded());
  for (int i = 0; i < 3; ++i) f(there(ones({4})));
  auto g = compile([](const Tensor& x) { return x + rand_like(x); }, recorded());
  g(there(ones({4})));
  set_logs("");
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("[cudagraphs]"));
  EXPECT_THAT(log, HasSubstr("draws random numbers on the CPU"));
  EXPECT_THAT(log, HasSubstr("[cudagraph_static_inputs]"));
}

TEST_F(Calls, OfferedOptionsAreChecked) {
  Options wrong = recorded({{"cuda_graph_outputs", "\"shared\""}});
  EXPECT_THROW(compile([](const Tensor& x) { return x; }, wrong)(there(ones({1}))), UserError);
}

TEST_F(Calls, CaptureSizesAloneAreRecorded) {
  Options options = recorded({{"cudagraph_capture_sizes", "[\"5\"]"}});
  options.dynamic = true;
  auto f = compile([](const Tensor& x) { return x * 2.0 + 1.0; }, options);
  for (int64_t n : {4, 5, 4, 5, 4, 5, 4, 5}) expect_equal(f(there(ones({n}))), ones({n}) * 3.0);
  EXPECT_EQ(n_recordings(), 1);
  EXPECT_EQ(n_replays(), 2);
}

TEST_F(Calls, APoolsResultIsOverWithItsStep) {
  auto f = compile([](const Tensor& x) { return x * 2.0; },
                   recorded({{"cuda_graph_outputs", "\"pool\""}}));
  Tensor kept;
  for (int i = 0; i < 4; ++i) {
    compiler::cudagraph_mark_step_begin();
    kept = f(there(ones({4}) * double(i)));
    expect_equal(kept, ones({4}) * 2.0 * double(i));
  }
  compiler::cudagraph_mark_step_begin();
  Tensor next = f(there(ones({4})));
  try {
    moved(kCPU, kept);
    FAIL() << "an overwritten result was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("result of a recorded graph was overwritten by a later run"));
  }
  EXPECT_THROW(kept + kept, Error);
  EXPECT_THROW(f(kept), Error);
  expect_equal(next, ones({4}) * 2.0);
}

// With memory and recordings that stay what they are.
TEST_F(Calls, TenThousandCallsKeepNothing) {
  Tensor w = there(ones({16}));
  w.requires_grad_();
  auto f = compile([&](const Tensor& x) { return (x * w).tanh().sum(); }, recorded());
  auto call = [&](int i) {
    w.set_grad({});
    f(there(ones({16}) * double(i % 3))).backward();
  };
  for (int i = 0; i < 50; ++i) call(i);
  synchronize(gpu);
  int64_t held = memory_stats(gpu).allocated_bytes, recordings = n_recordings();
  std::string before = functions_told();
  constexpr int n = 10000;
  for (int i = 0; i < n; ++i) call(i);
  synchronize(gpu);
  EXPECT_LE(memory_stats(gpu).allocated_bytes, held + (int64_t{1} << 20));
  EXPECT_EQ(n_recordings(), recordings);
  EXPECT_LE(functions_told().size(), before.size() + 200);
}

}  // namespace
}  // namespace tenon::graphs
