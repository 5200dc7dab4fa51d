// Functions with a derivative of their own whose forward does not read what they are given: the
// inputs are there for their gradients, whoever else needs them.
#include "program.h"

namespace tenon::programs {
namespace {

using autograd::Context;
using autograd::Function;
using List = std::vector<Tensor>;

/// Passes the value on; the gate gets a gradient of its own.
struct Gate : Function<Gate> {
  static List forward(Context&, const List& in) { return {in[0] * 2}; }
  static List backward(Context&, List grads) { return {grads[0] * 2, grads[0] * 0.5}; }
};

/// Keeps the second input for the backward and does not look at it before.
struct Keeps : Function<Keeps> {
  static List forward(Context& c, const List& in) {
    c.save_for_backward({in[1]});
    return {in[0] * 2};
  }
  static List backward(Context& c, List grads) {
    return {grads[0] * c.saved_tensors()[0], Tensor()};
  }
};

/// Reads nothing.
struct Ones : Function<Ones> {
  static List forward(Context&, const List&) { return {ones({2})}; }
  static List backward(Context&, List grads) { return {grads[0] * 4}; }
};

struct Pair {
  Tensor w = row({1, 2}).requires_grad_(), v = row({0.5, 0.25}).requires_grad_();

  void log(Run& run, const Tensor& loss) {
    w.set_grad({});
    v.set_grad({});
    loss.backward();
    run.log(loss, w.grad(), v.grad());
  }
};

TENON_PROGRAM(AGateIsNotRead, 3) {
  Pair p;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * p.w, gate = y + p.v;
    return Gate::apply({y, gate})[0].sum();
  });
  for (int i = 0; i < 6; ++i) p.log(run, f(row({1, float(i)})));
}
TENON_PROGRAM_IN_ONE_GRAPH(AGateIsNotRead, 3);

TENON_PROGRAM(AnInputIsKeptUnread, 3) {
  Pair p;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * p.w;
    return (Keeps::apply({y, y + p.v})[0] + p.v).sum();
  });
  for (int i = 0; i < 6; ++i) p.log(run, f(row({1, float(i)})));
}
TENON_PROGRAM_IN_ONE_GRAPH(AnInputIsKeptUnread, 3);

TENON_PROGRAM(OneFunctionFeedsAnother, 3) {
  Pair p;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * p.w;
    Tensor gated = Gate::apply({y, Ones::apply({y * p.v})[0]})[0];
    return (gated + Keeps::apply({p.v * 2, gated})[0]).sum();
  });
  for (int i = 0; i < 6; ++i) p.log(run, f(row({1, float(i)})));
}
TENON_PROGRAM_IN_ONE_GRAPH(OneFunctionFeedsAnother, 3);

/// Halves a buffer in place.
struct Halves : Function<Halves> {
  static List forward(Context& c, const List& in) {
    in[1].mul_(0.5);
    c.mark_dirty({in[1]});
    return {in[0] * 3, in[1]};
  }
  static List backward(Context&, List grads) { return {grads[0] * 3, Tensor()}; }
};

TENON_PROGRAM(ACapturedBufferIsWritten, 6) {
  Tensor w = row({1, 2}).requires_grad_(), buffer = row({64, 32});
  auto f = run.compile([&](const Tensor& x) { return Halves::apply({x * w, buffer})[0].sum(); });
  for (int i = 0; i < 5; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad(), buffer, buffer.requires_grad(), buffer.is_leaf());
    buffer = buffer.detach();
  }
}

/// Looks at its argument.
struct RoundOff : autograd::Function<RoundOff> {
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    Tensor rounded = in[0].round();
    return {rounded.sum().item<float>() > 100 ? rounded * 0.5 : rounded};
  }
  static std::vector<Tensor> backward(autograd::Context&, std::vector<Tensor> gradients) {
    return {gradients[0] * 2};
  }
};

TENON_PROGRAM(AFunctionOutsideOfTheGraph, 12) {
  Tensor w = full({3}, 2.0).requires_grad_();
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor made;
    {
      std::optional<NoCompile> scope;
      if (turn % 2) scope.emplace();
      made = RoundOff::apply({w * x})[0];
    }
    return made.sum() + (w * w).sum();
  });
  for (; turn < 6; ++turn) {
    w.set_grad({});
    f(halves({3}, turn)).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(ACapturedTensorIsAskedWhenItWasWritten, 8) {
  Tensor w = full({3}, 2.0).requires_grad_(), state = ones({3});
  auto f = run.compile([&](const Tensor& x) {
    bool before = state.requires_grad();
    state.mul_(w);
    Tensor made = RoundOff::apply({state})[0];
    int facts = before + 2 * state.requires_grad() + 4 * state.is_leaf();
    Tensor loss = (state * x).sum() + made.sum() + (w * x).sum();
    state.detach_();
    facts += 8 * state.requires_grad() + 16 * state.is_leaf();
    return std::pair(loss, facts);
  });
  for (int i = 0; i < 5; ++i) {
    w.set_grad({});
    auto [loss, facts] = f(halves({2 + i % 2, 3}, i));
    loss.backward();
    run.log(loss, facts, w.grad(), state);
    state = ones({3});
  }
}

TENON_PROGRAM(AWriteToALeafOfTheBodyIsRefused, 8) {
  auto f = run.compile([&](const Tensor& x) {
    Tensor leaf = x.clone().requires_grad_();
    run.log_error([&] { leaf.mul_(3.0); });
    return leaf * 2;
  });
  for (int i = 0; i < 4; ++i) run.log(f(halves({2 + i % 2, 3}, i)));
}

}  // namespace
}  // namespace tenon::programs
