// Recorded functions over time: memory, saved values, threads, streams, results of the pool.
#include "trees_test.h"

#include "core/device/provider.h"
#include "core/tensor/tensor_impl.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

namespace tenon {
namespace {

using testing::HasSubstr;

// ---- memory

TEST_F(CudaTrees, MemoryStaysTheSameOverManyReplays) {
  FloatKernels k;
  RecordedFunction f(
      {.flags = TN_CUDA_FN_FORWARD, .inputs = {0, 0}, .results = {0, TN_CUDA_OUTPUT_SAVED}},
      [&](tn_call& c) {
        Tensor y = new_floats({64});
        k.sum(c, y, input(c, 0), input(c, 1));
        return Tensors{two_sums(k, c)[0], y};
      });
  Tensor b = on_gpu(64, 1);
  for (int i = 0; i < 10; ++i) f({on_gpu(64, i), b});
  synchronize(gpu);
  empty_cache(gpu);
  FakeCudaCounts before = counts();
  for (int i = 0; i < 10'000; ++i) {
    Tensors out = f({on_gpu(64, i), b});
    if (i % 1000 == 0) {
      EXPECT_EQ(out[0].to_vector<float>()[5], float(i + 2));
    }
  }
  synchronize(gpu);
  empty_cache(gpu);
  FakeCudaCounts after = counts();
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.mapped_bytes, before.mapped_bytes);
  EXPECT_EQ(after.graphs, before.graphs);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, DroppingAFunctionGivesItsGraphsBackAndKeepsItsResults) {
  FloatKernels k;
  uint64_t before = counts().graphs;
  Tensors held;
  {
    RecordedFunction f({.inputs = {0, 0}, .results = {TN_CUDA_OUTPUT_SAVED}},
                       [&](tn_call& c) { return two_sums(k, c); });
    for (int i = 0; i < 4; ++i) held.push_back(f({on_gpu(4, i), on_gpu(4, 1)})[0]);
    EXPECT_GT(counts().graphs, before);
  }
  EXPECT_EQ(counts().graphs, before);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(held[size_t(i)].to_vector<float>(), all(4, float(i + 2)));
}

TEST_F(CudaTrees, PagesComeBackWhenARecordingRunsAgain) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  for (int i = 0; i < 3; ++i) f({on_gpu(4, i), on_gpu(4, 1)});
  EXPECT_GT(counts().mapped_bytes, 0u);
  empty_cache(gpu);
  EXPECT_EQ(counts().mapped_bytes, 0u);
  EXPECT_EQ(f({on_gpu(4, 5), on_gpu(4, 1)})[0].to_vector<float>(), all(4, 7));
  EXPECT_EQ(f.count("recordings"), 1);
  EXPECT_EQ(told(cuda_api().reset_functions()), "");
  EXPECT_EQ(counts().mapped_bytes, 0u);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(f({on_gpu(4, i), on_gpu(4, 1)})[0].to_vector<float>(), all(4, float(i + 2)));
}

// ---- saved values

/// y = a + b, which is saved; the backward gives y + y.
struct Halves {
  explicit Halves(FloatKernels& k)
      : forward({.name = "forward",
                 .flags = TN_CUDA_FN_POISON | TN_CUDA_FN_CHECKED | TN_CUDA_FN_FORWARD,
                 .inputs = {0, 0},
                 .results = {0, TN_CUDA_OUTPUT_SAVED}},
                [&](tn_call& c) {
                  Tensor y = new_floats({input(c, 0).numel()});
                  k.sum(c, y, input(c, 0), input(c, 1));
                  return Tensors{two_sums(k, c)[0], y};
                }),
        backward({.name = "backward",
                  .flags = TN_CUDA_FN_POISON | TN_CUDA_FN_CHECKED,
                  .inputs = {0, 0},
                  .results = {0}},
                 [&](tn_call& c) { return two_sums(k, c); }) {}
  RecordedFunction forward, backward;
};

TEST_F(CudaTrees, SavedValuesStayUntilTheirBackward) {
  FloatKernels k;
  Halves f(k);
  for (int i = 0; i < 6; ++i) {
    Tensors out = f.forward({on_gpu(8, i), on_gpu(8, 1)});
    Tensor gradient = f.backward({out[1], on_gpu(8, 100)})[0];
    EXPECT_EQ(out[0].to_vector<float>(), all(8, float(i + 2)));
    EXPECT_EQ(gradient.to_vector<float>(), all(8, float(i + 201)));
  }
  EXPECT_EQ(f.forward.count("recordings"), 1);
  EXPECT_EQ(f.backward.count("recordings"), 1);
}

TEST_F(CudaTrees, TwoForwardsBeforeTheirBackwardsHaveMemoryBesideEachOther) {
  FloatKernels k;
  Halves f(k);
  for (int turn = 0; turn < 5; ++turn) {
    Tensors first = f.forward({on_gpu(8, turn), on_gpu(8, 1)});
    Tensors second = f.forward({on_gpu(8, turn), on_gpu(8, 2)});
    EXPECT_EQ(f.backward({first[1], on_gpu(8, 0)})[0].to_vector<float>(), all(8, float(turn + 1)));
    first = {};
    EXPECT_EQ(f.backward({second[1], on_gpu(8, 0)})[0].to_vector<float>(), all(8, float(turn + 2)));
  }
  EXPECT_LE(f.forward.count("recordings"), 2) << f.forward.report() << f.backward.report();
  EXPECT_LE(f.backward.count("recordings"), 2);
}

TEST_F(CudaTrees, ValuesThatAreKeptForEverEndInDirectRuns) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {TN_CUDA_OUTPUT_SAVED}, .rerecord_limit = 5},
                     [&](tn_call& c) { return two_sums(k, c); });
  Tensors held;
  for (int i = 0; i < 20; ++i) held.push_back(f({on_gpu(4, i), on_gpu(4, 1)})[0]);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(held[size_t(i)].to_vector<float>(), all(4, float(i + 2)));
  EXPECT_GT(f.count("rerecord_limit"), 0);
  EXPECT_THAT(f.report(), HasSubstr("results of an earlier run are still held"));
}

// ---- threads and streams

TEST_F(CudaTrees, ThreadsHaveRecordingsOfTheirOwn) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  auto work = [&](int from) {
    for (int i = from; i < from + 50; ++i)
      EXPECT_EQ(f({on_gpu(32, i), on_gpu(32, 1)})[0].to_vector<float>(), all(32, float(i + 2)));
  };
  std::barrier both(2);  // neither ends before the other has begun
  auto beside = [&](int from) {
    work(from);
    both.arrive_and_wait();
  };
  std::thread one(beside, 0), two(beside, 1000);
  one.join();
  two.join();
  EXPECT_EQ(f.count("recordings"), 2);
  std::thread([&] { work(2000); }).join();
  EXPECT_EQ(f.count("recordings"), 2) << "a new thread takes over what an ended one recorded";
}

TEST_F(CudaTrees, AnotherThreadMayWorkOnTheStreamThatIsRecorded) {
  FloatKernels k;
  std::atomic<bool> ended{false};
  std::thread other([&] {
    for (int i = 0; !ended; ++i) {
      Tensor x = on_gpu(16, i);
      EXPECT_EQ(x.clone().to_vector<float>(), all(16, float(i)));
      synchronize(gpu);
    }
  });
  for (int i = 0; i < 30; ++i) {
    RecordedFunction f({.flags = TN_CUDA_FN_OR_ERROR, .inputs = {0, 0}, .results = {0}},
                       [&](tn_call& c) { return two_sums(k, c); });
    for (int call = 0; call < 3; ++call)
      EXPECT_EQ(f({on_gpu(4, i), on_gpu(4, 1)})[0].to_vector<float>(), all(4, float(i + 2)));
  }
  ended = true;
  other.join();
}

// As a vendor's library enqueues: not through the plugin.
TEST_F(CudaTrees, ARecordingWaitsForWhoHoldsTheStream) {
  FloatKernels k;
  std::atomic<int> launches{0};
  RecordedFunction f({.flags = TN_CUDA_FN_OR_ERROR, .inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) {
                       ++launches;
                       return two_sums(k, c);
                     });
  Tensor x = on_gpu(4, 1);
  f({x, x});
  ASSERT_EQ(launches, 1) << "the first call is not recorded";
  tn_stream* stream = Stream::current(gpu).state()->handle;
  ASSERT_EQ(told(cuda_api().enter_stream(stream)), "");
  ASSERT_EQ(told(cuda_api().enter_stream(stream)), "");
  std::thread other([&] { f({x, x}), f({x, x}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_LE(launches, 2) << "a warm-up of the other thread's at most";
  EXPECT_EQ(x.clone().to_vector<float>(), all(4, 1)) << "who holds it goes on";
  cuda_api().leave_stream(stream);
  cuda_api().leave_stream(stream);
  other.join();
  EXPECT_EQ(launches, 3);
  EXPECT_EQ(f({x, x})[0].to_vector<float>(), all(4, 3));
}

TEST_F(CudaTrees, ThreadsThatShareAStreamRecordAndReplayAtTheSameTime) {
  FloatKernels k;
  RecordedFunction f({.flags = TN_CUDA_FN_OR_ERROR, .inputs = {0, 0}, .results = {0}, .n_syms = 1},
                     [&](tn_call& c) { return two_sums(k, c); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 120; ++i) {
        int64_t n = 4 + i / 6;  // a new size now and then: a warm-up and a recording
        EXPECT_EQ(f({on_gpu(n, i), on_gpu(n, t)}, {n})[0].to_vector<float>(),
                  all(size_t(n), float(i + 2 * t)));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(CudaTrees, RunsOnSeveralStreamsDoNotMeetInTheArena) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  for (uint64_t seed = 0; seed < 10; ++seed) {
    seed_streams(seed);
    std::vector<Stream> streams;
    for (int s = 0; s < 3; ++s) streams.emplace_back(gpu);
    Tensors held;
    for (int i = 0; i < 9; ++i) {
      StreamGuard guard(streams[size_t(i % 3)]);
      held.push_back(f({on_gpu(8, i), on_gpu(8, 1)})[0]);
    }
    for (int i = 0; i < 9; ++i) {
      StreamGuard guard(streams[size_t(i % 3)]);
      EXPECT_EQ(held[size_t(i)].to_vector<float>(), all(8, float(i + 2))) << i;
    }
  }
}

// ---- results in the arena

TEST_F(CudaTrees, ResultsOfThePoolStayWhileABackwardIsDue) {
  FloatKernels k;
  RecordedFunction forward(forward_of_sums(), [&](tn_call& c) { return saving_sums(k, c); });
  auto run = [&](double a) { return forward({on_gpu(4, a), on_gpu(4, 1)}); };
  auto is_over = [](const Tensor& t) {
    return !told(cuda_api().check_result(impl_of(t)->storage_id)).empty();
  };
  run(0);
  Tensors first = run(1), second = run(2);
  EXPECT_FALSE(is_over(first[0])) << "its saved value is held";
  EXPECT_EQ(first[0].to_vector<float>(), all(4, 3));
  first[1] = second[1] = Tensor();  // as backwards let go of them
  Tensors third = run(3);
  EXPECT_TRUE(is_over(first[0]));
  EXPECT_TRUE(is_over(second[0]));
  EXPECT_EQ(third[0].to_vector<float>(), all(4, 5));
  cuda_api().mark_step();
  run(4);
  EXPECT_TRUE(is_over(third[0])) << "a mark ends the step in any case";
  EXPECT_EQ(third[1].to_vector<float>(), all(4, 4)) << "saved values stay";
}

TEST_F(CudaTrees, ResultsOfThePoolAreOverWithTheirStep) {
  FloatKernels k;
  RecordedFunction f({.outputs = TN_CUDA_OUTPUTS_POOL, .inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  auto run = [&](double a) { return f({on_gpu(4, a), on_gpu(4, 1)})[0]; };
  run(0);
  Tensor first = run(1);
  void* memory = impl_of(first)->data;
  EXPECT_EQ(first.to_vector<float>(), all(4, 3));
  EXPECT_EQ(told(cuda_api().check_result(impl_of(first)->storage_id)), "");
  Tensor second = run(2);
  EXPECT_EQ(impl_of(second)->data, memory);
  EXPECT_EQ(second.to_vector<float>(), all(4, 4));
  EXPECT_EQ(*cuda_api().overwritten_results, 1u);
  EXPECT_THAT(told(cuda_api().check_result(impl_of(first)->storage_id)),
              testing::AllOf(HasSubstr("9: a result of a recorded graph was overwritten"),
                             HasSubstr("aten.add.Tensor at test.cpp:1")));
  EXPECT_THROW(f({first, on_gpu(4, 1)}), std::exception);
  first = Tensor();
  EXPECT_EQ(*cuda_api().overwritten_results, 0u);
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, ResultsOfThePoolMayGoThroughOtherFunctionsOfTheirStep) {
  FloatKernels k;
  RecordedFunction f({.outputs = TN_CUDA_OUTPUTS_POOL, .inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  for (int i = 0; i < 6; ++i) {
    cuda_api().mark_step();
    Tensor y = f({on_gpu(4, i), on_gpu(4, 1)})[0];
    Tensor z = f({y, on_gpu(4, 10)})[0];
    EXPECT_EQ(y.to_vector<float>(), all(4, float(i + 2)));
    EXPECT_EQ(z.to_vector<float>(), all(4, float(i + 22)));
  }
  EXPECT_LE(f.count("recordings"), 2);
  cuda_api().mark_step();
  f({on_gpu(4, 0), on_gpu(4, 1)});
}

}  // namespace
}  // namespace tenon
