// One eager op on one element: what dispatch, checks, allocation and release cost.
#include <tenon/ops.h>

#include <benchmark/benchmark.h>

using namespace tenon;

static void add_one_element(benchmark::State& state) {
  Tensor a = ones({1}), b = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(add_one_element);

static void relu_one_element(benchmark::State& state) {
  Tensor a = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(relu(a));
}
BENCHMARK(relu_one_element);

static void add_with_broadcast(benchmark::State& state) {
  Tensor a = ones({2, 3}), b = ones({3});
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(add_with_broadcast);

static void view_two_dims(benchmark::State& state) {
  Tensor a = ones({2, 3});
  for (auto _ : state) benchmark::DoNotOptimize(a.transpose(0, 1));
}
BENCHMARK(view_two_dims);

static void make_and_release(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(empty({8}));
}
BENCHMARK(make_and_release);

// With a node on the tape, and its end.
static void add_one_element_recorded(benchmark::State& state) {
  Tensor a = ones({1}).requires_grad_(), b = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(add_one_element_recorded);

static void mul_one_element_recorded(benchmark::State& state) {
  Tensor a = ones({1}).requires_grad_(), b = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(mul(a, b));
}
BENCHMARK(mul_one_element_recorded);

// A chain of ten ops there and back; the figure is for the whole of it.
static void chain_of_ten_backward(benchmark::State& state) {
  Tensor a = ones({4}).requires_grad_();
  for (auto _ : state) {
    Tensor y = a;
    for (int i = 0; i < 10; ++i) y = sin(y);
    y.sum().backward();
    a.set_grad({});
  }
}
BENCHMARK(chain_of_ten_backward);
