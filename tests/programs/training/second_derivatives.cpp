// Gradients that are differentiated once more, where one input of a compiled function was computed
// from another one.
#include "program.h"

namespace tenon::programs {
namespace {

// The state and the weights are inputs of each call but the first, and the state is made of weights.
TENON_PROGRAM(APenaltyOnTheSlopeOfARecurrentNet, 4) {
  Tensor w = row({2, 0.5}).requires_grad_();
  auto cell = run.compile([&](const Tensor& h, const Tensor& x) { return h * w + x; });
  for (int i = 0; i < 3; ++i) {
    Tensor h = row({1, 1});
    for (int k = 0; k < 3; ++k) h = cell(h, row({0.5f * float(k), float(i)}));
    Tensor slope = autograd::grad({h.sum()}, {w}, {.create_graph = true})[0];
    w.set_grad({});
    slope.square().sum().backward();
    run.log(h.detach(), slope, w.grad());
  }
}

TENON_PROGRAM(AnArgumentThatIsMadeOfAnotherOne, 6) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) { return (a * b).sum(); });
  auto differentiate = [&](const Tensor& a, const Tensor& b) {
    Tensor first = autograd::grad({f(a, b)}, {a}, {.create_graph = true})[0];
    a.set_grad({});
    first.square().sum().backward();
    run.log(first, a.grad());
  };
  for (int i = 1; i < 4; ++i) {
    Tensor a = row({2, float(i)}).requires_grad_();
    differentiate(a, a * a);
    differentiate(a, a);
    differentiate(a, a.view({2}));
    differentiate(a, a * row({1, 2}));
  }
}

// The ops behind a function get its results and what it was computed from.
struct Tripled : autograd::Function<Tripled> {
  static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in) {
    c.save_for_backward({in[0]});
    return {in[0] * 3.0, in[0] * 2.0};
  }
  static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> grads) {
    return {grads[0] * 5.0 * c.saved_tensors()[0] + grads[1] * 7.0};
  }
};

TENON_PROGRAM(AFunctionBetweenOperationsOnTheSameWeight, 16) {
  Tensor w = row({2, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int uses) {
    auto results = Tripled::apply({x * w});
    Tensor y = uses % 2 ? results[0] * w : results[0];
    return (uses / 2 ? y + results[1] * w : y).sum();
  });
  for (int i = 0; i < 8; ++i) {
    Tensor y = f(row({1, 0.5f * float(i)}), i % 4);
    Tensor slope = autograd::grad({y}, {w}, {.create_graph = true})[0];
    w.set_grad({});
    slope.square().sum().backward();
    run.log(y.detach(), slope, w.grad());
  }
}

// What a gradient does not go through, a second one does not either.
TENON_PROGRAM(GradientsThatEndInTheBody, 8) {
  Tensor w = row({2, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int which) {
    Tensor h = x * w, fixed = h.detach();
    if (which == 1) fixed = (h * w).view({2}).detach().clone();
    if (which == 2) {
      NoGradGuard off;
      fixed = h * w;
    }
    return (fixed * h * w).sum();
  });
  for (int i = 0; i < 6; ++i) {
    Tensor slope = autograd::grad({f(row({1, float(i)}), i % 3)}, {w}, {.create_graph = true})[0];
    w.set_grad({});
    slope.square().sum().backward();
    run.log(slope, w.grad());
  }
}

// The second gradient is that of the inputs as they were.
void log_second_gradient(Run& run, const Tensor& loss, const Tensor& w) {
  Tensor slope = autograd::grad({loss}, {w}, {.create_graph = true})[0];
  w.set_grad({});
  slope.square().sum().backward();
  run.log(slope, w.grad());
}

TENON_PROGRAM(ACounterIsWritten, 3) {
  Tensor w = row({2, -1}).requires_grad_(), calls = zeros({});
  auto f = run.compile([&](const Tensor& x) {
    {
      NoGradGuard off;
      calls.add_(1);
    }
    return (x * w).square().sum();
  });
  for (int i = 0; i < 4; ++i) log_second_gradient(run, f(row({1, 0.5f * float(i)})), w);
  run.log(calls);
}
TENON_PROGRAM_IN_ONE_GRAPH(ACounterIsWritten, 3);

TENON_PROGRAM(AStateIsReadAndWritten, 3) {
  Tensor w = row({2, -1}).requires_grad_(), state = row({1, 0.5});
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = (x * w + state).square().sum();
    state.add_(x);
    return y;
  });
  for (int i = 0; i < 4; ++i) log_second_gradient(run, f(row({1, 0.5f * float(i)})), w);
  run.log(state);
}
TENON_PROGRAM_IN_ONE_GRAPH(AStateIsReadAndWritten, 3);

TENON_PROGRAM(AnArgumentWithAHistoryIsWritten, 3) {
  Tensor w = row({0.5, -1}).requires_grad_();
  auto f = run.compile([](const Tensor& h, const Tensor& x) {
    h.mul_(x);
    h.add_(x * 2);
    return (h * h * x).sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor h = w * w, loss = f(h, row({1, 0.5f * float(i)}));
    log_second_gradient(run, loss + h.sum(), w);
    run.log(h.detach());
  }
}

TENON_PROGRAM(GradientsAreZeroedInTheBody, 6) {
  Tensor w = row({2, -1}).requires_grad_();
  optim::SGD opt(std::vector<Tensor>{w}, {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad(false);
    return (x * w).square().sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor loss = f(row({1, 0.5f * float(i)}));
    Tensor slope = autograd::grad({loss}, {w}, {.create_graph = true})[0];
    slope.square().sum().backward();
    run.log(slope, w.grad());
  }
}

// The running statistics are written once a call, and read where they are what normalises.
TENON_PROGRAM(APenaltyOnTheSlopeOfACriticWithStatistics, 24) {
  nn::Sequential critic{nn::Linear(2, 3), nn::BatchNorm1d(3), nn::Tanh(), nn::Linear(3, 1)};
  set_simply(critic.parameters());
  optim::SGD opt(critic.parameters(), {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor in = x.detach().requires_grad_();
    Tensor slope = autograd::grad({critic(in).sum()}, {in}, {.create_graph = true})[0];
    Tensor loss = (slope.norm() - 1).square();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    critic.train(i % 3 != 2);
    run.log((step(halves({8, 2}, i)) * 256).round());
  }
  for (const Tensor& t : critic.buffers()) run.log((t * 256).round());
}

// The rules of these read their result, which is a part of a tensor that was written.
TENON_PROGRAM(ARowIsWrittenByAnOpThatReadsItsResult, 24) {
  using Op = const Tensor& (*)(const Tensor&);
  for (Op op : {Op([](const Tensor& t) -> const Tensor& { return t.exp_(), t; }),
                Op([](const Tensor& t) -> const Tensor& { return t.tanh_(), t; }),
                Op([](const Tensor& t) -> const Tensor& { return t.sigmoid_(), t; })}) {
    auto f = run.compile([op](const Tensor& x) {
      Tensor m = zeros({2, 2}).clone();
      m[0].copy_(x);
      op(m[0]);
      return (m * m).sum();
    });
    Tensor x = row({0.5, -1}).requires_grad_(), loss = f(x);
    Tensor slope = autograd::grad({loss}, {x}, {.create_graph = true})[0];
    (loss + slope.square().sum()).backward();
    run.log((x.grad() * 256).round());
  }
}

}  // namespace
}  // namespace tenon::programs
