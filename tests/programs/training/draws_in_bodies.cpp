// Random numbers that bodies of control flow and parts of added operations draw.
#include "program.h"

#include <tenon/allow_in_graph.h>
#include <tenon/autograd.h>

namespace tenon::programs {
namespace {

// The loss is linear in w, which is 1: the gradients add up to it where the region draws once.
template <class Body>
void run_region(Run& run, Body body) {
  Tensor w = ones({3}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    auto region = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{in[0] * w * body(in[0])};
    };
    return autograd::checkpoint(region, {x})[0].sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(ones({2 + i % 2, 3}));
    loss.backward();
    double difference = (loss - w.grad().sum()).item<double>();
    run.log(loss.detach(), std::abs(difference) < 1e-4);
  }
  run.log(rand({2}));
}

TENON_PROGRAM(ARegionWithAMapThatDraws, 6) {
  manual_seed(7);
  run_region(run,
             [](const Tensor& x) { return map([](const Tensor& t) { return rand_like(t); }, x); });
}

TENON_PROGRAM(ARegionWithABranchThatDraws, 6) {
  manual_seed(8);
  run_region(run, [](const Tensor& x) {
    auto yes = [](const Tensor& t) { return rand_like(t); };
    auto no = [](const Tensor& t) { return t * 0; };
    return cond(x.sum() > 0, yes, no, x);
  });
}

TENON_PROGRAM(ARegionWithAScanThatDraws, 6) {
  manual_seed(9);
  run_region(run, [](const Tensor& x) {
    auto step = [](const Tensor& c, const Tensor& t) { return std::tuple(c + t, rand_like(t)); };
    return std::get<1>(scan(step, zeros({3}), x));
  });
}

TENON_PROGRAM(NobodyReadsWhatABodyDraws, 6) {
  Tensor w = ones({3});
  manual_seed(10);
  auto f = run.compile([&](const Tensor& x) {
    Tensor noise = map([](const Tensor& t) { return t + rand({3}); }, x);
    return x * w;
  });
  for (int i = 0; i < 6; ++i) {
    w.requires_grad_(i % 3 != 0);
    run.log(f(ones({2, 3})).detach(), rand({2}));
  }
}

TENON_PROGRAM(ABodyHoldsAConstant, 6) {
  Tensor w = ones({3}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    auto times = [](const Tensor& t) { return t * arange(3, Dtype::f32); };
    Tensor y = map(times, x * w);
    y.sum().backward();
    return y.detach();
  });
  for (int i = 0; i < 4; ++i) {
    run.log(f(halves({2 + i % 2, 3}, i)), w.grad());
    w.set_grad({});
  }
}

TENON_PROGRAM(AnAddedOperationDraws, 6) {
  static auto noise =
      compiler::allow_in_graph("programs::noise", [](const Tensor& x) { return x + rand_like(x); });
  manual_seed(11);
  auto unread = run.compile([](const Tensor& x) {
    noise(x);
    return rand({1}) + x * 0;
  });
  auto twice = run.compile([](const Tensor& x) { return noise(x) + noise(x) * 10; });
  for (int i = 0; i < 4; ++i) run.log(unread(zeros({1 + i % 2})), twice(zeros({2})));
}
TENON_PROGRAM_IN_ONE_GRAPH(AnAddedOperationDraws, 6);

}  // namespace
}  // namespace tenon::programs
