// Functions of allow_in_graph that read tensors which are not among their arguments: weights, buffers
// and values of the body, also replaced ones.
#include "../program.h"

#include <tenon/allow_in_graph.h>

#include <atomic>

namespace tenon::programs {
namespace {

// A name is taken for the life of the process.
std::string fresh_name() {
  static std::atomic<int> n{0};
  return "functions_read_around::f" + std::to_string(n++);
}
Tensor weight(double value) { return full({3}, value).requires_grad_(); }

TENON_PROGRAM(AWeightIsReplaced, 10) {
  Tensor w = weight(2), shift = full({3}, 3.0);
  auto scaled =
      compiler::allow_in_graph(fresh_name(), [&](const Tensor& x) { return x * w + shift; });
  auto f = run.compile([&](const Tensor& x) { return scaled(x + 1).square(); });
  for (int i = 0; i < 8; ++i) {
    if (i == 3) shift = full({3}, 7.0);
    if (i == 5) w = weight(5);
    Tensor y = f(halves({2 + i % 2, 3}, i));
    run.log(y, y.requires_grad());
    y.sum().backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AWeightIsReplaced, 4);

TENON_PROGRAM(ItIsTrainedBesideArguments, 6) {
  Tensor w = weight(0.5), u = weight(1);
  optim::SGD opt({w, u}, {.lr = 0.125});
  auto scaled = compiler::allow_in_graph(fresh_name(), [&](const Tensor& x) { return x * w; });
  auto doubled =
      compiler::allow_in_graph(fresh_name(), [&](const Tensor& x) { return scaled(x) * 2; });
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = doubled(x * u).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(halves({2, 3}, i)), w, u);
}
TENON_PROGRAM_IN_ONE_GRAPH(ItIsTrainedBesideArguments, 3);

TENON_PROGRAM(AValueOfTheBodyAndALiteral, 8) {
  Tensor h;
  auto mixed = compiler::allow_in_graph(fresh_name(), [&](const Tensor& x, double scale) {
    return x * scale + h * tensor({1.f, 2.f, 3.f});
  });
  auto f = run.compile([&](const Tensor& x, double scale) {
    h = x.relu();
    Tensor y = mixed(x - 1, scale);
    h = y.exp();
    Tensor z = mixed(y * 0.125, 2.0);
    h = Tensor();
    return y + z;
  });
  for (int i = 0; i < 6; ++i) run.log(f(halves({1 + i % 3, 3}, i), 0.25 * (i % 4)));
}
TENON_PROGRAM_IN_ONE_GRAPH(AValueOfTheBodyAndALiteral, 8);

}  // namespace
}  // namespace tenon::programs
