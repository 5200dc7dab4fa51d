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

// ---- views that show an element more than once, or are laid out anew

TENON_PROGRAM(AViewShowsElementsMoreThanOnce, 24) {
  Tensor w = arange(4, Dtype::f32).add(1).requires_grad_();
  using Body = std::function<Tensor(const Tensor&)>;
  const Body bodies[] = {
      [](const Tensor& x) {
        Tensor u = x.unsqueeze(0).expand({2, 4});
        x.mul_(2);
        return u * u;
      },
      [](const Tensor& x) {
        Tensor u = x.unsqueeze(0).expand({2, 4});
        u.select(0, 0).slice(0, 1, 2).mul_(2);
        return u * u;
      },
      [](const Tensor& x) {
        Tensor u = x.unfold(0, 3, 1);
        x.add_(1);
        return u * u;
      },
      [](const Tensor& x) {
        Tensor u = x.view({2, 2}).t().as_strided({2, 3}, {1, 1});
        x.mul_(3);
        return u * u;
      },
      [](const Tensor& x) {
        Tensor b = zeros({4}), u = broadcast_to(b, {3, 4});
        b.add_(x);
        return u * u;
      },
      [](const Tensor& x) {
        Tensor b = zeros({4}, Dtype::c64), u = b.unsqueeze(0).expand({2, 4});
        b.add_(complex(x, x));
        return view_as_real(u) * 2;
      },
  };
  for (const Body& body : bodies) {
    auto f = run.compile([&](const Tensor& x) { return body(x * 1); });
    for (int i = 0; i < 3; ++i) {
      Tensor y = f(w);
      log_gradient(run, (y * arange(Number(y.numel())).view(y.sizes())).sum(), w);
    }
  }
}

TENON_PROGRAM(AViewIsLaidOutAnew, 24) {
  Tensor w = arange(6, Dtype::f32).add(1).view({2, 3}).detach().requires_grad_();
  using Change = std::function<void(const Tensor&)>;
  const Change changes[] = {
      [](const Tensor& v) { v.t_(); },
      [](const Tensor& v) { v.transpose_(0, 1).mul_(2); },
      [](const Tensor& v) { v.swapaxes_(0, 1).select(0, 0).mul_(2); },
      [](const Tensor& v) {
        v.as_strided_({2, 2}, {1, 2}, 1);
      },
      [](const Tensor& v) { v.unsqueeze_(0).select(2, 1).mul_(2); },
  };
  for (const Change& change : changes) {
    auto f = run.compile([&](const Tensor& w) {
      Tensor x = w * 1, v = x.alias();
      change(v);
      return std::pair(v * v, x * x);
    });
    for (int i = 0; i < 3; ++i) {
      auto [v, x] = f(w);
      Tensor factors = arange(Number(v.numel())).view(v.sizes());
      log_gradient(run, (v * factors).sum() + x.sum(), w);
    }
  }
}

TENON_PROGRAM(AViewForgetsItsBase, 12) {
  Tensor w = full({2}, 3.0).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, v = h.view({2, 1}), q;
    v.detach_();
    h.mul_(2);
    int facts = facts_of(v);
    return std::pair((h * v.view({2})).sum(), facts);
  });
  auto of_leaf = run.compile([&](const Tensor& x) {
    Tensor v = w.view({2, 1});
    v.detach_();
    {
      NoGradGuard off;
      v.add_(x.view({2, 1}));
    }
    return std::pair((x * w).sum(), facts_of(v));
  });
  for (int i = 0; i < 3; ++i) {
    auto [loss, facts] = f(halves({2}, i));
    log_gradient(run, loss, w);
    auto [other, other_facts] = of_leaf(halves({2}, i));
    log_gradient(run, other, w);
    run.log(facts, other_facts);
  }
}

// Their schemas say nothing of views.
TENON_PROGRAM(AnOpThatIsMadeOfViewsMakesOneWithoutGradients, 24) {
  Tensor w = halves({1, 1, 2, 2}).requires_grad_();
  using Make = std::function<Tensor(const Tensor&)>;
  const Make makes[] = {
      [](const Tensor& x) { return pixel_shuffle(x, 1); },
      [](const Tensor& x) {
        return broadcast_tensors({x, x})[1];
      },
  };
  for (const Make& make : makes) {
    auto f = run.compile([&](const Tensor& x) {
      Tensor view;
      {
        NoGradGuard off;
        view = make(x);
      }
      return view.mul_(2);
    });
    for (int i = 0; i < 2; ++i) run.log_error([&] { f(w); });
    run.log(w);
  }
}

// Nothing was recorded before it: the segment that follows has the argument without its history.
TENON_PROGRAM(AnArgumentIsDetachedAtOnce, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    y.detach_();
    return std::pair(y * y, x * y);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = w * float(i + 1);
    auto [own, both] = f(x, i % 2 ? x.alias() : x.clone());
    run.log(own.requires_grad(), both.requires_grad());
    run.log(own, both);
    w.set_grad({});
    both.sum().backward();
    run.log(w.grad());
  }
}

// It asks its base whether it needs a gradient, and is no leaf.
TENON_PROGRAM(AViewIsWrittenInTwoSegments, 12) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    x.mul_(y);
    graph_break();
    x.add_(1);
    return x * 1;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor y = row({1, 2}).requires_grad_(), b = halves({2, 2}, i);
    Tensor out = f(b.select(0, 0), y);
    (out * b[0]).sum().backward();
    run.log(out, b, y.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
