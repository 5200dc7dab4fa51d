// Recorded functions: when they are recorded, what a replay reads and writes, and what runs directly.
#include "trees_test.h"

#include "core/tensor/tensor_impl.h"

namespace tenon {
namespace {

using testing::HasSubstr;

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
  RecordedFunction f(
      {.flags = TN_CUDA_FN_POISON | TN_CUDA_FN_CHECKED, .inputs = {0, 0}, .results = {0}},
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
  for (int i = 0; i < 5; ++i) EXPECT_EQ(f({on_gpu(5, i)})[0].to_vector<float>()[4], float(i + 4));
  EXPECT_EQ(f.count("recordings"), 1);
}

TEST_F(CudaTrees, NumbersOfConstantsStayAndThoseThatTheCpuComputesAreNotRecorded) {
  FloatKernels k;
  Tensor constant = full({}, 3.0);
  auto body = [&](tn_call& c, const Tensor& number) {
    Tensor z = new_floats({4});
    k.times(c, z, input(c, 0), number.data_ptr<float>());
    return Tensors{z};
  };
  RecordedFunction stays({.inputs = {0}, .results = {0}, .constants = {constant}},
                         [&](tn_call& c) { return body(c, constant); });
  RecordedFunction computed({.inputs = {0}, .results = {0}},
                            [&](tn_call& c) { return body(c, constant + 1.0); });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(stays({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(3 * i)));
    EXPECT_EQ(computed({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(4 * i)));
  }
  EXPECT_EQ(stays.count("replays"), 2);
  EXPECT_EQ(computed.count("cpu_node"), 3);
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
  RecordedFunction f({.inputs = {0}, .results = {0}},
                     [&](tn_call& c) { return Tensors{input(c, 0)}; });
  Tensor there = moved(second_gpu, ones({2}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({there})[0].head(), there.head());
  EXPECT_EQ(f.count("multiple_devices"), 3);
}

TEST_F(CudaTrees, WorkOnAnotherStreamEndsTheRecording) {
  FloatKernels k;
  RecordedFunction f({.inputs = {0}, .results = {0}}, [&](tn_call& c) {
    Tensor z = new_floats({4});
    k.sum(c, z, input(c, 0), input(c, 0));
    Stream other(gpu);
    Event done(gpu);
    done.record(Stream::current(gpu));
    other.wait(done);
    {
      StreamGuard guard(other);
      z.add_(0.0f * 0);
    }
    done.record(other);
    Stream::current(gpu).wait(done);
    return Tensors{z};
  });
  WithFallback fallback;
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(f({on_gpu(4, i)})[0].to_vector<float>(), all(4, float(2 * i)));
  EXPECT_EQ(f.count("capture_failed"), 3);
}

TEST_F(CudaTrees, AFunctionWithinAFunctionIsAPartOfIt) {
  FloatKernels k;
  RecordedFunction inner({.name = "inner", .inputs = {0, 0}, .results = {0}},
                         [&](tn_call& c) { return two_sums(k, c); });
  RecordedFunction outer({.name = "outer", .inputs = {0, 0}, .results = {0}}, [&](tn_call& c) {
    return Tensors{inner({inner({input(c, 0), input(c, 1)})[0], input(c, 1)})[0]};
  });
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(outer({on_gpu(4, i), on_gpu(4, 1)})[0].to_vector<float>(), all(4, float(i + 4)));
  EXPECT_EQ(outer.count("recordings"), 1);
  EXPECT_EQ(outer.count("replays"), 4);
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

TEST_F(CudaTrees, AResultThatTheFunctionKeepsIsWrittenToo) {
  FloatKernels k;
  for (uint32_t outputs : {TN_CUDA_OUTPUTS_FRESH, TN_CUDA_OUTPUTS_POOL}) {
    Tensor kept;
    RecordedFunction f({.flags = TN_CUDA_FN_RECORD_AT_ONCE | TN_CUDA_FN_CHECKED,
                        .outputs = outputs,
                        .inputs = {0, 0},
                        .results = {0}},
                       [&](tn_call& c) {
                         kept = two_sums(k, c)[0];
                         return Tensors{kept};
                       });
    for (int i = 1; i < 6; ++i) {
      EXPECT_EQ(f({on_gpu(4, i), on_gpu(4, 1)})[0].to_vector<float>(), all(4, float(i + 2)));
      EXPECT_EQ(kept.to_vector<float>(), all(4, float(i + 2)));
    }
  }
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

}  // namespace
}  // namespace tenon
