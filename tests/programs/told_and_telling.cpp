// Programs that listen to the compiler, and that tell it something: marks, stances, guards, functions
// that are one operation, functions of buffers. None of it changes what is computed.
#include "program.h"

#include <tenon/allow_in_graph.h>
#include <tenon/buffers.h>
#include <tenon/compiler.h>

#include <atomic>

namespace tenon::programs {
namespace {

TENON_PROGRAM(AListenerComputesWhileOthersAreRecorded, 4) {
  Tensor seen = zeros({2});
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    return y.sum().item<float>() > 3 ? y + 1.0 : y - 1.0;
  });
  auto watch = compiler::on_event([&](const compiler::Event&) { seen = seen + ones({2}); });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})));
  run.log(seen.is_fake());
}

TENON_PROGRAM(StancesTakeTurns, 4) {
  using compiler::Stance;
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) { return x * double(++calls % 2 + 1); });
  Stance stances[] = {Stance::eager_then_compile, Stance::standard, Stance::force_eager,
                      Stance::eager_on_recompile, Stance::aot_eager_then_compile};
  for (int i = 0; i < 20; ++i) {
    compiler::StanceScope scope(stances[i % 5]);
    run.log(f(ones({i % 3 + 2})));
  }
  run.log(calls);
}

TENON_PROGRAM(AnotherBackendNowAndThen, 3) {
  Tensor w = full({2}, 3.0).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).sum(); });
  for (int i = 0; i < 8; ++i) {
    compiler::StanceScope scope(compiler::Stance::standard,
                                {.force_backend = i % 4 == 2 ? "aot_eager" : ""});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(MarksThatComeLateAndGo, 8) {
  auto f = run.compile([](const Tensor& x) { return (x * 2.0).sum(0) + double(x.dim()); });
  for (int i = 0; i < 12; ++i) {
    Tensor x = ones({i % 4 + 1, 2});
    if (i % 5 == 1) mark_dynamic(x, 0);
    if (i % 5 == 2) maybe_mark_dynamic(x, 0);
    if (i % 5 == 3) mark_static(x, 0);
    if (i % 5 == 4) mark_unbacked(x, 0);
    // A size of 1 cannot be marked dynamic.
    if (x.size(0) == 1 && i % 5 == 1) mark_static(x, 0);
    run.log(f(x));
  }
}

TENON_PROGRAM(SizesWithOneIdTakeTurns, 3) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) { return x * 2.0 + y; });
  for (int i = 0; i < 10; ++i) {
    Tensor x = full({i % 4}, double(i)), y = ones({i % 4});
    mark_unbacked(x, 0, {.shape_id = "n"});
    mark_unbacked(y, 0, {.shape_id = "n"});
    run.log(f(x, y));
  }
}

TENON_PROGRAM(AGuardedSettingChanges, 3) {
  double rate = 1;
  auto f = run.compile([&](const Tensor& x) { return x * tenon::guard([&] { return rate; }); },
                       {.pure = true});
  for (int i = 0; i < 40; ++i) {
    rate = i < 12 ? 1 : i % 3 + 1;
    run.log(f(row({1, 2})));
  }
}

// A function that gives another number each time; a plain run gets the first one.
TENON_PROGRAM(AConstantInATrainingLoop, 6) {
  int asked = 0;
  auto constant = compiler::assume_constant_result([&] { return double(++asked); });
  auto rate = [&, is_plain = run.is_plain()] { return is_plain ? 1.0 : constant(); };
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([rate, &w](const Tensor& x) {
    w.set_grad({});
    (w * x * rate()).sum().backward();
    Tensor y = w.grad() * rate();
    if (y.sum().item<float>() > 4) y = y - rate();
    compiler::NoCompile scope;
    return y * rate();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})));
}

TENON_PROGRAM(AnAllowedFunctionInATrainingLoop, 3) {
  static const auto gelu_like = compiler::allow_in_graph(
      "programs::gelu_like", [](const Tensor& x, double k) { return x * (x * k).sigmoid(); });
  Tensor w = full({3}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return gelu_like(x * w, 1.5).sum(); });
  for (int i = 0; i < 6; ++i) {
    Tensor loss = f(full({3}, i * 0.25));
    loss.backward();
    run.log(loss, w.grad());
    NoGradGuard no_grad;
    w.sub_(w.grad() * 0.125);
  }
}

TENON_PROGRAM(BuffersInALoop, 3) {
  auto smooth = wrap_buffers([](array_view<float, 1> x, array_view<const float, 1> w) {
    x.assign(x * 0.5 + w * sum(x));
    return sum(x);
  });
  auto f = run.compile(smooth);
  Tensor x = row({1, 2, 3, 4});
  for (int i = 0; i < 5; ++i) {
    run.log(f(x, ones({4}) * 0.25));
    run.log(x);
  }
}

TENON_PROGRAM(ErrorsOnBreaksComeAndGo, 3) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    return y.sum().item<float>() > 3 ? y : -y;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({1, float(i)})));
    if (run.is_plain()) continue;
    compiler::ErrorOnGraphBreak scope;
    try {
      f(row({1, 2}));
    } catch (const UserError&) {
      continue;
    }
    run.log("no error");
  }
}

// Threads that record at once were all below the limit when they began: one more version each.
TENON_PROGRAM(ThreadsWithListenersAndLimits, 6) {
  std::atomic<int> told{0};
  auto watch = compiler::on_event([&](const compiler::Event&) { ++told; });
  auto f = run.compile([](const Tensor& x) { return x + 1.0; },
                       {.dynamic = false, .recompile_limit = 3});
  std::atomic<int> right{0};
  in_threads(4, [&](int t) {
    for (int i = 0; i < 100; ++i)
      right += f(ones({(i + t) % 6 + 1})).sum().item<float>() == 2.0f * float((i + t) % 6 + 1);
  });
  run.log(int(right));
}

}  // namespace
}  // namespace tenon::programs
