// Kernels of the inductor backend: what a call costs beside its kernels, and how fast fused loops
// run on tensors of 64 K, 1 M and 16 M elements.
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

#include <benchmark/benchmark.h>

using namespace tenon;

namespace {

/// A chain of n kernels that cannot be fused: each sum needs all of the one before. The body is
/// stated pure: what running it along costs is measured in call_overhead.
void call_of_kernels(benchmark::State& state) {
  int64_t n = state.range(0);
  auto f = compile(
      [n](const Tensor& x) {
        Tensor y = x;
        for (int64_t i = 0; i < n; ++i) y = sin(sum(y, {0}, true) + y);
        return y;
      },
      {.backend = "inductor", .pure = true});
  Tensor x = ones({1, 16});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(call_of_kernels)->Arg(1)->Arg(10);

template <class F>
void run(benchmark::State& state, F body, std::vector<Tensor> inputs, int64_t bytes) {
  auto f =
      compile([body](const std::vector<Tensor>& in) { return body(in); }, {.backend = "inductor"});
  NoGradGuard no_grad;
  f(inputs);
  for (auto _ : state) benchmark::DoNotOptimize(f(inputs));
  state.SetBytesProcessed(int64_t(state.iterations()) * bytes);
}

constexpr int64_t kilo = 1 << 10, mega = 1 << 20;

void multiply_add_relu(benchmark::State& state) {
  int64_t n = state.range(0);
  run(
      state, [](const std::vector<Tensor>& in) { return relu(in[0] * in[1] + 1); },
      {randn({n}), randn({n})}, 12 * n);
}
BENCHMARK(multiply_add_relu)->Arg(64 * kilo)->Arg(mega)->Arg(16 * mega);

void bias_gelu(benchmark::State& state) {
  int64_t n = state.range(0);
  run(
      state, [](const std::vector<Tensor>& in) { return gelu(in[0] + in[1]); },
      {randn({n / 1024, 1024}), randn({1024})}, 8 * n);
}
BENCHMARK(bias_gelu)->Arg(64 * kilo)->Arg(mega)->Arg(16 * mega);

void softmax_of_rows(benchmark::State& state) {
  int64_t n = state.range(0);
  run(
      state, [](const std::vector<Tensor>& in) { return softmax(in[0], -1); },
      {randn({n / 1024, 1024})}, 8 * n);
}
BENCHMARK(softmax_of_rows)->Arg(64 * kilo)->Arg(mega)->Arg(16 * mega);

void layer_norm_of_rows(benchmark::State& state) {
  int64_t n = state.range(0);
  run(
      state, [](const std::vector<Tensor>& in) { return layer_norm(in[0], {1024}, in[1], in[2]); },
      {randn({n / 1024, 1024}), randn({1024}), randn({1024})}, 8 * n);
}
BENCHMARK(layer_norm_of_rows)->Arg(64 * kilo)->Arg(mega)->Arg(16 * mega);

}  // namespace
