// Recorded functions: when they are recorded, what a replay reads and writes, and what runs directly.
#include "backend/abi/bridge.h"
#include "core/tensor/tensor_impl.h"
#include "double.h"
#include "recorded_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

namespace tenon {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;
using Tensors = std::vector<Tensor>;

class CudaTrees : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_THE_DOUBLE(); }
};

Tensor on_gpu(int64_t n, double value) { return moved(gpu, full({n}, value)); }
Floats all(size_t n, float value) { return Floats(n, value); }

/// z = (a + b) + b, over a temporary.
std::vector<Tensor> two_sums(FloatKernels& k, tn_call& c,
                             FloatKernels::Known known = FloatKernels::Known::yes) {
  Tensor a = input(c, 0), b = input(c, 1), t = new_floats({a.numel()}), z = new_floats({a.numel()});
  k.sum(c, t, a, b, known);
  k.sum(c, z, t, b, known);
  return {z};
}

TEST_F(CudaTrees, TheSecondCallIsRecordedAndLaterOnesAreReplayed) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  uint64_t before = counts().graph_launches;
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(f({on_gpu(8, i), on_gpu(8, 10)})[0].to_vector<float>(), all(8, float(i + 20)));
  EXPECT_EQ(f.launches(), 2) << "the warm-up and the recording";
  EXPECT_EQ(counts().graph_launches - before, 5u);
  EXPECT_EQ(f.count("warm_ups"), 1);
  EXPECT_EQ(f.count("recordings"), 1);
  EXPECT_EQ(f.count("replays"), 4);
}

TEST_F(CudaTrees, ItIsRecordedAtOnceWhereThatIsAskedForAndNothingForcesAWarmUp) {
  FloatKernels k;
  auto body = [&](tn_call& c) { return two_sums(k, c); };
  RecordedFunction f({.flags = TN_CUDA_FN_RECORD_AT_ONCE, .inputs = {0, 0}, .results = {0}}, body);
  EXPECT_EQ(f({on_gpu(4, 1), on_gpu(4, 2)})[0].to_vector<float>(), all(4, 5));
  EXPECT_EQ(f.count("recordings"), 1);
  RecordedFunction g({.flags = TN_CUDA_FN_RECORD_AT_ONCE | TN_CUDA_FN_FORCE_WARMUP,
                      .inputs = {0, 0},
                      .results = {0}},
                     body);
  EXPECT_EQ(g({on_gpu(4, 1), on_gpu(4, 2)})[0].to_vector<float>(), all(4, 5));
  EXPECT_EQ(g.count("warm_ups"), 1);
}

TEST_F(CudaTrees, NoResultIsEverOverwrittenAndNoneIsStale) {
  FloatKernels k;
  RecordedFunction f({.flags = TN_CUDA_FN_POISON | TN_CUDA_FN_CHECKED,
                      .inputs = {0, 0},
                      .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  Tensors held;
  for (int i = 0; i < 40; ++i) held.push_back(f({on_gpu(16, i), on_gpu(16, 1)})[0]);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(held[size_t(i)].to_vector<float>(), all(16, float(i + 2))) << i;
}

TEST_F(CudaTrees, AStaticInputThatMovesIsFollowed) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, TN_CUDA_INPUT_STATIC}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c); });
  Tensor weight = on_gpu(4, 1);
  for (int i = 0; i < 4; ++i) f({on_gpu(4, i), weight});
  weight = on_gpu(4, 100);
  EXPECT_EQ(f({on_gpu(4, 1), weight})[0].to_vector<float>(), all(4, 201));
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, AnInputThatOnlyHasASizeMayBeAnywhere) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0}}, [&](tn_call& c) {
    Tensor z = new_floats({input(c, 1).numel()});
    k.sum(c, z, input(c, 0), input(c, 0));
    return Tensors{z};
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(f({on_gpu(4, i), on_gpu(4, 7)})[0].to_vector<float>(), all(4, float(2 * i)));
  EXPECT_THAT(f.report(), HasSubstr(R"("inputs": ["moved", "unused"])"));
}

// ---- work of others

TEST_F(CudaTrees, WhatALibraryReadsAndWritesIsCopied) {
  FloatKernels k;
  RecordedFunction f({.flags = TN_CUDA_FN_POISON, .inputs = {0, 0}, .results = {0}},
                     [&](tn_call& c) { return two_sums(k, c, FloatKernels::Known::no); });
  Tensors held;
  for (int i = 0; i < 10; ++i) held.push_back(f({on_gpu(8, i), on_gpu(8, 3)})[0]);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(held[size_t(i)].to_vector<float>(), all(8, float(i + 6))) << i;
  EXPECT_EQ(f.count("recordings"), 1);
  EXPECT_EQ(f.count("results_copied"), 1);
  EXPECT_THAT(f.report(), HasSubstr(R"("inputs": ["copied", "copied"])"));
}

TEST_F(CudaTrees, WhatALibraryDoesNotTouchIsChangedAsBefore) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0, 0}, .results = {0, 0}}, [&](tn_call& c) {
    Tensor a = input(c, 0), b = input(c, 1), y = new_floats({4}), z = new_floats({4});
    k.sum(c, y, a, a, FloatKernels::Known::no);
    void* touched[] = {impl_of(y)->data, impl_of(a)->data};
    EXPECT_EQ(told(cuda_api().note_foreign_work(c.stream, touched, 2)), "");
    k.sum(c, z, b, input(c, 2));
    return Tensors{y, z};
  });
  for (int i = 0; i < 5; ++i) {
    Tensors out = f({on_gpu(4, i), on_gpu(4, 10 * i), on_gpu(4, 1)});
    EXPECT_EQ(out[0].to_vector<float>(), all(4, float(2 * i)));
    EXPECT_EQ(out[1].to_vector<float>(), all(4, float(10 * i + 1)));
  }
  EXPECT_THAT(f.report(), HasSubstr(R"("inputs": ["copied", "moved", "moved"])"));
  EXPECT_EQ(f.count("results_copied"), 1);
}

TEST_F(CudaTrees, LargeInputsOfALibraryHaveARecordingAnAddressThenACopy) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor z = new_floats({input(c, 0).numel()});
    k.sum(c, z, input(c, 0), input(c, 0), FloatKernels::Known::no);
    return Tensors{z};
  });
  constexpr int64_t n = 300'000;  // above 1 MiB
  Tensors buffers;
  for (int i = 0; i < 7; ++i) buffers.push_back(on_gpu(n, i));
  for (int turn = 0; turn < 3; ++turn)
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(f({buffers[size_t(i)]})[0].to_vector<float>()[n - 1], float(2 * i));
  EXPECT_EQ(f.count("recordings"), 2) << "buffers that take turns";
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < 7; ++i)
      EXPECT_EQ(f({buffers[size_t(i)]})[0].to_vector<float>()[n - 1], float(2 * i));
  EXPECT_LE(f.count("recordings"), 5);
  EXPECT_THAT(f.report(), HasSubstr(R"("inputs": ["copied"])"));
}

TEST_F(CudaTrees, CopiesAndFillsOnTheDeviceAreFollowed) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0}, .results = {0, 0}}, [&](tn_call& c) {
    Tensor y = new_floats({6}), z = new_floats({6});
    y.copy_(input(c, 0));
    z.zero_();
    k.add(c, z, y);
    return Tensors{y, z};
  });
  Tensors held;
  for (int i = 1; i < 9; ++i) {
    Tensors out = f({on_gpu(6, i)});
    held.insert(held.end(), out.begin(), out.end());
  }
  for (size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i].to_vector<float>(), all(6, float(i / 2 + 1))) << i;
  EXPECT_EQ(f.count("recordings"), 1);
  EXPECT_EQ(f.count("results_copied"), 0);
}

// ---- views

TEST_F(CudaTrees, ResultsThatAreViewsStayViews) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0, 0, 0, 0}}, [&](tn_call& c) {
    Tensor z = new_floats({8});
    k.sum(c, z, input(c, 0), input(c, 1));
    return Tensors{z, z.slice(0, 2, 6), input(c, 0).slice(0, 1, 4), input(c, 1)};
  });
  for (int i = 0; i < 4; ++i) {
    Tensor a = moved(gpu, arange(8).to(Dtype::f32)), b = on_gpu(8, i);
    Tensors out = f({a, b});
    EXPECT_EQ(out[1].to_vector<float>(), (Floats{2.f + i, 3.f + i, 4.f + i, 5.f + i}));
    EXPECT_EQ(out[2].to_vector<float>(), (Floats{1, 2, 3}));
    EXPECT_EQ(impl_of(out[0])->storage_id, impl_of(out[1])->storage_id);
    EXPECT_EQ(impl_of(out[2])->storage_id, impl_of(a)->storage_id);
    EXPECT_EQ(out[3].head(), b.head());
  }
  EXPECT_EQ(f.count("replays"), 2);
}

TEST_F(CudaTrees, InputsThatShareMemoryOtherwiseHaveAnotherRecording) {
  FloatKernels k;
  RecordedFunction f({.inputs = {TN_CUDA_INPUT_WRITTEN, 0}, .results = {}}, [&](tn_call& c) {
    k.add(c, input(c, 0), input(c, 1));
    return Tensors{};
  });
  for (int turn = 0; turn < 4; ++turn) {
    Tensor a = on_gpu(4, 1), b = on_gpu(4, 2);
    f({a, b});
    EXPECT_EQ(a.to_vector<float>(), all(4, 3));
    f({a, a});
    EXPECT_EQ(a.to_vector<float>(), all(4, 6));
    Tensor whole = on_gpu(8, 5);
    f({whole.slice(0, 0, 4), whole.slice(0, 4, 8)});
    EXPECT_EQ(whole.to_vector<float>(), (Floats{10, 10, 10, 10, 5, 5, 5, 5}));
  }
  EXPECT_EQ(f.count("recordings"), 3);
}

TEST_F(CudaTrees, LessAlignmentThanRecordedIsRecordedAnew) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor z = new_floats({4});
    k.sum(c, z, input(c, 0), input(c, 0));
    return Tensors{z};
  });
  Tensor data = moved(gpu, arange(16).to(Dtype::f32));
  auto at = [&](int64_t i) { return f({data.slice(0, i, i + 4)})[0].to_vector<float>()[0]; };
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(at(4), 8);
  EXPECT_EQ(at(8), 16);
  EXPECT_EQ(f.count("recordings"), 1);
  EXPECT_EQ(at(5), 10);
  EXPECT_EQ(at(7), 14);
  EXPECT_EQ(at(12), 24);
  EXPECT_EQ(f.count("recordings"), 2);
}

// ---- writes

TEST_F(CudaTrees, WritesGoToTheCallersMemoryOnceACall) {
  FloatKernels k;
  RecordedFunction f({.inputs = {TN_CUDA_INPUT_WRITTEN, 0}, .results = {}}, [&](tn_call& c) {
    k.add(c, input(c, 0), input(c, 1));
    return Tensors{};
  });
  Tensor sum = on_gpu(4, 0);
  for (int i = 1; i <= 6; ++i) {
    uint64_t version = TN_VERSION(sum.head());
    f({sum, on_gpu(4, 1)});
    EXPECT_EQ(sum.to_vector<float>(), all(4, float(i)));
    if (i > 1) {
      EXPECT_GT(TN_VERSION(sum.head()), version) << "a replay counts as a write";
    }
  }
  Tensor other = on_gpu(4, 40);
  f({other, on_gpu(4, 2)});
  EXPECT_EQ(other.to_vector<float>(), all(4, 42));
  EXPECT_EQ(sum.to_vector<float>(), all(4, 6));
}

// ---- numbers and draws

TEST_F(CudaTrees, NumbersOfTheCpuAreThoseOfTheCall) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, TN_CUDA_INPUT_NUMBER}, .results = {0, 0}}, [&](tn_call& c) {
    Tensor z = new_floats({4}), there = new_floats({1}), n = input(c, 1);
    k.times(c, z, input(c, 0), n.data_ptr<float>());
    there.copy_(n.reshape({1}));
    return Tensors{z, there};
  });
  for (int i = 0; i < 6; ++i) {
    Tensors out = f({on_gpu(4, 2), full({}, 0.5 + i)});
    EXPECT_EQ(out[0].to_vector<float>(), all(4, 2 * (0.5f + float(i))));
    EXPECT_EQ(out[1].to_vector<float>(), all(1, 0.5f + float(i)));
  }
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, ConstantsOfTheCpuAreKeptByTheRecording) {
  FloatKernels k;
  Tensor constant = arange(5).to(Dtype::f32);
  RecordedFunction f({.inputs = {0}, .results = {0}, .constants = {constant}}, [&](tn_call& c) {
    Tensor there = new_floats({5}), z = new_floats({5});
    there.copy_(constant);
    k.sum(c, z, input(c, 0), there);
    return Tensors{z};
  });
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(f({on_gpu(5, i)})[0].to_vector<float>()[4], float(i + 4));
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, DrawsGoOnFromReplayToReplayAsTheyDoDirectly) {
  FloatKernels k;
  auto body = [&](tn_call& c) {
    Tensor y = new_floats({2}), z = new_floats({2});
    uint64_t seed = 0, offset = 0;
    EXPECT_EQ(told(cuda_api().reserve_random(0, c.stream, 3, &seed, &offset)), "");
    k.shift_by_draw(c, y, input(c, 0), seed, offset + 1);
    EXPECT_EQ(told(cuda_api().reserve_random(0, c.stream, 5, &seed, &offset)), "");
    k.shift_by_draw(c, z, input(c, 0), seed, offset);
    return Tensors{y, z};
  };
  auto run = [&](uint32_t flags) {
    RecordedFunction f({.flags = flags, .inputs = {0}, .results = {0, 0}}, body);
    manual_seed(7);
    Floats out;
    for (int i = 0; i < 5; ++i)
      for (const Tensor& t : f({on_gpu(2, 0)})) out.push_back(t.to_vector<float>()[1]);
    return out;
  };
  EXPECT_EQ(run(0), run(TN_CUDA_FN_DIRECT));
}

// ---- what runs directly

TEST_F(CudaTrees, WaitingAndCopiesOfComputedNumbersAreRunDirectly) {
  FloatKernels k;
  RecordedFunction waits({.name = "waits", .inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor z = new_floats({4});
    k.sum(c, z, input(c, 0), input(c, 0));
    z.to_vector<float>();
    return Tensors{z};
  });
  RecordedFunction brings({.name = "brings", .inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor b = new_floats({4}), z = new_floats({4});
    b.copy_(full({4}, 3.0));
    k.sum(c, z, input(c, 0), b);
    return Tensors{z};
  });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(waits({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(2 * i)));
    EXPECT_EQ(brings({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(i + 3)));
  }
  EXPECT_EQ(waits.count("data_dependent"), 3);
  EXPECT_EQ(brings.count("cpu_node"), 3);
  EXPECT_EQ(waits.launches(), 1 + 2 + 2) << "the recording is tried once";
}

TEST_F(CudaTrees, AReasonIsToldAndMayBeAnError) {
  FloatKernels k;
  auto body = [&](tn_call& c) { return two_sums(k, c); };
  auto why = [&](RecordedFunction::About about, Tensor a, std::vector<int64_t> syms = {}) {
    about.flags |= TN_CUDA_FN_OR_ERROR;
    about.inputs = {0, 0};
    about.results = {0};
    RecordedFunction f(about, body);
    try {
      for (int i = 0; i < 3; ++i) f({a, on_gpu(4, 1)}, syms);
      return std::string("none");
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(why({}, on_gpu(4, 1)), "none");
  EXPECT_THAT(why({.flags = TN_CUDA_FN_DIRECT}, on_gpu(4, 1)), HasSubstr("disabled"));
  EXPECT_THAT(why({}, full({4}, 1.0)), HasSubstr("cpu_node: input 0 (x) is on the CPU"));
  EXPECT_THAT(why({.min_nodes = 3}, on_gpu(4, 1)), HasSubstr("too_small: it has 2 nodes"));
  EXPECT_THAT(why({.flags = TN_CUDA_FN_NOT_DYNAMIC, .n_syms = 1}, on_gpu(4, 1), {4}),
              HasSubstr("dynamic_shapes"));
  EXPECT_THAT(why({.n_syms = 1, .capture_sizes = {5, 6}}, on_gpu(4, 1), {4}),
              HasSubstr("dynamic_shapes"));
  EXPECT_EQ(why({.n_syms = 1, .capture_sizes = {5, 4}}, on_gpu(4, 1), {4}), "none");
  tn_cuda_function_info info{};
  info.struct_size = sizeof info;
  tn_cuda_function* made = nullptr;
  EXPECT_THAT(told(cuda_api().function_new(&info, &made)), HasSubstr("3: "));
}

TEST_F(CudaTrees, AnInputOfAnotherDeviceIsRunDirectly) {
  TENON_NEEDS_TWO_GPUS();
  RecordedFunction f({.inputs = {0}, .results = {0}}, [&](tn_call& c) {
    return Tensors{input(c, 0)};
  });
  Tensor there = moved(second_gpu, ones({2}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({there})[0].head(), there.head());
  EXPECT_EQ(f.count("multiple_devices"), 3);
}

TEST_F(CudaTrees, WhatIsKeptOfARecordingEndsIt) {
  FloatKernels k;
  Tensors cache;
  RecordedFunction f({.flags = TN_CUDA_FN_RECORD_AT_ONCE, .inputs = {0}, .results = {0}},
                     [&](tn_call& c) {
                       Tensor z = new_floats({4});
                       if (cache.empty()) {
                         cache.push_back(new_floats({4}));
                         k.sum(c, cache[0], input(c, 0), input(c, 0));
                       }
                       k.sum(c, z, input(c, 0), cache[0]);
                       return Tensors{z};
                     });
  for (int i = 1; i < 6; ++i)
    EXPECT_EQ(f({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(i + 2)));
  EXPECT_EQ(cache[0].to_vector<float>(), all(4, 2));
}

// ---- sizes

TEST_F(CudaTrees, EachSizeHasARecordingUpToALimit) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0}, .n_syms = 1, .max_sizes = 4},
                     [&](tn_call& c) { return two_sums(k, c); });
  auto run = [&](int64_t n) {
    EXPECT_EQ(f({on_gpu(n, 1), on_gpu(n, 2)}, {n})[0].to_vector<float>(), all(size_t(n), 5));
  };
  for (int turn = 0; turn < 3; ++turn)
    for (int64_t n : {3, 5, 7, 9}) run(n);
  EXPECT_EQ(f.count("recordings"), 4);
  for (int turn = 0; turn < 3; ++turn)
    for (int64_t n = 10; n < 30; ++n) run(n);
  EXPECT_GT(f.count("dynamic_shapes"), 0);
}

// ---- memory

TEST_F(CudaTrees, MemoryStaysTheSameOverManyReplays) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0, 0}, .results = {0, TN_CUDA_OUTPUT_SAVED}}, [&](tn_call& c) {
    Tensor y = new_floats({64});
    k.sum(c, y, input(c, 0), input(c, 1));
    return Tensors{two_sums(k, c)[0], y};
  });
  Tensor b = on_gpu(64, 1);
  for (int i = 0; i < 10; ++i) f({on_gpu(64, i), b});
  synchronize(gpu);
  FakeCudaCounts before = counts();
  for (int i = 0; i < 10'000; ++i) {
    Tensors out = f({on_gpu(64, i), b});
    if (i % 1000 == 0) {
      EXPECT_EQ(out[0].to_vector<float>()[5], float(i + 2));
    }
  }
  synchronize(gpu);
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
  std::thread one([&] { work(0); }), two([&] { work(1000); });
  one.join();
  two.join();
  EXPECT_EQ(f.count("recordings"), 2);
  std::thread([&] { work(2000); }).join();
  EXPECT_EQ(f.count("recordings"), 2) << "a new thread takes over what an ended one recorded";
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

// ---- failures

/// Fails the nth call of the driver in the call of a function that `turn` says, for every nth there
/// is. Each call has to give what it gives without a failure.
void fail_everywhere(const std::function<std::unique_ptr<RecordedFunction>()>& make, int turn,
                     const std::function<Tensor(RecordedFunction&)>& call, const Floats& wanted) {
  // Only what gives back, or orders what comes later, may fail without a direct run.
  std::set<std::string> without_reason = {"cuMemFreeAsync",     "cuEventRecord", "cuEventCreate",
                                          "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamEndCapture"};
  uint64_t nth = 1;
  for (std::string failed = "none"; !failed.empty(); ++nth) {
    std::unique_ptr<RecordedFunction> f = make();
    for (int i = 0; i < 4; ++i) {
      if (i == turn) fail_at("*", nth, 999);
      Tensor out = call(*f);
      if (i == turn) failed = failed_call() ? failed_call() : "";
      if (i == turn) fail_at("*", 0, 0);
      EXPECT_EQ(out.to_vector<float>(), wanted) << failed;
      if (i != turn) continue;
      if (failed.empty() || without_reason.contains(failed)) continue;
      EXPECT_EQ(f->count("capture_failed") + f->count("memory"), 1) << failed << f->report();
    }
    ASSERT_LT(nth, 200u);
  }
  EXPECT_GT(nth, 5u);
  synchronize(gpu);
}

TEST_F(CudaTrees, AFailureOfAnyCallGivesTheDirectRunAndItsReason) {
  FloatKernels k;
  Tensor a = on_gpu(4, 3), b = on_gpu(4, 1);
  for (auto known : {FloatKernels::Known::yes, FloatKernels::Known::no})
    for (uint32_t outputs : {TN_CUDA_OUTPUTS_FRESH, TN_CUDA_OUTPUTS_POOL})
      for (int turn : {1, 2})
        fail_everywhere(
            [&] {
              return std::make_unique<RecordedFunction>(
                  RecordedFunction::About{.outputs = outputs, .inputs = {0, 0}, .results = {0}},
                  [&](tn_call& c) { return two_sums(k, c, known); });
            },
            turn,
            [&](RecordedFunction& f) { return f({a, b})[0]; }, all(4, 5));
}

// ---- random programs

/// Functions over vectors of two lengths, with views, saved values and writes, called in any order,
/// their results dropped, held, and given to others; each value is known on the CPU.
class RandomProgram {
 public:
  RandomProgram(FloatKernels& k, uint64_t seed, uint32_t outputs)
      : k_(k), random_(seed), outputs_(outputs) {
    uint32_t flags = TN_CUDA_FN_POISON | TN_CUDA_FN_CHECKED;
    for (int f = 0; f < 4; ++f) {
      bool is_known = f != 2, is_saved = f == 1;
      functions_.push_back(std::make_unique<RecordedFunction>(
          RecordedFunction::About{.name = "f" + std::to_string(f),
                                  .flags = flags,
                                  .outputs = outputs,
                                  .inputs = {f == 3 ? uint32_t{TN_CUDA_INPUT_WRITTEN} : 0u, 0},
                                  .results = {0, is_saved ? uint32_t{TN_CUDA_OUTPUT_SAVED} : 0u}},
          [this, f, is_known](tn_call& c) { return body(c, f, is_known); }));
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    for (const Held& h : held_) check(h);
  }
  int replays() const {
    int sum = 0;
    for (const auto& f : functions_) sum += f->count("replays");
    return sum;
  }

 private:
  struct Held {
    Tensor tensor;
    Floats expected;
    bool is_pooled;
  };

  // {t = a + b, and a part of it}, or, in place, {a += b} first.
  Tensors body(tn_call& c, int f, bool is_known) {
    auto known = is_known ? FloatKernels::Known::yes : FloatKernels::Known::no;
    Tensor a = input(c, 0), b = input(c, 1);
    if (f == 3) k_.add(c, a, b);
    Tensor t = new_floats({a.numel()}), z = new_floats({a.numel()});
    k_.sum(c, t, a, b, known);
    k_.sum(c, z, t, b, known);
    return {f == 0 ? z.slice(0, 1, a.numel()) : z, t};
  }
  static Tensors expected(int f, Tensor a, const Tensor& b) {
    if (f == 3) a = a + b;
    Tensor t = a + b, z = t + b;
    return {f == 0 ? z.slice(0, 1, a.numel()) : z, t};
  }

  uint64_t below(uint64_t n) { return random_() % n; }

  Held chosen(int64_t n) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < held_.size(); ++i)
      if (held_[i].tensor.numel() == n && is_alive(held_[i])) fitting.push_back(i);
    if (!fitting.empty() && below(2)) return held_[fitting[below(fitting.size())]];
    auto value = static_cast<float>(below(50));
    Floats values(static_cast<size_t>(n), value);
    return {on_gpu(n, value), values, false};
  }
  static bool is_alive(const Held& h) {
    return !h.is_pooled || told(cuda_api().check_result(impl_of(h.tensor)->storage_id)).empty();
  }
  void check(const Held& h) {
    if (is_alive(h)) {
      EXPECT_EQ(h.tensor.to_vector<float>(), h.expected);
    }
  }

  void step() {
    switch (below(8)) {
      case 0:
        return cuda_api().mark_step();
      case 1:
      case 2:
        if (!held_.empty()) {
          size_t at = below(held_.size());
          check(held_[at]);
          held_.erase(held_.begin() + static_cast<int64_t>(at));
        }
        return;
      case 3:
        if (!held_.empty() && is_alive(held_.back())) {
          Tensor copy = held_.back().tensor.clone();
          held_.push_back({copy, held_.back().expected, false});
        }
        return;
      default:
        return call();
    }
  }

  void call() {
    int f = static_cast<int>(below(functions_.size()));
    int64_t n = below(2) ? 8 : 24;
    Held a = chosen(n), b = chosen(n);
    if (f == 3) a = {on_gpu(n, 2), Floats(size_t(n), 2), false};
    // A mark may have ended a step since: what it held is refused, as a program would be told.
    Tensors out;
    try {
      out = (*functions_[size_t(f)])({a.tensor, b.tensor});
    } catch (const std::exception& e) {
      ASSERT_THAT(e.what(), HasSubstr("overwritten by a later run"));
      return;
    }
    Tensors wanted = expected(f, tensor(a.expected), tensor(b.expected));
    for (size_t i = 0; i < out.size(); ++i)
      if (below(3)) held_.push_back({out[i], wanted[i].to_vector<float>(), is_pooled(f, i)});
    if (f == 3) {
      Floats sum = a.expected;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += b.expected[i];
      EXPECT_EQ(a.tensor.to_vector<float>(), sum);
    }
    if (held_.size() > 12) held_.erase(held_.begin(), held_.begin() + 6);
  }
  bool is_pooled(int f, size_t i) const {
    return outputs_ == TN_CUDA_OUTPUTS_POOL && !(f == 1 && i == 1);
  }

  FloatKernels& k_;
  std::mt19937_64 random_;
  uint32_t outputs_;
  std::vector<std::unique_ptr<RecordedFunction>> functions_;
  std::vector<Held> held_;
};

TEST_F(CudaTrees, RandomProgramsGiveWhatDirectRunsGive) {
  FloatKernels k;
  for (uint32_t outputs : {TN_CUDA_OUTPUTS_FRESH, TN_CUDA_OUTPUTS_POOL})
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(message("outputs {}, seed {}", outputs, seed));
      seed_streams(seed);
      RandomProgram program(k, seed, outputs);
      program.run(200);
      EXPECT_GT(program.replays(), 10);
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace tenon
