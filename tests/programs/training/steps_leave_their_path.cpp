// Whole training steps on batches of all sizes that go another way before their backward(): what the
// tape has kept by then holds for every size.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor rows(int64_t n, int64_t columns = 4) {
  return ((arange(n * columns) * 3) % 7 - 3).reshape({n, columns}).to(Dtype::f32) * 0.25;
}
// Three digits: the order of sums may differ.
Tensor about(const Tensor& t) { return (t.detach().to(Dtype::f32) * 256.0).round(); }

Tensor gradient_of(const Tensor& leaf) {
  return leaf.grad().defined() ? about(leaf.grad()) : Tensor();
}

// What a user's step does between the first layer and the loss, by number.
Tensor rest(const Tensor& hidden, int kind) {
  switch (kind) {
    case 0:
      return hidden.square().mean();
    case 1:
      return hidden.abs().mean();
    case 2:
      return hidden.softmax(1).select(1, 0).sum() + hidden.mean();
    case 3:
      return hidden.reshape({-1}).sum() * 0.5;
    case 4:
      return (hidden.sum(0) * hidden.narrow(0, 0, 1)).sum() + hidden.t().mean(1).sum();
    default:
      return (hidden - hidden.mean(0, true)).square().mean();
  }
}

struct Step {
  Tensor w = full({4, 3}, 0.25).requires_grad_();
  Tensor b = zeros({3}).requires_grad_();
  int kind = 0;

  template <class Body>
  void train(Run& run, Body body, std::vector<int> kinds, int most_rows = 9) {
    auto f = run.compile(
        [this, body](const Tensor& x) {
          w.set_grad({});
          b.set_grad({});
          Tensor loss = rest(body(*this, x), kind);
          loss.backward();
          return loss.detach();
        },
        {.fullgraph = true});
    for (int i = 0; i < 36; ++i) {
      kind = kinds[static_cast<size_t>(i / 4) % kinds.size()];
      Tensor loss = f(rows(2 + (i * 5) % most_rows));
      run.log(kind, about(loss), about(w.grad()), gradient_of(b));
      NoGradGuard no_grad;
      w.sub_(w.grad() * 0.125);
      w.copy_((w * 64.0).round() / 64.0);
    }
  }
};

TENON_PROGRAM(TheLossIsAnotherOne, 10) {
  auto layer = [](Step& s, const Tensor& x) { return x.matmul(s.w) + s.b; };
  Step().train(run, layer, {0, 1, 2, 3, 4, 5});
}

TENON_PROGRAM(AfterViewsAndMeans, 10) {
  auto layer = [](Step& s, const Tensor& x) {
    Tensor h = x.matmul(s.w).t();
    Tensor centred = h - h.mean(1, true);
    return centred.t().contiguous() * (x.sum(1, true) / 4.0) + s.b.expand_as(h.t());
  };
  Step().train(run, layer, {0, 3, 5, 1, 2});
}

TENON_PROGRAM(AfterWritesAndParts, 10) {
  auto layer = [](Step& s, const Tensor& x) {
    Tensor h = x.matmul(s.w);
    h = h.clone();
    h.mul_(2.0);
    h.narrow(0, 0, 1).add_(s.b);
    auto parts = h.split(1, 1);
    return cat({parts[2], parts[0], parts[1].flip({0})}, 1);
  };
  Step().train(run, layer, {0, 1, 5, 3});
}

TENON_PROGRAM(AfterARecordedNumber, 10) {
  int calls = 0;
  auto layer = [&](Step& s, const Tensor& x) {
    double k = 0.25 * (++calls % 8);
    return (x * k).matmul(s.w).pow(2) * k + s.b;
  };
  Step().train(run, layer, {0, 1, 3});
}

TENON_PROGRAM(DropoutIsSwitchedOn, 8) {
  auto layer = [](Step& s, const Tensor& x) {
    Tensor h = (x.matmul(s.w) + s.b).relu();
    return s.kind >= 1 ? dropout(h, 0.5, true) * 0.0 + h * 0.5 : h;
  };
  Step().train(run, layer, {0, 1, 5});
}

// Two micro-batches a step, of which the second one goes another way.
TENON_PROGRAM(ASecondPassLeaves, 10) {
  Step s;
  auto f = run.compile(
      [&](const Tensor& x, const Tensor& y) {
        s.w.set_grad({});
        rest(x.matmul(s.w), 0).backward();
        rest(y.matmul(s.w).relu(), s.kind).backward();
        return s.w.grad().sum();
      },
      {.fullgraph = true});
  for (int i = 0; i < 24; ++i) {
    s.kind = i / 6;
    Tensor sum = f(rows(2 + (i * 5) % 7), rows(3 + (i * 2) % 5));
    run.log(about(sum), about(s.w.grad()));
  }
}

// Another layer is added on the way; a hook sees the gradient.
TENON_PROGRAM(AHookSeesWhatComes, 10) {
  Tensor w = full({4, 3}, 0.5).requires_grad_();
  bool more = false;
  auto f = run.compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor h = x.matmul(w);
        autograd::register_hook(h, [](const Tensor& g) { return g * 2.0; });
        if (more) h = h.sigmoid() * h.size(0);
        h.mean().backward();
        return h.detach().sum();
      },
      {.fullgraph = true});
  for (int i = 0; i < 20; ++i) {
    more = i >= 5 && i % 5 != 0;
    Tensor sum = f(rows(2 + (i * 3) % 7));
    run.log(about(sum), about(w.grad()));
  }
}

// Another call with the same operations so far has let go of what this one keeps.
TENON_PROGRAM(WhatIsKeptBeforeItLeaves, 16) {
  std::vector<Tensor> kept;
  Tensor ring = zeros({6, 4});
  int64_t at = 0;
  auto f = run.compile([&](const Tensor& x, bool forgets) {
    Tensor z = x * 2;
    kept.push_back(z + 1);
    if (forgets) kept.clear();
    if (z.sum().item<float>() < 0) at = 0;
    if (!forgets) ring[at++].copy_(x[0]);
  });
  for (int i = 0; i < 8; ++i) {
    f(ones({2 + i % 2, 4}) * (i + 1.0), i % 2 == 1);
    run.log(kept, ring);
  }
}

struct Twice : autograd::Function<Twice> {
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    return {in[0] * 2};
  }
  static std::vector<Tensor> backward(autograd::Context&, std::vector<Tensor> gradients) {
    return {gradients[0] * 3};
  }
};

// Where it does not look, the operations before and behind the place are one segment.
TENON_PROGRAM(ALossIsPrintedNowAndThen, 12) {
  Tensor w = full({4}, 0.5).requires_grad_(), best = ones({4});
  int step = 0, more = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = Twice::apply({x * w})[0], loss = Twice::apply({h.sum()})[0];
    if (step % 3 == 0) run.log(loss.item<float>().value());
    {
      NoGradGuard off;
      best.add_(1).mul_(2).add_(x.sum());
      for (int i = 0; i < more; ++i) best.mul_(0.5);
    }
    return loss * Twice::apply({h})[0].sum();
  });
  for (; step < 10; ++step) {
    more = step / 4;
    w.set_grad({});
    f(rows(2 + step % 2)).backward();
    run.log(best, w.grad());
  }
}

// What a segment has made comes to its need behind it, and is written before calls go another way.
TENON_PROGRAM(ALeafIsWrittenWhereCallsPart, 8) {
  bool goes_on = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor leaf = (x + 1.0).requires_grad_();
    {
      NoGradGuard guard;
      leaf.mul_(0.5);
    }
    Tensor y = leaf * 2.0;
    if (goes_on) y = y * 3.0;
    if (y.requires_grad()) y.sum().backward();
    return std::pair(leaf, y);
  });
  for (int call = 0; call < 4; ++call) {
    goes_on = call % 2;
    auto [leaf, y] = f(ones({4}) * call);
    run.log(leaf.detach(), leaf.grad(), y.detach(), y.requires_grad());
  }
}

TENON_PROGRAM(UncompiledCodeGivesAHistoryWhereCallsPart, 24) {
  auto multiply = disable([](const Tensor& t, const Tensor& by) { t.mul_(by); });
  bool goes_on = false;
  auto whole = run.compile([&](const Tensor& x, const Tensor& w) {
    Tensor z = x + 1.0;
    multiply(z, w);
    z.add_(1.0);
    Tensor y = z * 2.0;
    return goes_on ? y * 3.0 : y;
  });
  auto part = run.compile([&](const Tensor& x, const Tensor& w) {
    Tensor z = x + 1.0, view = z.slice(0, 0, 2);
    multiply(z, w);
    view.add_(1.0);
    Tensor y = view * 2.0;
    return (goes_on ? y * 3.0 : y).sum() + z;
  });
  for (int call = 0; call < 4; ++call) {
    goes_on = call % 2;
    Tensor w = (arange(4).to(Dtype::f32) + 1.0).requires_grad_();
    Tensor y = whole(ones({4}) * call, w) + part(ones({4}), w);
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
