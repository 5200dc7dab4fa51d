// How products use cuBLASLt, asked of its double: which calls there are, what is planned once, and
// what a failure of each call becomes. Without the library, all goes by kernels of our own.
#include "cuda/double.h"
#include "fake_cuda/fake_cublaslt.h"
#include "gpu_checks.h"
#include "inductor_cuda/api/cublaslt.h"

#include <gmock/gmock.h>

#include <dlfcn.h>

#include <chrono>
#include <thread>

namespace tenon {
namespace {

namespace lt = inductor_cuda::lt;
using testing::HasSubstr;

class GpuProductsLibrary : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    on_gpu(randn({8, 8})).matmul(on_gpu(randn({8, 8})));  // opens it
    void* library = ::dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    asked_ = library ? ::dlsym(library, "fake_cublaslt_counts") : nullptr;
    ASSERT_TRUE(asked_) << "cuBLASLt is not the double";
  }
  FakeCublasLtCounts library() const {
    return reinterpret_cast<FakeCublasLtCounts (*)()>(asked_)();
  }

 private:
  void* asked_ = nullptr;
};

TEST_F(GpuProductsLibrary, EpiloguesGoIntoTheLibrary) {
  Tensor x = on_gpu(randn({16, 32})), w = on_gpu(randn({24, 32})), b = on_gpu(randn({24}));
  auto epilogue_of = [&](auto f) {
    uint64_t before = library().products;
    compile(f)(x, w, b);
    synchronize(gpu);
    EXPECT_EQ(library().products, before + 1);
    return library().epilogue;
  };
  using T = const Tensor&;
  EXPECT_EQ(epilogue_of([](T x, T w, T b) { return linear(x, w, b); }), lt::epilogue_bias);
  EXPECT_EQ(epilogue_of([](T x, T w, T b) { return linear(x, w, b).relu(); }),
            lt::epilogue_relu_bias);
  EXPECT_EQ(epilogue_of([](T x, T w, T b) { return gelu(linear(x, w, b), "tanh"); }),
            lt::epilogue_gelu_bias);
  EXPECT_EQ(epilogue_of([](T x, T w, T b) { return gelu(linear(x, w, b)); }), lt::epilogue_bias);
  EXPECT_EQ(epilogue_of([](T x, T w, T) { return x.matmul(w.t()).relu(); }), lt::epilogue_relu);
  EXPECT_EQ(library().beta, 0);
  auto with_residual = compile([](T x, T w, T b, T r) { return (r + linear(x, w, b)).relu(); });
  with_residual(x, w, b, on_gpu(randn({16, 24})));
  EXPECT_EQ(library().epilogue, lt::epilogue_relu_bias);
  EXPECT_EQ(library().beta, 1);
}

TEST_F(GpuProductsLibrary, APlanIsMadeOnceForSizes) {
  Tensor w = on_gpu(randn({32, 24}));
  auto multiply = [&](int64_t rows) { return on_gpu(randn({rows, 32})).matmul(w); };
  multiply(10), multiply(11);
  uint64_t before = library().plans;
  for (int i = 0; i < 20; ++i) multiply(10), multiply(11);
  EXPECT_EQ(library().plans, before);
  for (int64_t rows = 12; rows < 12 + 130; ++rows) multiply(rows);
  EXPECT_EQ(library().plans, before + 130);
  multiply(141), multiply(140);  // were used last
  EXPECT_EQ(library().plans, before + 130);
  multiply(11);  // was not
  EXPECT_EQ(library().plans, before + 131);
}

TEST_F(GpuProductsLibrary, DeterministicSumsAreNotInTheOrderOfBlocks) {
  Tensor x = on_gpu(randn({16, 32})), w = on_gpu(randn({32, 24}));
  x.matmul(w);
  EXPECT_EQ(library().reductions, lt::reduction_any);
  set_deterministic(true);
  x.matmul(w);
  EXPECT_EQ(library().reductions, lt::reduction_in_sums | lt::reduction_in_results);
  set_deterministic(false);
}

TEST_F(GpuProductsLibrary, FullPrecisionAndAWorkspaceOfTheCall) {
  Tensor x = randn({16, 100}), w = randn({100, 24});
  expect_close(on_gpu(x).matmul(on_gpu(w)), x.matmul(w), "with partial sums");
  EXPECT_EQ(library().compute, lt::compute_f32);
  EXPECT_EQ(library().workspace_bytes, 16u * 24 * 8);
  // Two products of a graph, whose values live across them.
  auto f = compile([](const Tensor& x, const Tensor& w) {
    Tensor y = x.matmul(w);
    return (y.exp().matmul(w.t()) + 1).matmul(w) * y;
  });
  Tensor small = w * 0.1;
  Tensor y = x.matmul(small);
  expect_close(f(on_gpu(x), on_gpu(small)), (y.exp().matmul(small.t()) + 1).matmul(small) * y,
               "three products", 1e-4);
}

TEST_F(GpuProductsLibrary, TheWishForTf32IsGuarded) {
  Tensor x = on_gpu(randn({16, 32})), w = on_gpu(randn({32, 24}));
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w).relu(); });
  auto compute = [&](auto&& call) {
    call();
    return library().compute;
  };
  EXPECT_EQ(get_float32_matmul_precision(), "highest");
  for (int round = 0; round < 2; ++round) {
    set_float32_matmul_precision("high");
    EXPECT_EQ(compute([&] { x.matmul(w); }), lt::compute_tf32);
    EXPECT_EQ(compute([&] { f(x, w); }), lt::compute_tf32);
    set_float32_matmul_precision("highest");
    EXPECT_EQ(compute([&] { x.matmul(w); }), lt::compute_f32);
    EXPECT_EQ(compute([&] { f(x, w); }), lt::compute_f32);
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_THROW(set_float32_matmul_precision("low"), UserError);
}

TEST_F(GpuProductsLibrary, WhatItHasNoAlgorithmForGoesByAKernelOfOurOwn) {
  auto f = compile([](const Tensor& x, const Tensor& w, const Tensor& b) {
    return gelu(linear(x, w, b), "tanh");
  });
  Tensor x = randn({19, 32}), w = randn({23, 32}) * 0.3, b = randn({23});
  Tensor tx = on_gpu(x), tw = on_gpu(w), tb = on_gpu(b);
  uint64_t before = library().products;
  fail_at("cublasLtMatmulAlgoGetHeuristic", 1, lt::not_supported);
  expect_close(f(tx, tw, tb), gelu(linear(x, w, b), "tanh"), "own kernel");
  expect_close(f(tx, tw, tb), gelu(linear(x, w, b), "tanh"), "again");
  EXPECT_EQ(library().products, before);
}

TEST_F(GpuProductsLibrary, AFailureAtEachCallIsNamedAndTheNextCallWorks) {
  Tensor w = randn({32, 24}), b = randn({24});
  Tensor tw = on_gpu(w), tb = on_gpu(b);
  int64_t rows = 200;
  for (const char* call :
       {"cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
        "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
        "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"}) {
    Tensor x = randn({++rows, 32}), there = on_gpu(x);  // of new sizes, which are planned
    addmm(tb, there.narrow(0, 0, 100), tw);
    fail_at(call, 1, lt::internal_error);
    std::string why = "no error";
    try {
      addmm(tb, there, tw);
    } catch (const Error& e) {
      why = e.what();
    }
    EXPECT_THAT(why, HasSubstr(call));
    EXPECT_THAT(why, HasSubstr("14"));
    expect_close(addmm(tb, there, tw), addmm(b, x, w), call);
  }
}

/// Three products of two kinds.
Tensor three_products(const Tensor& x, const Tensor& w) {
  return x.matmul(w).exp().matmul(w.t()).tanh().matmul(w);
}

TEST_F(GpuProductsLibrary, OfKnownSizesAreLoadedBeforeTheFirstCall) {
  Tensor x = randn({21, 30}), w = randn({30, 26}) * 0.1;
  Tensor tx = on_gpu(x), tw = on_gpu(w);
  FakeCublasLtCounts before = library();
  auto wait_for = [&](uint64_t products) {
    for (int i = 0; i < 2000 && library().products < products; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(library().products, products);
  };
  auto f = compile(three_products);
  expect_close(f(tx, tw), three_products(x, w), "three products", 1e-4);
  EXPECT_EQ(library().plans, before.plans + 2);
  wait_for(before.products + 2 + 3);
  auto again = compile([](const Tensor& x, const Tensor& w) { return three_products(x, w) + 1; });
  expect_close(again(tx, tw), three_products(x, w) + 1, "of a process that has loaded them", 1e-4);
  EXPECT_EQ(library().plans, before.plans + 4);
  wait_for(before.products + 2 + 3 + 3);
}

TEST_F(GpuProductsLibrary, WhatPlanningAheadMeetsIsToldByTheCallAndTheNextOneWorks) {
  Tensor x = randn({22, 30}), w = randn({30, 26}) * 0.1;
  Tensor tx = on_gpu(x), tw = on_gpu(w);
  auto f = compile(three_products);
  fail_at("cublasLtMatmulAlgoGetHeuristic", 1, lt::internal_error);
  std::string why = "no error";
  try {
    f(tx, tw);
  } catch (const Error& e) {
    why = e.what();
  }
  EXPECT_THAT(why, HasSubstr("cublasLtMatmulAlgoGetHeuristic"));
  expect_close(f(tx, tw), three_products(x, w), "the next one", 1e-4);
}

TEST_F(GpuProductsLibrary, WhatLoadingAheadMeetsIsNotTold) {
  int64_t rows = 23;
  for (const char* call : {"cuStreamCreateWithPriority", "cuEventCreate", "cuEventRecord",
                           "cuStreamWaitEvent", "cuStreamSynchronize"}) {
    Tensor x = randn({rows++, 30}), w = randn({30, 26}) * 0.1;
    Tensor tx = on_gpu(x), tw = on_gpu(w);
    synchronize(gpu);
    fail_at(call, 1, 999);
    auto f = compile(three_products);
    Tensor out;
    EXPECT_NO_THROW(out = f(tx, tw)) << call;
    for (int i = 0; i < 2000 && !failed_call(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fail_at(call, 1, 0);
    expect_close(out, three_products(x, w), call, 1e-4);
  }
}

TEST_F(GpuProductsLibrary, MemoryDoesNotGrow) {
  Tensor x = on_gpu(randn({16, 100})), w = on_gpu(randn({100, 24}));
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w).relu(); });
  f(x, w);
  synchronize(gpu);
  auto before = memory_stats(gpu).allocated_bytes;
  for (int i = 0; i < 500; ++i) f(x, w);
  synchronize(gpu);
  EXPECT_EQ(memory_stats(gpu).allocated_bytes, before);
}

TEST_F(GpuProductsLibrary, OfEachDevice) {
  ASSERT_GE(device_count(DeviceType::cuda), 2) << "TENON_FAKE_CUDA_DEVICES=2";
  Tensor x = randn({16, 32}), w = randn({32, 24});
  for (int index : {0, 1, 0, 1}) {
    Device device(DeviceType::cuda, index);
    Tensor made = x.to(device, Dtype::f32).matmul(w.to(device, Dtype::f32)).relu();
    EXPECT_EQ(made.device(), device);
    Tensor off = (made.to(kCPU, Dtype::f32) - x.matmul(w).relu()).abs();
    EXPECT_LE(off.max().item<float>(), 1e-4f) << index;
  }
}

}  // namespace
}  // namespace tenon
