// A program that does what a report tells of: it trains, runs a model, recompiles up to its limit,
// breaks its graph, calls back and forth, and gives its callables names that are no good HTML.
//
//   TENON_REPORT=report.html page_sample MODEL.pt2
#include <tenon/compiled_autograd.h>
#include <tenon/tenon.h>

#include <cstdio>

using tenon::Tensor;
namespace nn = tenon::nn;

namespace {

struct Net : nn::Module {
  nn::Linear first{64, 128}, second{128, 128}, classes{128, 10};
  nn::LayerNorm norm{{128}};
  nn::Dropout drop{0.1};
  TENON_MODULE(Net, first, second, classes, norm, drop)
  Tensor forward(const Tensor& x) {
    Tensor h = drop(norm(first(x)).gelu());
    return classes(second(h).relu() + h);
  }
};

// A loss that is differentiated: a graph each for forward and backward.
void train() {
  Net net;
  auto loss_of = tenon::compile(
      [&](const Tensor& x, const Tensor& y) { return tenon::cross_entropy(net(x), y); },
      {.name = "training step"});
  tenon::optim::SGD sgd(net.parameters(), {.lr = 0.05});
  for (int step = 0; step < 40; ++step) {
    Tensor x = tenon::randn({32, 64}), y = tenon::randint(0, 10, {32});
    sgd.zero_grad();
    loss_of(x, y).backward();
    sgd.step();
  }
}

// Sizes that change from call to call, up to the limit and beyond.
void change_sizes() {
  auto scale = tenon::compile([](const Tensor& x) { return x.softmax(-1) * 2; },
                              {.dynamic = false, .recompile_limit = 3, .name = "scale rows"});
  for (int64_t n = 2; n < 12; ++n) scale(tenon::ones({n, n + 1}));
}

// Looks at its data in the middle.
void decide() {
  auto clip = tenon::compile(
      [](const Tensor& x) {
        Tensor y = x.sin() + 1;
        if (y.max().item<double>() > 1.5) y = y / y.max();
        return (y * y).sum();
      },
      {.name = "clip gradients"});
  for (int i = 1; i < 30; ++i) clip(tenon::full({8, 8}, 0.1 * i));
}

void pass_back() {
  auto on = tenon::compiled_autograd::enable();
  Tensor w = tenon::randn({16, 16}).requires_grad_();
  for (int i = 0; i < 4; ++i) (tenon::randn({4, 16}).matmul(w).tanh().sum()).backward();
}

void be_untrusted() {
  for (const char* name : {"<script>document.title = 'taken over'</script>",
                           "</script><img src=x onerror=alert(1)>", "a \u202e b & \"c\" \xff"})
    tenon::compile([](const Tensor& x) { return x.relu() + 1; }, {.name = name})(tenon::ones({3}));
}

void run_model(const char* file) {
  tenon::Model model = tenon::load(file);
  std::vector<tenon::Tree> inputs;
  for (const tenon::ValueSpec& spec : model.inputs()) {
    std::vector<int64_t> sizes;
    for (const tenon::SizeSpec& size : spec.sizes) sizes.push_back(size.fixed.value_or(4));
    inputs.emplace_back(tenon::randn(sizes).to(spec.dtype));
  }
  for (int i = 0; i < 20; ++i) model.call(inputs, {});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: page_sample MODEL.pt2\n");
    return 2;
  }
  try {
    tenon::manual_seed(0);
    train();
    run_model(argv[1]);
    change_sizes();
    decide();
    pass_back();
    be_untrusted();
  } catch (const tenon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
