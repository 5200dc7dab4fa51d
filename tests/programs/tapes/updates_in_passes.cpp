// Optimisers that step in the backward pass, beside user code that changes what they find there.
#include "program.h"

#include <optional>

namespace tenon::programs {
namespace {

namespace ag = autograd;

struct Weights {
  Tensor a = row({1, 2}).requires_grad_(), b = row({3, 4}).requires_grad_();
  std::vector<Tensor> all() const { return {a, b}; }
};

// The hook of a result, which runs before the updates, does something to a weight on some calls.
template <class Change>
void take_steps(Run& run, Change change) {
  Weights w;
  optim::SGD opt(w.all(), {.lr = 0.125, .momentum = 0.5});
  std::optional<optim::StepInBackward> in_backward(std::in_place, opt);
  auto f = run.compile([&](const Tensor& x) { return (x * w.a).sin() * w.b; });
  for (int i = 0; i < 9; ++i) {
    Tensor y = f(row({1, float(i % 2)})).sum() * 2.0;
    auto hook = ag::register_hook(y, [&](const Tensor&) { change(i, w, in_backward, opt); });
    y.backward();
    hook.remove();
    run.log(w.a, w.b, w.a.grad(), w.b.grad());
    if (!in_backward) in_backward.emplace(opt);
    for (const Tensor& t : w.all()) {
      t.set_grad({});
      t.requires_grad_(true);
    }
  }
}

using InBackward = std::optional<optim::StepInBackward>;

TENON_PROGRAM(AGradientIsThereAlready, 6) {
  take_steps(run, [](int i, Weights& w, InBackward&, optim::SGD&) {
    if (i % 3 == 2) w.a.set_grad(row({8, 16}));
  });
}

TENON_PROGRAM(AWeightIsFrozen, 6) {
  take_steps(run, [](int i, Weights& w, InBackward&, optim::SGD&) {
    if (i % 3 == 2) w.b.requires_grad_(false);
  });
}

TENON_PROGRAM(TheStepsEnd, 6) {
  take_steps(run, [](int i, Weights&, InBackward& in_backward, optim::SGD&) {
    if (i % 3 == 2) in_backward.reset();
  });
}

TENON_PROGRAM(TheStepsBeginAnew, 6) {
  take_steps(run, [](int i, Weights&, InBackward& in_backward, optim::SGD& opt) {
    if (i % 3 != 2) return;
    in_backward.reset();
    in_backward.emplace(opt);
  });
}

TENON_PROGRAM(AHookFollowsTheStep, 6) {
  int n = 0;
  take_steps(run, [&](int i, Weights& w, InBackward&, optim::SGD&) {
    if (i % 4 != 2) return;
    auto counts = std::make_shared<ag::HookHandle>();
    *counts = ag::register_post_accumulate_grad_hook(w.a, [&n, counts](const Tensor&) {
      ++n;
      counts->remove();
    });
  });
  run.log(n);
}

}  // namespace
}  // namespace tenon::programs
