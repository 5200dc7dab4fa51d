// ResNet-18 as a module of C++, eager and compiled: equal results, and how long each takes.
#include "resnet18.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using resnet::ResNet18;
using tenon::Tensor;

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
