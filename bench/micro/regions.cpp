// What cutting a graph for a backend that supports half of its nodes costs: verdicts to regions,
// and regions to graphs of their own.
#include "graph/regions.h"
#include "graph/extract.h"
#include "ops/op_table.h"

#include <benchmark/benchmark.h>

#include <random>

namespace tenon {
namespace {

// Node n reads two of the 50 before it.
std::shared_ptr<Graph> random_graph(uint32_t n) {
  auto graph = std::make_shared<Graph>();
  GraphValue value;
  value.meta = contiguous_meta(IntList{2}, Dtype::f32);
  graph->add_input(value);
  std::mt19937 random(1);
  OpId add = op_id("aten.add.Tensor");
  for (uint32_t i = 0; i < n; ++i) {
    auto any = [&] { return Value::ref(i - std::min<uint32_t>(i, random() % 50)); };
    Value args[] = {any(), any(), Value::of(int64_t{1})};
    graph->add_node(add, args, {value});
  }
  graph->set_outputs({n});
  return graph;
}

std::vector<Support> verdicts(uint32_t n, uint32_t percent) {
  std::mt19937 random(2);
  std::vector<Support> out;
  for (uint32_t i = 0; i < n; ++i)
    out.push_back(random() % 100 < percent ? Support::yes : Support::no);
  return out;
}

void cut(benchmark::State& state) {
  auto n = static_cast<uint32_t>(state.range(0));
  auto graph = random_graph(n);
  auto supported = verdicts(n, static_cast<uint32_t>(state.range(1)));
  size_t pieces = 0;
  for (auto _ : state)
    pieces = cut_into_regions(*graph, Dependencies(*graph), supported, 1).pieces.size();
  state.counters["pieces"] = static_cast<double>(pieces);
}
BENCHMARK(cut)
    ->Args({1000, 50})
    ->Args({10000, 50})
    ->Args({10000, 95})
    ->Args({100000, 50})
    ->Unit(benchmark::kMillisecond);

void cut_and_extract(benchmark::State& state) {
  auto n = static_cast<uint32_t>(state.range(0));
  auto graph = random_graph(n);
  auto supported = verdicts(n, static_cast<uint32_t>(state.range(1)));
  for (auto _ : state) {
    GraphPieces pieces = cut_into_regions(*graph, Dependencies(*graph), supported, 1);
    Extractor extractor(*graph);
    for (const GraphPiece& piece : pieces.pieces)
      benchmark::DoNotOptimize(extractor.cut(piece.nodes).graph.get());
  }
}
BENCHMARK(cut_and_extract)
    ->Args({1000, 50})
    ->Args({10000, 50})
    ->Args({10000, 95})
    ->Args({100000, 50})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon
