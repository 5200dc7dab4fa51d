// What a compiled function adds to training: forward and backward of a body with one op, beside
// the same on the tape, and beside the ops alone.
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

#include <benchmark/benchmark.h>

using namespace tenon;

namespace {

template <class F>
void forward_backward(benchmark::State& state, F f) {
  Tensor x = ones({4}).requires_grad_(), g = ones({4});
  for (auto _ : state) {
    Tensor y = f(x);
    benchmark::DoNotOptimize(autograd::grad({y}, {x}, {.grad_outputs = {g}}));
  }
}

void compiled(benchmark::State& state) {
  forward_backward(state, compile([](const Tensor& x) { return x * 2; }, {.backend = "aot_eager"}));
}
BENCHMARK(compiled);

void tape(benchmark::State& state) {
  forward_backward(state, [](const Tensor& x) { return x * 2; });
}
BENCHMARK(tape);

// The work itself: both products, without a tape.
void ops(benchmark::State& state) {
  NoGradGuard off;
  Tensor x = ones({4}), g = ones({4});
  for (auto _ : state) {
    benchmark::DoNotOptimize(x * 2);
    benchmark::DoNotOptimize(g * 2);
  }
}
BENCHMARK(ops);

void forward_only_compiled(benchmark::State& state) {
  auto f = compile([](const Tensor& x) { return x * 2; }, {.backend = "aot_eager"});
  Tensor x = ones({4}).requires_grad_();
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(forward_only_compiled);

}  // namespace
