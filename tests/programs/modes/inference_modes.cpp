// Within an InferenceMode nothing gets a history, also where gradients are enabled inside of it; bodies
// may leave one open, or end one.
#include "program.h"

#include <optional>

namespace tenon::programs {
namespace {

void log_need(Run& run, const Tensor& t) {
  run.log(t, t.requires_grad(), autograd::grad_fn(t).name() != "none");
}

TENON_PROGRAM(GradientsAreEnabledInsideOfOneInTheBody, 2) {
  Tensor w = halves({3}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    InferenceMode mode;
    EnableGradGuard grad;
    return x * w;
  });
  for (int i = 0; i < 3; ++i) log_need(run, f(halves({2, 3}, i)));
}

TENON_PROGRAM(GradientsAreEnabledInsideOfOneAroundTheCall, 3) {
  Tensor w = halves({3}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 6; ++i) {
    std::optional<InferenceMode> mode;
    if (i % 3) mode.emplace();
    EnableGradGuard grad(i % 3 != 1);
    log_need(run, f(halves({2, 3}, i)));
    run.log(is_grad_enabled());
  }
}

// Opened in call 1, ended in call 3.
void log_left_open(Run& run, bool looks) {
  Tensor w = halves({3, 3}, 1).requires_grad_();
  std::optional<InferenceMode> mode;
  int call = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x.matmul(w);
    if (call % 4 == 1) mode.emplace();
    if (call % 4 == 3) mode.reset();
    if (looks && a.sum().item<float>() > 1000) return std::pair(a, a);
    return std::pair(a, x.matmul(w) * 2);
  });
  for (call = 0; call < 12; ++call) {
    auto [a, b] = f(halves({2, 3}, call));
    log_need(run, a);
    log_need(run, b);
    run.log(is_grad_enabled());
    log_need(run, halves({2, 3}, call).matmul(w));
  }
}
TENON_PROGRAM(OneIsLeftOpen, 6) { log_left_open(run, false); }
TENON_PROGRAM(OneIsLeftOpenBeforeALook, 8) { log_left_open(run, true); }

TENON_PROGRAM(TheBodyEndsOneOfTheProgram, 4) {
  Tensor w = halves({3, 3}, 1).requires_grad_();
  std::optional<InferenceMode> mode;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x.matmul(w);
    mode.reset();
    return std::pair(a, x.matmul(w) * 2);
  });
  for (int i = 0; i < 6; ++i) {
    if (i % 2) mode.emplace();
    auto [a, b] = f(halves({2, 3}, i));
    log_need(run, a);
    log_need(run, b);
    w.set_grad({});
    b.sum().backward();
    run.log(w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
