// Backward passes that are compiled, beside the engine: what looking a pass up costs a node, chains
// of small ops, and training steps with graph breaks.
#include "autograd/grad_state.h"
#include "tape/walk.h"

#include <tenon/compiled_autograd.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/tenon.h>

#include <benchmark/benchmark.h>

#include <optional>

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

// ---- a training step of a transformer layer (4 x 16 x 32, four heads) with a hook in its middle

struct TransformerLayer {
  nn::MultiheadAttention attention{32, 4, {.batch_first = true}};
  nn::LayerNorm first{32}, second{32};
  nn::Linear up{32, 128}, down{128, 32};

  Tensor attend(const Tensor& x) const {
    Tensor n = first.forward(x);
    return x + attention.forward(n, n, n, {.need_weights = false}).output;
  }
  Tensor feed(const Tensor& x) const {
    return x + down.forward(gelu(up.forward(second.forward(x))));
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all;
    for (const nn::Module* m :
         std::initializer_list<const nn::Module*>{&attention, &first, &second, &up, &down})
      for (const Tensor& p : m->parameters()) all.push_back(p);
    return all;
  }
};

// SGD as it is or, with `in_backward`, in the backward pass.
void step_of_layer(benchmark::State& state, const TransformerLayer& layer, const Step& attend,
                   const Step& feed, bool in_backward) {
  optim::SGD optimizer(layer.parameters(), {.lr = 1e-4, .momentum = 0.9});
  std::optional<optim::StepInBackward> stepping;
  if (in_backward) stepping.emplace(optimizer);
  Tensor x = randn({4, 16, 32});
  auto step = [&] {
    Tensor h = attend(x);
    autograd::register_hook(h, [](const Tensor& g) { return g * 0.5; });
    feed(h).sum().backward();
    if (in_backward) return;
    optimizer.step();
    optimizer.zero_grad();
  };
  for (int i = 0; i < 3; ++i) step();  // compiles
  for (auto _ : state) step();
}

void plain_layer(benchmark::State& state, bool in_backward) {
  manual_seed(0);
  TransformerLayer layer;
  step_of_layer(
      state, layer, [&](const Tensor& x) { return layer.attend(x); },
      [&](const Tensor& x) { return layer.feed(x); }, in_backward);
}

void layer_of_two_pieces(benchmark::State& state, bool in_backward) {
  manual_seed(0);
  TransformerLayer layer;
  auto attend = compile([&](const Tensor& x) { return layer.attend(x); }, {.backend = "inductor"});
  auto feed = compile([&](const Tensor& x) { return layer.feed(x); }, {.backend = "inductor"});
  step_of_layer(state, layer, attend, feed, in_backward);
}

void layer_engine(benchmark::State& state) { plain_layer(state, false); }
BENCHMARK(layer_engine);

void layer_engine_compiled_autograd(benchmark::State& state) {
  auto on = ca::enable("inductor", {.dynamic = false});
  plain_layer(state, true);
}
BENCHMARK(layer_engine_compiled_autograd);

// Its views are over sizes that nothing ties to each other: indices are divisions.
void layer_engine_compiled_autograd_any_size(benchmark::State& state) {
  auto on = ca::enable("inductor");
  plain_layer(state, true);
}
BENCHMARK(layer_engine_compiled_autograd_any_size);

void layer_two_pieces(benchmark::State& state) { layer_of_two_pieces(state, false); }
BENCHMARK(layer_two_pieces);

void layer_two_pieces_compiled_autograd(benchmark::State& state) {
  auto on = ca::enable("inductor");
  layer_of_two_pieces(state, true);
}
BENCHMARK(layer_two_pieces_compiled_autograd);

}  // namespace
