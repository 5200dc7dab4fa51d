// Matrix products on a device, against the CPU in f64: eagerly and compiled, in all dtypes, layouts
// and sizes; on a GPU, and over the double of the driver with and without that of cuBLASLt.
#include "gpu_checks.h"

#include <thread>

namespace tenon {
namespace {

class GpuProducts : public Gpu {};

constexpr Dtype dtypes[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

double tolerance_of(Dtype dtype) {
  return dtype == Dtype::f64 ? 1e-12 : dtype == Dtype::f32 ? 2e-5 : 2e-2;
}

/// Eagerly and compiled on the device, against f64 on the CPU. `lay_out` is done on the device.
void expect_product(const std::string& what, const std::vector<Tensor>& inputs, Dtype dtype,
                    const Function& lay_out, double scale = 1) {
  std::string name = what + " in " + to_text(dtype);
  SCOPED_TRACE(name);
  std::vector<Tensor> there, exact;
  for (const Tensor& t : inputs) {
    there.push_back(on_gpu(t.to(dtype)));
    exact.push_back(t.to(dtype).to(Dtype::f64));
  }
  Tensor expected = lay_out(exact).to(dtype);
  double tolerance = tolerance_of(dtype) * scale;
  expect_close(lay_out(there), expected, name + ", eager", tolerance);
  auto compiled = compile([lay_out](const std::vector<Tensor>& in) { return lay_out(in); });
  NoGradGuard guard;
  expect_close(compiled(there), expected, name + ", compiled", tolerance);
}

TEST_F(GpuProducts, OfAllDtypesAndLayouts) {
  Tensor a = randn({37, 41}), b = randn({41, 29}), at = randn({41, 37}), bt = randn({29, 41});
  for (Dtype dtype : dtypes) {
    expect_product("plain", {a, b}, dtype, [](auto& in) { return in[0].matmul(in[1]); });
    expect_product("left transposed", {at, b}, dtype,
                   [](auto& in) { return in[0].t().matmul(in[1]); });
    expect_product("right transposed", {a, bt}, dtype,
                   [](auto& in) { return in[0].matmul(in[1].t()); });
    expect_product("both transposed", {at, bt}, dtype,
                   [](auto& in) { return in[0].t().matmul(in[1].t()); });
    expect_product("parts of rows", {a, b}, dtype, [](auto& in) {
      return in[0].narrow(1, 3, 30).matmul(in[1].narrow(0, 5, 30).narrow(1, 1, 17));
    });
    expect_product("every second column", {randn({37, 82}), b}, dtype, [](auto& in) {
      return in[0].view({37, 41, 2}).select(2, 1).matmul(in[1]);
    });
    expect_product("repeated rows", {randn({1, 41}), b}, dtype, [](auto& in) {
      return in[0].expand({37, 41}).matmul(in[1]);
    });
    expect_product("repeated columns", {a, randn({41, 1})}, dtype, [](auto& in) {
      return in[0].matmul(in[1].expand({41, 29}));
    });
  }
}

TEST_F(GpuProducts, OfAllSizes) {
  for (int64_t m : {1, 2, 4, 5, 64, 65, 130})
    for (int64_t n : {1, 3, 64, 67})
      for (int64_t k : {1, 16, 17, 200}) {
        std::string name =
            std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n);
        Tensor a = randn({m, k}), b = randn({k, n});
        expect_same(name, {a, b}, [](auto& in) { return in[0].matmul(in[1]); });
      }
}

TEST_F(GpuProducts, OfFewRows) {
  for (Dtype dtype : dtypes)
    for (int64_t m : {1, 2, 4}) {
      Tensor x = randn({m, 300}), w = randn({40, 300}), b = randn({40}), plain = randn({300, 40});
      std::string rows = std::to_string(m) + " rows";
      expect_product(rows + ", linear", {x, w, b}, dtype,
                     [](auto& in) { return linear(in[0], in[1], in[2]).relu(); });
      expect_product(rows, {x, plain}, dtype, [](auto& in) { return in[0].matmul(in[1]); });
    }
}

TEST_F(GpuProducts, OfBatches) {
  Tensor a = randn({5, 9, 33}), b = randn({5, 33, 21});
  for (Dtype dtype : dtypes) {
    expect_product("bmm", {a, b}, dtype, [](auto& in) { return bmm(in[0], in[1]); });
    expect_product("bmm of one matrix", {a, randn({33, 21})}, dtype, [](auto& in) {
      return bmm(in[0], in[1].unsqueeze(0).expand({5, 33, 21}));
    });
    expect_product("bmm, transposed", {randn({5, 33, 9}), randn({5, 21, 33})}, dtype,
                   [](auto& in) { return bmm(in[0].transpose(1, 2), in[1].transpose(1, 2)); });
    expect_product("bmm, batches between rows", {randn({9, 5, 33}), randn({33, 5, 21})}, dtype,
                   [](auto& in) { return bmm(in[0].transpose(0, 1), in[1].transpose(0, 1)); });
    expect_product("baddbmm", {randn({5, 9, 21}), a, b}, dtype,
                   [](auto& in) { return baddbmm(in[0], in[1], in[2], 0.5, -2); });
    expect_product("of four dimensions", {randn({2, 3, 9, 33}), randn({3, 33, 7})}, dtype,
                   [](auto& in) { return in[0].matmul(in[1]); });
  }
}

TEST_F(GpuProducts, WithWhatFollows) {
  Tensor x = randn({37, 80}), w = randn({50, 80}) * 0.2, b = randn({50}), r = randn({37, 50});
  for (Dtype dtype : dtypes) {
    expect_product("linear", {x, w, b}, dtype,
                   [](auto& in) { return linear(in[0], in[1], in[2]); });
    expect_product("linear, relu", {x, w, b}, dtype,
                   [](auto& in) { return linear(in[0], in[1], in[2]).relu(); });
    expect_product("relu", {x, w}, dtype, [](auto& in) { return in[0].matmul(in[1].t()).relu(); });
    expect_product("linear, gelu by tanh", {x, w, b}, dtype,
                   [](auto& in) { return gelu(linear(in[0], in[1], in[2]), "tanh"); });
    expect_product("linear, gelu by erf", {x, w, b}, dtype,
                   [](auto& in) { return gelu(linear(in[0], in[1], in[2])); });
    expect_product("linear, residual", {x, w, b, r}, dtype,
                   [](auto& in) { return in[3] + linear(in[0], in[1], in[2]); });
    expect_product("linear, residual, relu", {x, w, b, r}, dtype,
                   [](auto& in) { return (linear(in[0], in[1], in[2]) + in[3]).relu(); });
    expect_product("relu, then residual", {x, w, b, r}, dtype,
                   [](auto& in) { return linear(in[0], in[1], in[2]).relu() + in[3]; });
    expect_product(
        "residual, norm", {x, w, b, r}, dtype,
        [](auto& in) {
          return layer_norm(linear(in[0], in[1], in[2]) + in[3], {50}, Tensor(), Tensor());
        },
        2);
    expect_product("addmm", {r, x, w}, dtype,
                   [](auto& in) { return addmm(in[0], in[1], in[2].t(), 0.5, 2); });
    expect_product("addmm of one row", {b, x, w}, dtype,
                   [](auto& in) { return addmm(in[0], in[1], in[2].t(), 1, 3); });
  }
}

TEST_F(GpuProducts, OfNothing) {
  for (Dtype dtype : dtypes) {
    auto product = [](auto& in) { return in[0].matmul(in[1]); };
    expect_product("no rows", {randn({0, 9}), randn({9, 7})}, dtype, product);
    expect_product("no columns", {randn({5, 9}), randn({9, 0})}, dtype, product);
    expect_product("no sums", {randn({5, 0}), randn({0, 7})}, dtype, product);
    expect_product("no sums, bias", {randn({5, 0}), randn({7, 0}), randn({7})}, dtype,
                   [](auto& in) { return linear(in[0], in[1], in[2]); });
    expect_product("no batches", {randn({0, 5, 9}), randn({0, 9, 7})}, dtype,
                   [](auto& in) { return bmm(in[0], in[1]); });
  }
}

// Plans are kept for the 64 sizes that came last.
TEST_F(GpuProducts, SizesThatTakeTurns) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w).relu(); },
                   {.dynamic = true});
  Tensor w = randn({16, 12});
  for (int round = 0; round < 2; ++round)
    for (int64_t rows = 5; rows < 80; ++rows) {
      Tensor x = randn({rows, 16});
      expect_close(f(on_gpu(x), on_gpu(w)), x.matmul(w).relu(), "rows " + std::to_string(rows));
    }
}

// The first element of a view may lie anywhere: what was planned for 16 bytes must not be used.
TEST_F(GpuProducts, OfViewsThatBeginAnywhere) {
  Tensor all = randn({100 * 32 + 8}), w = randn({32, 24});
  Tensor there = on_gpu(all), weights = on_gpu(w);
  for (int64_t offset : {0, 1, 2, 3, 4, 8, 1}) {
    auto part = [&](const Tensor& t) { return t.narrow(0, offset, 3200).view({100, 32}); };
    expect_close(part(there).matmul(weights), part(all).matmul(w),
                 "offset " + std::to_string(offset));
  }
}

TEST_F(GpuProducts, GradientsOfLayers) {
  for (Dtype dtype : dtypes)
    for (bool compiles : {false, true}) {
      std::vector<Tensor> inputs{randn({20, 30}) * 0.3, randn({40, 30}) * 0.3, randn({40}) * 0.3};
      auto gradients = [&](Device device, Dtype in) {
        std::vector<Tensor> leaves;
        for (const Tensor& t : inputs)
          leaves.push_back(t.to(dtype).to(device, in).requires_grad_());
        auto body = [](const std::vector<Tensor>& l) {
          return gelu(linear(l[0], l[1], l[2]), "tanh").pow(2).sum();
        };
        auto compiled = compile(body);
        Tensor loss = compiles && device != kCPU ? compiled(leaves) : body(leaves);
        loss.backward();
        std::vector<Tensor> out;
        for (const Tensor& l : leaves) out.push_back(l.grad());
        return out;
      };
      auto there = gradients(gpu, dtype), here = gradients(kCPU, Dtype::f64);
      for (size_t i = 0; i < there.size(); ++i)
        expect_close(there[i], here[i].to(dtype),
                     "gradient " + std::to_string(i) + " in " + to_text(dtype),
                     5 * tolerance_of(dtype));
    }
}

TEST_F(GpuProducts, OnSeveralThreads) {
  auto f = compile(
      [](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b).relu(); });
  Tensor w = randn({24, 100});
  f(on_gpu(randn({7, 100})), on_gpu(w), on_gpu(randn({24})));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      // Each with a bias of its own, whose address is told before each call.
      Tensor x = ones({7, 100}) * (t + 1), b = ones({24}) * t;
      Stream own(gpu);
      StreamGuard on(own);
      Tensor tx = on_gpu(x), tw = on_gpu(w), tb = on_gpu(b), expected = linear(x, w, b).relu();
      for (int i = 0; i < 10; ++i)
        expect_close(f(tx, tw, tb), expected, "thread " + std::to_string(t));
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tenon
