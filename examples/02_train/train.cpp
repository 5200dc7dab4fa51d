// A small convolutional network learns handwritten digits.
#include <tenon/tenon.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>

#include "chart.h"
#include "digits.h"

namespace nn = tenon::nn;
using tenon::Tensor;

// 3 x 3 convolution, normalised over the batch.
struct ConvBlock : nn::Module {
  ConvBlock(int64_t in, int64_t out) : conv(in, out, 3, {.padding = 1, .bias = false}), norm(out) {}
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  TENON_MODULE(ConvBlock, conv, norm)
  Tensor forward(const Tensor& x) { return norm(conv(x)).relu(); }
};

struct DigitsNet : nn::Module {
  ConvBlock first{1, 32}, second{32, 64}, third{64, 64};
  nn::MaxPool2d pool{2};
  nn::Dropout drop{0.3};
  nn::Linear classes{64 * 2 * 2, 10};
  TENON_MODULE(DigitsNet, first, second, third, pool, drop, classes)
  Tensor forward(const Tensor& x) {
    Tensor half = pool(second(first(x)));
    return classes(drop(pool(third(half)).flatten(1)));
  }
};

struct Arguments {
  std::string file, svg = "training.svg", backend;
  tenon::Device device = tenon::kCPU;
  bool compiled = false;
  int epochs = 15;
  int64_t samples = 1500;
  uint64_t seed = 1;
  double least_accuracy = 0;
};

bool parse_device(std::string_view text, tenon::Device& device) {
  if (text == "cuda") device = tenon::Device(tenon::DeviceType::cuda);
  return text == "cpu" || text == "cuda";
}

bool parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    bool has_value = i + 1 < argc;
    if (arg == "--eager")
      a.compiled = false;
    else if (arg == "--compiled")
      a.compiled = true;
    else if (arg == "--backend" && has_value)
      a.backend = argv[++i];
    else if (arg == "--device" && has_value && parse_device(argv[i + 1], a.device))
      ++i;
    else if (arg == "--epochs" && has_value)
      a.epochs = std::atoi(argv[++i]);
    else if (arg == "--samples" && has_value)
      a.samples = std::atoll(argv[++i]);
    else if (arg == "--seed" && has_value)
      a.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (arg == "--least-accuracy" && has_value)
      a.least_accuracy = std::atof(argv[++i]);
    else if (arg == "--svg" && has_value)
      a.svg = argv[++i];
    else if (!arg.starts_with("-") && a.file.empty())
      a.file = arg;
    else
      return false;
  }
  return !a.file.empty() && a.epochs > 0 && a.samples > 0;
}

double accuracy(DigitsNet& net, const Digits& test) {
  tenon::NoGradGuard no_grad;
  net.eval();
  Tensor hits = net(test.images).argmax(1) == test.labels;
  net.train();
  return hits.to(tenon::Dtype::f64).mean().item<double>();
}

std::vector<EpochResult> train(const Arguments& a, DigitsNet& net) {
  constexpr int64_t batch_size = 50;
  AugmentedDigits digits{load_digits(a.file, "train", a.samples)};
  Digits test = load_digits(a.file, "test", 297);
  test.images = test.images.to(a.device, test.images.dtype());
  test.labels = test.labels.to(a.device, test.labels.dtype());
  tenon::data::DataLoader loader(
      digits, {.batch_size = batch_size, .shuffle = true, .drop_last = true, .workers = 1});
  tenon::optim::AdamW opt(net.parameters(), {.lr = 1e-3, .weight_decay = 0.02});
  tenon::optim::OneCycleLR schedule(opt,
                                    {.max_lr = 5e-3, .total_steps = a.epochs * loader.size() + 1});

  // Compiled, the whole step is one graph: forward, loss, backward and the update.
  std::function<Tensor(const Tensor&, const Tensor&)> step = [&](const Tensor& images,
                                                                 const Tensor& labels) {
    opt.zero_grad();
    Tensor loss = tenon::cross_entropy(net(images), labels, {.label_smoothing = 0.05});
    loss.backward();
    opt.step();
    return loss.detach();
  };
  if (a.compiled) step = tenon::compile(step, {.backend = a.backend, .fullgraph = true});

  Progress progress(a.epochs, loader.size());
  std::vector<EpochResult> results;
  while (static_cast<int>(results.size()) < a.epochs) {
    double sum = 0;
    int64_t batches = 0;
    for (auto& [images, labels] : loader) {
      Tensor loss = step(images.to(a.device, images.dtype()), labels.to(a.device, labels.dtype()));
      schedule.step();
      sum += loss.item<double>();
      ++batches;
      progress.batch_done(batches, sum / static_cast<double>(batches));
    }
    results.push_back({sum / static_cast<double>(batches), accuracy(net, test)});
    progress.epoch_done(results.back());
  }
  return results;
}

int main(int argc, char** argv) try {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::fprintf(stderr,
                 "usage: example_train DIGITS.safetensors [--eager | --compiled] [--backend NAME]\n"
                 "                     [--device cpu|cuda] [--epochs N] [--samples N] [--seed N]\n"
                 "                     [--svg FILE] [--least-accuracy X]\n");
    return 2;
  }
  tenon::manual_seed(a.seed);
  DigitsNet net;
  net.to(a.device);
  auto start = std::chrono::steady_clock::now();
  std::vector<EpochResult> results = train(a, net);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "%.1f s\n", seconds.count());
  if (!write_chart(a.svg, results)) {
    std::fprintf(stderr, "%s: cannot be written\n", a.svg.c_str());
    return 1;
  }
  if (results.size() > 1 && results.back().loss >= results.front().loss) {
    std::fprintf(stderr, "the loss has not fallen\n");
    return 1;
  }
  if (results.back().accuracy < a.least_accuracy) {
    std::fprintf(stderr, "the accuracy is below %g\n", a.least_accuracy);
    return 1;
  }
  return 0;
} catch (const tenon::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
