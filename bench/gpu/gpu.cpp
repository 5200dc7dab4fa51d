// Kernels and eager ops on a GPU: device time of one call, and what it moves.
//
//   build/release/bench/gpu
//
// Times are medians between events around 20 calls, so that launches of the host are behind those
// of the device; "loop" is the wall time of a call back to back.
#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using tenon::Device;
using tenon::Dtype;
using tenon::Tensor;

constexpr Device gpu(tenon::DeviceType::cuda);

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<long>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

/// Microseconds on the device.
double device_time(const std::function<void()>& call) {
  constexpr int calls = 20, repetitions = 15;
  for (int i = 0; i < 3; ++i) call();
  tenon::synchronize(gpu);
  tenon::Stream stream = tenon::Stream::current(gpu);
  std::vector<double> all;
  for (int r = 0; r < repetitions; ++r) {
    tenon::Event begin(gpu, true), end(gpu, true);
    begin.record(stream);
    for (int i = 0; i < calls; ++i) call();
    end.record(stream);
    end.synchronize();
    all.push_back(begin.elapsed_ms(end) * 1e3 / calls);
  }
  return median(all);
}

/// Microseconds of the host.
double loop_time(const std::function<void()>& call) {
  constexpr int calls = 2000, repetitions = 15;
  for (int i = 0; i < 100; ++i) call();
  tenon::synchronize(gpu);
  std::vector<double> all;
  for (int r = 0; r < repetitions; ++r) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    tenon::synchronize(gpu);
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    all.push_back(took.count() / calls);
  }
  return median(all);
}

void report(const std::string& name, double us, double bytes) {
  std::printf("%-44s %9.2f us", name.c_str(), us);
  if (bytes > 0) std::printf(" %8.0f GB/s", bytes / us / 1e3);
  std::printf("\n");
  std::fflush(stdout);
}

/// Eagerly and compiled. One that fails is told, and the next goes on.
template <class F>
void measure(const std::string& name, double bytes, F f, const std::vector<Tensor>& inputs) {
  try {
    report(name + " eager", device_time([&] { f(inputs); }), bytes);
  } catch (const std::exception& e) {
    std::printf("%s eager: %s\n", name.c_str(), e.what());
  }
  try {
    auto compiled = tenon::compile([f](const std::vector<Tensor>& in) { return f(in); });
    report(name + " compiled", device_time([&] { compiled(inputs); }), bytes);
  } catch (const std::exception& e) {
    std::printf("%s compiled: %s\n", name.c_str(), e.what());
  }
}

using Inputs = std::vector<Tensor>;

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

}  // namespace

int main() {
  if (tenon::device_count(tenon::DeviceType::cuda) == 0) {
    std::printf("no GPU: %s\n", tenon::why_no_device(tenon::DeviceType::cuda).c_str());
    return 0;
  }
  tenon::DeviceProperties p = tenon::device_properties(gpu);
  std::printf("%s, %s, %d multiprocessors\n", p.name.c_str(), p.arch.c_str(), p.compute_units);
  Tensor small = tenon::randn({1024}).to(gpu, Dtype::f32);
  report("x + 1, 1024 elements, eager loop", loop_time([&] { small + 1; }), 0);
  auto add = tenon::compile([](const Tensor& x) { return x + 1; });
  report("x + 1, 1024 elements, compiled loop", loop_time([&] { add(small); }), 0);
  measure_points(Dtype::f32, "f32", 4);
  measure_points(Dtype::bf16, "bf16", 2);
  measure_rows(Dtype::f32, "f32", 4);
  measure_rows(Dtype::bf16, "bf16", 2);
  measure_parts();
  return 0;
}
