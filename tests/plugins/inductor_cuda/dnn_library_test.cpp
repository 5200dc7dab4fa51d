// How convolutions and attention use cuDNN, asked of its double: which go there, with what behind
// them, what is planned once, and what a failure of each call becomes.
#include "cuda/double.h"
#include "fake_cuda/fake_cudnn.h"
#include "gpu_checks.h"
#include "inductor_cuda/api/cudnn.h"
#include "own_process.h"

#include <gmock/gmock.h>

#include <dlfcn.h>

namespace tenon {
namespace {

namespace dnn = inductor_cuda::dnn;
using testing::HasSubstr;

using In = const std::vector<Tensor>&;

class GpuDnnLibrary : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    guard_.emplace();
    convolved(on_gpu(image()), on_gpu(weights()));  // opens it
    void* library = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
    asked_ = library ? ::dlsym(library, "fake_cudnn_counts") : nullptr;
    ASSERT_TRUE(asked_) << "cuDNN is not the double";
  }
  FakeCudnnCounts library() const { return reinterpret_cast<FakeCudnnCounts (*)()>(asked_)(); }
  /// Runs `f` compiled, compares it with the CPU, and gives the operations of the plan that ran.
  template <class F>
  int operations_of(const F& f, const std::vector<Tensor>& inputs, double tolerance = 0) {
    uint64_t before = library().runs;
    auto compiled = compile([f](const std::vector<Tensor>& in) { return f(in); });
    std::vector<Tensor> there;
    for (const Tensor& t : inputs) there.push_back(on_gpu(t));
    Tensor found = compiled(there);
    synchronize(gpu);
    std::vector<Tensor> wide;
    for (const Tensor& t : inputs) wide.push_back(t.to(Dtype::f64));
    expect_close(found, f(wide).to(found.dtype()), "on the device", tolerance);
    return library().runs == before ? 0 : library().operations;
  }

  static Tensor image(Dtype dtype = Dtype::f32) { return (randn({2, 8, 16, 15}) * 0.3).to(dtype); }
  static Tensor weights(Dtype dtype = Dtype::f32) { return (randn({16, 8, 3, 3}) * 0.2).to(dtype); }
  static Tensor convolved(const Tensor& x, const Tensor& w) {
    return compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {1}, {1}); })(x,
                                                                                                w);
  }

 private:
  std::optional<NoGradGuard> guard_;
  void* asked_ = nullptr;
};

// Two convolutions: what is behind the first one is no part of a kernel that follows.
TEST_F(GpuDnnLibrary, FunctionsBehindAConvolutionGoIntoTheLibrary) {
  Tensor b = randn({16}), w = randn({16, 16, 3, 3}) * 0.1;
  std::vector<Tensor> in{image(), weights(), b, w};
  auto second = [](const Tensor& y, In x) { return conv2d(y, x[3], {}, {1}, {1}); };
  auto all = [&](auto first) {
    int before = static_cast<int>(library().all_operations);
    operations_of([&](In x) { return second(first(x), x); }, in);
    return static_cast<int>(library().all_operations) - before - 1;
  };
  EXPECT_EQ(all([](In x) { return conv2d(x[0], x[1], {}, {1}, {1}); }), 1);
  EXPECT_EQ(all([](In x) { return conv2d(x[0], x[1], x[2], {1}, {1}); }), 2);
  EXPECT_EQ(all([](In x) { return conv2d(x[0], x[1], {}, {1}, {1}).relu(); }), 2);
  EXPECT_EQ(all([](In x) { return conv2d(x[0], x[1], x[2], {1}, {1}).relu(); }), 3);
  EXPECT_EQ(all([](In x) { return conv2d(x[0], x[1], x[2], {1}, {1}).sigmoid(); }), 2);
  // With a residual: 3 operations of the first convolution, 4 of the second.
  EXPECT_EQ(all([&](In x) {
              Tensor once = conv2d(x[0], x[1], x[2], {1}, {1}).relu();
              return (conv2d(once, x[3], x[2], {1}, {1}) + once).relu();
            }),
            7);
}

TEST_F(GpuDnnLibrary, GeometriesGroupsAndDtypes) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    Tensor x = image(dtype), few = (randn({2, 3, 17, 19}) * 0.3).to(dtype);
    auto in = [&](const std::vector<int64_t>& sizes) { return (randn(sizes) * 0.2).to(dtype); };
    EXPECT_EQ(operations_of(
                  [](In i) {
                    return conv2d(i[0], i[1], {}, {2, 1}, {0, 2}, {1, 2});
                  },
                  {x, in({24, 8, 3, 2})}),
              1);
    EXPECT_EQ(operations_of([](In i) { return conv2d(i[0], i[1], {}, {1}, {1}, {1}, 2); },
                            {x, in({32, 4, 3, 3})}),
              1);
    // Three channels are filled up.
    EXPECT_EQ(operations_of([](In i) { return conv2d(i[0], i[1], {}, {1}, {1}); },
                            {few, in({24, 3, 3, 3})}),
              1);
    EXPECT_EQ(operations_of([](In i) { return conv3d(i[0], i[1], {}, {1}, {1}); },
                            {in({1, 4, 6, 9, 8}), in({8, 4, 3, 3, 3})}),
              1);
    EXPECT_EQ(operations_of([](In i) { return conv1d(i[0], i[1], {}, {1}, {1}); },
                            {in({4, 16, 70}), in({32, 16, 3})}),
              1);
  }
}

TEST_F(GpuDnnLibrary, WhatLiesElsewhereIsBroughtThere) {
  Tensor all = randn({2, 9, 16, 18}) * 0.3, w = weights();
  auto f = compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {1}, {1}); });
  Tensor there = on_gpu(all);
  for (int64_t first : {0, 1, 2, 3}) {
    auto part = [&](const Tensor& t) { return t.narrow(1, 1, 8).narrow(3, first, 15); };
    expect_close(f(part(there), on_gpu(w)), conv2d(part(all), w, {}, {1}, {1}),
                 "column " + std::to_string(first));
  }
  // Channels last, at an address that is no multiple of 16 bytes.
  Tensor flat = randn({3 + 2 * 8 * 16 * 15}) * 0.3;
  auto last = [](const Tensor& t, int64_t from) {
    return t.narrow(0, from, 2 * 8 * 16 * 15).view({2, 16, 15, 8}).permute({0, 3, 1, 2});
  };
  Tensor flat_there = on_gpu(flat), w_there = on_gpu(w);
  auto g = compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {1}, {1}); });
  for (int64_t from : {0, 1, 3, 0})
    expect_close(g(last(flat_there, from), w_there), conv2d(last(flat, from), w, {}, {1}, {1}),
                 "element " + std::to_string(from));
}

TEST_F(GpuDnnLibrary, GradientsOfBothOperands) {
  EnableGradGuard grad;
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Tensor x = (randn({3, 8, 20, 19}) * 0.3).to(dtype), w = weights(dtype);
    auto f =
        compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {2}, {1}).tanh(); });
    auto gradients = [&](Device device, Dtype in, auto&& body) {
      Tensor a = x.to(device, in).requires_grad_(), b = w.to(device, in).requires_grad_();
      body(a, b).sum().backward();
      return std::vector<Tensor>{a.grad(), b.grad()};
    };
    uint64_t before = library().runs;
    auto found = gradients(gpu, dtype, f);
    synchronize(gpu);
    EXPECT_EQ(library().runs, before + 3);  // the convolution and two gradients
    auto expected = gradients(kCPU, Dtype::f64, [](const Tensor& x, const Tensor& w) {
      return conv2d(x, w, {}, {2}, {1}).tanh();
    });
    for (size_t i = 0; i < 2; ++i)
      expect_close(found[i], expected[i].to(dtype), "gradient " + std::to_string(i),
                   dtype == Dtype::f32 ? 1e-4 : 6e-2);
  }
}

TEST_F(GpuDnnLibrary, AttentionIsOneRun) {
  for (bool is_causal : {false, true})
    for (Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      // The layout of layers, whose projections are one product.
      Tensor all = randn({1, 192, 3, 2, 64}).to(dtype);
      EXPECT_GT(
          operations_of(
              [&](In i) {
                auto part = [&](int64_t which) { return i[0].select(2, which).transpose(1, 2); };
                return scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, is_causal);
              },
              {all}),
          7);
    }
}

TEST_F(GpuDnnLibrary, GradientsOfAttentionAreOneRun) {
  for (bool is_causal : {false, true})
    for (Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      Tensor all = randn({1, 192, 3, 2, 64}).to(dtype), weights = randn({1, 2, 192, 64}).to(dtype);
      auto gradient_of = [&](const Tensor& given, const Tensor& w, bool compiles) {
        EnableGradGuard on;
        Tensor leaf = given.clone().requires_grad_();
        auto body = [is_causal](const Tensor& t, const Tensor& by) {
          auto part = [&](int64_t which) { return t.select(2, which).transpose(1, 2); };
          return (scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, is_causal) * by)
              .sum();
        };
        auto compiled = compile(body);
        (compiles ? compiled(leaf, w) : body(leaf, w)).backward();
        return leaf.grad();
      };
      uint64_t before = library().runs;
      Tensor found = gradient_of(on_gpu(all), on_gpu(weights), true);
      synchronize(gpu);
      EXPECT_EQ(library().runs, before + 2);
      EXPECT_GT(library().operations, 15);
      expect_close(found, gradient_of(all.to(Dtype::f64), weights.to(Dtype::f64), false).to(dtype),
                   "gradients", 4e-2);
    }
}

// A square of pixels becomes channels: 7 x 7 with stride 2 over three of them, as image networks begin.
TEST_F(GpuDnnLibrary, FewChannelsWithStrideTwo) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (bool is_last : {false, true})
      for (int64_t padding : {0, 2, 3}) {
        Tensor x = (randn({1, 3, 30, 35}) * 0.3).to(dtype), b = randn({16}).to(dtype);
        Tensor w = (randn({16, 3, 7, 5}) * 0.2).to(dtype);
        if (is_last) x = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
        EXPECT_EQ(operations_of([padding](In i) { return conv2d(i[0], i[1], {}, {2}, {padding}); },
                                {x, w}),
                  1);
        // In 16 bits those of a row of taps, too.
        int32_t channels = dtype == Dtype::f32 ? 16 : 48;
        EXPECT_EQ(library().channels, channels);
        // And the library would have to compile an engine that adds the bias.
        auto with_bias = [padding](In i) {
          return conv2d(i[0], i[1], i[2], {2}, {padding}).relu();
        };
        EXPECT_EQ(operations_of(with_bias, {x, w, b}), 1);
        EXPECT_EQ(library().channels, channels);
      }
}

// A norm's bias is in f32, for which the library would compile engines in 16 bits.
TEST_F(GpuDnnLibrary, ABiasOfANormIsAddedByTheLibrary) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    nn::Conv2d conv(8, 16, 3, {.padding = 1, .bias = false}), second(16, 8, 3, {.padding = 1});
    nn::BatchNorm2d norm{16};
    conv.weight.copy_(conv.weight.to(dtype).to(Dtype::f32));
    second.weight.copy_(second.weight.to(dtype).to(Dtype::f32));
    second.bias.copy_(second.bias.to(dtype).to(Dtype::f32));
    norm.running_mean.copy_((randn({16}) * 0.5).to(dtype).to(Dtype::f32));
    norm.eval();
    Tensor x = image(dtype), expected = second(norm(conv(x.to(Dtype::f32))).relu()).to(dtype);
    conv.to(gpu), norm.to(gpu), second.to(gpu);
    conv.to(dtype), norm.to(dtype), second.to(dtype);
    uint64_t before = library().all_operations;
    auto f = compile([&](const Tensor& t) { return second(norm(conv(t)).relu()); });
    expect_close(f(on_gpu(x)), expected, "a norm", dtype == Dtype::f32 ? 1e-4 : 4e-2);
    synchronize(gpu);
    EXPECT_GE(library().all_operations - before, 4) << "a convolution, its bias and relu, another";
  }
}

// What is made of weights is made anew for each version of them, recorded or not.
TEST_F(GpuDnnLibrary, WeightsThatChange) {
  nn::Conv2d layer(8, 16, 3, {.padding = 1});
  Tensor x = image();
  for (const char* mode : {"", "reduce-overhead"}) {
    nn::Conv2d there(8, 16, 3, {.padding = 1});
    there.to(gpu);
    auto f = compile([&](const Tensor& t) { return there(t * 2).relu(); }, {.mode = mode});
    for (int i = 0; i < 6; ++i) {
      if (i % 2 == 0) {
        layer.weight.copy_(randn({16, 8, 3, 3}) * 0.2);
        there.weight.copy_(on_gpu(layer.weight));
        there.bias.copy_(on_gpu(layer.bias));
      }
      expect_close(f(on_gpu(x)), layer(x * 2).relu(), "convolved", 1e-3);
    }
  }
}

TEST_F(GpuDnnLibrary, WhatItDoesNotServeGoesByParts) {
  Tensor q = randn({1, 2, 192, 64}), mask = randn({192, 192});
  auto attend = [](In i) { return scaled_dot_product_attention(i[0], i[0], i[0]); };
  EXPECT_EQ(operations_of(attend, {q}, 1e-4), 0);                                // f32
  EXPECT_EQ(operations_of(attend, {randn({1, 2, 40, 64}).to(Dtype::bf16)}), 0);  // little work
  EXPECT_EQ(operations_of(attend, {randn({1, 2, 192, 60}).to(Dtype::bf16)}), 0);
  EXPECT_EQ(operations_of([](In i) { return scaled_dot_product_attention(i[0], i[0], i[0], i[1]); },
                          {q.to(Dtype::bf16), mask.to(Dtype::bf16)}),
            0);
  Tensor wide = image(Dtype::f64);
  EXPECT_EQ(operations_of([](In i) { return conv2d(i[0], i[1], {}, {1}, {1}); },
                          {wide, weights(Dtype::f64)}),
            0);
}

TEST_F(GpuDnnLibrary, APlanIsMadeOnceForAProcess) {
  Tensor x = on_gpu(image()), w = on_gpu(weights());
  convolved(x, w);
  uint64_t plans = library().plans, runs = library().runs;
  for (int i = 0; i < 5; ++i) convolved(x, w);  // compiled anew each time
  EXPECT_EQ(library().plans, plans);
  EXPECT_EQ(library().runs, runs + 5);
}

// Engines and algorithms of products are tried on memory of their own, once for a process.
TEST_F(GpuDnnLibrary, MaxAutotuneTriesOnce) {
  auto no_files = config::patch({{"compiler.force_disable_caches", true}});
  Dtype dtype = Dtype::bf16;  // of which both engines of the double serve
  Tensor x = (randn({2, 8, 16, 18}) * 0.3).to(dtype), w = weights(dtype);
  Tensor v = (randn({16, 24}) * 0.2).to(dtype);
  auto f = [](const Tensor& x, const Tensor& w, const Tensor& v) {
    return conv2d(x, w, {}, {1}, {1}).mean({2, 3}).matmul(v);
  };
  Tensor expected = f(x, w, v), there = on_gpu(x), w_there = on_gpu(w), v_there = on_gpu(v);
  uint64_t trials[2];
  for (uint64_t& n : trials) {
    uint64_t before = library().runs;
    auto tuned = compile(f, {.mode = "max-autotune-no-cudagraphs"});
    expect_close(tuned(there, w_there, v_there), expected, "tuned", 4e-2);
    synchronize(gpu);
    n = library().runs - before;
  }
  EXPECT_EQ(trials[1], 1);
  EXPECT_GT(trials[0], 2);
}

TEST_F(GpuDnnLibrary, FullPrecisionUnlessTf32IsAllowed) {
  Tensor x = on_gpu(image()), w = on_gpu(weights());
  convolved(x, w);
  EXPECT_FALSE(library().is_tf32);
  set_float32_matmul_precision("high");
  convolved(x, w);
  EXPECT_TRUE(library().is_tf32);
  set_float32_matmul_precision("highest");
  convolved(x, w);
  EXPECT_FALSE(library().is_tf32);
}

TEST_F(GpuDnnLibrary, WhatItHasNoEngineForBecomesAProductOfWindows) {
  Tensor x = randn({3, 8, 11, 12}), w = weights();  // new sizes, which are planned
  uint64_t before = library().runs;
  fail_at("cudnnBackendFinalize", 1, dnn::not_supported);
  expect_close(convolved(on_gpu(x), on_gpu(w)), conv2d(x, w, {}, {1}, {1}), "by windows");
  EXPECT_EQ(library().runs, before);
}

TEST_F(GpuDnnLibrary, ABiasIsAddedBehindWhereItHasNoEngineWithOne) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Tensor x = (randn({3, 8, 13, 12}) * 0.3).to(dtype), b = randn({16}).to(dtype);
    fail_at("cudnnBackendFinalize", 1, dnn::not_supported);
    EXPECT_EQ(operations_of([](In i) { return conv2d(i[0], i[1], i[2], {1}, {1}).relu(); },
                            {x, weights(dtype), b}),
              dtype == Dtype::f32 ? 1 : 0);  // a bias of 16 bits is apart from the first
  }
}

TEST_F(GpuDnnLibrary, AFailureAtEachCallIsNamedAndTheNextCallWorks) {
  Tensor w = weights();
  int64_t columns = 20;
  for (const char* call : {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                           "cudnnBackendGetAttribute", "cudnnBackendExecute", "cudnnSetStream"}) {
    Tensor x = randn({1, 8, 12, ++columns});
    fail_at(call, 1, dnn::internal_error);
    std::string why = "no error";
    try {
      convolved(on_gpu(x), on_gpu(w));
    } catch (const Error& e) {
      why = e.what();
    }
    EXPECT_THAT(why, HasSubstr(call));
    EXPECT_THAT(why, HasSubstr("4000"));
    expect_close(convolved(on_gpu(x), on_gpu(w)), conv2d(x, w, {}, {1}, {1}), call);
  }
}

// The same code of every process: what the first one plans, others take from the disk.
TEST_F(GpuDnnLibrary, PlansOfAnEarlierProcessAreTakenUp) {
  Tensor w = weights(), narrow = randn({1, 8, 9, 31}), wide = randn({1, 8, 10, 33});
  Tensor q = (randn({1, 2, 200, 64}) * 0.5).to(Dtype::bf16);
  auto attention = [](In x) { return scaled_dot_product_attention(x[0], x[0], x[0]); };
  auto convolution = [&](const Tensor& x) {
    expect_close(convolved(on_gpu(x), on_gpu(w)), conv2d(x, w, {}, {1}, {1}), "a convolution");
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // which the question for the child looks at
  if (!testing::internal::InDeathTestChild()) {
    convolution(narrow), convolution(wide);
    EXPECT_GT(operations_of(attention, {q}, 0.02), 1);
  }
  in_own_process([&] {
    FakeCudnnCounts before = library();
    convolution(narrow);
    EXPECT_EQ(library().restored, before.restored + 1);
    EXPECT_GT(operations_of(attention, {q}, 0.02), 1);
    EXPECT_EQ(library().plans, before.plans);
    EXPECT_EQ(library().restored, before.restored + 2);
    // Where the library does not take what was said of a plan, it plans anew.
    fail_at("cudnnBackendFinalize", 1, dnn::bad_param);
    convolution(wide);
    EXPECT_EQ(library().plans, before.plans + 1);
    EXPECT_EQ(library().restored, before.restored + 2);
  });
}

TEST_F(GpuDnnLibrary, RecordedRunsFollowTheirInputs) {
  auto f = compile(
      [](const Tensor& x, const Tensor& w) { return conv2d(x.tanh(), w, {}, {1}, {1}).relu() + 1; },
      {.mode = "reduce-overhead"});
  Tensor w = weights(), there = on_gpu(w);
  for (int i = 0; i < 8; ++i) {
    Tensor x = image();
    expect_close(f(on_gpu(x), there), conv2d(x.tanh(), w, {}, {1}, {1}).relu() + 1,
                 std::to_string(i));
  }
  EXPECT_THAT(f.explain(), HasSubstr("replays"));
}

TEST_F(GpuDnnLibrary, MemoryDoesNotGrow) {
  Tensor x = on_gpu(image()), w = on_gpu(weights());
  auto f = compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {1}, {1}); });
  f(x, w);
  synchronize(gpu);
  auto before = memory_stats(gpu).allocated_bytes;
  for (int i = 0; i < 50; ++i) f(x, w);
  synchronize(gpu);
  EXPECT_EQ(memory_stats(gpu).allocated_bytes, before);
}

}  // namespace
}  // namespace tenon
