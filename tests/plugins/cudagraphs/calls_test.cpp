// What the host and the backend tell of recordings, and what calls cost over time.
#include "graphs.h"

#include <tenon/compiler.h>
#include <tenon/report.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tenon::graphs {
namespace {

using testing::ContainsRegex;
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
  auto g = compile([](const Tensor& x) { return x + multinomial(x, 4, true); }, recorded());
  g(there(ones({4})));
  EXPECT_THAT(g.explain(),
              HasSubstr("not recorded: aten.multinomial.default draws random numbers on the CPU "
                        "(unsafe_op, "));
}

TEST_F(Calls, ExplainTellsOfNodesAndMemory) {
  auto f = compile([](const Tensor& x) { return (x * 2.0).relu().sum() + 1.0; }, recorded());
  for (int i = 0; i < 5; ++i) f(there(ones({1000})));
  EXPECT_THAT(f.explain(), ContainsRegex(": 1 recording of 1 size, with [1-9][0-9]* nodes and "
                                         "[1-9][0-9]* bytes of memory; 3 replays, 1 warm-up"));
}

/// Four losses whose backwards have not run: each recording of the forward keeps what it saved.
template <class F>
std::vector<Tensor> waiting_losses(F& f) {
  std::vector<Tensor> held;
  for (int i = 0; i < 4; ++i) held.push_back(f(there(ones({4, 4}) * double(i))));
  return held;
}

TEST_F(Calls, ExplainTellsWhyItWasRecordedAnew) {
  Tensor w = there(ones({4, 4})), v = there(ones({4, 4}));
  w.requires_grad_(), v.requires_grad_();
  auto f = compile([&](const Tensor& x) { return x.matmul(w).matmul(v).sum(); }, recorded());
  std::vector<Tensor> held = waiting_losses(f);
  EXPECT_THAT(f.explain(), HasSubstr(", forward: 3 recordings of 1 size, with "));
  EXPECT_THAT(f.explain(),
              HasSubstr("recorded anew 2 times: results of an earlier run are still held"));
}

TEST_F(Calls, LogsNameRecordingsSkipsAndStaticInputs) {
  set_logs("cudagraphs,cudagraph_static_inputs");
  testing::internal::CaptureStderr();
  Tensor w = there(ones({4}));
  auto f = compile([&](const Tensor& x) { return x * w; }, recorded());
  for (int i = 0; i < 3; ++i) f(there(ones({4})));
  auto g = compile([](const Tensor& x) { return x + multinomial(x, 4, true); }, recorded());
  g(there(ones({4})));
  set_logs("");
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("[cudagraphs]"));
  EXPECT_THAT(log, ContainsRegex("is recorded \\([1-9] nodes?\\): the first recording"));
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

// In a process with TENON_REPORT, which is read when it begins.
TEST(Report, TellsOfRecordingsAndSkips) {
  const char* file = std::getenv("TENON_REPORT");
  if (!file) GTEST_SKIP() << "needs TENON_REPORT";
  Tensor w = there(ones({4}));
  Tensor w2 = there(ones({4, 4}));
  w.requires_grad_(), w2.requires_grad_();
  auto f = compile([&](const Tensor& x) { return (x * w).relu().sum(); }, recorded());
  for (int i = 0; i < 4; ++i) f(there(ones({4}))).backward();
  auto g =
      compile([](const Tensor& x) { return x + multinomial(x, 4, true); }, recorded({}, "noise"));
  g(there(ones({4})));
  auto h =
      compile([&](const Tensor& x) { return x.matmul(w2).matmul(w2).sum(); }, recorded({}, "held"));
  std::vector<Tensor> held = waiting_losses(h);
  write_report(file);
  std::ostringstream page;
  page << std::ifstream(file).rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(", forward: 1 recording of 1 size, with "));
  EXPECT_THAT(page.str(), HasSubstr(", backward: 1 recording of 1 size, with "));
  EXPECT_THAT(page.str(), ContainsRegex("with [1-9][0-9]* nodes? and [1-9][0-9]* bytes of memory; "
                                        "2 replays, 1 warm-up"));
  EXPECT_THAT(page.str(),
              HasSubstr("recorded anew 2 times: results of an earlier run are still held"));
  EXPECT_THAT(page.str(), HasSubstr("not recorded: aten.multinomial.default draws"));
  EXPECT_THAT(f.explain(), HasSubstr(", backward: 1 recording of 1 size, with "));
}

// ---- flags

std::string graphs_of(const std::function<void()>& program) {
  auto scope = LogScope("aot_graphs");
  testing::internal::CaptureStderr();
  program();
  return testing::internal::GetCapturedStderr();
}

TEST_F(Calls, AFlagKeepsWritesInTheGraph) {
  for (bool keeps : {false, true}) {
    auto flag = config::patch({{"dynamo.cudagraph_backend_keep_input_mutation", keeps}});
    Tensor total = there(zeros({4}));
    auto f = compile([&](const Tensor& x) { return total.add_(x) * 2.0; }, recorded());
    std::string graphs = graphs_of([&] {
      for (int i = 1; i < 5; ++i) expect_equal(f(there(ones({4}))), ones({4}) * 2.0 * double(i));
    });
    EXPECT_EQ(graphs.find("aten.copy_.default") != graphs.npos, keeps) << graphs;
    expect_equal(total, ones({4}) * 4.0);
  }
}

TEST_F(Calls, AFlagLetsResultsOfRecordingsBeWritten) {
  auto keeps = config::patch({{"dynamo.cudagraph_backend_keep_input_mutation", true}});
  for (bool supports : {false, true}) {
    auto flag = config::patch({{"dynamo.cudagraph_backend_support_input_mutation", supports}});
    int64_t before = skips("mutated_inputs");
    auto make = compile([](const Tensor& x) { return x * 2.0; },
                        recorded({{"cuda_graph_outputs", "\"pool\""}}));
    auto write = compile([](Tensor x) { return x.add_(1.0).sum(); }, recorded());
    for (int i = 0; i < 5; ++i) {
      compiler::cudagraph_mark_step_begin();
      Tensor x = make(there(ones({4}) * double(i)));
      write(x);
      expect_equal(x, ones({4}) * 2.0 * double(i) + 1.0);
    }
    EXPECT_EQ(skips("mutated_inputs") > before, !supports);
  }
}

// ---- what the driver and the memory refuse

void expect_direct(const char* function, int32_t result, const std::string& reason) {
  SCOPED_TRACE(function);
  auto f = compile([](const Tensor& x) { return (x * 2.0).relu() + 1.0; }, recorded());
  f(there(ones({4})));
  fail_at(function, 1, result);
  expect_equal(f(there(ones({4}))), ones({4}) * 3.0);
  fail_at("", 0, 0);
  EXPECT_EQ(skips(reason), 1);
  EXPECT_THAT(f.explain(), HasSubstr("ran directly 1 time: "));
  EXPECT_THAT(f.explain(), HasSubstr("(" + reason + ")"));
  for (int i = 0; i < 3; ++i)
    expect_equal(f(there(ones({4}) * double(i))), ones({4}) * (2.0 * i + 1));
}

TEST_F(Calls, ARefusedRecordingIsADirectCall) {
  TENON_NEEDS_THE_DOUBLE();
  constexpr int32_t not_permitted = 800;
  expect_direct("cuStreamBeginCapture", not_permitted, "capture_failed");
}

// TENON_TEST_REPLAYS: how many, for callgrind.
TEST_F(Calls, OneOpIsOneCallOfTheDriver) {
  TENON_NEEDS_THE_DOUBLE();
  auto f = compile([](const Tensor& x) { return x + 1; }, recorded());
  Tensor x = there(ones({1024}));
  for (int i = 0; i < 5; ++i) f(x);
  synchronize(gpu);
  const char* given = std::getenv("TENON_TEST_REPLAYS");
  uint64_t n = given ? std::strtoull(given, nullptr, 10) : 100, before = counts().calls;
  for (uint64_t i = 0; i < n; ++i) f(x);
  EXPECT_EQ(counts().calls - before, n);
  expect_equal(f(x), ones({1024}) * 2.0);
}

// What a product gives is kept for the backward, not computed again.
TEST_F(Calls, ForwardsThatAreAllHeldKeepWhatTheySaved) {
  Tensor w = there(ones({4, 4})), v = there(ones({4, 4}));
  w.requires_grad_(), v.requires_grad_();
  auto f = compile([&](const Tensor& x) { return x.matmul(w).matmul(v).sum(); },
                   recorded({{"cudagraph_unexpected_rerecord_limit", "2"}}));
  std::vector<Tensor> held;
  for (int i = 0; i < 9; ++i) {
    held.push_back(f(there(ones({4, 4}) * double(i))));
    expect_equal(held.back(), ones({}) * (256.0 * i));
  }
  EXPECT_LE(n_recordings(), 3);
  for (Tensor& loss : held) loss.backward();
  expect_equal(v.grad(), ones({4, 4}) * (16.0 * 36));
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
