// Which tensors need a gradient, and which are leaves, changes in bodies and between calls.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor sevenths(std::vector<int64_t> sizes, int i = 0) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return ((arange(n) * (2 * i + 3)) % 7 - 3).reshape(IntList(sizes)).to(Dtype::f32) * 0.5;
}

// The last call with the weight frozen must not answer for one that trains.
TENON_PROGRAM(AWeightIsFrozenAroundTheBackward, 12) {
  Tensor p = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, bool freeze) {
    p.requires_grad_(!freeze);
    Tensor y = (p * x).sum();
    run.log(y.requires_grad(), p.requires_grad());
    if (y.requires_grad()) y.backward();
    p.requires_grad_(true);
    return y.detach() + (p.grad().defined() ? p.grad().sum() : zeros({}));
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({1, float(i)}), i % 3 == 1), p.grad());
    if (i == 3) p.set_grad({});
  }
}

TENON_PROGRAM(TheBodyChoosesWhatItTrains, 24) {
  Tensor a = row({1, 2}), b = row({3, 4});
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor first = (a * x + b).sum();
    (n % 2 ? a : b).requires_grad_(n < 4);
    ++n;
    Tensor second = (a * b * x).sum();
    return first + second;
  });
  for (int i = 0; i < 8; ++i) {
    Tensor y = f(row({1, float(i)}));
    run.log(y.requires_grad(), a.requires_grad(), b.requires_grad(), y.detach());
    if (y.requires_grad()) y.backward();
    run.log(a.grad(), b.grad());
    a.set_grad({});
    b.set_grad({});
  }
}

struct Critic : nn::Module {
  nn::Linear in{2, 3}, out{3, 1};
  TENON_MODULE(Critic, in, out)
  Critic() { set_simply(parameters(), 0.5); }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

TENON_PROGRAM(ACriticIsFrozenForTheMakersStep, 16) {
  Critic critic;
  nn::Linear maker(2, 2);
  set_simply(maker.parameters());
  optim::SGD of_critic(critic.parameters(), {.lr = 0.0625}),
      of_maker(maker.parameters(), {.lr = 0.0625});
  auto step = run.compile([&](const Tensor& noise, const Tensor& real) {
    critic.requires_grad_(true);
    of_critic.zero_grad();
    Tensor first =
        (critic(real) - 1.0).square().mean() + critic(maker(noise).detach()).square().mean();
    first.backward();
    of_critic.step();
    critic.requires_grad_(false);
    of_maker.zero_grad();
    Tensor second = (critic(maker(noise)) - 1.0).square().mean();
    second.backward();
    of_maker.step();
    return std::pair(first.detach(), second.detach());
  });
  for (int i = 0; i < 5; ++i) {
    auto [first, second] = step(sevenths({3, 2}, i), sevenths({3, 2}, i + 1));
    run.log(first, second, critic.in.weight.requires_grad(), critic.in.weight.grad());
    run.log(maker.weight);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ACriticIsFrozenForTheMakersStep, 16);

TENON_PROGRAM(AnInputIsMovedAlongItsGradient, 24) {
  Critic critic;
  auto attack = run.compile([&](const Tensor& x, int n, double size) {
    Tensor delta = zeros_like(x);
    for (int i = 0; i < n; ++i) {
      delta.requires_grad_();
      Tensor loss = critic(x + delta).square().mean();
      Tensor slope = autograd::grad({loss}, {delta})[0];
      NoGradGuard off;
      delta = (delta + slope.sign() * size).clamp(-0.5, 0.5).detach();
    }
    return x + delta;
  });
  for (int i = 0; i < 5; ++i) {
    run.log(attack(sevenths({3, 2}, i), i % 3, 0.25), critic.in.weight.grad());
  }
}

// What is detached in place: results of the body, captured states, arguments.
TENON_PROGRAM(AStateIsDetachedInPlace, 24) {
  Tensor w = row({0.5, 1}).requires_grad_(), h = zeros({2});
  auto advance = run.compile([&](const Tensor& x, bool cut) {
    if (cut) h.detach_();
    h = (h * w + x).relu();
    return h.sum();
  });
  auto late = run.compile([&](const Tensor& x, const Tensor& given) {
    Tensor y = given * x;
    given.detach_();
    return y + given * w;
  });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    Tensor y = advance(sevenths({2}, i) + 1.0, i % 2 == 0);
    if (i % 2) y.backward();
    run.log(y.detach(), h.requires_grad(), w.grad());
    Tensor given = i % 4 == 3 ? row({1, 2}) : w * 2.0;
    late(sevenths({2}, i), given).sum().backward();
    run.log(w.grad(), given.requires_grad(), given.is_leaf());
  }
}

TENON_PROGRAM(ResultsAreDetachedInPlace, 24) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int how) {
    Tensor h = w * x, v = h.view({2, 1});
    if (how == 0) h.detach_();
    if (how == 1) h.detach_().mul_(2.0);
    if (how == 2) {
      h.mul_(2.0);
      h.detach_();
      h.mul_(w);
    }
    if (how == 3) {
      h = h * h;
      Tensor before = h * 1.0;
      h.detach_();
      return before * h + v.sum();
    }
    run.log(h.requires_grad(), h.is_leaf());
    return h * w + v.sum();
  });
  for (int i = 0; i < 10; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i % 3)}), i % 5);
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ResultsAreDetachedInPlace, 24);

TENON_PROGRAM(WhatTheBodyKeepsIsDetachedOutside, 6) {
  Tensor w = row({1, 2}).requires_grad_(), kept;
  auto f = run.compile([&](const Tensor& x) {
    kept = w * x;
    return kept * 2.0;
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)}));
    kept.detach_();
    run.log(kept.requires_grad(), y.requires_grad(), kept.is_leaf());
    (y * kept).sum().backward();
    run.log(w.grad());
  }
  w.detach_();
  run.log(w.requires_grad(), f(row({1, 1})).requires_grad());
}

// A leaf comes for what was the result of an operation.
TENON_PROGRAM(ALeafComesToBeWritten, 6) {
  Tensor w = row({1, 2}).requires_grad_(), captured = w * 1.0;
  auto f = run.compile([&](const Tensor& x) {
    x.view({2}).mul_(w);
    return x * 1.0;
  });
  auto g = run.compile([&](const Tensor& x) {
    captured.add_(x);
    return captured * w;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor leaf = row({1, float(i)}).requires_grad_();
    run.log_error([&] { run.log(f(i % 3 == 2 ? leaf : leaf * 1.0).detach()); });
    if (i == 3) captured = row({1, 1}).requires_grad_();
    if (i == 4) captured = w * 2.0;
    run.log_error([&] { run.log(g(row({1, 1})).detach()); });
  }
}

TENON_PROGRAM(LeavesThatTheBodyMakes, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, bool cut) {
    Tensor k = w * x;
    if (cut) k = k.detach().requires_grad_();
    Tensor y = (k * k).sum();
    y.backward();
    return k.is_leaf() ? k.grad() : k.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)}), i % 2), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(LeavesThatTheBodyMakes, 12);

// How many elements the mask chooses only the data know, also in the backward.
TENON_PROGRAM(ChosenElementsArePutBack, 24) {
  Tensor w = row({1, -2, 3, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = zeros({4}), t = w * x;
    y.index_put_({x > 0}, t.masked_select(x > 0));
    return y;
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor y = f(sevenths({4}, i) - (i == 3 ? 9.0 : 0.0));
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ChosenElementsArePutBack, 24);

TENON_PROGRAM(ComplexResultsTellWhatTheyNeed, 18) {
  Tensor phase = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor z = polar(x, phase);
    run.log(z.requires_grad(), (z * z).requires_grad(), view_as_real(z).requires_grad());
    return (z.requires_grad() ? view_as_real(z * z) : view_as_real(z)).sum();
  });
  for (int i = 0; i < 6; ++i) {
    phase.requires_grad_(i % 3 != 1);
    Tensor y = f(row({1, float(i)}).requires_grad_(i % 2 == 0));
    run.log(y.requires_grad(), y.detach());
    if (y.requires_grad()) y.backward();
    run.log(phase.grad());
    phase.set_grad({});
  }
}

// Losses that only compare what they are given as the target.
TENON_PROGRAM(ATargetThatIsComparedNeedsNothing, 12) {
  Tensor w = row({1, 2});
  auto f = run.compile([&](const Tensor& target) {
    Tensor first = hinge_embedding_loss(w, target);
    Tensor second =
        cosine_embedding_loss(w.reshape({1, 2}), w.reshape({1, 2}) + 1, target.slice(0, 0, 1));
    run.log(first.requires_grad(), second.requires_grad());
    return first + second;
  });
  for (int i = 0; i < 6; ++i) {
    w.requires_grad_(i % 3 == 1);
    Tensor target = row({1, -1}).requires_grad_();
    Tensor y = f(target);
    run.log(y.requires_grad(), y.detach());
    if (y.requires_grad()) y.backward();
    run.log(w.grad(), target.grad());
  }
}

// What needed no gradient in the call gets none of a second derivative either.
TENON_PROGRAM(ALayerIsThawedBeforeASecondDerivative, 8) {
  Tensor w = full({3, 3}, 0.5).requires_grad_(), v = full({3, 3}, 0.25).requires_grad_();
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.requires_grad_(turn % 3 == 0);
    Tensor h = x.matmul(w);
    w.requires_grad_(true);
    return h.matmul(v).square().square().sum();
  });
  for (; turn < 7; ++turn) {
    w.set_grad({});
    v.set_grad({});
    Tensor loss = f(halves({2 + turn % 2, 3}, turn) * 0.5);
    Tensor first = autograd::grad({loss}, {v}, {.create_graph = true})[0];
    (loss + first.sum()).backward();
    run.log(loss, w.grad(), v.grad());
  }
}

void reshape_in_place(Tensor h, int how) {
  NoGradGuard off;
  switch (how) {
    case 0:
      return void(h.squeeze_(0));
    case 1:
      return void(h.unsqueeze_(0));
    case 2:
      return void(h.transpose_(0, 1));
    default:
      return void(h.t_());
  }
}

// Other sizes in place are no write.
TENON_PROGRAM(ALeafGetsOtherSizesWhileGradientsAreOff, 24) {
  for (int how = 0; how < 4; ++how) {
    Tensor w = sevenths({1, 3}).requires_grad_(), v = sevenths({3}).requires_grad_();
    auto f = run.compile([&](const Tensor& x) {
      reshape_in_place(w, how);
      return x * v;
    });
    for (int i = 0; i < 2; ++i) {
      f(sevenths({3}, i)).sum().backward();
      run.log(to_text(w), w.detach(), w.is_leaf(), w.requires_grad(), v.grad());
      w = sevenths({1, 3}).requires_grad_();
    }
  }
}

// The history goes on, and a gradient goes the way that the tape has it.
TENON_PROGRAM(AValueGetsOtherSizesWhileGradientsAreOff, 40) {
  for (int how = 0; how < 4; ++how) {
    auto of_view = run.compile([how](const Tensor& x, const Tensor& by) {
      Tensor h = (x * 0.5).view({1, 6});
      reshape_in_place(h, how);
      return (h * by).square();
    });
    auto of_own = run.compile([how](const Tensor& x, const Tensor& by) {
      Tensor h = x * 0.5;
      reshape_in_place(h, how);
      h.mul_(2.0);
      return h * by + h;
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x = sevenths({2, 3}, i).requires_grad_(), square = sevenths({3, 3}, i);
      Tensor y = of_view(x, how < 2 ? sevenths({6}, i) : sevenths({6, 1}, i));
      y.sum().backward();
      run.log(y.detach(), x.grad());
      square.requires_grad_();
      Tensor z = of_own(square, sevenths({3, 3}, 2));
      z.sum().backward();
      run.log(z.detach(), z.requires_grad(), square.grad());
    }
  }
}

}  // namespace
}  // namespace tenon::programs
