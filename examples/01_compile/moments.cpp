// A function over a struct of tensors: compiled once for each value of its plain argument.
#include <tenon/tenon.h>

#include <cmath>
#include <cstdio>

#include "expect.h"

using tenon::Tensor;

struct Moments {  // an aggregate needs no macro to be a result
  Tensor mean, variance;
  std::optional<Tensor> deviation;
};

Moments moments(const Tensor& x, bool with_deviation) {
  Tensor mean = x.mean(-1, /*keepdim=*/true);
  Tensor variance = ((x - mean) * (x - mean)).mean(-1);
  return {mean, variance, with_deviation ? std::optional{variance.sqrt()} : std::nullopt};
}

int main() {
  auto f = tenon::compile(moments);  // called like moments(const Tensor&, bool)
  Tensor x = tenon::randn({512, 1024});
  auto [mean, variance, deviation] = f(x, false);
  expect(!deviation, "no deviation was asked for");
  std::printf("mean of the variances: %.4f\n", variance.mean().item<double>().value());
  expect(f.stats().compiles == 1, "one compile");

  f(tenon::randn({512, 1024}), false);
  expect(f.stats().compiles == 1, "the same sizes need no compile");

  Moments all = f(x, true);  // `bool` is guarded by value
  expect(f.stats().compiles == 2, "another flag is another version");
  Moments eager = moments(x, true);
  double apart = (*all.deviation - *eager.deviation).abs().max().item<double>();
  expect(apart < 1e-5, "compiled and eager agree");
  std::printf("%lld compiles\n", static_cast<long long>(f.stats().compiles));
}
