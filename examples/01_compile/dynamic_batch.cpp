// Sizes that change: symbolic from the first call, with one version for each side of a condition.
#include <tenon/tenon.h>

#include <cstdio>

#include "expect.h"

using tenon::Tensor;

int main() {
  Tensor weight = tenon::randn({28 * 28, 10});
  auto f = tenon::compile(
      [&](const Tensor& images) {
        tenon::SymInt batch = images.size(0);
        Tensor h = images.reshape({batch, -1}).matmul(weight).relu();
        if (batch > 64) h = h - h.mean(0, /*keepdim=*/true);  // a guard: two versions in all
        return h;
      },
      {.dynamic = true});

  for (int64_t batch : {8, 32, 100, 17, 200}) {
    Tensor out = f(tenon::randn({batch, 28, 28}));
    expect(out.size(0) == batch && out.size(1) == 10, "one row an image");
  }
  std::printf("%s", f.explain().c_str());
  expect(f.stats().compiles == 2, "one compile up to 64 images, one above");

  // A mark makes one dimension symbolic, within bounds, without asking for all of them.
  auto g = tenon::compile([](const Tensor& x) { return x.softmax(-1).sum(0); });
  for (int64_t n : {16, 48}) {
    Tensor x = tenon::randn({n, 5});
    tenon::mark_dynamic(x, 0, 2, 4096);
    g(x);
  }
  expect(g.stats().compiles == 1, "a marked dimension needs one compile");
}
