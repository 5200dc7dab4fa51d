// A small transformer learns to sort digits.
#include <tenon/tenon.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

namespace nn = tenon::nn;
using tenon::Tensor;

constexpr int64_t digits = 10, heads = 4;

// Attention over all positions, then a network for each of them; both are added to what came in.
struct Block : nn::Module {
  explicit Block(int64_t width)
      : before_attention({width}),
        before_network({width}),
        in(width, 3 * width),
        out(width, width),
        wide(width, 4 * width),
        narrow(4 * width, width) {}
  nn::LayerNorm before_attention, before_network;
  nn::Linear in, out, wide, narrow;
  TENON_MODULE(Block, before_attention, before_network, in, out, wide, narrow)
  Tensor forward(const Tensor& x) {
    int64_t n = x.size(0), positions = x.size(1), width = x.size(2);
    Tensor all = in(before_attention(x)).view({n, positions, 3, heads, width / heads});
    auto part = [&](int64_t which) { return all.select(2, which).transpose(1, 2); };
    Tensor attended = tenon::scaled_dot_product_attention(part(0), part(1), part(2));
    Tensor y = x + out(attended.transpose(1, 2).reshape({n, positions, width}));
    return y + narrow(tenon::gelu(wide(before_network(y)), "tanh"));
  }
};

// Digits in, and for each position how likely each digit is there.
struct Sorter : nn::Module {
  Sorter(int64_t width, int64_t positions)
      : digit(digits, width), position(positions, width), norm({width}), classes(width, digits) {
    for (int i = 0; i < 2; ++i) blocks.push_back(Block(width));
  }
  nn::Embedding digit, position;
  nn::Sequential blocks;
  nn::LayerNorm norm;
  nn::Linear classes;
  TENON_MODULE(Sorter, digit, position, blocks, norm, classes)
  Tensor forward(const Tensor& x) { return classes(norm(blocks(digit(x) + position.weight))); }
};

struct Arguments {
  tenon::Device device = tenon::kCPU;
  std::string backend, mode;
  bool compiled = false;
  int steps = 400;
  int64_t batch = 64, positions = 12, width = 64;
  double least_accuracy = 0;
};

bool parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    auto is = [&](std::string_view name) { return arg == name && i + 1 < argc; };
    if (arg == "--compiled")
      a.compiled = true;
    else if (is("--backend"))
      a.backend = argv[++i];
    else if (is("--mode"))
      a.mode = argv[++i];
    else if (is("--steps"))
      a.steps = std::atoi(argv[++i]);
    else if (is("--batch"))
      a.batch = std::atoll(argv[++i]);
    else if (is("--width"))
      a.width = std::atoll(argv[++i]);
    else if (is("--least-accuracy"))
      a.least_accuracy = std::atof(argv[++i]);
    else if (is("--device") && std::string_view(argv[i + 1]) == "cpu")
      a.device = tenon::kCPU, ++i;
    else if (is("--device") && std::string_view(argv[i + 1]) == "cuda")
      a.device = tenon::Device(tenon::DeviceType::cuda), ++i;
    else
      return false;
  }
  return a.steps > 0 && a.batch > 0 && a.width > 0 && a.width % heads == 0;
}

// Rows of digits, drawn on the CPU, so that devices see the same ones, and the rows sorted.
struct Batch {
  Tensor given, sorted;
};
Batch next_batch(const Arguments& a) {
  Tensor rows = tenon::randint(0, digits, {a.batch, a.positions});
  Tensor in_order = std::get<0>(rows.sort(1));
  return {rows.to(a.device, tenon::Dtype::i64), in_order.to(a.device, tenon::Dtype::i64)};
}

double accuracy(Sorter& net, const Arguments& a) {
  tenon::NoGradGuard no_grad;
  Batch batch = next_batch(a);
  Tensor hits = net(batch.given).argmax(-1) == batch.sorted;
  return hits.to(tenon::Dtype::f64).mean().item<double>();
}

void train(Sorter& net, const Arguments& a) {
  tenon::optim::AdamW opt(net.parameters(), {.lr = 2e-3, .weight_decay = 0.01});
  tenon::optim::OneCycleLR schedule(opt, {.max_lr = 4e-3, .total_steps = a.steps + 1});

  // Compiled, the whole step is one graph: forward, loss, backward and the update.
  std::function<Tensor(const Tensor&, const Tensor&)> step = [&](const Tensor& given,
                                                                 const Tensor& sorted) {
    opt.zero_grad();
    Tensor loss = tenon::cross_entropy(net(given).reshape({-1, digits}), sorted.reshape({-1}));
    loss.backward();
    opt.step();
    return loss.detach();
  };
  if (a.compiled)
    step = tenon::compile(step, {.backend = a.backend, .fullgraph = true, .mode = a.mode});

  constexpr int told_every = 50;
  for (int i = 1; i <= a.steps; ++i) {
    Batch batch = next_batch(a);
    Tensor loss = step(batch.given, batch.sorted);
    schedule.step();
    if (i % told_every == 0 || i == a.steps)
      std::printf("step %4d loss %.4f\n", i, static_cast<double>(loss.item<float>()));
  }
}

int main(int argc, char** argv) try {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::fprintf(stderr,
                 "usage: example_transformer [--device cpu|cuda] [--compiled] [--backend NAME]\n"
                 "                           [--mode NAME] [--steps N] [--batch N] [--width N]\n"
                 "                           [--least-accuracy X]\n");
    return 2;
  }
  tenon::manual_seed(1);
  Sorter net(a.width, a.positions);
  net.to(a.device);
  auto start = std::chrono::steady_clock::now();
  train(net, a);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  double reached = accuracy(net, a);
  std::printf("%.2f %% of the digits are in their places\n", 100 * reached);
  std::fprintf(stderr, "%.1f s\n", seconds.count());
  if (reached >= a.least_accuracy) return 0;
  std::fprintf(stderr, "the accuracy is below %g\n", a.least_accuracy);
  return 1;
} catch (const tenon::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
