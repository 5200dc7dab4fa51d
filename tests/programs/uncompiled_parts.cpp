// Parts of programs that are not compiled: disable() with its options, and NoCompile.
#include "program.h"

#include <tenon/compiler.h>

namespace tenon::programs {
namespace {

TENON_PROGRAM(WhatADisabledFunctionCallsIsNotCompiled, 1) {
  auto inner = run.compile([](const Tensor& x) { return x.exp() + 1.0; });
  auto outside = disable([&](const Tensor& x) { return inner(x); });
  for (int i = 0; i < 3; ++i) run.log(outside(row({float(i)})));
  run.log(inner.stats().compiles, inner.stats().calls);
  auto as_compiled = disable([&](const Tensor& x) { return inner(x); }, {.recursive = false});
  for (int i = 0; i < 3; ++i) run.log(as_compiled(row({float(i)})));
  run.log(inner.stats().compiles == (run.is_plain() ? 0 : 1));
}

TENON_PROGRAM(DisabledInTheMiddleOfABody, 5) {
  auto inner = run.compile([](const Tensor& x) { return x.exp() + 1.0; });
  for (bool recursive : {true, false}) {
    auto aside = disable([&](const Tensor& x) { return inner(x); },
                         {.recursive = recursive, .reason = "a library of others"});
    auto f = run.compile([&](const Tensor& x) { return aside(x * 2.0) * 3.0; });
    for (int i = 0; i < 3; ++i) run.log(f(row({float(i)})));
    bool told = f.explain().find("a library of others") != std::string::npos;
    run.log(told || run.is_plain());
  }
}

// The number is a symbol of the segment that ends there.
TENON_PROGRAM(DisabledBehindANumberOfTheData, 4) {
  auto twice = disable([](const Tensor& t) { return t * 2.0; });
  auto f = run.compile(
      [&](const Tensor& x) {
        Scalar<float> sum = x.sum().item<float>();
        Tensor scaled = x * sum;
        return twice(scaled) + scaled * sum;
      },
      {.options = {{"dynamo.capture_scalar_outputs", "true"}}});
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i % 3)})));
}

TENON_PROGRAM(AnAnnouncedBreakInOneGraph, 2) {
  auto aside = disable([](const Tensor& x) { return x * double(x.sum().item<float>()); },
                       {.allow_in_fullgraph = true});
  auto f = run.compile([&](const Tensor& x) { return aside(x + 1.0).relu() * 2.0; },
                       {.fullgraph = true});
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i) - 2})));
  compiler::ErrorOnGraphBreak forbidden;
  run.log(f(row({4, 4})));
}

TENON_PROGRAM(AScopeAroundCalls, 1) {
  auto f = run.compile([](const Tensor& x) { return x.exp() + 1.0; });
  {
    NoCompile scope;
    for (int i = 0; i < 3; ++i) run.log(f(row({float(i)})));
  }
  run.log(f.stats().compiles);
  for (int i = 0; i < 3; ++i) run.log(f(row({float(i)})));
}

TENON_PROGRAM(AScopeInABody, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    {
      compiler::NoCompile scope("the numbers of this part must not change");
      h = h.exp() + h.sum();
      compiler::NoCompile again;
      h.mul_(2.0);
    }
    return (h * h).sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(row({1, float(i) / 4}));
    loss.backward();
    run.log(loss, w.grad());
  }
}

TENON_PROGRAM(AScopeOnSomeCallsOnly, 4) {
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x + 1.0;
    std::optional<NoCompile> scope;
    if (++calls % 3 == 0) scope.emplace();
    h = h * 2.0;
    scope.reset();
    return h.relu();
  });
  for (int i = 0; i < 7; ++i) run.log(f(row({float(i) - 3, 1})));
}

TENON_PROGRAM(AnExceptionEndsAScope, 1) {
  auto f = run.compile([](const Tensor& x) { return x.exp(); });
  run.log_error([&] {
    NoCompile scope;
    f(row({1}));
    throw std::runtime_error("enough");
  });
  run.log(f(row({1})));
  run.log(f.stats().compiles == (run.is_plain() ? 0 : 1));
}

TENON_PROGRAM(WhatIsSavedGoesThroughHooksOfTheBody, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  int packed = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    autograd::SavedTensorHooks halves(
        [&](const Tensor& t) { return ++packed, std::make_shared<Tensor>(t * 0.5); },
        [](const std::shared_ptr<void>& kept) { return *static_cast<Tensor*>(kept.get()); });
    return (h * w).square().sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(row({1, float(i)}));
    loss.backward();
    run.log(loss.detach(), w.grad(), packed);
  }
}

struct Part {
  Tensor sum, last;
  int n = 0;
};

// What it is given is the caller's own variable, to which it assigns by the capture.
TENON_PROGRAM(ADisabledFunctionAssignsToWhatItIsGivenByACapture, 16) {
  Tensor state = ones({2});
  std::vector<Tensor> seen{ones({2})}, pair{ones({2}), ones({2})};
  auto shared = std::make_shared<Tensor>(ones({2}));
  auto replace = disable([&](const Tensor& s) { state = s + 1.0; });
  auto note = disable([&](std::vector<Tensor>& list) { seen.push_back(list.back() * 2.0); });
  auto renew = disable([&](const std::shared_ptr<Tensor>& p) {  // NOLINT: as callers have it
    shared = std::make_shared<Tensor>(*p + 1.0);
  });
  auto both = disable([&](std::vector<Tensor>& list) {
    pair[0] = pair[0] + 1.0;
    list[1] = list[1] * 2.0;
  });
  auto f = run.compile([&](const Tensor& x) {
    replace(state);
    note(seen);
    renew(shared);
    both(pair);
    return x * state + seen.back() + *shared + pair[0] - pair[1];
  });
  for (int i = 0; i < 4; ++i) {
    run.log(f(row({1, float(i)})));
    run.log(state, seen, *shared, pair);
  }
}

TENON_PROGRAM(ADisabledFunctionAssignsToOneMemberByACapture, 8) {
  Part part{ones({2}), ones({2})};
  auto by_both = disable([&](Part& p, const Tensor& x) {
    part.sum = p.sum + x;
    p.last = x * 1.0;
    ++p.n;
  });
  auto once = disable([](Tensor& a, Tensor&) { a = a + 1.0; });
  auto raise = disable([](std::vector<Tensor>& list) { list[1] = list[1] + 2.0; });
  auto f = run.compile([&](const Tensor& x) {
    by_both(part, x * 2.0);
    Tensor h = x * 1.0;
    once(h, h);
    std::vector<Tensor> list{h, x * 1.0};
    Tensor& first = list[0];
    raise(list);
    first = first + 1.0;  // it is where it was
    return part.sum * part.last + list[0] * part.n + list[1];
  });
  for (int i = 0; i < 4; ++i) {
    run.log(f(row({1, float(i)})));
    run.log(part.sum, part.last, part.n);
  }
}

TENON_PROGRAM(AScopeGivesOtherSizes, 20) {
  Tensor state = halves({2, 3});
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2.0, s = state * 2.0;
    {
      NoCompile scope;
      if (turn % 3 == 0) h.t_();
      if (turn % 3 == 1) h.unsqueeze_(0);
      if (turn % 2 == 1) state.t_();
    }
    {
      autograd::SavedTensorHooks hooks(
          [](const Tensor& t) { return std::make_shared<Tensor>(t); },
          [](const std::shared_ptr<void>& p) { return *std::static_pointer_cast<Tensor>(p); });
      s.unsqueeze_(0);
    }
    Tensor y = h * 0.5;
    return std::tuple(y, s + 1, state * 3, y.size(0).guard_int());
  });
  for (; turn < 8; ++turn) {
    auto [y, s, t, n] = f(halves({2 + turn % 2, 3}, turn));
    run.log(y, s, t, n, state);
  }
}

}  // namespace
}  // namespace tenon::programs
