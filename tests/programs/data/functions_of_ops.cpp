// What <tenon/functional.h> makes of ops: interpolation, sampling, distinct values, comparisons.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor images(int64_t height, int64_t width) {
  return arange(2 * height * width).to(Dtype::f32).view({1, 2, height, width}) / 8;
}

TENON_PROGRAM(ImagesAreResized, 8) {
  auto twice = run.compile([](const Tensor& x) {
    return interpolate(x, {.size = {x.size(2) * 2, x.size(3) * 2}, .mode = "bilinear"});
  });
  auto halved = run.compile([](const Tensor& x) {
    return interpolate(x, {.scale_factor = {0.5}, .mode = "area"}) +
           interpolate(x, {.scale_factor = {0.5}, .recompute_scale_factor = true});
  });
  for (int64_t n : {4, 6, 8, 6}) {
    run.log(twice(images(n, 4)));
    run.log(halved(images(n, 4)));
  }
}

TENON_PROGRAM(ImagesAreTurned, 3) {
  Tensor theta = tensor({{{0.f, -1.f, 0.f}, {1.f, 0.f, 0.25f}}}).requires_grad_();
  auto turned = run.compile([&](const Tensor& x) {
    return grid_sample(x, affine_grid(theta, x.sizes()), "bilinear", "border");
  });
  for (int64_t n : {4, 6, 8}) {
    Tensor y = turned(images(n, 4));
    run.log(y);
    y.square().mean().backward();
  }
  run.log(theta.grad());
}

TENON_PROGRAM(ABodyAsksWhetherValuesAreClose, 6) {
  auto iterate = run.compile([](Tensor x) {
    int64_t turns = 0;
    for (Tensor next = (x + 2 / x) / 2; !allclose(x, next); next = (x + 2 / x) / 2) {
      x = next;
      ++turns;
    }
    return std::pair(x, turns);
  });
  for (float start : {1.f, 2.f, 1.f, 4.f}) {
    auto [root, turns] = iterate(row({start, start / 2}));
    run.log(root, turns);
  }
}

TENON_PROGRAM(LabelsAreCounted, 6) {
  auto share = run.compile([](const Tensor& labels) {
    auto [values, place, counts] = unique(labels, true, true, true);
    return counts.index_select(0, place) * values.index_select(0, place);
  });
  run.log(share(tensor({3, 1, 3, 2, 1})));
  run.log(share(tensor({2, 2, 2, 2, 2})));
  run.log(share(tensor({5, 4, 3, 2, 1, 1})));
}

}  // namespace
}  // namespace tenon::programs
