// Products, layers and blocks of them on a GPU, with the share of what the card can do at most.
#include "measure.h"

namespace bench {

namespace {

/// Most multiplications and additions a second, dense, as NVIDIA's data sheet of the H100 SXM says;
/// 0 for other cards.
double peak_of(Dtype dtype, bool is_tf32) {
  static const std::string name = tenon::device_properties(gpu).name;
  if (name.find("H100") == std::string::npos && name.find("H200") == std::string::npos) return 0;
  if (is_tf32) return 494e12;
  return dtype == Dtype::f32 || dtype == Dtype::f64 ? 67e12 : 989e12;
}

void report_share(const std::string& name, double us, double flops, Dtype dtype) {
  std::printf("%-44s %9.2f us %8.1f TFLOP/s", name.c_str(), us, flops / us / 1e6);
  bool is_tf32 = dtype == Dtype::f32 && tenon::get_float32_matmul_precision() != "highest";
  if (is_tf32) std::printf(" tf32");
  if (double peak = peak_of(dtype, is_tf32); peak > 0)
    std::printf(" %5.1f %% of the peak", 100 * flops / (us * 1e-6) / peak);
  std::printf("\n");
  std::fflush(stdout);
}

/// Compiled: on the device, back to back, and that recorded. One that fails is told, and the next goes on.
/// The weights are the function's own, as parameters of modules are.
template <class F>
void measure_share(const std::string& name, double flops, Dtype dtype, const Inputs& inputs, F f) {
  try {
    tenon::NoGradGuard guard;
    Tensor x = inputs[0];
    auto body = [f, inputs](const Tensor& given) {
      Inputs all = inputs;
      all[0] = given;
      return f(all);
    };
    auto compiled = tenon::compile(body);
    double us = device_time([&] { compiled(x); });
    report_share(name, us, flops, dtype);
    int calls = static_cast<int>(std::clamp(1e5 / us, 20.0, 2000.0));
    report_share(name + ", loop", loop_time([&] { compiled(x); }, calls), flops, dtype);
    auto recorded = tenon::compile(body, {.mode = "reduce-overhead"});
    report_share(name + ", recorded loop", loop_time([&] { recorded(x); }, calls), flops, dtype);
  } catch (const std::exception& e) {
    std::printf("%s: %s\n", name.c_str(), e.what());
  }
}

Tensor made(const std::vector<int64_t>& sizes, Dtype dtype, double scale = 1) {
  return (tenon::randn(sizes) * scale).to(gpu, dtype);
}

void measure_matmul(Dtype dtype) {
  std::string in = std::string(" ") + tenon::to_text(dtype);
  for (int64_t n : {1024, 4096}) {
    double size = static_cast<double>(n);
    Tensor a = made({n, n}, dtype), b = made({n, n}, dtype);
    measure_share("matmul " + std::to_string(n) + in, 2 * size * size * size, dtype, {a, b},
                  [](const Inputs& x) { return x[0].matmul(x[1]); });
  }
  Tensor x = made({1, 4096}, dtype), w = made({4096, 4096}, dtype);
  measure_share("one row x 4096 x 4096" + in, 2.0 * 4096 * 4096, dtype, {x, w},
                [](const Inputs& i) { return i[0].matmul(i[1].t()); });
}

// x = relu(linear(x)), eight times.
void measure_mlp(Dtype dtype) {
  constexpr int64_t batch = 64, width = 1024;
  constexpr size_t layers = 8;
  Inputs inputs{made({batch, width}, dtype)};
  for (size_t i = 0; i < layers; ++i) {
    inputs.push_back(made({width, width}, dtype, 0.04));
    inputs.push_back(made({width}, dtype));
  }
  measure_share(std::string("MLP 8 x 1024, batch 64 ") + tenon::to_text(dtype),
                2.0 * batch * width * width * layers, dtype, inputs, [](const Inputs& in) {
                  Tensor x = in[0];
                  for (size_t i = 0; i < layers; ++i)
                    x = linear(x, in[1 + 2 * i], in[2 + 2 * i]).relu();
                  return x;
                });
}

/// Weights of one encoder layer, in the order in which `encoder_layer` takes them.
constexpr size_t weights_of_layer = 12;
constexpr int64_t heads = 12, width = 768, inner = 4 * width, batch = 8, positions = 128;

void add_layer(Inputs& out, Dtype dtype) {
  auto matrix = [&](int64_t to, int64_t from) {
    out.push_back(made({to, from}, dtype, 0.03));
    out.push_back(made({to}, dtype));
  };
  matrix(3 * width, width), matrix(width, width);
  out.push_back(made({width}, dtype)), out.push_back(made({width}, dtype));
  matrix(inner, width), matrix(width, inner);
  out.push_back(made({width}, dtype)), out.push_back(made({width}, dtype));
}

Tensor encoder_layer(const Tensor& x, const Tensor* w) {
  Tensor all = linear(x, w[0], w[1]).view({batch, positions, 3, heads, width / heads});
  auto part = [&](int64_t which) { return all.select(2, which).transpose(1, 2); };
  Tensor attended = scaled_dot_product_attention(part(0), part(1), part(2));
  Tensor joined = attended.transpose(1, 2).reshape({batch, positions, width});
  Tensor h = layer_norm(x + linear(joined, w[2], w[3]), {width}, w[4], w[5]);
  Tensor wide = gelu(linear(h, w[6], w[7]), "tanh");
  return layer_norm(h + linear(wide, w[8], w[9]), {width}, w[10], w[11]);
}

void measure_bert(Dtype dtype) {
  constexpr size_t layers = 12;
  Inputs inputs{made({batch, positions, width}, dtype)};
  for (size_t i = 0; i < layers; ++i) add_layer(inputs, dtype);
  double rows = batch * positions, of_layer = 12.0 * width * width + 2.0 * positions * width;
  measure_share(std::string("BERT-like 12 x 768, 8 x 128 ") + tenon::to_text(dtype),
                2 * rows * of_layer * layers, dtype, inputs, [](const Inputs& in) {
                  Tensor x = in[0];
                  for (size_t i = 0; i < layers; ++i)
                    x = encoder_layer(x, &in[1 + i * weights_of_layer]);
                  return x;
                });
}

void measure_convolution(Dtype dtype) {
  constexpr int64_t images = 64, channels = 64, side = 56;
  Tensor x = made({images, channels, side, side}, dtype);
  Tensor w = made({channels, channels, 3, 3}, dtype, 0.04);
  measure_share(std::string("conv 3 x 3, 64 x 64 x 56 x 56 ") + tenon::to_text(dtype),
                2.0 * images * channels * channels * 9 * side * side, dtype, {x, w},
                [](const Inputs& in) { return conv2d(in[0], in[1], {}, {1}, {1}); });
}

}  // namespace

void measure_products() {
  tenon::set_float32_matmul_precision("high");
  measure_matmul(Dtype::f32), measure_mlp(Dtype::f32), measure_convolution(Dtype::f32);
  tenon::set_float32_matmul_precision("highest");
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}) measure_matmul(dtype);
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) measure_mlp(dtype);
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) measure_bert(dtype);
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) measure_convolution(dtype);
}

}  // namespace bench
