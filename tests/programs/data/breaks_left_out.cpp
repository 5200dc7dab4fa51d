// Bodies that leave out a graph break that their first calls had.
#include "program.h"

#include <sstream>

namespace tenon::programs {
namespace {

// What is written behind the break was made in front of it.
TENON_PROGRAM(TheFirstResultIsPrinted, 3) {
  int calls = 0;
  std::ostringstream printed;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 0.5;
    if (calls++ == 0) printed << y;
    y += 1;
    return y;
  });
  for (int i = 0; i < 5; ++i) run.log(f(full({2}, i)));
  run.log(printed.str());
}

TENON_PROGRAM(NowAndThenABreak, 3) {
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 0.5, z = y + 1;
    if (calls++ % 3 == 1) graph_break("sometimes");
    y.masked_fill_(x > 1, 8);
    z.add_(y);
    return std::pair(y, z);
  });
  for (int i = 0; i < 7; ++i) {
    auto [y, z] = f(arange(4, Dtype::f32) * i);
    run.log(y, z);
  }
}

TENON_PROGRAM(AnUncompiledPartIsLeftOut, 3) {
  std::vector<double> seen;
  auto note = disable([&](const Tensor& t) { seen.push_back(t.item<float>()); });
  bool notes = true;
  Tensor w = full({3}, 2.0).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    if (notes) note(y.sum());
    y.mul_(0.5);
    return y.sum();
  });
  for (int i = 0; i < 6; ++i) {
    notes = i == 0 || i == 3;
    w.set_grad({});
    Tensor loss = f(full({3}, i));
    loss.backward();
    run.log(loss, w.grad());
  }
  for (double number : seen) run.log(number);
}

}  // namespace
}  // namespace tenon::programs
