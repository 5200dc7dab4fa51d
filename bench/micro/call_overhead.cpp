// What a compiled call costs besides its code: of pure callables, whose bodies do not run, and of
// others, whose operations are compared with the recorded ones.
#include <tenon/compile.h>
#include <tenon/ops.h>

#include <benchmark/benchmark.h>

using namespace tenon;

static void one_tensor(benchmark::State& state) {
  auto f = compile([](const Tensor& x) { return x; }, {.backend = "eager", .pure = true});
  Tensor x = ones({4, 4});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(one_tensor)->Name("1_tensor");

static void twenty_tensors(benchmark::State& state) {
  auto f = compile([](const std::vector<Tensor>& xs) { return xs[0]; },
                   {.backend = "eager", .pure = true});
  std::vector<Tensor> xs;
  for (int i = 0; i < 20; ++i) xs.push_back(ones({4, 4}));
  f(xs);
  for (auto _ : state) benchmark::DoNotOptimize(f(xs));
}
BENCHMARK(twenty_tensors)->Name("20_tensors");

// The body runs; its operations are compared with those recorded. All but one are dead, so the code
// is that of one operation.
static void followed(benchmark::State& state) {
  auto f = compile(
      [n = state.range(0)](const Tensor& x) {
        for (int64_t i = 1; i < n; ++i) x.relu();
        return x.relu();
      },
      {.backend = "inductor"});
  Tensor x = ones({4, 4});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(followed)->Arg(1)->Arg(11)->Arg(101);

// The same code where the body does not run.
static void one_op_stated_pure(benchmark::State& state) {
  auto f = compile([](const Tensor& x) { return x.relu(); }, {.backend = "inductor", .pure = true});
  Tensor x = ones({4, 4});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(one_op_stated_pure);

static void one_op_compiled(benchmark::State& state) {
  auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = "eager"});
  Tensor x = ones({1});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(one_op_compiled);

static void one_op_eager(benchmark::State& state) {
  Tensor x = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(x + 1);
}
BENCHMARK(one_op_eager);
