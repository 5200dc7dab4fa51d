// Why a function runs directly, or is recorded anew: the sentences, each from a function that gives
// cause for it. That results stay right meanwhile is checked in each of them.
#include "trees_test.h"

#include "core/tensor/tensor_impl.h"

#include <tenon/report.h>

#include <thread>

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Body = RecordedFunction::Body;
using About = RecordedFunction::About;

/// A function of one input that doubles it; `before` and `behind` are what else it does.
Body doubling(FloatKernels& k, std::function<void(tn_call&)> before,
              std::function<void(tn_call&)> behind = {}) {
  return [&k, before, behind](tn_call& c) {
    if (before) before(c);
    Tensor z = new_floats({4});
    k.sum(c, z, input(c, 0), input(c, 0));
    if (behind) behind(c);
    return Tensors{z};
  };
}

About one_input(uint32_t flags = 0) { return {.flags = flags, .inputs = {0}, .results = {0}}; }

/// The report of a function that doubles, behind three calls.
std::string report_of(const About& about, const Body& body, const std::vector<int64_t>& syms = {}) {
  RecordedFunction f(about, body);
  for (int i = 0; i < 3; ++i) {
    Tensor x = on_gpu(4, i);
    if (!about.has_stream) synchronize(gpu);
    EXPECT_EQ(f({x}, syms)[0].to_vector<float>(), all(4, float(2 * i)));
  }
  return f.report();
}

auto says(const std::string& id, const std::string& sentence) {
  return AllOf(HasSubstr("\"" + id + "\": 2"), HasSubstr("\"" + id + "\": \"" + sentence));
}
auto says_always(const std::string& id, const std::string& sentence) {
  return AllOf(HasSubstr("\"" + id + "\": 3"), HasSubstr("\"" + id + "\": \"" + sentence));
}

// ---- what the call or the description decides

TEST_F(CudaTrees, OptionsAndCallsThatForbidARecordingAreNamed) {
  FloatKernels k;
  Body body = doubling(k, {});
  Body waiting = doubling(k, {}, [](tn_call&) { synchronize(gpu); });
  EXPECT_THAT(report_of(one_input(TN_CUDA_FN_DIRECT), body),
              says_always("disabled", "an option turns it off"));
  About about = one_input();
  about.has_stream = false;
  EXPECT_THAT(report_of(about, waiting), says_always("capture_failed", "the call has no stream"));
  about = one_input(TN_CUDA_FN_NOT_DYNAMIC);
  about.n_syms = 1;
  EXPECT_THAT(
      report_of(about, body, {4}),
      says_always("dynamic_shapes", "it has symbols, and cudagraph_skip_dynamic_graphs is on"));
  about = one_input();
  about.n_syms = 1;
  about.capture_sizes = {5};
  EXPECT_THAT(report_of(about, body, {4}),
              says_always("dynamic_shapes", "cudagraph_capture_sizes does not list its sizes"));
  about = one_input();
  about.min_nodes = 2;
  EXPECT_THAT(report_of(about, body),
              says("too_small", "it has 1 nodes, fewer than cudagraph_min_partition_size"));
}

TEST_F(CudaTrees, InputsThatCannotBeRecordedAreNamed) {
  FloatKernels k;
  RecordedFunction here({.inputs = {0}, .results = {0}},
                        [&](tn_call& c) { return Tensors{input(c, 0)}; });
  here({ones({2})});
  EXPECT_THAT(here.report(), HasSubstr("\"cpu_node\": \"input 0 (x) is on the CPU\""));
  RecordedFunction make({.outputs = TN_CUDA_OUTPUTS_POOL, .inputs = {0, 0}, .results = {0}},
                        [&](tn_call& c) { return two_sums(k, c); });
  RecordedFunction write(
      {.flags = TN_CUDA_FN_NO_MANAGED_WRITES, .inputs = {TN_CUDA_INPUT_WRITTEN}, .results = {}},
      [&](tn_call& c) {
        k.add(c, input(c, 0), input(c, 0));
        return Tensors{};
      });
  for (int i = 0; i < 4; ++i) {
    cuda_api().mark_step();
    Tensor y = make({on_gpu(4, i), on_gpu(4, 1)})[0];
    write({y});
    EXPECT_EQ(y.to_vector<float>(), all(4, float(2 * (i + 2))));
  }
  EXPECT_THAT(write.report(),
              HasSubstr("\"mutated_inputs\": \"input 0 (x) is a result of another recording and "
                        "is written to\""));
}

TEST_F(CudaTrees, AnInputOfAnotherDeviceIsNamed) {
  TENON_NEEDS_TWO_GPUS();
  RecordedFunction f({.inputs = {0}, .results = {0}},
                     [&](tn_call& c) { return Tensors{input(c, 0)}; });
  f({moved(second_gpu, ones({2}))});
  EXPECT_THAT(f.report(), HasSubstr("\"multiple_devices\": \"input 0 (x) is on cuda:1\""));
}

TEST_F(CudaTrees, AReasonIsAnErrorWithItsSentence) {
  FloatKernels k;
  RecordedFunction f(one_input(TN_CUDA_FN_DIRECT | TN_CUDA_FN_OR_ERROR), doubling(k, {}));
  try {
    f({on_gpu(4, 1)});
    FAIL() << "it ran";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("f is not recorded: disabled: an option turns it off; "
                                    "cudagraph_or_error makes that an error"));
  }
}

TEST_F(CudaTrees, ACallOfOtherInputsIsAnError) {
  FloatKernels k;
  RecordedFunction f(one_input(), doubling(k, {}));
  try {
    f({on_gpu(4, 1), on_gpu(4, 1)});
    FAIL() << "it ran";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("f takes 1 inputs and gives 1 outputs"));
  }
}

TEST_F(CudaTrees, WhatIsMissingInADescriptionIsNamed) {
  tn_cuda_function* made = nullptr;
  auto why = [&](auto&& change) {
    tn_cuda_function_info info{};
    info.struct_size = sizeof info;
    info.launch = [](void*, tn_call*) -> tn_status* { return nullptr; };
    change(info);
    return told(cuda_api().function_new(&info, &made));
  };
  EXPECT_THAT(why([](auto& i) { i.struct_size = 8; }),
              HasSubstr("a function of tenon.cuda/1: its info is too short"));
  EXPECT_THAT(why([](auto& i) { i.launch = nullptr; }), HasSubstr("launch is missing"));
  EXPECT_THAT(why([](auto& i) { i.outputs = 7; }), HasSubstr("outputs is neither FRESH nor POOL"));
  EXPECT_THAT(why([](auto& i) { i.n_capture_sizes = 1; }), HasSubstr("capture_sizes is missing"));
  EXPECT_THAT(why([](auto& i) { i.n_inputs = 1; }),
              HasSubstr("inputs and outputs need their info"));
}

// ---- what happens while it is recorded

TEST_F(CudaTrees, WaitingAndCopyingWhileItIsRecordedAreNamed) {
  FloatKernels k;
  auto waits = [](tn_call&) { synchronize(gpu); };
  EXPECT_THAT(report_of(one_input(), doubling(k, waits)),
              says("data_dependent", "the function waits for the device"));
  auto reads = [](tn_call& c) { input(c, 0).to_vector<float>(); };
  EXPECT_THAT(report_of(one_input(), doubling(k, reads)),
              says("data_dependent", "16 bytes are copied to the host"));
  auto brings = [](tn_call&) { new_floats({4}).copy_(full({4}, 3.0)); };
  EXPECT_THAT(report_of(one_input(), doubling(k, brings)),
              says("cpu_node", "16 bytes that the CPU computes are copied to the device"));
}

TEST_F(CudaTrees, AKernelThatIsWaitedForIsNamed) {
  FloatKernels k;
  Body body = [&](tn_call& c) {
    Tensor z = new_floats({4});
    k.sum_and_wait(c, z, input(c, 0), input(c, 0));
    return Tensors{z};
  };
  EXPECT_THAT(report_of(one_input(), body), says("data_dependent", "kernel sum is waited for"));
}

TEST_F(CudaTrees, WorkOnAnotherStreamIsNamed) {
  FloatKernels k;
  auto elsewhere = [](tn_call&) {
    Stream other(gpu);
    StreamGuard guard(other);
    new_floats({4}).zero_();
    other.synchronize();
  };
  EXPECT_THAT(report_of(one_input(), doubling(k, elsewhere)),
              says("capture_failed", "the function works on several streams"));
}

TEST_F(CudaTrees, EventsOfTheStreamAreNamed) {
  FloatKernels k;
  auto marks = [](tn_call&) { Event(gpu).record(Stream::current(gpu)); };
  EXPECT_THAT(report_of(one_input(), doubling(k, marks)),
              says("capture_failed", "an event is recorded"));
  Event elsewhere(gpu);
  elsewhere.record(Stream(gpu));
  auto waits = [&](tn_call&) { Stream::current(gpu).wait(elsewhere); };
  EXPECT_THAT(report_of(one_input(), doubling(k, waits)),
              says("capture_failed", "an event is waited for"));
}

// A thread of a library's own may enqueue there, too: what was launched last is not known then.
TEST_F(CudaTrees, WorkThatJoinsTheStreamIsNamed) {
  FloatKernels k;
  auto joins = [](tn_call& c) {
    if (cuda_api().is_recording(c.stream)) join_behind_each(Stream::current(gpu).native());
  };
  EXPECT_THAT(report_of(one_input(), doubling(k, joins)),
              says("capture_failed", "work of others joins the stream of the function"));
}

// A library that waits by itself breaks the capture, which the next look at it tells.
TEST_F(CudaTrees, ACaptureThatSomebodyElseBreaksIsNamed) {
  FloatKernels k;
  auto breaks = [](tn_call& c) {
    if (!cuda_api().is_recording(c.stream)) return;
    wait_behind_the_plugin(Stream::current(gpu).native());
  };
  EXPECT_THAT(report_of(one_input(), doubling(k, breaks)),
              HasSubstr("the driver has ended the recording"));
}

// Who goes on after that is told so at its next launch.
TEST_F(CudaTrees, AFunctionThatGoesOnBehindTheEndIsTold) {
  FloatKernels k;
  std::string said;
  auto goes_on = [&](tn_call& c) {
    try {
      input(c, 0).to_vector<float>();
    } catch (const Error&) {
      said = "";
    }
    try {
      Tensor z = new_floats({4});
      k.sum(c, z, z, z);
    } catch (const std::exception& e) {
      said = e.what();
      throw;
    }
  };
  report_of(one_input(), doubling(k, goes_on));
  EXPECT_THAT(said, HasSubstr("the recording has ended: 16 bytes are copied to the host"));
}

// ---- what the plan finds

TEST_F(CudaTrees, ResultsThatCannotBeMadeAgainAreNamed) {
  FloatKernels k;
  auto run = [&](std::vector<uint32_t> results, const Body& body) {
    RecordedFunction f({.inputs = {0}, .results = std::move(results)}, body);
    for (int i = 0; i < 3; ++i) f({on_gpu(4, i)});
    return f.report();
  };
  EXPECT_THAT(run({0}, [&](tn_call& c) { return Tensors{view(input(c, 0), Dtype::i32)}; }),
              says("capture_failed", "result 0 is input 0 seen as another dtype"));
  EXPECT_THAT(run({0, 0},
                  [&](tn_call& c) {
                    Tensor z = new_floats({4});
                    k.sum(c, z, input(c, 0), input(c, 0));
                    return Tensors{z, view(z, Dtype::i32)};
                  }),
              says("capture_failed", "result 1 shares memory with one of another dtype"));
  EXPECT_THAT(run({0}, [&](tn_call&) { return Tensors{ones({2})}; }),
              says("cpu_node", "result 0 is made on the CPU"));
  Tensor old = on_gpu(4, 7);
  EXPECT_THAT(
      run({0}, [&](tn_call&) { return Tensors{old}; }),
      says("capture_failed", "result 0 lies in memory that the recording has not allocated"));
}

TEST_F(CudaTrees, ParametersThatCannotBeMadeAgainAreNamed) {
  FloatKernels k;
  float computed = 2;
  auto times = [&](tn_call& c) {
    Tensor z = new_floats({4});
    k.times(c, z, input(c, 0), &computed);
    return Tensors{z};
  };
  EXPECT_THAT(report_of(one_input(), times),
              says("cpu_node", "a parameter is a number that the CPU has computed"));
  auto draws = doubling(k, [&](tn_call& c) {
    Tensor z = new_floats({4});
    k.shift_by_draw(c, z, input(c, 0), 3, 5);  // of nobody's draw
  });
  EXPECT_THAT(report_of(one_input(), draws),
              says("capture_failed", "a parameter is a draw that was not reserved"));
}

TEST_F(CudaTrees, AFunctionWhoseLibraryReadsOthersInEachRunIsNamed) {
  FloatKernels k;
  int run = 0;
  RecordedFunction f({.inputs = {0, 0, 0, 0}, .results = {0}}, [&](tn_call& c) {
    Tensor a = input(c, size_t(run++ % 4)), z = new_floats({4});
    k.sum(c, z, a, a, FloatKernels::Known::no);
    void* touched[] = {impl_of(z)->data, impl_of(a)->data};
    EXPECT_EQ(told(cuda_api().note_foreign_work(c.stream, touched, 2)), "");
    return Tensors{z};
  });
  for (int i = 0; i < 2; ++i) f({on_gpu(4, i), on_gpu(4, i), on_gpu(4, i), on_gpu(4, i)});
  EXPECT_THAT(f.report(), HasSubstr("\"capture_failed\": \"each recording wants other inputs to be "
                                    "copied\""));
}

TEST_F(CudaTrees, AFunctionThatKeepsMemoryOfEachRecordingIsNamed) {
  FloatKernels k;
  Tensors kept;
  RecordedFunction f(one_input(), doubling(k, [&](tn_call& c) {
                       kept.push_back(new_floats({4}));
                       k.sum(c, kept.back(), input(c, 0), input(c, 0));
                     }));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(f({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(2 * i)));
  EXPECT_THAT(f.report(), HasSubstr("\"capture_failed\": \"memory that it works on is kept by "
                                    "somebody else\""));
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_EQ(kept[i].to_vector<float>(), all(4, float(2 * i)));
}

// ---- memory and sizes

TEST_F(CudaTrees, AnArenaThatCannotGrowIsNamed) {
  FloatKernels k;
  constexpr int32_t out_of_memory = 2;
  constexpr int64_t huge = int64_t{1} << 60;
  auto asks_for = [](int64_t floats) {
    return [floats](tn_call& c) {
      if (cuda_api().is_recording(c.stream)) new_floats({floats});
    };
  };
  EXPECT_THAT(
      report_of(one_input(), doubling(k, asks_for(huge))),
      says("memory", std::to_string(huge * 4) + " bytes are more than cuda:0 has addresses"));
  auto all_of_it = [](tn_call& c) {
    if (!cuda_api().is_recording(c.stream)) return;
    Tensor one = new_floats({4});
    new_floats({(int64_t{4} << 30) / 4});  // as much as there are addresses
  };
  EXPECT_THAT(report_of(one_input(), doubling(k, all_of_it)),
              says("memory", "the recordings of cuda:0 have used up their addresses"));
  RecordedFunction f({.inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  for (int i = 0; i < 4; ++i) {
    empty_cache(gpu);
    if (i == 1) fail_at("cuMemCreate", 1, out_of_memory);
    EXPECT_EQ(f({on_gpu(4, i), on_gpu(4, 1)})[0].to_vector<float>(), all(4, float(i + 2)));
  }
  EXPECT_EQ(f.count("memory"), 0) << "it is asked for once more behind a trim";
  RecordedFunction g(one_input(), doubling(k, [&](tn_call& c) {
                       if (!cuda_api().is_recording(c.stream)) return;
                       fail_at("cuMemCreate", 1, out_of_memory);
                       new_floats({int64_t{64} << 20});
                     }));
  for (int i = 0; i < 3; ++i) g({on_gpu(4, i)});
  EXPECT_THAT(g.report(), HasSubstr("\"memory\": \"cuda:0 has no "));
  EXPECT_THAT(g.report(), HasSubstr("bytes left for recordings"));
}

TEST_F(CudaTrees, TooManySizesAreToldBeforeTheyRunDirectly) {
  FloatKernels k;
  set_logs("cudagraphs");
  testing::internal::CaptureStderr();
  RecordedFunction f(
      {.name = "sized", .inputs = {0, 0}, .results = {0}, .n_syms = 1, .max_sizes = 10},
      [&](tn_call& c) { return two_sums(k, c); });
  for (int64_t n = 1; n <= 40; ++n)
    EXPECT_EQ(f({on_gpu(n, 1), on_gpu(n, 2)}, {n})[0].to_vector<float>(), all(size_t(n), 5));
  std::string log = testing::internal::GetCapturedStderr();
  set_logs("");
  EXPECT_THAT(log,
              HasSubstr("sized is recorded for more than 8 tuples of sizes; each takes memory and "
                        "time: mark fewer sizes dynamic, or pad to a few"));
  EXPECT_THAT(log,
              HasSubstr("sized is not recorded: dynamic_shapes: it has had more than 10 tuples of "
                        "sizes"));
}

// ---- recorded anew

TEST_F(CudaTrees, WhyItIsRecordedAnewIsTold) {
  FloatKernels k;
  RecordedFunction moves({.inputs = {TN_CUDA_INPUT_STATIC, 0}, .results = {0}},
                         [&](tn_call& c) { return two_sums(k, c, FloatKernels::Known::no); });
  Tensor first = on_gpu(4, 1), second = on_gpu(4, 2);
  for (int i = 0; i < 3; ++i) moves({first, on_gpu(4, i)});
  moves({second, on_gpu(4, 1)});
  EXPECT_THAT(moves.report(), HasSubstr("\"rerecords\": {\"input 0 (x) has another address\": 1}"));
  RecordedFunction aligns(one_input(), doubling(k, {}));
  Tensor data = on_gpu(16, 1);
  for (int64_t at : {0, 4, 8, 5}) aligns({data.slice(0, at, at + 4)});
  EXPECT_THAT(aligns.report(),
              HasSubstr("\"rerecords\": {\"input 0 (x) is aligned to fewer bytes\": 1}"));
}

TEST_F(CudaTrees, AFunctionThatIsRecordedAgainAndAgainEndsWithItsLastCause) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {TN_CUDA_OUTPUT_SAVED}, .rerecord_limit = 3},
                     [&](tn_call& c) { return two_sums(k, c); });
  Tensors held;
  for (int i = 0; i < 12; ++i) held.push_back(f({on_gpu(4, i), on_gpu(4, 1)})[0]);
  EXPECT_THAT(f.report(), HasSubstr("\"rerecord_limit\": \"it was recorded 4 times; the last time "
                                    "results of an earlier run are still held\""));
}

TEST_F(CudaTrees, RecordingsAndTheGrowthOfTheirMemoryAreLogged) {
  FloatKernels k;
  set_logs("cudagraphs");
  testing::internal::CaptureStderr();
  empty_cache(gpu);
  RecordedFunction f({.name = "logged", .inputs = {0, 0}, .results = {0}}, [&](tn_call& c) {
    Tensor large = new_floats({int64_t{24} << 20});  // more than there is
    return two_sums(k, c);
  });
  for (int i = 0; i < 3; ++i) f({on_gpu(4, i), on_gpu(4, 1)});
  std::string log = testing::internal::GetCapturedStderr();
  set_logs("");
  EXPECT_THAT(log, HasSubstr("logged is recorded (2 nodes): the first recording"));
  EXPECT_THAT(log, testing::ContainsRegex("the arena of cuda:0 grows by [0-9]+ bytes"));
}

TEST_F(CudaTrees, EachRunIsLoggedWhileThatIsAskedFor) {
  FloatKernels k;
  RecordedFunction f({.name = "told", .inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  Tensors held;  // so that all lie elsewhere
  auto run = [&](int times) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2 * times; ++i) held.push_back(on_gpu(4, i));
    for (size_t i = 0; i < size_t(times); ++i) {
      size_t at = held.size() - 2 * (i + 1);
      held.push_back(f({held[at], held[at + 1]})[0]);
    }
    return testing::internal::GetCapturedStderr();
  };
  set_logs("cudagraphs");
  std::string log = run(3);
  EXPECT_THAT(log, HasSubstr("told runs directly: its first call of these sizes"));
  EXPECT_THAT(log, HasSubstr("told is recorded (2 nodes): the first recording"));
  EXPECT_THAT(log, HasSubstr("told is replayed (2 nodes, 2 of them changed)"));
  EXPECT_EQ(log.find("replayed"), log.rfind("replayed"));
  set_logs("");
  EXPECT_EQ(run(2), "");
  set_logs("cudagraphs");
  EXPECT_THAT(run(1), HasSubstr("told is replayed"));
  set_logs("");
}

TEST_F(CudaTrees, ForwardsWhoseBackwardsNeverComeAreToldOnce) {
  FloatKernels k;
  set_logs("cudagraphs");
  testing::internal::CaptureStderr();
  RecordedFunction forward(forward_of_sums("forward"),
                           [&](tn_call& c) { return saving_sums(k, c); });
  Tensors held;
  for (int i = 0; i < 40; ++i)
    for (Tensor& t : forward({on_gpu(4, i), on_gpu(4, 1)})) held.push_back(t);
  std::string log = testing::internal::GetCapturedStderr();
  set_logs("");
  std::string warning =
      "forward was called 16 times while values of an earlier forward wait for their backward, so "
      "no step begins and results stay in memory: call cudagraph_mark_step_begin() at each step, "
      "or run forwards without a backward under no_grad";
  size_t at = log.find(warning);
  EXPECT_NE(at, log.npos) << log;
  EXPECT_EQ(log.find(warning, at + 1), log.npos);
  cuda_api().mark_step();
}

}  // namespace
}  // namespace tenon
