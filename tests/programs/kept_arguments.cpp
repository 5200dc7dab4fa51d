// Tensors that a body keeps and recognises: the argument of an earlier call, a captured tensor that
// is the argument, a result that the caller has, too.
#include "program.h"

#include <map>

namespace tenon::programs {
namespace {

TENON_PROGRAM(TheArgumentOfTheCallBefore, 4) {
  Tensor last;
  int same = 0;
  auto f = run.compile([&](const Tensor& x) {
    if (last.defined() && last.is_same(x)) ++same;
    last = x;
    return x * 2.0;
  });
  Tensor a = row({1, 2}), b = row({3, 4});
  for (const Tensor& x : {a, a, b, b, a, a, a}) {
    run.log(f(x), same, last.is_same(x), x.is_same(last), last.is_same(b));
    last.add_(1.0);
    run.log(x, last);
  }
}

// Computed anew only where the argument is another.
TENON_PROGRAM(AMemoOfTheLastArgument, 6) {
  Tensor known, memo;
  int computed = 0;
  auto f = run.compile([&](const Tensor& x) {
    if (!known.defined() || !known.is_same(x)) {
      known = x;
      memo = x * 4.0;
      ++computed;
    }
    return memo + 1.0;
  });
  Tensor a = row({1, 2}), b = row({3, 4});
  for (const Tensor& x : {a, a, a, b, b, a, b, b}) run.log(f(x), computed);
}

TENON_PROGRAM(TheKeptArgumentIsGivenAgain, 6) {
  Tensor last = row({9, 9});
  auto f = run.compile([&](const Tensor& x) {
    double factor = x.is_same(last) ? 10 : 2;
    last = x;
    return x * factor;
  });
  Tensor a = row({1, 2});
  for (int i = 0; i < 3; ++i) run.log(f(a), f(last), f(row({5, 6})), f(last), last.is_same(a));
}

TENON_PROGRAM(TheArgumentIsACapturedTensor, 4) {
  Tensor w = row({1, 2});
  auto f = run.compile([&](const Tensor& x) { return x.is_same(w) ? x * 3.0 : x + w; });
  for (int i = 0; i < 3; ++i) {
    run.log(f(w), f(row({4, 4})));
    if (i == 1) w = row({8, 8});
  }
}

// The body assigns to the very handle that the caller passes.
TENON_PROGRAM(TheHandleOfTheArgumentIsAssigned, 4) {
  Tensor last = row({9, 9});
  auto f = run.compile([&](const Tensor& x) {
    last = x;
    return x * 2.0;
  });
  for (int i = 0; i < 3; ++i)
    run.log(f(row({1, float(i)})), f(last), f(row({5, 6})), f(last), last);
  Tensor state = row({1, 1});
  auto next = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    state = y + 1.0;
    return y;
  });
  for (int i = 0; i < 4; ++i) run.log(next(state), state);
}

TENON_PROGRAM(TheKeptArgumentGoesRound, 4) {
  Tensor a = row({1, 2}).requires_grad_(), last = a;
  auto f = run.compile([&](const Tensor& x) {
    last = x;
    return (x * 2.0).sum();
  });
  for (int i = 0; i < 20000; ++i) {
    Tensor y = f(last);
    if (i % 5000 == 0) y.backward();
  }
  run.log(last.is_same(a), last.grad(), a.grad(), f(last).detach());
}

TENON_PROGRAM(AKeptLeafHasTheGradient, 4) {
  Tensor kept;
  auto f = run.compile([&](const Tensor& w, const Tensor& x) {
    kept = w;
    return (w * x).sum();
  });
  Tensor w = row({1, 2}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    f(w, row({float(i), 1})).backward();
    run.log(kept.is_leaf(), kept.requires_grad(), kept.is_same(w), kept.grad(), w.grad());
    if (i == 1) kept.set_grad({});
    if (i == 2) w.set_grad(row({8, 8}));
    run.log(kept.grad().defined(), w.grad().defined());
    (kept * 2.0).sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AResultIsKept, 4) {
  Tensor last;
  auto f = run.compile([&](const Tensor& x) {
    last = x * 2.0;
    return std::pair(last, last + 1.0);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = row({float(i), 1}).requires_grad_();
    auto [y, z] = f(x);
    run.log(last.is_same(y), last.is_same(z), last.is_leaf(), last);
    last.mul_(2.0);
    run.log(y, last);
    y.sum().backward();
    run.log(x.grad());
  }
}

TENON_PROGRAM(ElementsOfTheListThatIsTheArgument, 4) {
  std::vector<Tensor> list;
  for (int i = 0; i < 30; ++i) list.push_back(row({float(i), 1}));
  auto f = run.compile([&](const std::vector<Tensor>& given) {
    Tensor sum = given[0];
    for (size_t i = 1; i < given.size(); ++i) sum = sum + given[i];
    list[3] = given[3];
    return sum;
  });
  for (int i = 0; i < 4; ++i) {
    run.log(f(list), list[3]);
    list[4] = list[3];
    run.log(list[4].is_same(list[3]));
  }
}

TENON_PROGRAM(KeptArgumentsOfManyCalls, 6) {
  std::vector<Tensor> seen;
  auto f = run.compile([&](const Tensor& x) {
    int known = 0;
    for (const Tensor& t : seen) known += t.is_same(x);
    seen.push_back(x);
    return x + double(known);
  });
  Tensor a = row({1}), b = row({2});
  for (const Tensor& x : {a, b, a, a, b, a}) run.log(f(x));
  for (const Tensor& t : seen) run.log(t.is_same(a), t.is_same(b));
}

}  // namespace
}  // namespace tenon::programs
