// What weights cost that a graph keeps in its own form: sizes beside them that change at each call,
// and steps of an optimiser over weights as nn::Linear has them or as products read them.
#include <tenon/tenon.h>

#include <benchmark/benchmark.h>

using namespace tenon;

namespace {

// One row through a linear layer of 1024 x 1024, beside a tensor of symbolic size.
void linear_beside(benchmark::State& state, bool changes) {
  Tensor w = randn({1024, 1024}), b = randn({1024}), x = randn({1, 1024});
  std::vector<Tensor> others;
  for (int64_t n : {40, 41, 57, 64}) others.push_back(randn({n, 64}));
  nn::Parameter weight(w), bias(b);
  NoGradGuard off;
  auto f = compile(
      [&](const Tensor& row, const Tensor& other) {
        return std::tuple{linear(row, weight, bias), other * 2};
      },
      {.backend = "inductor", .dynamic = true});
  for (const Tensor& other : others) f(x, other);
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(f(x, others[changes ? i++ % others.size() : 0]));
}
void linear_beside_a_fixed_size(benchmark::State& state) { linear_beside(state, false); }
BENCHMARK(linear_beside_a_fixed_size);
void linear_beside_changing_sizes(benchmark::State& state) { linear_beside(state, true); }
BENCHMARK(linear_beside_changing_sizes);

// A step of three layers on 128 rows: forward, backward, SGD.
template <class Forward>
void step(benchmark::State& state, std::vector<Tensor> weights, Forward forward) {
  Tensor x = randn({128, 784}), y = randn({128, 10});
  optim::SGD optimizer(weights, {.lr = 1e-3});
  auto loss =
      compile([&](const Tensor& in) { return mse_loss(forward(in), y); }, {.backend = "inductor"});
  for (auto _ : state) {
    optimizer.zero_grad();
    loss(x).backward();
    optimizer.step();
  }
}

void step_with_linear_modules(benchmark::State& state) {
  nn::Linear a(784, 512), b(512, 512), c(512, 10);
  std::vector<Tensor> weights;
  for (nn::Linear* l : {&a, &b, &c})
    for (Tensor& p : l->parameters()) weights.push_back(p);
  step(state, weights, [&](const Tensor& x) { return c(relu(b(relu(a(x))))); });
}
BENCHMARK(step_with_linear_modules);

void step_with_weights_as_products_read_them(benchmark::State& state) {
  std::vector<Tensor> w;
  for (auto [in, out] : {std::pair{784, 512}, {512, 512}, {512, 10}}) {
    w.push_back((randn({in, out}) * 0.05).requires_grad_());
    w.push_back(zeros({out}).requires_grad_());
  }
  step(state, w, [&](const Tensor& x) {
    Tensor h = relu(addmm(w[1], x, w[0]));
    return addmm(w[5], relu(addmm(w[3], h, w[2])), w[4]);
  });
}
BENCHMARK(step_with_weights_as_products_read_them);

}  // namespace
