// Backward passes that are compiled, beside the engine: what looking a pass up costs a node, chains
// of small ops, and training steps with graph breaks.
#include "autograd/grad_state.h"
#include "tape/walk.h"

#include <tenon/compiled_autograd.h>
#include <tenon/tenon.h>

#include <benchmark/benchmark.h>

using namespace tenon;
namespace ca = tenon::compiled_autograd;

namespace {

Tensor chain(const Tensor& x, int64_t n) {
  Tensor y = x;
  for (int64_t i = 0; i < n; ++i) y = y.sin();
  return y;
}

// ---- the backward of a chain of `sin` on 4 elements, its tape kept

void pass_over_chain(benchmark::State& state) {
  Tensor x = ones({4}).requires_grad_(), y = chain(x, state.range(0)), g = ones({4});
  autograd::grad({y}, {x}, {.grad_outputs = {g}, .retain_graph = true});  // compiles
  for (auto _ : state)
    benchmark::DoNotOptimize(autograd::grad({y}, {x}, {.grad_outputs = {g}, .retain_graph = true}));
  state.counters["us_a_node"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * 1e-6,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void engine(benchmark::State& state) { pass_over_chain(state); }
BENCHMARK(engine)->Arg(5)->Arg(10)->Arg(50);

void compiled_inductor(benchmark::State& state) {
  auto on = ca::enable("inductor");
  pass_over_chain(state);
}
BENCHMARK(compiled_inductor)->Arg(5)->Arg(10)->Arg(50);

// Code that does nothing: collecting, looking up and calling.
void compiled_nothing(benchmark::State& state) {
  auto on = ca::enable([](const compiler::Graph&, std::span<const Tensor>) {
    return [result = ones({4})](const std::vector<Tensor>&) { return std::vector{result}; };
  });
  pass_over_chain(state);
}
BENCHMARK(compiled_nothing)->Arg(5)->Arg(10)->Arg(50);

// Walking, collecting and hashing alone.
void collect(benchmark::State& state) {
  Tensor x = ones({4}).requires_grad_(), y = chain(x, state.range(0));
  std::vector<autograd::Edge> roots{autograd::edge_of(y)}, wanted{autograd::edge_of(x)};
  std::vector<Tensor> grads{ones({4})};
  autograd::EngineOptions options{.keep_graph = true, .accumulate = false};
  tape::TapeWalk walk;
  for (auto _ : state) {
    walk.run({roots, grads, wanted, options}, {}, false);
    benchmark::DoNotOptimize(walk.hash());
  }
  state.counters["us_a_node"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * 1e-6,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(collect)->Arg(5)->Arg(10)->Arg(50)->Arg(1000);

// ---- a step of a network with four layers

using Step = std::function<Tensor(const Tensor&)>;

void step_of(benchmark::State& state, const Step& forward, const std::vector<Tensor>& parameters) {
  Tensor x = randn({16, 32});
  for (int i = 0; i < 3; ++i) forward(x).sum().backward();  // compiles
  for (const Tensor& p : parameters) p.set_grad({});
  for (auto _ : state) {
    forward(x).sum().backward();
    for (const Tensor& p : parameters) p.set_grad({});
  }
}

std::vector<Tensor> weights() {
  manual_seed(0);
  std::vector<Tensor> w;
  for (int i = 0; i < 4; ++i) {
    w.push_back((randn({32, 32}) * 0.2).requires_grad_());
    w.push_back(zeros({32}).requires_grad_());
  }
  return w;
}

Tensor layer(const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b).relu(); }

void mlp_engine(benchmark::State& state) {
  auto w = weights();
  step_of(
      state,
      [&](Tensor x) {
        for (size_t i = 0; i < w.size(); i += 2) x = layer(x, w[i], w[i + 1]);
        return x;
      },
      w);
}
BENCHMARK(mlp_engine);

void mlp_one_piece(benchmark::State& state) {
  auto w = weights();
  auto f = compile(
      [&](Tensor x) {
        for (size_t i = 0; i < w.size(); i += 2) x = layer(x, w[i], w[i + 1]);
        return x;
      },
      {.backend = "inductor"});
  step_of(state, f, w);
}
BENCHMARK(mlp_one_piece);

// Four compiled pieces, with the program between them.
void mlp_four_pieces(benchmark::State& state) {
  auto w = weights();
  auto f = compile(layer, {.backend = "inductor"});
  step_of(
      state,
      [&](Tensor x) {
        for (size_t i = 0; i < w.size(); i += 2) x = f(x, w[i], w[i + 1]);
        return x;
      },
      w);
}
BENCHMARK(mlp_four_pieces);

void mlp_four_pieces_compiled_autograd(benchmark::State& state) {
  auto on = ca::enable("inductor");
  mlp_four_pieces(state);
}
BENCHMARK(mlp_four_pieces_compiled_autograd);

void mlp_engine_compiled_autograd(benchmark::State& state) {
  auto on = ca::enable("inductor");
  mlp_engine(state);
}
BENCHMARK(mlp_engine_compiled_autograd);

}  // namespace
