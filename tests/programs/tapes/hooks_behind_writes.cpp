// Hooks on tensors that the body has written through views: they see the gradient from behind the write.
#include "program.h"

#include <tenon/compile.h>

namespace tenon::programs {
namespace {

using autograd::register_hook;

// `make` gives the tensor, `end_segment` stands between that and the write.
void log_hooked(Run& run, const std::function<Tensor(const Tensor&)>& make,
                const std::function<void(const Tensor&)>& end_segment) {
  Tensor w = ones({3, 3}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = make(x.matmul(w));
    end_segment(y);
    y.slice(0, 0, 1).mul_(0.5);
    register_hook(y, [&](const Tensor& g) {
      run.log("hook", g);
      return g * 10;
    });
    return y;
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    f(halves({2, 3}, i)).sum().backward();
    run.log(w.grad());
  }
}

Tensor as_it_is(const Tensor& t) { return t; }
Tensor as_view(const Tensor& t) { return t.view({1, 2, 3}).squeeze(0); }
void go_on(const Tensor&) {}
void look_at(const Tensor& t) { static_cast<void>(t.sum().item<float>().value()); }
void cut(const Tensor&) { graph_break("here"); }

TENON_PROGRAM(WithoutABreak, 4) {
  log_hooked(run, as_it_is, go_on);
  log_hooked(run, as_view, go_on);
}
TENON_PROGRAM(TheTensorIsFromBeforeABreak, 6) {
  log_hooked(run, as_it_is, cut);
  log_hooked(run, as_it_is, look_at);
}
TENON_PROGRAM(AViewIsFromBeforeABreak, 6) {
  log_hooked(run, as_view, cut);
  log_hooked(run, as_view, look_at);
}

// The hook needs a break in some calls only.
TENON_PROGRAM(TheWriteIsThereInSomeCalls, 8) {
  Tensor w = ones({3, 3}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = as_view(x.matmul(w));
    graph_break("here");
    if (calls % 3 != 1) y.slice(0, 0, 1).mul_(0.5);
    register_hook(y, [](const Tensor& g) { return g * 10; });
    return y;
  });
  for (calls = 0; calls < 6; ++calls) {
    w.set_grad({});
    f(ones({2, 3})).sum().backward();
    run.log(w.grad());
  }
}

// The first hook sees the gradient from before the write, though both are on one tensor.
TENON_PROGRAM(AnotherHookIsThereBefore, 8) {
  Tensor s = full({1}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x, bool twice) {
    Tensor y = x * 2.0;
    if (twice) register_hook(y, [&](const Tensor& g) { run.log("first", g); });
    y.slice(0, 0, 1).mul_(s);
    register_hook(y, [&](const Tensor& g) { return g * 4.0; });
    y.retain_grad();
    return y;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = halves({2, 3}, i).requires_grad_();
    s.set_grad({});
    Tensor y = f(x, i != 3);
    y.sum().backward();
    run.log(x.grad(), s.grad(), y.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
