// Hooks that bodies register: they run in the order of a plain backward pass, with its values.
#include "program.h"

#include <tenon/compiled_autograd.h>

namespace tenon::programs {
namespace {

using autograd::register_hook;

TENON_PROGRAM(AHookSeesAGradient, 1) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    register_hook(h, [&](const Tensor& g) { run.log("h", g); });
    return (h * h).sum();
  });
  for (int i = 0; i < 4; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
  run.log("recorded anew", f.stats().replays, "breaks", f.stats().graph_breaks);
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookSeesAGradient, 1);

// What the closure holds is that of its call.
TENON_PROGRAM(AHookChangesAGradient, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = (x * w).relu();
    register_hook(h, [scale = ++calls](const Tensor& g) { return g * float(scale); });
    return (h * 2.0).sum();
  });
  std::vector<Tensor> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(f(row({1, float(i) - 1})));
  for (const Tensor& loss : losses) {
    w.set_grad({});
    loss.backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookChangesAGradient, 2);

// The gradient is that of all uses, also of those before the hook.
TENON_PROGRAM(AHookAfterTheTensorWasUsed, 1) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    Tensor before = (h * 3.0).sum();
    register_hook(h, [&](const Tensor& g) {
      run.log("h", g);
      return g * 0.5;
    });
    return before + h.exp().sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({0, float(i)})).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookAfterTheTensorWasUsed, 1);

TENON_PROGRAM(HooksInTheOrderOfTheEngine, 2) {
  Tensor a = row({1, 2}).requires_grad_(), b = row({0.5, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * a, k = h + 1.0, m = k * b;
    for (auto [name, t] : {std::pair("m", m), {"k", k}, {"h", h}})
      register_hook(t, [&run, name = name](const Tensor& g) { run.log(name, g); });
    register_hook(k, [](const Tensor& g) { return g * 2.0; });
    register_hook(k, [&](const Tensor& g) { run.log("k again", g); });
    return m.sum() + h.sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)})).backward();
    run.log(a.grad(), b.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksInTheOrderOfTheEngine, 2);

// They stay with the leaf, one more with each call.
TENON_PROGRAM(HooksOnWhatIsCapturedAndGiven, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  std::vector<autograd::HookHandle> handles;
  auto f = run.compile([&](const Tensor& x) {
    handles.push_back(register_hook(w, [&](const Tensor& g) { run.log("w", g); }));
    register_hook(x, [&](const Tensor& g) { run.log("x", g); });
    handles.push_back(autograd::register_post_accumulate_grad_hook(
        w, [&](const Tensor& leaf) { run.log("after", leaf.grad()); }));
    return (x * w).sum();
  });
  for (int i = 0; i < 3; ++i) {
    f((row({1, float(i)}).requires_grad_() * 2.0)).backward();
    run.log(w.grad());
  }
  for (auto& handle : handles) handle.remove();
  (w * 2.0).sum().backward();
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksOnWhatIsCapturedAndGiven, 2);

TENON_PROGRAM(HooksOnArgumentsThatAreLeaves, 1) {
  auto f = run.compile([&](const Tensor& x) {
    register_hook(x, [&](const Tensor& g) { return g * 4.0; });
    autograd::register_post_accumulate_grad_hook(
        x, [&](const Tensor& leaf) { run.log("after", leaf.grad()); });
    return x.exp().sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = row({0, float(i)}).requires_grad_();
    f(x).backward();
    run.log(x.grad());
  }
}

TENON_PROGRAM(HooksBetweenGraphBreaks, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    if (x.sum().item<float>() > 2) register_hook(h, [](const Tensor& g) { return g * 2.0; });
    Tensor k = h.relu() + h;
    register_hook(k, [&](const Tensor& g) { run.log("k", g); });
    bool is_large = k.sum().item<float>() > 8;
    Tensor m = k * k;
    register_hook(m, [&](const Tensor& g) { run.log("m", g); });
    return is_large ? m.sum() : m.mean();
  });
  for (int i = 0; i < 6; ++i) {
    f(row({1, float(i) - 1})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AHookOnSomeCallsOnly, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    int call = calls++;
    if (call % 3 == 1) register_hook(h, [call](const Tensor& g) { return g * float(call); });
    Tensor k = h + 1.0;
    if (call % 3 == 2) register_hook(k, [&](const Tensor& g) { run.log("k", g); });
    return (k * h).sum();
  });
  for (int i = 0; i < 9; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HandlesOfHooks, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  autograd::HookHandle kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    auto gone = register_hook(h, [](const Tensor& g) { return g * 100.0; });
    kept = register_hook(h, [](const Tensor& g) { return g * 2.0; });
    gone.remove();
    return h.sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(row({1, float(i)}));
    if (i % 2) kept.remove();
    loss.backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HandlesOfHooks, 2);

TENON_PROGRAM(TheBodyRetainsAGradient, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    h.retain_grad();
    return std::pair(h, (h * h).sum());
  });
  for (int i = 0; i < 3; ++i) {
    auto [h, loss] = f(row({1, float(i)}));
    loss.backward();
    run.log(h.grad(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(TheBodyRetainsAGradient, 2);

TENON_PROGRAM(HooksAndABackwardInTheBody, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor h = x * w;
    h.retain_grad();
    register_hook(h, [&](const Tensor& g) {
      run.log("h", g);
      return g * 0.5;
    });
    Tensor loss = (h * h).sum();
    loss.backward();
    run.log(h.grad());
    NoGradGuard off;
    w.sub_(w.grad() * 0.125);
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(step(row({1, float(i)})), w.detach());
}

TENON_PROGRAM(HooksAroundWrites, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, const Tensor& buffer) {
    Tensor h = x * w;
    register_hook(h, [&](const Tensor& g) { run.log("before the write", g); });
    h.mul_(3.0);
    register_hook(h, [&](const Tensor& g) { run.log("after it", g); });
    buffer.add_(h.detach());
    return (h + buffer).sum();
  });
  Tensor buffer = zeros({2});
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)}), buffer).backward();
    run.log(w.grad(), buffer);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksAroundWrites, 3);

TENON_PROGRAM(HooksOnViewsAndParts, 2) {
  Tensor w = row({1, 2, 3, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor table = (x * w).reshape({2, 2});
    register_hook(table, [](const Tensor& g) { return g * 2.0; });
    std::vector<Tensor> rows = table.unbind();
    register_hook(rows[1], [&](const Tensor& g) { run.log("row", g); });
    return (rows[0] * rows[1]).sum() + table.sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i), 2, 1})).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksOnViewsAndParts, 2);

TENON_PROGRAM(AHookHoldsATensorOfTheBody, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor size = x.abs().sum(), h = x * w;
    register_hook(h, [size](const Tensor& g) { return g * size; });
    return h.sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AHookOnATensorFromBeforeABreak, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    if (h.sum().item<float>() > 100) return h.sum();
    register_hook(h, [](const Tensor& g) { return g * 2.0; });
    return (h * h).sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksThatCannotBe, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int which) {
    Tensor h = x * w, k = x * 2.0;
    if (which == 0) register_hook(k, [](const Tensor&) {});
    if (which == 1) autograd::register_post_accumulate_grad_hook(h, [](const Tensor&) {});
    if (which == 2) k.retain_grad();
    return h.sum();
  });
  for (int i = 0; i < 4; ++i) run.log_error([&] { f(row({1, 2}), i); });
}

TENON_PROGRAM(HooksUnderNoGrad, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    NoGradGuard off;
    register_hook(h, [](const Tensor& g) { return g * 2.0; });
    Tensor constant = (h * 2.0).sum();
    EnableGradGuard on;
    return (h * constant).sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksOfAPureBody, 1) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor h = x * w;
        register_hook(h, [](const Tensor& g) { return g * 2.0; });
        return (h * h).sum();
      },
      {.pure = true});
  for (int i = 0; i < 6; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksAndSizesThatChange, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    register_hook(h, [](const Tensor& g) { return g * float(int64_t(g.size(0))); });
    Tensor k = h.relu();
    register_hook(k, [&](const Tensor& g) { run.log(g); });
    return (k * k).sum();
  });
  for (int i = 2; i < 7; ++i) {
    f(ones({i, 2}) * float(i)).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksAndSizesThatChange, 4);

TENON_PROGRAM(HooksWithCompiledPasses, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    register_hook(h, [x](const Tensor& g) { return g * x; });
    register_hook(w, [](const Tensor& g) { return g * 0.5; }).remove();
    return (h * h).sum();
  });
  if (!run.is_plain()) compiled_autograd::enable_everywhere(run.backend());
  for (int i = 0; i < 4; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AHookOnALeafThatIsUpdated, 8) {
  Tensor w = full({4}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    (x * w).square().sum().backward();
    {
      NoGradGuard no_grad;
      w.sub_(w.grad() * 0.125);
    }
    auto halve = [](const Tensor& leaf) {
      NoGradGuard no_grad;
      leaf.mul_(0.5);
    };
    auto after = autograd::register_post_accumulate_grad_hook(w, halve);
    auto seen = autograd::register_hook(w, [](const Tensor& g) { return g * 2.0; });
    (x * w).sum().backward();
    after.remove();
    seen.remove();
    return w.detach() * 1.0;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor now = f(ones({4}) * (0.5 * i));
    run.log(now, w, w.grad());
  }
}

TENON_PROGRAM(AViewThatIsWrittenBeforeThePass, 4) {
  Tensor b = full({4}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    b.set_grad({});
    Tensor c = x.clone();
    Tensor q = c.select(0, 0);
    q.mul_(b);
    (c * c).sum().backward();
    return std::pair(c.detach(), q.detach());
  });
  for (int i = 0; i < 4; ++i) {
    auto [c, q] = f(ones({3, 4}) * (0.5 * i));
    run.log(c, q, b.grad());
  }
}

// Its gradient is that of what the writes have left.
TENON_PROGRAM(GradientsOfATensorThatIsWrittenThroughViews, 12) {
  Tensor w = full({3, 4}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int how) {
    w.set_grad({});
    Tensor c = (x * w).clone();
    if (how != 1) c.select(1, 0).copy_(x.select(1, 0));
    if (how == 2) c.mul_(2.0);
    c.retain_grad();
    Tensor seen = zeros({});
    autograd::register_hook(c, [&](const Tensor& g) { seen = g.sum(); });
    (c * c).sum().backward();
    return std::pair(c.grad() * 1.0, seen);
  });
  for (int i = 0; i < 9; ++i) {
    auto [grad, seen] = f(ones({3, 4}) * (0.5 * i), i % 3);
    run.log(grad, seen, w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
