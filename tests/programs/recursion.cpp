// Bodies that call compiled callables, their own among them, ask about them or forget them.
#include "program.h"

#include <tenon/compiler.h>

namespace tenon::programs {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

TENON_PROGRAM(AFunctionThatIsNotRecordedCallsBack, 4) {
  Function f;
  auto outside = disable([&](const Tensor& x) { return x.numel() > 2 ? f(x.slice(0, 2)) : x; });
  f = run.compile(Function([&](const Tensor& x) { return outside(x * 2.0) + 1.0; }));
  for (int i = 0; i < 4; ++i) run.log(f(arange(8, Dtype::f32)));
}

TENON_PROGRAM(ALogFunctionCallsBack, 3) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x + 1.0;
    if (x.dim() > 0) call_log_fn("programs.call_back", "y", {y});
    return y * 2.0;
  });
  register_log_fn("programs.call_back", [&](std::string_view text, std::span<const Tensor> t) {
    run.log(text, f(t[0].sum()));
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})));
  register_log_fn("programs.call_back", [](std::string_view, std::span<const Tensor>) {});
}

TENON_PROGRAM(TheBodyForgetsItsOwnCode, 8) {
  std::function<void()> forget = [] {};
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    if (++calls % 3 == 0) forget();
    return y + calls;
  });
  forget = [&] { f.reset(); };
  for (int i = 0; i < 12; ++i) run.log(f(row({1, 2})));
}

TENON_PROGRAM(TheBodyForgetsAllCode, 99) {
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    if (++calls % 3 == 0) reset();
    return y.sum().item<float>() > 4 ? y + 1.0 : y - 1.0;
  });
  for (int i = 0; i < 12; ++i) run.log(f(row({1, float(i)})));
}

TENON_PROGRAM(TheBodyAsksAboutItself, 2) {
  std::function<bool()> ask = [] { return true; };
  auto f = run.compile([&](const Tensor& x) { return ask() ? x * 2.0 : x; });
  ask = [&] { return f.explain().size() + size_t(f.stats().calls) < 100000; };
  for (int i = 0; i < 4; ++i) run.log(f(row({1, 2})));
}

TENON_PROGRAM(AThreadOfTheBodyCallsTheCallable, 4) {
  Function f;
  f = run.compile(Function([&](const Tensor& x) {
    Tensor y = x * 2.0;
    if (x.dim() == 0) return y;
    Tensor other;
    in_threads(1, [&](int) { other = f(full({}, 3.0)); });
    return y + other;
  }));
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})));
}

TENON_PROGRAM(AThreadOfTheBodyAsksAndForgets, 8) {
  std::function<void()> ask = [] {};
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    in_threads(1, [&](int) { ask(); });
    return y.sum().item<float>() > 4 ? y + 1.0 : y;
  });
  int turns = 0;
  ask = [&] {
    static_cast<void>(f.explain() + std::to_string(f.stats().calls));
    if (++turns % 3 == 0) f.reset();
  };
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})));
}

TENON_PROGRAM(AThreadOfTheBodyCompilesAnother, 4) {
  auto g = run.compile([](const Tensor& x) { return x.relu() + 1.0; });
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0, other;
    in_threads(1, [&](int) { other = g(row({-1, 4})); });
    return y + other;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})), g(row({float(i), -1})));
}

TENON_PROGRAM(TwoCallablesCallEachOther, 6) {
  Function even, odd;
  auto is_even = disable([&](const Tensor& x, int n) { return n ? odd(x) : x; });
  int left = 0;
  even = run.compile(Function([&](const Tensor& x) { return is_even(x * 2.0, left--); }));
  odd = run.compile(Function([&](const Tensor& x) {
    return disable([&](const Tensor& t) { return left-- > 0 ? even(t) : t; })(x + 1.0);
  }));
  for (int n = 0; n < 6; ++n) {
    left = n;
    run.log(even(row({1, 2})));
  }
}

TENON_PROGRAM(TwoCallablesCallEachOtherFromTwoThreads, 12) {
  Function a, b;
  auto call_b = disable([&](const Tensor& x) { return x.numel() > 1 ? b(x.slice(0, 1)) : x; });
  auto call_a = disable([&](const Tensor& x) { return x.numel() > 1 ? a(x.slice(0, 1)) : x; });
  a = run.compile(Function([&](const Tensor& x) { return call_b(x + 1.0) * 2.0; }));
  b = run.compile(Function([&](const Tensor& x) { return call_a(x * 2.0) + 1.0; }));
  std::vector<Tensor> from_a, from_b;
  auto many = [](const Function& f, std::vector<Tensor>& out) {
    for (int i = 0; i < 30; ++i) out.push_back(f(full({i % 3 + 2}, float(i))));
  };
  in_threads(2, [&](int i) { i ? many(a, from_a) : many(b, from_b); });
  run.log(from_a, from_b);
}

TENON_PROGRAM(TheBodyCompilesAnother, 99) {
  auto f = run.compile([&](const Tensor& x) {
    auto inner = run.compile([](const Tensor& t) { return t.relu() + 1.0; });
    return inner(x) * 2.0;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({-1, float(i)})));
}

TENON_PROGRAM(ARecursionOfPlainDepth, 6) {
  Function f;
  f = run.compile(Function([&](const Tensor& x) {
    if (int64_t(x.numel()) == 1) return x;
    int64_t half = int64_t(x.numel()) / 2;
    return f(x.slice(0, 0, half)) - f(x.slice(0, half));
  }));
  for (int64_t n : {8, 4, 8, 2, 16, 1}) run.log(f(arange(n, Dtype::f32)));
}

}  // namespace
}  // namespace tenon::programs
