// Whole steps run their bodies once a call, from the first one on, whatever stands before backward().
#include "program.h"

#include <stdexcept>

namespace tenon::programs {
namespace {

namespace ag = tenon::autograd;

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  TENON_MODULE(Net, in, out)
  Net() {
    NoGradGuard no_grad;
    for (const Tensor& p : parameters()) p.fill_(0.25);
  }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor points(int i) { return row({1, float(i % 3), -1, 2}).reshape({2, 2}) * 0.5; }

/// Gives another batch each time it is asked.
struct Loader {
  int next_batch = 0;
  Tensor next() { return points(next_batch++); }
};

TENON_PROGRAM(ALoaderGivesABatchACall, 4) {
  Net net;
  Loader loader;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int n_steps = 0;
  auto f = run.compile([&](const Tensor& scale) {
    ++n_steps;
    opt.zero_grad();
    Tensor loss = (net(loader.next()) * scale).square().sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(full({}, 0.5)), n_steps, loader.next_batch, net.in.weight);
}
TENON_PROGRAM_IN_ONE_GRAPH(ALoaderGivesABatchACall, 4);

TENON_PROGRAM(GradientsFromBeforeAreAddedTo, 6) {
  Net net;
  net(points(1)).sum().backward();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    run.log("call", ++n, net.in.weight.grad().defined());
    if (n % 3 == 0) net.in.weight.set_grad({});
    net(x).square().sum().backward();
    return net.in.weight.grad() * 1.0;
  });
  for (int i = 0; i < 6; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.bias.grad());
}

TENON_PROGRAM_IN_ONE_GRAPH(GradientsFromBeforeAreAddedTo, 6);

TENON_PROGRAM(ArgumentsAreLeaves, 6) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  int n = 0;
  auto f = run.compile([&](Net& model, optim::SGD& by, const Tensor& w, const Tensor& x) {
    ++n;
    by.zero_grad();
    w.set_grad({});
    Tensor loss = (model(x) * w).square().sum() * 0.25;
    loss.backward();
    by.step();
    return loss.detach();
  });
  Tensor w = ones({2}).requires_grad_();
  (w * 2.0).sum().backward();
  for (int i = 0; i < 5; ++i)
    run.log(f(net, opt, w, points(i)), n, w.grad(), net.in.weight, net.out.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(ArgumentsAreLeaves, 6);

TENON_PROGRAM(ViewsAreWrittenBeforeThePass, 4) {
  Tensor w = row({1, 2, 3, 4}).reshape({2, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    w.set_grad({});
    Tensor y = x * w;
    Tensor top = y[0], whole = y.view({4});
    top.mul_(2.0);
    std::vector<Tensor> parts = whole.split(2);
    parts[1].add_(parts[0]);
    Tensor kept = y.t();
    y.mul_(w);
    (kept * whole.reshape({2, 2}) + parts[1]).sum().backward();
    return parts[0].detach() * 1.0;
  });
  for (int i = 0; i < 4; ++i) run.log(f(points(i)), n, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(ViewsAreWrittenBeforeThePass, 4);

TENON_PROGRAM(LayersWithStatesStandBeforeThePass, 4) {
  nn::BatchNorm1d norm(2);
  nn::LayerNorm rows{{2}};
  Net net;
  Tensor mean = zeros({2});
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    for (const Tensor& p : net.parameters()) p.set_grad({});
    Tensor h = rows(norm(x) + net(x));
    {
      NoGradGuard no_grad;
      mean.lerp_(h.mean(0), 0.5);
    }
    cross_entropy(h - mean, tensor({0, 1})).backward();
    return h.argmax(1);
  });
  for (int i = 0; i < 5; ++i)
    run.log(f(points(i)), n, mean, norm.running_mean, norm.num_batches_tracked,
            net.in.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(LayersWithStatesStandBeforeThePass, 4);

struct Doubled : ag::Function<Doubled> {
  static std::vector<Tensor> forward(ag::Context& c, const std::vector<Tensor>& in) {
    c.save_for_backward({in[0]});
    return {in[0] * 2.0};
  }
  static std::vector<Tensor> backward(ag::Context& c, std::vector<Tensor> g) {
    return {g[0] * c.saved_tensors()[0]};  // another one than the derivative, so that it shows
  }
};

TENON_PROGRAM(HooksAndFunctionsStandBeforeThePass, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0, n_hooked = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    w.set_grad({});
    Tensor y = x * w;
    ag::register_hook(y, [&](const Tensor& g) {
      ++n_hooked;
      return g * 0.5;
    });
    Tensor z = Doubled::apply({y})[0] + y.relu();
    z.sum().backward();
    return z.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(points(i)), n, n_hooked, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksAndFunctionsStandBeforeThePass, 4);

TENON_PROGRAM(SomeCallsHaveAPass, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    opt.zero_grad();
    Tensor loss = net(x).square().sum() * 0.25;
    if (n % 4 == 3) {
      loss.backward();
      opt.step();
    }
    return loss.detach();
  });
  for (int i = 0; i < 10; ++i)
    run.log(f(points(i)), n, net.in.weight, net.out.bias.grad().defined());
}
TENON_PROGRAM_IN_ONE_GRAPH(SomeCallsHaveAPass, 8);

TENON_PROGRAM(GradientsOfGradients, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    w.set_grad({});
    Tensor y = (x * w).square().sum();
    Tensor slope = ag::grad({y}, {w}, {.create_graph = true})[0];
    (slope.square().sum() + y).backward();
    return slope.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(points(i)), n, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsOfGradients, 4);

TENON_PROGRAM(ALeafIsMadeInTheBody, 4) {
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    Tensor moved = x * 2.0;
    Tensor leaf = moved.detach().requires_grad_();
    return ag::grad({(leaf * moved).sum()}, {leaf})[0] + moved;
  });
  for (int i = 0; i < 4; ++i) run.log(f(points(i)), n);
}
TENON_PROGRAM_IN_ONE_GRAPH(ALeafIsMadeInTheBody, 4);

struct Towers : nn::Module {  // has no forward of its own
  nn::Linear left{2, 2}, right{2, 2};
  TENON_MODULE(Towers, left, right)
  Tensor similarity(const Tensor& x) { return (left(x) * right(x)).sum(); }
};

TENON_PROGRAM(AFunctionWritesItsArgument, 4) {
  struct Grown : ag::Function<Grown> {
    static std::vector<Tensor> forward(ag::Context& c, const std::vector<Tensor>& in) {
      in[0].mul_(2.0);
      c.mark_dirty({in[0]});
      return {in[0]};
    }
    static std::vector<Tensor> backward(ag::Context&, std::vector<Tensor> g) {
      return {g[0] * 2.0};
    }
  };
  Towers towers;
  {
    NoGradGuard no_grad;
    for (const Tensor& p : towers.parameters()) p.fill_(0.25);
  }
  auto f = run.compile([&](const Tensor& x) {
    for (const Tensor& p : towers.parameters()) p.set_grad({});
    Tensor loss = Grown::apply({towers.similarity(x) * 1.0})[0];
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(points(i)), towers.left.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionWritesItsArgument, 4);

TENON_PROGRAM(ErrorsInTheFirstCall, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    opt.zero_grad();
    Tensor loss = net(x).square().sum() * 0.25;
    loss.backward();
    if (n % 3 == 1) throw std::runtime_error("after the pass");
    opt.step();
    if (n % 3 == 2) throw std::runtime_error("after the step");
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) {
    run.log_error([&] { run.log(f(points(i))); });
    run.log(n, net.in.weight, net.out.weight.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ErrorsInTheFirstCall, 8);

TENON_PROGRAM(SizesAreAskedForBeforeThePass, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    w.set_grad({});
    SymInt rows = x.size(0);
    Tensor y = (x * w).reshape({rows * 2});
    Tensor weights = arange(rows * 2, Dtype::f32) * 0.5;
    (y * weights).sum().backward();
    return y.narrow(0, 0, rows).detach() * 1.0;
  });
  for (int i = 0; i < 6; ++i) run.log(f(ones({2 + i % 3, 2}) * 0.5), n, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(SizesAreAskedForBeforeThePass, 6);

TENON_PROGRAM(ANumberChangesWithTheFirstPass, 6) {
  Tensor w = row({1, 2}).requires_grad_(), seen = ones({3});
  int n = 0;
  double scale = 0.5;
  bool trains = false;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    w.set_grad({});
    Tensor loss = (w * x).softmax(0).sum() * scale + (w * seen.slice(0, 0, 2)).sum() * scale;
    if (trains) loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    trains = i >= 2;
    if (i > 0) scale *= 0.5;
    if (i == 2) seen = ones({4});
    run.log(f(points(i).reshape({4}).slice(0, 0, 2)), n, w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ANumberChangesWithTheFirstPass, 8);

TENON_PROGRAM(SizesOfTheDataAreAskedForBeforeThePass, 12) {
  Tensor w = row({1, 2, 3, 4}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    w.set_grad({});
    Tensor h = (x * w).masked_select(x > 1.0);
    Tensor loss = h.reshape({h.size(0), 1}).sum() / (h.size(0) + 1);
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(arange(4, Dtype::f32) * (0.5 + i % 3)), n, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(SizesOfTheDataAreAskedForBeforeThePass, 12);

// The region makes the first call run the body again: the gradients are those of the pass before then.
TENON_PROGRAM(TheLastPassIsUsedUpBeforeARegion, 6) {
  Tensor w = full({2, 2}, 0.5).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.125});
  bool with_checkpoint = true;
  auto f = run.compile([&](const Tensor& x) {
    Tensor last = w.grad().defined() ? w.grad().sum() : zeros({});
    opt.step();
    opt.zero_grad();
    auto layer = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{in[0].matmul(w).relu()};
    };
    Tensor h = with_checkpoint ? ag::checkpoint(layer, {x})[0]
                               : cond(
                                     x.sum() > 0, [&](const Tensor& t) { return t.matmul(w); },
                                     [&](const Tensor& t) { return -t.matmul(w); }, x);
    h.sum().backward();
    return last;
  });
  w.set_grad(full({2, 2}, 2.0));
  for (int i = 0; i < 6; ++i) {
    with_checkpoint = i < 4;
    run.log(f(points(i)), w, w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(TheLastPassIsUsedUpBeforeARegion, 6);

struct TwoResults : ag::Function<TwoResults> {
  static std::vector<Tensor> forward(ag::Context&, const std::vector<Tensor>& in) {
    return {in[0] * 2, in[0] + 1};
  }
  static std::vector<Tensor> backward(ag::Context&, std::vector<Tensor> gradients) {
    return {gradients[0] * 2 + gradients[1]};
  }
};

// The pass begins the tape of the first call, with the function and the hooks of the body so far.
TENON_PROGRAM(HooksOfAFunctionsResults, 8) {
  Tensor w = full({2}, 0.5).requires_grad_();
  int n_hooks = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    std::vector<Tensor> made = TwoResults::apply({x * w});
    made = {TwoResults::apply({made[0]})[0], made[1]};
    for (const Tensor& t : made)
      ag::register_hook(t, [&](const Tensor& g) { return ++n_hooks, g * 0.5; });
    Tensor loss = (made[0] * made[1]).sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(points(i).slice(0, 0, 1 + i % 2)), n_hooks, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksOfAFunctionsResults, 8);

}  // namespace
}  // namespace tenon::programs
