// Convolutions and their gradients on a device, against the CPU in f64: those that become products
// of their windows, and those that stay sums.
#include "gpu_checks.h"

#include <cmath>

namespace tenon {
namespace {

class GpuConvolutions : public Gpu {};

double tolerance_of(Dtype dtype) {
  return dtype == Dtype::f64 ? 1e-12 : dtype == Dtype::f32 ? 2e-5 : 2e-2;
}

/// Results and gradients, eagerly or compiled, on the device and in f64 on the CPU. `scale` is that
/// of the sums.
void expect_convolution(const std::string& what, Dtype dtype, std::vector<Tensor> inputs,
                        const Function& f, double scale = 1, const Options& options = {}) {
  std::string name = what + " in " + to_text(dtype);
  SCOPED_TRACE(name);
  for (Tensor& t : inputs) t = t.to(dtype);
  auto run = [&](Device device, Dtype in, const Function& body) {
    std::vector<Tensor> leaves, out;
    for (const Tensor& t : inputs) leaves.push_back(t.clone().to(device, in).requires_grad_());
    out.push_back(body(leaves));
    (out[0] * out[0].detach().tanh()).sum().backward();
    for (const Tensor& l : leaves) out.push_back(l.grad());
    return out;
  };
  auto compiled = compile([f](const std::vector<Tensor>& in) { return f(in); }, options);
  auto expected = run(kCPU, Dtype::f64, f);
  auto check = [&](const std::vector<Tensor>& found, const std::string& how) {
    for (size_t i = 0; i < found.size(); ++i)
      expect_close(found[i].detach(), expected[i].detach().to(dtype),
                   name + how + (i ? ", gradient " + std::to_string(i - 1) : ""),
                   tolerance_of(dtype) * scale * (i ? 4 : 1));
  };
  check(run(gpu, dtype, f), ", eager");
  check(run(gpu, dtype, [&](auto& in) { return compiled(in); }), ", compiled");
}

Tensor small(std::vector<int64_t> sizes) { return randn(sizes) * 0.2; }

TEST_F(GpuConvolutions, OfAllDtypes) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    expect_convolution("3 x 3", dtype, {small({2, 8, 16, 15}), small({16, 8, 3, 3}), small({16})},
                       [](auto& in) { return conv2d(in[0], in[1], in[2], {1}, {1}); });
    expect_convolution("small", dtype, {small({2, 3, 7, 6}), small({4, 3, 3, 3}), small({4})},
                       [](auto& in) {
                         return conv2d(in[0], in[1], in[2], {2, 1}, {1, 0});
                       });
  }
}

TEST_F(GpuConvolutions, OfAllGeometries) {
  Tensor image = small({2, 8, 18, 17}), one = small({1, 8, 18, 17});
  Tensor weights = small({16, 8, 3, 3}), bias = small({16});
  for (bool is_one : {false, true}) {
    Tensor x = is_one ? one : image;
    std::string of = is_one ? ", one image" : "";
    expect_convolution("plain" + of, Dtype::f32, {x, weights},
                       [](auto& in) { return conv2d(in[0], in[1]); });
    expect_convolution("strides" + of, Dtype::f32, {x, small({40, 8, 3, 3}), small({40})},
                       [](auto& in) {
                         return conv2d(in[0], in[1], in[2], {2, 3}, {1, 2});
                       });
    expect_convolution("dilation" + of, Dtype::f32, {x, weights, bias}, [](auto& in) {
      return conv2d(in[0], in[1], in[2], {1}, {2}, {2, 1});
    });
    expect_convolution("groups" + of, Dtype::f32, {x, small({32, 4, 3, 3}), small({32})},
                       [](auto& in) { return conv2d(in[0], in[1], in[2], {1}, {1}, {1}, 2); });
    expect_convolution("groups of few" + of, Dtype::f32, {x, small({8, 2, 5, 5})},
                       [](auto& in) { return conv2d(in[0], in[1], {}, {1}, {2}, {1}, 4); });
    expect_convolution("depthwise" + of, Dtype::f32, {x, small({16, 1, 3, 3}), small({16})},
                       [](auto& in) { return conv2d(in[0], in[1], in[2], {1}, {1}, {1}, 8); });
    expect_convolution("pixels" + of, Dtype::f32, {x, small({96, 8, 1, 1})},
                       [](auto& in) { return conv2d(in[0], in[1]); });
    expect_convolution("pixels, bias" + of, Dtype::f32, {x, small({96, 8, 1, 1}), small({96})},
                       [](auto& in) { return conv2d(in[0], in[1], in[2]).relu(); });
    expect_convolution("pixels, stride" + of, Dtype::f32, {x, small({400, 8, 1, 1})},
                       [](auto& in) { return conv2d(in[0], in[1], {}, {2}); });
    expect_convolution("transposed" + of, Dtype::f32, {x, small({8, 16, 3, 3}), bias},
                       [](auto& in) { return conv_transpose2d(in[0], in[1], in[2], {2}, {1}); });
    expect_convolution(
        "transposed, more than its windows" + of, Dtype::f32, {x, small({8, 96, 1, 1})},
        [](auto& in) { return conv_transpose2d(in[0], in[1], {}, {1}, {0}, {1}, 1, {2}); });
    expect_convolution("channels last" + of, Dtype::f32, {x, weights, bias}, [](auto& in) {
      Tensor last = in[0].permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
      return conv2d(last, in[1], in[2], {1}, {1}).relu();
    });
    expect_convolution("functions behind" + of, Dtype::bf16, {x, weights, bias},
                       [](auto& in) { return gelu(conv2d(in[0], in[1], in[2], {1}, {1})) + 1; });
  }
}

TEST_F(GpuConvolutions, OfOneAndThreeDimensions) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    expect_convolution("1-d", dtype, {small({3, 8, 200}), small({24, 8, 5}), small({24})},
                       [](auto& in) { return conv1d(in[0], in[1], in[2], {2}, {2}); });
    expect_convolution("3-d", dtype, {small({2, 4, 7, 6, 8}), small({8, 4, 3, 3, 3})},
                       [](auto& in) { return conv3d(in[0], in[1], {}, {1}, {1}); });
  }
}

TEST_F(GpuConvolutions, ImagesInParts) {
  // Windows of one image take 331 KB, so there are parts of three images and of two.
  expect_convolution("parts", Dtype::f32,
                     {small({5, 16, 24, 24}), small({8, 16, 3, 3}), small({8})},
                     [](auto& in) { return conv2d(in[0], in[1], in[2], {1}, {1}); }, 2,
                     {.options = {{"windows_mb", "1"}, {"verify", "true"}}});
  expect_convolution("parts", Dtype::bf16, {small({5, 16, 24, 48}), small({8, 16, 3, 3})},
                     [](auto& in) { return conv2d(in[0], in[1], {}, {1}, {1}); }, 2,
                     {.options = {{"windows_mb", "1"}, {"verify", "true"}}});
}

TEST_F(GpuConvolutions, OfOpenSizes) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {1}, {1}); },
                   {.dynamic = true});
  Tensor w = small({16, 8, 3, 3});
  for (int64_t n : {2, 3, 5, 2}) {
    Tensor x = small({n, 8, 10 + n, 12});
    expect_close(f(on_gpu(x), on_gpu(w)), conv2d(x, w, {}, {1}, {1}),
                 std::to_string(n) + " images");
  }
}

}  // namespace
}  // namespace tenon
