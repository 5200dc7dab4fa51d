// What must not be written while gradients are on, and what only looks like it: leaves, views of
// leaves, and views that were made while gradients were off.
#include "program.h"

namespace tenon::programs {
namespace {

using autograd::Context;
using List = std::vector<Tensor>;

Tensor leaf(float value) { return full({4}, value).requires_grad_(); }

// The message names the operation, and whether a leaf or a view is written.
template <class F>
void log_refusal(Run& run, F f) {
  try {
    f();
    run.log("written");
  } catch (const UserError& error) {
    std::string_view what = error.what();
    run.log(what.substr(0, what.find('(')));
  }
}

// The version that was recorded with a tensor that needs none, or that is no leaf, is asked as well.
TENON_PROGRAM(ALeafComesForWhatWasNone, 2) {
  Tensor w = leaf(1);
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    x.copy_(w);
    ++n;
  });
  f(ones({4}));
  f(leaf(2) * 1.0);
  Tensor x = leaf(3);
  for (int i = 0; i < 2; ++i) log_refusal(run, [&] { f(x); });
  run.log(n, x);
}

TENON_PROGRAM(AViewThatTheBodyMakesIsOfALeaf, 5) {
  auto whole = run.compile([](const Tensor& x) { return x.view({-1}).mul_(2.0).sum(); });
  auto part = run.compile([](const Tensor& x) {
    x.chunk(2)[1].mul_(2.0);
    return x.sum();
  });
  auto unseen = run.compile([](const Tensor& x) {
    Tensor v;
    {
      NoGradGuard off;
      v = x.view({-1});
    }
    v.mul_(2.0);
    return x.sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = i < 2 ? leaf(float(i)) * 1.0 : leaf(float(i));
    log_refusal(run, [&] { run.log(whole(x)); });
    log_refusal(run, [&] { run.log(part(x)); });
    log_refusal(run, [&] { run.log(unseen(x)); });
    run.log(x);
  }
}

TENON_PROGRAM(ACapturedTensorBecomesALeaf, 3) {
  Tensor w = leaf(1) * 1.0;
  auto f = run.compile([&](const Tensor& x) {
    w[0].mul_(2.0);
    return w * x;
  });
  for (int i = 0; i < 4; ++i) {
    if (i == 2) w = leaf(2);
    log_refusal(run, [&] { run.log(f(ones({4}))); });
  }
  run.log(w);
}

TENON_PROGRAM(AViewOfALeafIsTheArgument, 4) {
  auto f = run.compile([](const Tensor& x) { return x.mul_(2.0).sum(); });
  f(ones({4}));
  f(leaf(1) * 1.0);
  Tensor w = leaf(1), h = leaf(1) * 1.0, of_leaf, of_other;
  {
    NoGradGuard off;
    of_leaf = w.view({-1});
    of_other = h.view({-1});
  }
  for (const Tensor& x : {w.view({-1}), of_leaf, of_other}) log_refusal(run, [&] { f(x); });
  run.log(w, h);
}

TENON_PROGRAM(AViewIsMadeWithoutGradientsAndWrittenWithThem, 8) {
  for (int kind = 0; kind < 5; ++kind) {
    auto f = run.compile([kind](const Tensor& b) {
      Tensor h = b * 2.0, q;
      {
        NoGradGuard off;
        q = kind == 1 ? h.detach() : kind == 2 ? h.view({2, 2}).t().reshape({-1}) : h.view({-1});
        if (kind == 3) q.fill_(0.25);
      }
      if (kind == 4) q = q.view({2, 2});
      if (kind != 3) q.fill_(0.75);
      return h;
    });
    for (int i = 0; i < 3; ++i) {
      Tensor b = leaf(float(i));
      log_refusal(run, [&] { f(b).sum().backward(); });
      run.log(b.grad());
    }
  }
}

TENON_PROGRAM(SuchAViewIsWrittenLater, 6) {
  Tensor kept;
  auto gives = run.compile([](const Tensor& b) {
    Tensor h = b * 2.0;
    NoGradGuard off;
    return std::pair(h, h.view({-1}));
  });
  auto keeps = run.compile([&](const Tensor& b) {
    Tensor h = b * 2.0;
    NoGradGuard off;
    kept = h.view({-1});
    return h;
  });
  auto breaks = run.compile([](const Tensor& b) {
    Tensor h = b * 2.0, q;
    {
      NoGradGuard off;
      q = h.view({-1});
    }
    graph_break();
    q.fill_(0.75);
    return h;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor b = leaf(float(i));
    auto [h, q] = gives(b);
    log_refusal(run, [&, q = q] { q.fill_(0.5); });
    Tensor other = keeps(b);
    log_refusal(run, [&] { kept.fill_(0.5); });
    log_refusal(run, [&] { breaks(b); });
    run.log(h, other);
  }
}

TENON_PROGRAM(AWholeStepWritesSuchAView, 3) {
  auto f = run.compile([](const Tensor& b) {
    Tensor h = b * 2.0, q;
    {
      NoGradGuard off;
      q = h.view({-1});
    }
    q.fill_(0.75);
    h.sum().backward();
    return h.detach();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor b = leaf(float(i));
    log_refusal(run, [&] { f(b); });
    run.log(b.grad());
  }
}

// detach() gives a tensor of its own over the memory of the leaf.
TENON_PROGRAM(ADetachedLeafIsWritten, 8) {
  Tensor w = leaf(2), captured;
  auto made = run.compile([](const Tensor& w) { return w.detach().mul_(w.sum()).sum(); });
  auto given = run.compile([&](const Tensor& w) { return captured.mul_(w).mul_(0.5).sum(); });
  auto passed = run.compile([](const Tensor& w, const Tensor& d) { return d.mul_(3.0).sum() * w; });
  for (int i = 0; i < 3; ++i) {
    Tensor other = leaf(float(i + 1));
    captured = w.detach();
    log_refusal(run, [&] { run.log(made(other), other); });
    log_refusal(run, [&] { run.log(given(other), captured, w); });
    log_refusal(run, [&] { run.log(passed(w, w.detach()), w); });
  }
}

struct Same : autograd::Function<Same> {
  static List forward(Context&, const List& in) { return {in[0]}; }
  static List backward(Context&, List grads) { return {grads[0] * 2.0}; }
};

TENON_PROGRAM(AFunctionGivesTheLeafItself, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = Same::apply({x})[0];
    y.add_(1.0);
    return (y * y).sum();
  });
  auto of_view = run.compile([](const Tensor& x) {
    Tensor y = Same::apply({x})[0];
    y.view({2, 2}).mul_(3.0);
    return (x.detach() * y).sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = leaf(float(i));
    f(x).backward();
    run.log(x, x.grad());
    of_view(x).backward();
    run.log(x, x.grad());
  }
}

// Guards ask what an argument was as it came in: the body gives it a history.
TENON_PROGRAM(AnArgumentIsGivenAHistory, 5) {
  Tensor w = leaf(1), total = zeros({4});
  auto add = run.compile([&](const Tensor& to) { to.add_(w); });
  for (int i = 0; i < 4; ++i) add(total);
  total.sum().backward();
  run.log(total, w.grad());
  auto part = run.compile([&](const Tensor& to) {
    to.chunk(2)[0].mul_(w[0]);
    return std::pair(to.sum(), to.requires_grad());
  });
  for (int i = 0; i < 4; ++i) {
    Tensor fresh = full({4}, float(i));
    add(fresh);
    auto [sum, needs] = part(full({4}, 3.0));
    sum.backward();
    run.log(fresh, needs, w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
