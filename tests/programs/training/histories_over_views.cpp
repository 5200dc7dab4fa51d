// Tensors that share memory: what one of them is given, the others have, too.
#include "program.h"

namespace tenon::programs {
namespace {

using autograd::Context;
using List = std::vector<Tensor>;

/// Asks what it is given whether it needs a gradient.
struct Squared : autograd::Function<Squared> {
  static List forward(Context& c, const List& in) {
    c.save_for_backward({in[0]});
    return {in[0] * in[0]};
  }
  static List backward(Context& c, List grads) { return {grads[0] * c.saved_tensors()[0] * 2}; }
};

/// What a program may ask of a tensor that may have a history.
int facts_of(const Tensor& t) {
  return t.requires_grad() + 2 * t.is_leaf() + 4 * (autograd::grad_fn(t).name() != "none");
}

void log_gradient(Run& run, const Tensor& loss, const Tensor& w) {
  w.set_grad({});
  if (loss.requires_grad()) loss.backward();
  run.log(loss, w.grad());
}

TENON_PROGRAM(ABaseIsAskedWhenItsViewWasWritten, 12) {
  Tensor w = full({2}, 3.0).requires_grad_(), base, view;
  auto f = run.compile([&](const Tensor& x) {
    view.mul_(w);
    int facts = facts_of(base);
    return std::pair(((base.requires_grad() ? base * 2 : base) + x).sum(), facts);
  });
  for (int i = 0; i < 6; ++i) {
    base = halves({4}, i);
    view = i == 3 ? ones({2}) : base.slice(0, 0, 2);
    auto [loss, facts] = f(ones({4}));
    run.log(facts);
    log_gradient(run, loss, w);
  }
}

TENON_PROGRAM(AViewIsAskedWhenItsBaseWasWritten, 12) {
  Tensor w = full({4}, 3.0).requires_grad_(), base, view;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = view * x;
    base.mul_(w);
    int facts = facts_of(view);
    return std::pair(((view.requires_grad() ? view * 2 : view) + y).sum(), facts);
  });
  for (int i = 0; i < 5; ++i) {
    base = halves({4}, i);
    view = base.view({2, 2});
    auto [loss, facts] = f(ones({2, 2}));
    run.log(facts);
    log_gradient(run, loss, w);
  }
}

TENON_PROGRAM(AnArgumentIsAskedWhenAViewOfItWasWritten, 12) {
  Tensor w = full({2}, 3.0).requires_grad_(), view;
  auto f = run.compile([&](const Tensor& x) {
    view.mul_(w);
    int facts = facts_of(x);
    return std::pair((x.requires_grad() ? x * 2 : x).sum(), facts);
  });
  for (int i = 0; i < 6; ++i) {
    Tensor base = halves({4}, i);
    view = base.slice(0, 0, 2);
    auto [loss, facts] = f(i % 2 ? base.view({2, 2}) : base);
    run.log(facts);
    log_gradient(run, loss, w);
  }
}

TENON_PROGRAM(RowsOfAResultAreWritten, 12) {
  Tensor w = full({3}, 0.5).requires_grad_();
  std::vector<int> facts;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = zeros({2, 3}), d = y.detach();
    for (int i = 0; i < 2; ++i) {
      y[i] = x[i] * w;
      facts.push_back(facts_of(y) + 8 * facts_of(d));
    }
    Tensor loss = Squared::apply({y})[0].sum();
    return y.requires_grad() ? loss : loss * 0;
  });
  for (int i = 0; i < 4; ++i) {
    log_gradient(run, f(halves({2 + i % 2, 3}, i)), w);
    for (int fact : facts) run.log(fact);
  }
}

TENON_PROGRAM(AViewOfAResultIsAskedWhenThatWasWritten, 12) {
  Tensor w = full({3}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 1.0, q = y.select(0, 0), unseen;
    {
      NoGradGuard off;
      unseen = y.select(0, 1);
    }
    y.mul_(w);
    int facts = facts_of(q) + 8 * facts_of(unseen);
    return std::pair((Squared::apply({q})[0] + unseen).sum(), facts);
  });
  for (int i = 0; i < 4; ++i) {
    auto [loss, facts] = f(halves({2 + i % 2, 3}, i));
    run.log(facts);
    log_gradient(run, loss, w);
  }
}

TENON_PROGRAM(AResultIsAskedWhenAViewOfItWasWrittenLater, 24) {
  Tensor w = ones({}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, q = h[0];
    graph_break();
    q.add_(w);
    int facts = facts_of(h);
    return std::pair(Squared::apply({h})[0].sum(), facts);
  });
  for (int i = 0; i < 4; ++i) {
    auto [loss, facts] = f(halves({2 + i % 2, 3}, i));
    run.log(facts);
    log_gradient(run, loss, w);
  }
}

TENON_PROGRAM(AHookOnAResultWhoseRowWasWritten, 12) {
  Tensor w = ones({}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 1.0;
    h[0] = w;
    autograd::register_hook(h, [](const Tensor& g) { return g * 2.0; });
    return h.sum();
  });
  for (int i = 0; i < 4; ++i) log_gradient(run, f(halves({2 + i % 2, 3}, i)), w);
}

TENON_PROGRAM(ACapturedTensorIsReadBehindACut, 24) {
  Tensor w = ones({}).requires_grad_(), c;
  auto f = run.compile([&](const Tensor& x) {
    c.slice(0, 0, 1).add_(w);
    if (x.sum().item<double>() > 100) return c;
    return c * 2.0;
  });
  for (int i = 0; i < 4; ++i) {
    c = ones({3 + i % 2});
    log_gradient(run, f(halves({2}, i)).sum(), w);
    run.log(c.requires_grad(), c.is_leaf());
  }
}

TENON_PROGRAM(AnArgumentGetsAHistoryByItsRow, 12) {
  Tensor w = ones({}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    x[0].add_(w);
    return std::pair(Squared::apply({x})[0].sum(), facts_of(x));
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2 + i % 2, 3}, i);
    auto [loss, facts] = f(x);
    run.log(facts, x.requires_grad(), x.is_leaf());
    log_gradient(run, loss, w);
  }
}

TENON_PROGRAM(AKeptTensorGetsAHistoryLater, 6) {
  Tensor w = ones({}).requires_grad_(), kept, given;
  auto f = run.compile([&](const Tensor& x) {
    kept = x * 2.0;
    given = x;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({3}, i);
    f(x);
    kept[0] = w;
    run.log(kept.requires_grad(), kept.is_leaf());
    log_gradient(run, (kept * 3.0).sum(), w);
    if (i % 2)
      x.requires_grad_();
    else
      x.slice(0, 0, 2).add_(w);
    run.log(given.requires_grad(), given.is_leaf());
    log_gradient(run, (given * 3.0).sum(), w);
    run.log(x.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
