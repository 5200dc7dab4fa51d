// Guards of modes that a body leaves open, or ends: operations have the modes in which they were called,
// and what is left on is on after the call.
#include "program.h"

#include <tenon/autocast.h>

#include <optional>

namespace tenon::programs {
namespace {

void log_modes(Run& run) { run.log(is_grad_enabled(), is_autocast_enabled()); }
void log_need(Run& run, const Tensor& t) {
  run.log(t.to(Dtype::f32), t.requires_grad(), torch_name_of(t.dtype()));
}

// The guard comes in call 1, stays in 2 and goes in 3. `between`: also where the body looks at data.
template <class Guard>
void log_left_open(Run& run, bool between) {
  Tensor w = halves({3, 3}, 1).requires_grad_();
  std::optional<Guard> guard;
  int call = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x.matmul(w);
    if (call % 4 == 1) guard.emplace();
    if (call % 4 == 3) guard.reset();
    if (between && a.to(Dtype::f32).sum().item<float>() > 1000) return std::pair(a, a);
    return std::pair(a, x.matmul(w) * 2);
  });
  for (call = 0; call < 12; ++call) {
    auto [a, b] = f(halves({2, 3}, call));
    log_need(run, a);
    log_need(run, b);
    log_modes(run);
    log_need(run, halves({2, 3}, call).matmul(w));
  }
}

TENON_PROGRAM(NoGradIsLeftOpen, 6) { log_left_open<NoGradGuard>(run, false); }
TENON_PROGRAM(NoGradIsLeftOpenBeforeALook, 8) { log_left_open<NoGradGuard>(run, true); }
TENON_PROGRAM(AutocastIsLeftOpen, 6) { log_left_open<AutocastGuard>(run, false); }
TENON_PROGRAM(AutocastIsLeftOpenBeforeALook, 8) { log_left_open<AutocastGuard>(run, true); }

TENON_PROGRAM(TheBodyEndsAGuardOfTheProgram, 6) {
  Tensor w = halves({3, 3}, 1).requires_grad_();
  std::optional<NoGradGuard> no_grad;
  std::optional<AutocastGuard> autocast;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x.matmul(w);
    no_grad.reset();
    autocast.reset();
    return std::pair(a, x.matmul(w) * 2);
  });
  for (int i = 0; i < 9; ++i) {
    if (i % 3 == 1) no_grad.emplace();
    if (i % 3 == 2) autocast.emplace();
    auto [a, b] = f(halves({2, 3}, i));
    log_need(run, a);
    log_need(run, b);
    log_modes(run);
    w.set_grad({});
    b.to(Dtype::f32).sum().backward();
    run.log(w.grad());
  }
}

// Behind a break, in code that is not compiled.
TENON_PROGRAM(UncompiledCodeLeavesAGuardOpen, 6) {
  Tensor w = halves({3, 3}, 1).requires_grad_();
  std::optional<AutocastGuard> autocast;
  auto lower = compiler::disable([&] { autocast.emplace(); });
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x.matmul(w);
    lower();
    return std::pair(a, x.matmul(w));
  });
  for (int i = 0; i < 4; ++i) {
    auto [a, b] = f(halves({2, 3}, i));
    log_need(run, a);
    log_need(run, b);
    log_modes(run);
    autocast.reset();
  }
}

// What an error leaves on, too.
TENON_PROGRAM(ABodyThrowsBehindAGuard, 4) {
  Tensor w = halves({3, 3}, 1);
  std::optional<AutocastGuard> autocast;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x.matmul(w);
    autocast.emplace();
    if (x.dtype() == Dtype::f32) throw std::runtime_error("half way");
    return a;
  });
  for (int i = 0; i < 3; ++i) {
    run.log_error([&] { f(halves({2, 3}, i)); });
    log_modes(run);
    log_need(run, halves({2, 3}, i).matmul(w));
    autocast.reset();
  }
}

}  // namespace
}  // namespace tenon::programs
