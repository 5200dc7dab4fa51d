// Control flow where operations run one by one, and operations that fail on the way.
#include "program.h"

namespace tenon::programs {
namespace {

/// Runs `f` of x * 2 and x uncompiled in a body, on numbers of both signs.
template <class F>
void run_uncompiled(Run& run, F f) {
  for (bool has_hooks : {false, true}) {
    auto pack = [](const Tensor& t) { return std::shared_ptr<void>(std::make_shared<Tensor>(t)); };
    auto unpack = [](const std::shared_ptr<void>& t) { return *static_cast<Tensor*>(t.get()); };
    auto g = run.compile([&, has_hooks](const Tensor& x) {
      Tensor h = x * 2.0, result;
      if (has_hooks) {
        autograd::SavedTensorHooks hooks(pack, unpack);
        result = f(h, x);
      } else {
        NoCompile here;
        result = f(h, x);
      }
      return result * 3.0;
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x = (halves({3, 2}, i) + (i == 1 ? -2.0 : 2.0)).requires_grad_();
      Tensor y = g(x);
      y.sum().backward();
      run.log(y.detach(), x.grad());
    }
  }
}

TENON_PROGRAM(ABranch, 8) {
  run_uncompiled(run, [](const Tensor& h, const Tensor& x) {
    return cond(
        h.sum() > 0.0, [](const Tensor& t) { return t * 2.0; },
        [&](const Tensor& t) { return t - x; }, h);
  });
}

TENON_PROGRAM(ALoop, 8) {
  run_uncompiled(run, [](const Tensor& h, const Tensor& x) {
    return while_loop([](const Tensor& t) { return t.sum().abs() < 100.0; },
                      [&](const Tensor& t) { return t * 2.0 + x; }, h);
  });
}

TENON_PROGRAM(SlicesAndScans, 8) {
  run_uncompiled(run, [](const Tensor& h, const Tensor& x) {
    Tensor mapped = map([&](const Tensor& t) { return t * 2.0 + x.select(0, 0); }, h);
    Tensor folded =
        associative_scan([](const Tensor& a, const Tensor& b) { return a + b * 2.0; }, h);
    auto [carry, all] =
        scan([&](const Tensor& s, const Tensor& t) { return std::pair(s + t, s + x.select(0, 0)); },
             h.select(0, 0), h);
    return mapped + folded + all * carry;
  });
}

TENON_PROGRAM(NoSlices, 8) {
  run_uncompiled(run, [](const Tensor& h, const Tensor& x) {
    Tensor none = map([&](const Tensor& t) { return t * 2.0 + x.select(0, 0); }, h.slice(0, 0, 0));
    return cat({none, h}, 0);
  });
}

// The segments go on alike with other numbers, and the operation that would get one fails.
TENON_PROGRAM(ANumberOfAnOperationThatFails, 6) {
  Tensor weight = ones({3}).requires_grad_(), matrix = ones({2, 3}), scalar = full({}, 0.5);
  auto half = disable([](const Tensor& x) { return x * 0.5; });
  auto f = run.compile([&](int64_t n) {
    Tensor v = half(weight + static_cast<double>(n)).select(-1, 1);
    Tensor mean = matrix.mean();
    mean.set_grad(full_like(mean, 0.25));
    try {
      scalar.select(-1, 0);
    } catch (const Error&) {
      run.log("it has no dimension");
    }
    return v;
  });
  for (int n : {2, 3, 2, 5}) run.log(f(n));
}

TENON_PROGRAM(ANumberOfAnOperationThatFailsBetweenOthers, 8) {
  auto half = disable([](const Tensor& x) { return x * 0.5; });
  auto f = run.compile([&](const Tensor& x, int64_t n) {
    Tensor v = half(x + 1.0).select(0, 0);
    Tensor w = half(x * 2.0);
    for (int64_t i = n; i >= 0; --i) {
      try {
        return v + w.select(0, i);
      } catch (const Error&) {
      }
    }
    return v;
  });
  for (int n : {1, 3, 2, 5, 0}) run.log(f(halves({2, 3}, n), n));
}

}  // namespace
}  // namespace tenon::programs
