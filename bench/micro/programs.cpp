// Backends without a code generator: chains of pointwise ops on nnc and ts beside the host's
// interpreter, at 4 K, 64 K and 1 M elements. Archives: tenon bench MODEL --backend eager,ts.
//
// Chains of one size take turns, so that a busy machine slows all alike, with
//   programs --benchmark_enable_random_interleaving --benchmark_repetitions=9
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

using namespace tenon;

namespace {

constexpr const char* backends[] = {"eager", "ts", "nnc"};
constexpr int64_t kilo = 1 << 10, mega = 1 << 20;

/// What these backends are for is that it is not.
bool is_llvm_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("LLVM") != line.npos || line.find("tenon_inductor") != line.npos) return true;
  return false;
}

template <class F>
void run(benchmark::State& state, F body, const std::vector<Tensor>& inputs) {
  const char* backend = backends[state.range(1)];
  state.SetLabel(backend);
  // What it costs to run the body beside the code is call_overhead's.
  auto f = compile([body](const std::vector<Tensor>& in) { return body(in); },
                   {.backend = backend, .pure = true});
  NoGradGuard no_grad;
  f(inputs);
  if (is_llvm_mapped()) return state.SkipWithError("LLVM is mapped: a code generator was loaded");
  for (auto _ : state) benchmark::DoNotOptimize(f(inputs));
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int64_t n : {4 * kilo, 64 * kilo, mega})
    for (int64_t backend = 0; backend < 3; ++backend) b->Args({n, backend});
}

/// Ten cheap ops: what costs is to read and write memory for each.
void chain_of_ten(benchmark::State& state) {
  int64_t n = state.range(0);
  run(state,
      [](const std::vector<Tensor>& in) {
        Tensor t = relu(in[0] * 1.5 + in[1]);
        Tensor u = t * (in[1] * 0.7 - in[0]);
        return relu(in[0] - u) * 0.5 + u;
      },
      {randn({n}), randn({n})});
}
BENCHMARK(chain_of_ten)->Apply(sizes);

/// The same with functions.
void chain_with_functions(benchmark::State& state) {
  int64_t n = state.range(0);
  run(state,
      [](const std::vector<Tensor>& in) {
        Tensor t = tanh(in[0] * 1.5 + in[1]);
        Tensor u = t * sigmoid(in[1] * 0.7);
        return relu(in[0] - u) * 0.5 + u;
      },
      {randn({n}), randn({n})});
}
BENCHMARK(chain_with_functions)->Apply(sizes);

/// A row that is repeated: a bias, and what follows it.
void bias_and_gate(benchmark::State& state) {
  int64_t n = state.range(0);
  run(state,
      [](const std::vector<Tensor>& in) {
        Tensor t = in[0] + in[1];
        return t * sigmoid(t * 1.7) + in[0];
      },
      {randn({n / 64, 64}), randn({64})});
}
BENCHMARK(bias_and_gate)->Apply(sizes);

/// Casts and comparisons.
void masked_chain(benchmark::State& state) {
  int64_t n = state.range(0);
  run(state,
      [](const std::vector<Tensor>& in) {
        Tensor mask = in[0].gt(in[1]);
        Tensor t = where(mask, in[0] * 2.0, in[1] + 1.0);
        return clamp(t * t - in[0], -3.0, 3.0) + t;
      },
      {randn({n}), randn({n})});
}
BENCHMARK(masked_chain)->Apply(sizes);

}  // namespace
