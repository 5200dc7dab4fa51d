// ResNet-18 as a module of C++, eager and compiled: equal results, and how long each takes.
#include <tenon/tenon.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace nn = tenon::nn;
using tenon::Tensor;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
}

// Two convolutions and a way around them.
struct BasicBlock : nn::Module {
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(convolution(in, out, 3, stride)),
        conv2(convolution(out, out, 3, 1)),
        bn1(out),
        bn2(out) {
    if (in == out) return;
    downsample.push_back(convolution(in, out, 1, stride));
    downsample.push_back(nn::BatchNorm2d(out));
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential downsample;
  TENON_MODULE(BasicBlock, conv1, bn1, conv2, bn2, downsample)
  Tensor forward(const Tensor& x) {
    Tensor main = bn2(conv2(bn1(conv1(x)).relu()));
    return (main + (downsample.size() ? downsample(x) : x)).relu();
  }
};

struct ResNet18 : nn::Module {
  nn::Conv2d conv1{convolution(3, 64, 7, 2)};
  nn::BatchNorm2d bn1{64};
  nn::MaxPool2d maxpool{3, {.stride = 2, .padding = 1}};
  nn::Sequential layer1{BasicBlock(64, 64, 1), BasicBlock(64, 64, 1)};
  nn::Sequential layer2{BasicBlock(64, 128, 2), BasicBlock(128, 128, 1)};
  nn::Sequential layer3{BasicBlock(128, 256, 2), BasicBlock(256, 256, 1)};
  nn::Sequential layer4{BasicBlock(256, 512, 2), BasicBlock(512, 512, 1)};
  nn::AdaptiveAvgPool2d avgpool{1};
  nn::Linear fc{512, 1000};
  TENON_MODULE(ResNet18, conv1, bn1, maxpool, layer1, layer2, layer3, layer4, avgpool, fc)
  Tensor forward(const Tensor& x) {
    Tensor y = maxpool(bn1(conv1(x)).relu());
    return fc(avgpool(layer4(layer3(layer2(layer1(y))))).flatten(1));
  }
};

// The median of some calls, in milliseconds.
template <class F>
double milliseconds(F&& call) {
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    auto start = std::chrono::steady_clock::now();
    call();
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

int main(int argc, char** argv) try {
  int64_t size = argc > 1 ? std::atoll(argv[1]) : 224;
  std::string backend = argc > 2 ? argv[2] : "";
  if (argc > 3 || size < 32) {
    std::fprintf(stderr, "usage: example_resnet18 [SIZE [BACKEND]]   (images of SIZE x SIZE)\n");
    return 2;
  }
  tenon::manual_seed(1);
  tenon::NoGradGuard no_grad;
  ResNet18 net;
  net.eval();
  Tensor image = tenon::randn({1, 3, size, size});
  auto compiled = tenon::compile([&](const Tensor& x) { return net(x); }, {.backend = backend});

  Tensor expected = net(image), found = compiled(image);
  double error = (expected - found).abs().max().item<double>();
  double eager_ms = milliseconds([&] { net(image); });
  double compiled_ms = milliseconds([&] { compiled(image); });
  std::printf("resnet18, %lld x %lld: eager %.1f ms, compiled %.1f ms, %.1f times faster\n",
              static_cast<long long>(size), static_cast<long long>(size), eager_ms, compiled_ms,
              eager_ms / compiled_ms);
  if (error <= 1e-3 * expected.abs().max().item<double>()) return 0;
  std::fprintf(stderr, "the results differ by %g\n", error);
  return 1;
} catch (const tenon::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
