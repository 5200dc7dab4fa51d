// Backward passes with user code in them: steps of optimisers in hooks, hooks that come and go, tapes
// that take turns.
#include "program.h"

#include <tenon/compiled_autograd.h>
#include <tenon/control_flow.h>

namespace tenon::programs {
namespace {

TENON_PROGRAM(AnOptimiserInHooks, 8) {
  Tensor a = row({1, 2}).requires_grad_(), b = row({0.5, 0.25}).requires_grad_();
  auto update = run.compile([](const Tensor& p, const Tensor& g) { return p - g * 0.25; });
  for (const Tensor& p : {a, b})
    autograd::register_post_accumulate_grad_hook(p, [&](const Tensor& leaf) {
      NoGradGuard off;
      leaf.detach().copy_(update(leaf.detach(), leaf.grad()));
      leaf.set_grad({});
      run.log("updated", leaf.detach());
    });
  auto first = run.compile([&](const Tensor& x) { return (x * a).relu(); });
  auto second = run.compile([&](const Tensor& h) { return (h * b).sum(); });
  for (int i = 0; i < 5; ++i) {
    second(first(row({1, float(i) - 1})) * 2).backward();
    run.log(a.detach(), b.detach(), a.grad().defined());
  }
}

TENON_PROGRAM(HooksComeAndGo, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)})), z = y * y;
    if (i % 3 == 0) autograd::register_hook(y, [i](const Tensor& g) { return g * float(i); });
    if (i % 3 == 1) autograd::register_hook(z, [&](const Tensor& g) { run.log("seen", g); });
    z.sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(TapesAndSizesTakeTurns, 8) {
  Tensor w = full({3, 2}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x.matmul(w); });
  for (int i = 0; i < 12; ++i) {
    Tensor y = f(ones({1 + i % 4, 3}) * float(i));
    Tensor loss = i % 3 == 0 ? y.sum() : i % 3 == 1 ? y.relu().mean() : (y * y).sum() * 0.125;
    loss.backward();  // gradients add up
    run.log(w.grad());
    if (i % 5 == 4) w.set_grad({});
  }
}

TENON_PROGRAM(AnErrorInAHookAndOn, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).relu(); });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)}));
    autograd::register_hook(y, [i](const Tensor&) {
      if (i == 2) throw std::runtime_error("no");
    });
    run.log_error([&] { y.sum().backward(); });
    run.log(w.grad().defined());
  }
}

TENON_PROGRAM(AWholeStepInPieces, 8) {
  Tensor w = full({2, 2}, 0.5).requires_grad_(), v = row({0.25, 1}).requires_grad_();
  optim::SGD optimizer({w, v}, {.lr = 0.125, .momentum = 0.5});
  optim::StepInBackward in_backward(optimizer);
  auto loss = run.compile([&](const Tensor& x) {
    Tensor h = x.matmul(w).relu();
    if (h.sum().item<float>() > 4) h = h * 0.5;  // the graph breaks
    return (h * v).sum() * 0.25;
  });
  for (int i = 0; i < 5; ++i) {
    loss(ones({1 + i % 3, 2})).backward();
    run.log(w.detach(), v.detach(), w.grad().defined());
    if (i == 2) optimizer.lr *= 0.5;
  }
}

/// Gives what it is given, also back.
struct Unchanged : autograd::Function<Unchanged> {
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    return {in[0] * 1.0};
  }
  static std::vector<Tensor> backward(autograd::Context&, std::vector<Tensor> grads) {
    return grads;
  }
};

// What user code gives back may begin anywhere in its memory, and places in a view are counted there.
void log_gradients_of_written_views(Run& run, const std::function<Tensor(const Tensor&)>& with_code,
                                    const std::function<Tensor(const Tensor&)>& write) {
  if (!run.is_plain()) compiled_autograd::enable_everywhere(run.backend());
  Tensor scales = row({1, 2, 4, 8}).view({2, 2});
  for (int i = 0; i < 3; ++i) {
    Tensor y = halves({2, 2}, i).requires_grad_();
    Tensor u = with_code(write(y[1] + 1.0));
    (stack({y[0], u}) * scales).sum().backward();
    run.log(y.grad());
  }
}

Tensor with_first_tripled(const Tensor& t) {
  t.slice(0, 0, 1).mul_(3.0);
  return t;
}

TENON_PROGRAM(AHookBehindAWriteToAView, 1) {
  auto hooked = [](const autograd::TensorHook& hook) {
    return [hook](const Tensor& t) {
      autograd::register_hook(t, hook);
      return t;
    };
  };
  auto looks = [](const Tensor&) { return Tensor(); };
  auto gives_a_row = [](const Tensor& g) { return stack({g * 16.0, g * 2.0})[1]; };
  auto scattered = [](const Tensor& t) {
    return as_strided_scatter(t, t.slice(0, 1, 2) * 4.0, {1}, {1}, 0);
  };
  for (auto write : {&with_first_tripled, +scattered}) {
    log_gradients_of_written_views(run, hooked(looks), write);
    log_gradients_of_written_views(run, hooked(gives_a_row), write);
  }
}

TENON_PROGRAM(AFunctionBehindAWriteToAView, 1) {
  auto apply = [](const Tensor& t) { return Unchanged::apply({t})[0]; };
  log_gradients_of_written_views(run, apply, with_first_tripled);
}

TENON_PROGRAM(AWriteToAViewInABranch, 2) {
  auto f = run.compile([](const Tensor& y) {
    using List = std::vector<Tensor>;
    auto then = [](const List& r) { return List{with_first_tripled(r[1] + 1.0)}; };
    auto otherwise = [](const List& r) { return List{r[0] * 1.0}; };
    return stack({y[0], cond(y.sum() > -64.0, then, otherwise, List{y[0], y[1]})[0]});
  });
  if (!run.is_plain()) compiled_autograd::enable_everywhere(run.backend());
  for (int i = 0; i < 3; ++i) {
    Tensor y = halves({2, 2}, i).requires_grad_();
    (f(y) * row({1, 2, 4, 8}).view({2, 2})).sum().backward();
    run.log(y.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
