// Recording: operations per second of a body on fakes, with static and with symbolic sizes.
#include "core/sym/shape_env.h"
#include "graph/record.h"

#include <tenon/ops.h>

#include <benchmark/benchmark.h>

#include <memory>

using namespace tenon;

// As in a program that has let go of a large tensor: from then on the C library keeps the pages of
// one graph for the next.
static void free_a_large_block() {
  auto block = std::make_unique<char[]>(4 << 20);
  benchmark::DoNotOptimize(block.get());
}

static void record_ops(benchmark::State& state, bool symbolic) {
  constexpr int n_ops = 1000;
  free_a_large_block();
  for (auto _ : state) {
    auto env = ShapeEnv::make();
    GraphRecorder recorder(env);
    RecordScope scope(recorder);
    SymInt rows = symbolic
                      ? env->create_symbol(32, {SymbolSource::Kind::input_size, 0, 0}, "x.size(0)")
                      : SymInt(32);
    Dims sizes{rows, SymInt(8)};
    Tensor x = recorder.add_input(contiguous_meta(list_of(sizes), Dtype::f32));
    Tensor y = x;
    for (int i = 0; i < n_ops / 2; ++i) y = y.relu() + x;
    benchmark::DoNotOptimize(recorder.finish(std::span(&y, 1)));
  }
  state.SetItemsProcessed(state.iterations() * n_ops);
}
BENCHMARK_CAPTURE(record_ops, static_sizes, false);
BENCHMARK_CAPTURE(record_ops, symbolic_sizes, true);
