// Kernels and eager ops on a GPU: device time of one call, and what it moves.
//
//   build/release/bench/gpu            all rows
//   build/release/bench/gpu products   those of products alone, or of kernels, models, images, parts,
//                                      training, small (one op a call)
//   build/release/bench/gpu compile bert    first calls: of pointwise, bert or step
#include "measure.h"

#include <cstring>

namespace {

using namespace bench;

void measure_rows(Dtype dtype, const char* name, double item) {
  constexpr int64_t rows = 8192, columns = 4096;
  double bytes = 2 * item * rows * columns;
  Tensor x = tenon::randn({rows, columns}).to(gpu, dtype);
  Tensor w = tenon::randn({columns}).to(gpu, dtype), b = tenon::randn({columns}).to(gpu, dtype);
  std::string of = std::string(" 8192x4096 ") + name;
  measure("softmax" + of, bytes, [](const Inputs& in) { return in[0].softmax(-1); }, {x});
  measure("layer norm" + of, bytes,
          [](const Inputs& in) { return layer_norm(in[0], {columns}, in[1], in[2]); }, {x, w, b});
  measure("sum of rows" + of, bytes / 2, [](const Inputs& in) { return in[0].sum(1); }, {x});
  measure("sum of columns" + of, bytes / 2, [](const Inputs& in) { return in[0].sum(0); }, {x});
  measure("gelu(x + b) * x" + of, bytes,
          [](const Inputs& in) { return gelu(in[0] + in[1]) * in[0]; }, {x, b});
}

void measure_points(Dtype dtype, const char* name, double item) {
  constexpr int64_t n = 64 << 20;
  Tensor x = tenon::randn({n}).to(gpu, dtype), y = tenon::randn({n}).to(gpu, dtype);
  std::string of = std::string(" 64M ") + name;
  measure("copy" + of, 2 * item * n, [](const Inputs& in) { return in[0].clone(); }, {x});
  measure("tanh(x y + 1/2) sigmoid(x)" + of, 3 * item * n,
          [](const Inputs& in) { return (in[0] * in[1] + 0.5).tanh() * in[0].sigmoid(); }, {x, y});
}

// What is cut into parts, drawn, added at one place, or read across.
void measure_parts() {
  constexpr int64_t n = 64 << 20, rows = 8192, hits = 1 << 20, columns = 64;
  Tensor x = tenon::randn({n}).to(gpu, Dtype::f32), square = x.reshape({rows, rows});
  Tensor at = tenon::randint(0, rows, {hits}).to(gpu, Dtype::i64);
  Tensor source = tenon::randn({hits, columns}).to(gpu, Dtype::f32);
  measure("sum of all 64M f32", 4.0 * n, [](const Inputs& in) { return in[0].sum(); }, {x});
  measure("running sum 64M f32", 8.0 * n, [](const Inputs& in) { return in[0].cumsum(0); }, {x});
  measure("rand_like 64M f32", 4.0 * n, [](const Inputs& in) { return rand_like(in[0]); }, {x});
  measure("randn_like 64M f32", 4.0 * n, [](const Inputs& in) { return randn_like(in[0]); }, {x});
  measure("dropout 64M f32", 9.0 * n, [](const Inputs& in) { return dropout(in[0], 0.3, true); },
          {x});
  measure("transposed copy 8192x8192 f32", 8.0 * n,
          [](const Inputs& in) { return in[0].t().contiguous(); }, {square});
  measure("gradient of an embedding, 1M hits", 4.0 * hits * columns,
          [](const Inputs& in) { return embedding_dense_backward(in[1], in[0], rows, -1, false); },
          {at, source});
}

// What the host takes, one op a call.
void measure_small() {
  measure_launch();
  Tensor small = tenon::randn({1024}).to(gpu, Dtype::f32);
  report("x + 1, 1024 elements, eager loop", loop_time([&] { small + 1; }), 0);
  auto body = [](const Tensor& x) { return x + 1; };
  auto add = tenon::compile(body), fused = tenon::compile(body, {.mode = "reduce-overhead"});
  auto recorded = tenon::compile(body, {.backend = "cudagraphs"});
  report("x + 1, 1024 elements, compiled loop", loop_time([&] { add(small); }), 0);
  report("x + 1, 1024 elements, recorded loop", loop_time([&] { fused(small); }), 0);
  report("x + 1, 1024 elements, cudagraphs loop", loop_time([&] { recorded(small); }), 0);
}

void measure_kernels() {
  measure_small();
  measure_points(Dtype::f32, "f32", 4);
  measure_points(Dtype::bf16, "bf16", 2);
  measure_rows(Dtype::f32, "f32", 4);
  measure_rows(Dtype::bf16, "bf16", 2);
  measure_parts();
}

}  // namespace

int main(int argc, char** argv) {
  if (tenon::device_count(tenon::DeviceType::cuda) == 0) {
    std::printf("no GPU: %s\n", tenon::why_no_device(tenon::DeviceType::cuda).c_str());
    return 0;
  }
  tenon::DeviceProperties p = tenon::device_properties(gpu);
  std::printf("%s, %s, %d multiprocessors\n", p.name.c_str(), p.arch.c_str(), p.compute_units);
  auto is_asked = [&](const char* part) { return argc < 2 || std::strcmp(argv[1], part) == 0; };
  if (argc > 1 && std::strcmp(argv[1], "small") == 0) measure_small();
  if (is_asked("kernels")) measure_kernels();
  if (argc > 1 && std::strcmp(argv[1], "parts") == 0) measure_parts();
  if (is_asked("products")) measure_products();
  if (is_asked("models")) measure_models();
  if (argc > 1 && std::strcmp(argv[1], "images") == 0) measure_images();
  if (argc > 1 && std::strcmp(argv[1], "training") == 0) measure_training();
  if (argc > 2 && std::strcmp(argv[1], "compile") == 0) measure_compile(argv[2]);
  return 0;
}
