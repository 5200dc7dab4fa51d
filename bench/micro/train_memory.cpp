// Memory against time: a step of training of a small transformer under memory budgets, beside the
// tape. `peak_MB` is the most that the allocator had given out during a step beyond what was in use
// before it: activations, gradients and what ops need meanwhile.
#include "core/tensor/allocator.h"

#include <tenon/tenon.h>

#include <benchmark/benchmark.h>

using namespace tenon;

namespace {

struct Layer : nn::Module {
  explicit Layer(int64_t width)
      : norm1({width}),
        norm2({width}),
        attention(width, 4, {.batch_first = true}),
        up(width, 4 * width),
        down(4 * width, width) {}
  nn::LayerNorm norm1, norm2;
  nn::MultiheadAttention attention;
  nn::Linear up, down;
  TENON_MODULE(Layer, norm1, norm2, attention, up, down)
  Tensor forward(const Tensor& x) {
    Tensor n = norm1(x);
    Tensor h = x + attention(n, n, n).output;
    return h + down(gelu(up(norm2(h))));
  }
};

struct Stack : nn::Module {
  Stack(int64_t layers, int64_t width) {
    for (int64_t i = 0; i < layers; ++i) blocks.push_back(Layer(width));
  }
  nn::ModuleList<Layer> blocks;
  TENON_MODULE(Stack, blocks)
  Tensor forward(const Tensor& x) {
    Tensor h = x;
    for (Layer& block : blocks) h = block(h);
    return h;
  }
};

void step(benchmark::State& state) {
  int64_t percent = state.range(0);
  manual_seed(1);
  Stack net(6, 128);
  Tensor x = randn({8, 64, 128});
  std::function<Tensor(const Tensor&)> loss = [&](const Tensor& in) {
    return net(in).pow(2).mean();
  };
  if (percent >= 0)
    loss = compile(loss, {.backend = "aot_eager",
                          .options = {{"functorch.activation_memory_budget",
                                       std::to_string(static_cast<double>(percent) / 100)}}});
  auto run = [&] {
    net.zero_grad();
    loss(x).backward();
  };
  run();
  net.zero_grad();
  reset_allocator_peak();
  int64_t before = allocator_stats().current_bytes;
  run();
  state.counters["peak_MB"] = static_cast<double>(allocator_stats().peak_bytes - before) / 1e6;
  for (auto _ : state) run();
}
BENCHMARK(step)
    ->ArgName("budget")
    ->Arg(-1)
    ->Arg(100)
    ->Arg(75)
    ->Arg(50)
    ->Arg(25)
    ->Arg(10)
    ->Arg(0)
    ->Unit(benchmark::kMillisecond);

}  // namespace
