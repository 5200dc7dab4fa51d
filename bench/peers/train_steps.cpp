// The worker of train_steps.py: times training steps of one model.
//
//   train_steps MODEL MODE STEPS      prints the milliseconds of the fastest step
//
// MODEL: mlp (four layers of width 256, 128 digits), cnn (three convolutions with normalisation, 50
// images of 8x8), transformer (six layers of width 128, 8 sequences of 64), gpt (the same layers,
// causal, between an embedding and a head of 1000 tokens, a loss at each position). MODE: tape,
// forward (compiled forward and backward), step (forward, backward and update as one compiled
// callable), whole (the same as one graph), pure (the same, stated pure: later calls leave its body
// out).
#include <tenon/tenon.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace nn = tenon::nn;
using tenon::Tensor;

namespace {

struct Mlp : nn::Module {
  nn::Linear first{64, 256}, second{256, 256}, third{256, 256}, classes{256, 10};
  TENON_MODULE(Mlp, first, second, third, classes)
  Tensor forward(const Tensor& x) { return classes(third(second(first(x).relu()).relu()).relu()); }
  static Tensor input() { return tenon::randn({128, 64}); }
  static Tensor target() { return tenon::randint(0, 10, {128}); }
};

struct ConvBlock : nn::Module {
  ConvBlock(int64_t in, int64_t out) : conv(in, out, 3, {.padding = 1, .bias = false}), norm(out) {}
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  TENON_MODULE(ConvBlock, conv, norm)
  Tensor forward(const Tensor& x) { return norm(conv(x)).relu(); }
};

struct Cnn : nn::Module {
  ConvBlock first{1, 32}, second{32, 64}, third{64, 64};
  nn::MaxPool2d pool{2};
  nn::Linear classes{64 * 2 * 2, 10};
  TENON_MODULE(Cnn, first, second, third, pool, classes)
  Tensor forward(const Tensor& x) {
    return classes(pool(third(pool(second(first(x))))).flatten(1));
  }
  static Tensor input() { return tenon::randn({50, 1, 8, 8}); }
  static Tensor target() { return tenon::randint(0, 10, {50}); }
};

struct Layer : nn::Module {
  nn::LayerNorm norm1{{128}}, norm2{{128}};
  nn::MultiheadAttention attention{128, 4, {.batch_first = true}};
  nn::Linear up{128, 512}, down{512, 128};
  TENON_MODULE(Layer, norm1, norm2, attention, up, down)
  bool is_causal = false;
  Tensor forward(const Tensor& x) {
    Tensor n = norm1(x);
    Tensor h =
        x + attention(n, n, n, nn::AttentionMasks{.is_causal = is_causal, .need_weights = false})
                .output;
    return h + down(gelu(up(norm2(h))));
  }
};

struct Transformer : nn::Module {
  nn::Linear classes{128, 10};
  std::vector<Layer> blocks = std::vector<Layer>(6);
  TENON_MODULE(Transformer, blocks, classes)
  Tensor forward(const Tensor& x) {
    Tensor h = x;
    for (Layer& block : blocks) h = block(h);
    return classes(h.mean(1));
  }
  static Tensor input() { return tenon::randn({8, 64, 128}); }
  static Tensor target() { return tenon::randint(0, 10, {8}); }
};

struct Gpt : nn::Module {
  nn::Embedding tokens{1000, 128}, positions{64, 128};
  std::vector<Layer> blocks = std::vector<Layer>(6);
  nn::LayerNorm norm{{128}};
  nn::Linear head{128, 1000, {.bias = false}};
  TENON_MODULE(Gpt, tokens, positions, blocks, norm, head)
  Gpt() {
    for (Layer& block : blocks) block.is_causal = true;
  }
  Tensor forward(const Tensor& x) {
    Tensor h = tokens(x) + positions.weight;
    for (Layer& block : blocks) h = block(h);
    return head(norm(h)).flatten(0, 1);
  }
  static Tensor input() { return tenon::randint(0, 1000, {8, 64}); }
  static Tensor target() { return tenon::randint(0, 1000, {8 * 64}); }
};

template <class Net>
double fastest_step(const std::string& mode, int steps) {
  tenon::manual_seed(1);
  Net net;
  tenon::optim::AdamW opt(net.parameters(), {.lr = 1e-3});
  Tensor x = Net::input(), y = Net::target();
  std::function<Tensor(const Tensor&)> forward = [&](const Tensor& in) { return net(in); };
  if (mode == "forward") forward = tenon::compile(forward);
  std::function<void(const Tensor&, const Tensor&)> step = [&](const Tensor& in, const Tensor& to) {
    opt.zero_grad();
    tenon::cross_entropy(forward(in), to).backward();
    opt.step();
  };
  if (mode == "step") step = tenon::compile(step);
  if (mode == "whole") step = tenon::compile(step, {.fullgraph = true});
  if (mode == "pure") step = tenon::compile(step, {.fullgraph = true, .pure = true});
  for (int i = 0; i < 3; ++i) step(x, y);
  double best = 1e9;
  for (int i = 0; i < steps; ++i) {
    auto begin = std::chrono::steady_clock::now();
    step(x, y);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::fprintf(stderr,
                 "usage: train_steps mlp|cnn|transformer|gpt tape|forward|step|whole|pure STEPS\n");
    return 2;
  }
  std::string model = argv[1];
  auto run = model == "mlp"           ? fastest_step<Mlp>
             : model == "cnn"         ? fastest_step<Cnn>
             : model == "transformer" ? fastest_step<Transformer>
                                      : fastest_step<Gpt>;
  std::printf("%.4f\n", run(argv[2], std::atoi(argv[3])));
} catch (const tenon::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
