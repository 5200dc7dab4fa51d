// The known foot-guns of other tracers, rebuilt: each gives what plain code gives.
#include "program.h"

#include <random>

namespace tenon::programs {
namespace {

// jit.trace and TinyJit: a number that was read once stays in the graph.
TENON_PROGRAM(ABakedScalar, 6) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    double mean = x.mean().item<float>();
    int rounds = int(x.amax().item<float>());
    Tensor out = y;
    for (int i = 0; i < rounds % 3; ++i) out = out + mean;
    return out;
  });
  for (int i = 0; i < 9; ++i) run.log(f(row({float(i), 2}), row({1, 2})));
}

// MLX: what a closure has captured by value is a constant of the graph.
TENON_PROGRAM(AStaleClosure, 3) {
  std::vector<std::function<Tensor(const Tensor&)>> layers;
  for (int i = 1; i <= 2; ++i) layers.push_back([i](const Tensor& x) { return x * i; });
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x;
    for (const auto& layer : layers) y = layer(y);
    return y;
  });
  run.log(f(row({1, 2})));
  layers[0] = [w = row({4, 8})](const Tensor& x) { return x + w; };
  run.log(f(row({1, 2})));
  layers.push_back([](const Tensor& x) { return -x; });
  run.log(f(row({1, 2})), f(row({1, 2})));
}

Tensor global_table;
int global_level = 0;

// Taichi: globals are constants of a compiled kernel.
TENON_PROGRAM(AStaleGlobal, 4) {
  global_table = row({1, 2}), global_level = 1;
  auto f = run.compile([](const Tensor& x) {
    static int calls = 0;
    ++calls;
    return global_level > 2 ? x + global_table : x * global_table * double(global_level);
  });
  for (; global_level < 6; ++global_level) {
    run.log(f(row({1, 2})));
    if (global_level % 2) global_table = row({float(global_level), 1});
  }
  global_table = Tensor();
}

// JAX: a value of the trace that is kept is an error wherever it is used.
TENON_PROGRAM(ALeakedTracer, 3) {
  Tensor leaked;
  std::vector<Tensor> all;
  auto f = run.compile([&](const Tensor& x) {
    leaked = x * 2.0;
    all.push_back(leaked + 1.0);
    return leaked.sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor y = f(row({1, float(i)}));
    run.log(y, leaked, leaked * 2.0, all);
  }
  all[0].add_(1.0);
  run.log(all);
}

// CUDA graphs and TinyJit: a call overwrites what the last one gave.
TENON_PROGRAM(AnOutputOverwrittenByTheNextCall, 1) {
  auto f = run.compile([](const Tensor& x) { return std::pair(x * 2.0, (x + 1.0).sum()); });
  std::vector<Tensor> kept;
  for (int i = 0; i < 6; ++i) {
    auto [a, b] = f(row({1, float(i)}));
    a.add_(0.5);
    kept.push_back(a);
    kept.push_back(b);
  }
  run.log(kept);
}

// jit.trace: two arguments that are one tensor, or overlap, when they were two at first.
TENON_PROGRAM(AliasedInputs, 4) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    a.mul_(2.0);
    return a + b;
  });
  Tensor x = row({1, 2, 3, 4}), y = row({1, 1});
  run.log(f(x.slice(0, 0, 2), y), x);
  run.log(f(x.slice(0, 0, 2), x.slice(0, 2, 4)), x);
  run.log(f(x.slice(0, 0, 3), x.slice(0, 1, 4)), x);
  run.log(f(y, y), y);
  run.log(f(x.slice(0, 0, 2), y), x, y);
}

struct Answer {
  Tensor value;
  std::optional<Tensor> second;
  std::variant<Tensor, std::string> rest;
};

// Results whose structure depends on the call.
TENON_PROGRAM(OptionalOutputs, 3) {
  auto f = run.compile([](const Tensor& x, int kind) {
    Answer a{x + 1.0, {}, std::string("none")};
    if (kind > 0) a.second = x * 2.0;
    if (kind > 1) a.rest = x - 1.0;
    return a;
  });
  for (int i = 0; i < 9; ++i) {
    Answer a = f(row({float(i)}), i % 3);
    run.log(a.value, a.second.value_or(Tensor()), int(a.rest.index()));
    if (auto* t = std::get_if<Tensor>(&a.rest)) run.log(*t);
  }
}

// A compiled function inside another, and both in turn.
TENON_PROGRAM(NestedCompile, 10) {
  Tensor w = row({1, 2});
  auto inner =
      run.compile([&](const Tensor& x) { return x.sum().item<float>() > 3 ? x * w : x + w; });
  auto outer = run.compile([&](const Tensor& x) { return inner(x * 2.0) + inner(x); });
  for (int i = 0; i < 6; ++i) {
    run.log(outer(row({1, float(i)})), inner(row({1, float(i)})));
    if (i == 3) w = row({8, 4});
  }
}

// Effects besides tensors happen once, when the trace is made.
TENON_PROGRAM(EffectsThatHappenOnce, 2) {
  int counter = 0;
  std::string printed;
  std::mt19937 dice(5);
  auto f = run.compile([&](const Tensor& x) {
    ++counter;
    printed += std::to_string(int64_t(x.size(0))) + ";";
    return x * double(dice() % 8);
  });
  for (int i = 0; i < 10; ++i) run.log(f(row({1, 2})), counter, printed);
}

// A branch that was not taken when the trace was made.
TENON_PROGRAM(ABranchThatWasNotTaken, 8) {
  auto f = run.compile([](const Tensor& x) {
    if (x.size(0) > 3) return x.sum();
    if (x.amax().item<float>() > 4) return x.amin();
    return x.mean();
  });
  for (int i = 0; i < 8; ++i) run.log(f(full({i % 5 + 2}, float(i))));
}

// Random numbers drawn once and kept.
TENON_PROGRAM(FrozenRandomness, 2) {
  nn::Dropout drop(0.5);
  auto f = run.compile([&](const Tensor& x) { return drop(x) + randint(0, 8, {4}); });
  for (int i = 0; i < 6; ++i) run.log(f(ones({4})));
  drop.eval();
  run.log(f(ones({4})));
}

// Containers that the body appends to.
TENON_PROGRAM(AContainerOfTheCallerGrows, 2) {
  std::vector<Tensor> seen;
  auto f = run.compile([&](const Tensor& x) {
    seen.push_back(x * 2.0);
    return x + 1.0;
  });
  for (int i = 0; i < 5; ++i) f(row({float(i)}));
  run.log(seen);
}

// A view that is written through after it was given out.
TENON_PROGRAM(AnOutputThatViewsAnInput, 1) {
  auto f = run.compile([](const Tensor& x) { return std::pair(x.slice(0, 1), x.reshape({2, 2})); });
  for (int i = 0; i < 3; ++i) {
    Tensor x = row({1, 2, 3, float(i)});
    auto [tail, square] = f(x);
    tail.mul_(2.0);
    square.add_(1.0);
    run.log(x, tail, square);
  }
}

// A copy of an argument is a copy, also where nothing else is computed.
TENON_PROGRAM(ACopyThatIsReturned, 2) {
  Tensor w = row({1, 2});
  auto f = run.compile([&](const Tensor& x) {
    return std::tuple(x.clone(), x.to(Dtype::f32, false, /*copy=*/true), empty({2}).copy_(x),
                      w.clone());
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = row({1, float(i)});
    auto [a, b, c, d] = f(x);
    x.add_(8.0);
    w.mul_(2.0);
    run.log(a, b, c, d, x);
  }
}

// A snapshot in the middle of the body.
TENON_PROGRAM(ASnapshotBeforeAWrite, 4) {
  Tensor state = row({1, 2});
  auto f = run.compile([&](const Tensor& x) {
    Tensor before = state.clone(), part = state.slice(0, 0, 1).clone();
    disable([&](const Tensor& t) { state.add_(t); })(x);
    return std::pair(before, part);
  });
  for (int i = 0; i < 3; ++i) {
    auto [before, part] = f(row({4, float(i)}));
    run.log(before, part, state);
  }
}

// An exception is part of the program.
TENON_PROGRAM(AnExceptionInTheBody, 3) {
  Tensor total = zeros({2});
  auto f = run.compile([&](const Tensor& x) {
    total.add_(x);
    if (total.sum().item<float>() > 20) throw std::runtime_error("too much");
    return total * 2.0;
  });
  for (int i = 0; i < 8; ++i) {
    run.log_error([&] { run.log(f(row({1, float(i)}))); });
    run.log(total);
  }
}

}  // namespace
}  // namespace tenon::programs
