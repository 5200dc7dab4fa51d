// Eager ops and compiled functions on a device, against the CPU: on a GPU, and where there is none
// over the double of the driver, whose kernels are run by fibers.
#include "gpu_checks.h"

#include <cmath>
#include <limits>

namespace tenon {
namespace {

TEST_F(Gpu, PointwiseOpsOfAllSizesAndLayouts) {
  for (int64_t n : {1, 3, 4, 31, 257, 1024})
    for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}) {
      std::string name = "n " + std::to_string(n) + " dtype " + to_text(dtype);
      Tensor x = randn({n, 7}).to(dtype), y = randn({n, 7}).to(dtype);
      expect_same("add " + name, {x, y}, [](auto& in) { return in[0] + in[1]; });
      expect_same("scale " + name, {x}, [](auto& in) { return in[0] * 0.37 + 2; });
      expect_same("transposed " + name, {x, y}, [](auto& in) { return in[0].t() * in[1].t(); });
      expect_same("strided " + name, {x}, [](auto& in) { return in[0].select(1, 3).relu(); });
      expect_same("broadcast " + name, {x, y},
                  [](auto& in) { return in[0] - in[1].narrow(0, 0, 1); });
    }
}

TEST_F(Gpu, FunctionsAgreeWithTheCpu) {
  Tensor x = randn({33, 65}), positive = x.abs() + 0.1;
  expect_same("exp", {x}, [](auto& in) { return in[0].exp(); });
  expect_same("tanh", {x}, [](auto& in) { return in[0].tanh(); });
  expect_same("sigmoid", {x}, [](auto& in) { return in[0].sigmoid(); });
  expect_same("erf", {x}, [](auto& in) { return in[0].erf(); });
  expect_same("log", {positive}, [](auto& in) { return in[0].log(); });
  expect_same("sin", {x}, [](auto& in) { return in[0].sin(); });
  expect_same("pow", {positive}, [](auto& in) { return in[0].pow(1.7); });
  expect_same("gelu", {x}, [](auto& in) { return gelu(in[0]); });
  expect_same("remainder", {x, positive}, [](auto& in) { return remainder(in[0], in[1]); });
}

// Over all magnitudes, special values included, to units in the last place.
TEST_F(Gpu, FastFunctionsOfAllSizes) {
  double inf = std::numeric_limits<double>::infinity();
  Tensor sizes = arange(-150.0, 130.0, 0.0037).exp2();
  Tensor special = tensor({0.0, -0.0, inf, -inf, std::nan(""), 88.72, -87.3, -103.9, -104.5});
  Tensor x = cat({sizes, -sizes, arange(-110.0, 100.0, 0.0041), special}).to(Dtype::f32);
  using F = std::function<Tensor(const Tensor&)>;
  std::pair<const char*, F> functions[] = {{"exp", [](const Tensor& t) { return t.exp(); }},
                                           {"exp2", [](const Tensor& t) { return t.exp2(); }},
                                           {"sigmoid", [](const Tensor& t) { return t.sigmoid(); }},
                                           {"tanh", [](const Tensor& t) { return t.tanh(); }},
                                           {"erf", [](const Tensor& t) { return t.erf(); }}};
  for (auto& [name, f] : functions) {
    Tensor found = f(on_gpu(x)).to(kCPU, Dtype::f32);
    Tensor exact = f(x.to(Dtype::f64)), here = exact.to(Dtype::f32);
    EXPECT_TRUE(equal(found.isnan(), here.isnan())) << name;
    EXPECT_TRUE(equal(found.isinf(), here.isinf())) << name;
    EXPECT_TRUE(equal(found.signbit().logical_and(~found.isnan()),
                      here.signbit().logical_and(~found.isnan())))
        << name;
    Tensor unit = (here.abs() * 0x1p-23).clamp_min(0x1p-149).to(Dtype::f64);
    Tensor off = ((found.to(Dtype::f64) - exact).abs() / unit).nan_to_num(0.0, 0.0, 0.0);
    EXPECT_LE(off.max().item<double>(), 4) << name;
  }
}

/// Results in 16 bits are rounded from numbers that are right to a fifth of the last place.
void expect_rounded(const Tensor& found, const Tensor& exact) {
  bool is_bf16 = found.dtype() == Dtype::bf16;
  double half_unit = is_bf16 ? 0x1p-8 : 0x1p-11, least = is_bf16 ? 0x1p-134 : 0x1p-25;
  Tensor here = exact.to(found.dtype());
  EXPECT_TRUE(equal(found.isnan(), here.isnan()));
  EXPECT_TRUE(equal(found.isinf(), here.isinf()));
  Tensor bound = (exact.abs() * half_unit).clamp_min(least) * 1.2;
  Tensor off = ((found.to(Dtype::f64) - exact).abs() / bound).nan_to_num(0.0, 0.0, 0.0);
  EXPECT_LE(off.max().item<double>(), 1);
}

// Quotients of all magnitudes, and rows whose numbers are far apart or not there.
TEST_F(Gpu, QuotientsAndSoftmaxOf16Bits) {
  double inf = std::numeric_limits<double>::infinity();
  Tensor special = tensor({0.0, -0.0, inf, -inf, std::nan(""), 1.0, -3.0, 6e4, 6e-8, 3e38, 1e-39});
  for (Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    SCOPED_TRACE(to_text(dtype));
    Tensor sizes = (randn({500}) * (dtype == Dtype::bf16 ? 40 : 5)).exp2() * randn({500}).sign();
    Tensor x = cat({special, sizes}).to(dtype);
    auto quotients = [](const Tensor& t) { return t.unsqueeze(1) / t.unsqueeze(0); };
    expect_rounded(quotients(on_gpu(x)).to(kCPU, dtype), quotients(x.to(Dtype::f64)));
    for (int64_t n : {100, 4096}) {
      Tensor rows = randn({7, n}) * tensor({0.1, 1.0, 5.0, 30.0, 300.0, 1.0, 1.0}).unsqueeze(1);
      rows.select(0, 5).fill_(-inf), rows.select(0, 6).slice(0, 1, n).fill_(-inf);
      rows = rows.to(dtype);
      expect_rounded(on_gpu(rows).softmax(1).to(kCPU, dtype), rows.to(Dtype::f64).softmax(1));
    }
  }
}

// Every number of 16 bits.
TEST_F(Gpu, FastFunctionsOf16Bits) {
  Tensor bits = arange(-32768, 32768, 1).to(Dtype::i16);
  using F = std::function<Tensor(const Tensor&)>;
  std::pair<const char*, F> functions[] = {{"exp", [](const Tensor& t) { return t.exp(); }},
                                           {"exp2", [](const Tensor& t) { return t.exp2(); }},
                                           {"sigmoid", [](const Tensor& t) { return t.sigmoid(); }},
                                           {"tanh", [](const Tensor& t) { return t.tanh(); }}};
  for (Dtype dtype : {Dtype::bf16, Dtype::f16})
    for (auto& [name, f] : functions) {
      SCOPED_TRACE(std::string(name) + " of " + to_text(dtype));
      Tensor x = bits.view(dtype);
      expect_rounded(f(on_gpu(x)).to(kCPU, dtype), f(x.to(Dtype::f64)));
    }
}

// Of doubles to a few units in the last place, special values as C's.
TEST_F(Gpu, PowersOfDoubles) {
  double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  std::vector<double> numbers{0.0,  -0.0, 1.0,   -1.0, 2.0,    -2.0,  3.0,   -3.0,    0.5,
                              0.75, 1.5,  0.999, 0.9,  1e-310, 1e300, 7.25,  -1023.5, 1e-5,
                              inf,  -inf, nan,   52.0, -53.0,  1e17,  1e-17, 700.0};
  for (double x : {0.7071, 0.7499999, 0.7500001, 1.4999999, 1.0000001, 123.456})
    numbers.push_back(x);
  Tensor all = tensor(numbers), x = all.unsqueeze(1), y = all.unsqueeze(0);
  Tensor there = x.to(gpu, Dtype::f64).pow(y.to(gpu, Dtype::f64)).to(kCPU, Dtype::f64);
  Tensor here = x.pow(y);
  for (size_t i = 0; i < numbers.size(); ++i)
    for (size_t k = 0; k < numbers.size(); ++k) {
      auto at = [&](const Tensor& t) {
        return t.select(0, int64_t(i)).select(0, int64_t(k)).item<double>();
      };
      double found = at(there), expected = at(here);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found)) << numbers[i] << " to " << numbers[k] << " gives " << found;
        continue;
      }
      EXPECT_EQ(std::signbit(found), std::signbit(expected)) << numbers[i] << " to " << numbers[k];
      double bound = std::isfinite(expected) ? std::abs(expected) * 1e-14 + 5e-324 : 0;
      EXPECT_TRUE(found == expected || std::abs(found - expected) <= bound)
          << numbers[i] << " to " << numbers[k] << ": " << found << ", not " << expected;
    }
}

TEST_F(Gpu, PowersOfIntegers) {
  Tensor x = randint(-6, 7, {9, 11}), y = randint(0, 20, {9, 11});
  expect_same("i64", {x, y}, [](auto& in) { return in[0].pow(in[1]); });
  expect_same("u8", {x.to(Dtype::u8), y.to(Dtype::u8)}, [](auto& in) { return in[0].pow(in[1]); });
}

TEST_F(Gpu, Reductions) {
  for (int64_t n : {1, 5, 33, 300, 5000}) {
    std::string name = " of " + std::to_string(n);
    Tensor x = randn({6, n});
    expect_same("rows" + name, {x}, [](auto& in) { return in[0].sum(1); });
    expect_same("columns" + name, {x}, [](auto& in) { return in[0].t().contiguous().sum(0); });
    expect_same("all" + name, {x}, [](auto& in) { return in[0].mean(); });
    expect_same("maximum" + name, {x}, [](auto& in) { return in[0].amax({1}); });
    expect_same("where the maximum is" + name, {x}, [](auto& in) { return in[0].argmax(1); });
    expect_same("softmax" + name, {x}, [](auto& in) { return in[0].softmax(-1); });
    expect_same("running sum" + name, {x}, [](auto& in) { return in[0].cumsum(1); });
  }
}

// What one block, or one thread, would take too long for is cut into parts, sizes known or not.
TEST_F(Gpu, LongFoldsAndScansAreCutIntoParts) {
  for (int64_t n : {40000, 65536, 100003}) {
    std::string name = " of " + std::to_string(n);
    Tensor x = randn({n}), y = randn({3, n}), columns = randn({n, 5});
    expect_same("all" + name, {x}, [](auto& in) { return in[0].sum(); });
    expect_same("mean" + name, {y}, [](auto& in) { return in[0].mean(); });
    expect_same("maximum" + name, {x}, [](auto& in) { return in[0].amax({0}); });
    expect_same("rows" + name, {y}, [](auto& in) { return in[0].sum(1) * 0.01; });
    expect_same("some columns" + name, {columns}, [](auto& in) { return in[0].mean({0}); });
    expect_same("every other" + name, {y}, [](auto& in) { return in[0].t().mean({0}); });
    expect_same("norm" + name, {y}, [](auto& in) { return in[0].pow(2).sum().sqrt(); });
    expect_same("a slice" + name, {y},
                [&](auto& in) { return in[0].narrow(1, 1, n - 3).mean({1}); });
    expect_same("any" + name, {x}, [](auto& in) { return in[0].gt(9).any(); });
    expect_same("running sum" + name, {y}, [](auto& in) { return in[0].cumsum(1) * 0.01; });
    expect_same("running maximum" + name, {y},
                [](auto& in) { return std::get<0>(in[0].cummax(1)); });
    expect_same("where the running maximum is" + name, {y},
                [](auto& in) { return std::get<1>(in[0].cummax(1)); });
  }
  auto f = compile([](const Tensor& x) { return (x * x).sum() + x.cumsum(0).amax({0}) * 0.01; });
  for (int64_t n : {50000, 50001, 90000, 10}) {
    Tensor x = randn({n}) * 0.1;
    expect_close(f(x.to(gpu, x.dtype())), (x * x).sum() + x.cumsum(0).amax({0}) * 0.01, "compiled");
  }
}

// What lies the other way in memory goes through shared memory.
TEST_F(Gpu, TilesAreTurned) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64, Dtype::i64, Dtype::u8, Dtype::bool_})
    for (auto [n, m] : {std::pair<int64_t, int64_t>{64, 96}, {33, 70}, {100, 31}, {17, 1000}}) {
      std::string name = to_text(dtype) + " " + std::to_string(n) + " " + std::to_string(m);
      Tensor x = (randn({3, n, m}) * 3).to(dtype), y = (randn({3, m, n}) * 3).to(dtype);
      expect_same("copy " + name, {x}, [](auto& in) { return in[0].transpose(1, 2).contiguous(); });
      expect_same("two " + name, {x, y}, [](auto& in) {
        return where(in[1].gt(0), in[0].transpose(1, 2), in[1]).contiguous();
      });
      expect_same("channels last " + name, {x.reshape({1, 3 * n, m, 1})},
                  [](auto& in) { return in[0].contiguous(MemoryFormat::channels_last); });
    }
  Tensor x = randn({40, 50}), w = randn({50, 40});
  auto f = compile([](const Tensor& x, const Tensor& w) { return (x.t() * w + w).relu(); });
  expect_close(f(x.to(gpu, x.dtype()), w.to(gpu, w.dtype())), (x.t() * w + w).relu(), "compiled");
}

// Points that meet at one place are added there by all threads, or in order.
TEST_F(Gpu, ScattersThatAccumulate) {
  for (bool is_deterministic : {false, true}) {
    set_deterministic(is_deterministic);
    for (int64_t n : {7, 1000}) {
      std::string name = " of " + std::to_string(n) + (is_deterministic ? " in order" : "");
      Tensor at = randint(0, 10, {n}), rows = randn({n, 16}), x = randn({n});
      Tensor whole = randint(-50, 50, {n, 16});
      expect_same("index_add" + name, {rows, at}, [](auto& in) {
        return zeros({10, 16}).to(in[0].device(), Dtype::f32).index_add(0, in[1], in[0]);
      });
      if (n < 10)  // of many the CPU rounds each sum
        expect_same("bf16" + name, {rows.to(Dtype::bf16), at}, [](auto& in) {
          return zeros({10, 16}).to(in[0].device(), Dtype::bf16).index_add(0, in[1], in[0]);
        });
      expect_same("f64" + name, {rows.to(Dtype::f64), at}, [](auto& in) {
        return zeros({10, 16}).to(in[0].device(), Dtype::f64).index_add(0, in[1], in[0]);
      });
      expect_same("scatter_add" + name, {x, at}, [](auto& in) {
        return zeros({10}).to(in[0].device(), Dtype::f32).scatter_add(0, in[1], in[0]);
      });
      for (const char* reduce : {"amax", "amin", "prod"})
        expect_same(reduce + name, {whole, at}, [&](auto& in) {
          Tensor places = in[1].unsqueeze(1).expand({n, 16});
          return ones({10, 16}, Dtype::i64)
              .to(in[0].device(), Dtype::i64)
              .scatter_reduce(0, places, in[0], reduce);
        });
      expect_same("embedding's gradient" + name, {rows, at},
                  [](auto& in) { return embedding_dense_backward(in[0], in[1], 10, -1, false); });
    }
  }
  set_deterministic(false);
}

TEST_F(Gpu, ProductsAndConvolutions) {
  Tensor a = randn({17, 33}), b = randn({33, 9});
  expect_same("mm", {a, b}, [](auto& in) { return in[0].matmul(in[1]); });
  Tensor image = randn({2, 3, 9, 10}), weights = randn({4, 3, 3, 3});
  expect_same("conv2d", {image, weights}, [](auto& in) {
    return conv2d(in[0], in[1], Tensor(), {2, 1}, {1, 1});
  });
}

TEST_F(Gpu, PositionsAreData) {
  Tensor table = randn({10, 16});
  Tensor at = tensor(std::vector<int64_t>{3, 0, 9, 3});
  expect_same("index_select", {table, at}, [](auto& in) { return in[0].index_select(0, in[1]); });
  expect_same("index_add", {table, at},
              [](auto& in) { return in[0].index_add(0, in[1], in[0].narrow(0, 0, 4)); });
}

TEST_F(Gpu, ATensorIsWrittenWhereItIs) {
  Tensor x = randn({5, 9}), there = x.to(gpu, x.dtype());
  float* before = there.data_ptr<float>();
  there.add_(1);
  there.mul_(there);
  EXPECT_EQ(there.data_ptr<float>(), before);
  expect_close(there, (x + 1) * (x + 1), "in place");
}

TEST_F(Gpu, CompiledFunctions) {
  auto f = compile([](const Tensor& x, const Tensor& w, const Tensor& b) {
    Tensor h = layer_norm(x, {64}, w, b);
    return (gelu(h + b) * x).softmax(-1);
  });
  Tensor x = randn({37, 64}), w = randn({64}), b = randn({64});
  expect_close(f(on_gpu(x), on_gpu(w), on_gpu(b)),
               (gelu(layer_norm(x, {64}, w, b) + b) * x).softmax(-1), "compiled");
}

// Corrections and rates are numbers, computed once by a kernel of all parameters.
TEST_F(Gpu, StepsOfAnOptimiser) {
  auto parameters_after = [](Device device) {
    manual_seed(4);
    nn::Linear first(20, 16), second(16, 8);
    first.to(device), second.to(device);
    std::vector<Tensor> all = first.parameters();
    for (const Tensor& p : second.parameters()) all.push_back(p);
    optim::AdamW opt(all, {.lr = 1e-2});
    auto step = compile(
        [&](const Tensor& x) {
          opt.zero_grad();
          Tensor loss = second(first(x).tanh()).square().mean();
          loss.backward();
          opt.step();
          return loss.detach();
        },
        {.fullgraph = true});
    for (int i = 0; i < 4; ++i, opt.lr *= 0.9) step(randn({32, 20}).to(device, Dtype::f32));
    std::vector<Tensor> out;
    for (const Tensor& p : all) out.push_back(p.detach());
    return out;
  };
  auto there = parameters_after(gpu), here = parameters_after(kCPU);
  for (size_t i = 0; i < here.size(); ++i)
    expect_close(there[i], here[i], "parameter " + std::to_string(i), 2e-4);
}

// Each input's old value is read, by outputs and by the other's new value, wherever a kernel writes.
TEST_F(Gpu, InputsThatAGraphWrites) {
  auto body = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    Tensor before = a.clone(), doubled = c * 2;
    a.copy_(b * 2);
    b.copy_(before);
    c.add_(a.sum());
    return doubled - before.sum();
  };
  std::vector<Tensor> here{randn({6, 7}), randn({6, 7}), randn({7, 6}).t()}, there;
  for (const Tensor& t : here) there.push_back(on_gpu(t));
  void* first = there[0].data_ptr<float>();
  for (const char* mode : {"", "reduce-overhead"}) {
    auto f = compile(body, {.mode = mode});
    for (int i = 0; i < 4; ++i) {
      uint64_t version = there[1].version();
      expect_close(f(there[0], there[1], there[2]), body(here[0], here[1], here[2]), "result",
                   1e-4);
      for (size_t k = 0; k < here.size(); ++k)
        expect_close(there[k], here[k], "input " + std::to_string(k), 1e-4);
      EXPECT_GT(there[1].version(), version);
      for (size_t k = 0; k < here.size(); ++k) here[k].mul_(0.1), there[k].mul_(0.1);
    }
  }
  EXPECT_EQ(there[0].data_ptr<float>(), first);
}

TEST_F(Gpu, ConjugatesOfComplexNumbers) {
  Tensor x = complex(randn({3, 4}), randn({3, 4})), there = on_gpu(x);
  for (bool is_turned : {false, true}) {
    Tensor found = conj(is_turned ? there.t() : there);
    Tensor expected = conj(is_turned ? x.t() : x);
    EXPECT_TRUE(equal(view_as_real(found.to(kCPU, x.dtype())), view_as_real(expected)));
  }
}

// Libraries' own maxima give 0 for it.
TEST_F(Gpu, FunctionsBehindLayersKeepWhatIsNoNumber) {
  auto body = [](const Tensor& image, const Tensor& kernel, const Tensor& matrix,
                 const Tensor& bias) {
    Tensor convolved = relu(conv2d(image, kernel, bias, {1, 1}, {1, 1}));
    return std::tuple(convolved, relu(linear(image.select(3, 0).transpose(1, 2), matrix, bias)));
  };
  NoGradGuard inference;
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    Tensor image = randn({2, 16, 8, 8}), kernel = randn({16, 16, 3, 3}), matrix = randn({16, 16});
    Tensor bias = randn({16});
    bias.select(0, 3).fill_(std::nan(""));
    auto there = [&](const Tensor& t) { return t.to(gpu, dtype); };
    auto [convolved, rows] = compile(body)(there(image), there(kernel), there(matrix), there(bias));
    EXPECT_TRUE(convolved.select(1, 3).isnan().all().item<bool>()) << to_text(dtype);
    EXPECT_TRUE(rows.select(2, 3).isnan().all().item<bool>()) << to_text(dtype);
    EXPECT_FALSE(convolved.narrow(1, 0, 3).isnan().any().item<bool>()) << to_text(dtype);
  }
}

// Its gradient is one element, repeated: what compiled code reads is laid out there.
TEST_F(Gpu, TheGradientOfASumOfCompiledResults) {
  Tensor x = randn({4, 16, 8, 8}), there = on_gpu(x).requires_grad_();
  compile([](const Tensor& t) { return t.tanh(); })(there).sum().backward();
  expect_close(there.grad(), 1 - x.tanh().square(), "gradient");
  EXPECT_EQ(there.detach().new_empty_strided({2, 3}, {3, 1}).device(), gpu);
}

TEST_F(Gpu, ATrainingStep) {
  auto loss_after = [](Device device) {
    manual_seed(3);
    Tensor x = randn({32, 20}).to(device, Dtype::f32);
    Tensor w = (randn({20, 8}) * 0.1).to(device, Dtype::f32).requires_grad_();
    Tensor target = randn({32, 8}).to(device, Dtype::f32);
    double loss = 0;
    for (int i = 0; i < 5; ++i) {
      w.set_grad(Tensor());
      Tensor l = (x.matmul(w).tanh() - target).pow(2).mean();
      l.backward();
      NoGradGuard guard;
      w.sub_(w.grad() * 0.5);
      loss = static_cast<double>(l.item<float>());
    }
    return loss;
  };
  EXPECT_NEAR(loss_after(gpu), loss_after(kCPU), 1e-4);
}

// Several extremes at once, also of negated integers, which a compiler of NVIDIA's gets wrong.
TEST_F(Gpu, ExtremesOfIntegers) {
  for (Dtype dtype : {Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64, Dtype::u8})
    for (int64_t n : {2, 3, 4, 6}) {
      Tensor x = randint(-9, 10, {n, 50}).to(dtype);
      std::string name = to_text(dtype) + " of " + std::to_string(n);
      auto smallest = compile([](const Tensor& t) { return amin(-(t * t), {0}); });
      auto largest = compile([](const Tensor& t) { return amax(-t, {0}); });
      expect_same("amin " + name, {x}, [&](auto& in) { return smallest(in[0]); });
      expect_same("amax " + name, {x}, [&](auto& in) { return largest(in[0]); });
    }
}

}  // namespace
}  // namespace tenon
