// Eight threads at once: on one callable that is forgotten at random, whole and cut, and in backward
// passes, over tapes of their own and into leaves that they share. Made for the thread sanitizer.
#include "program.h"

#include <atomic>
#include <memory>

namespace tenon::programs {
namespace {

constexpr int n_threads = 8, turns = 25;

// Fixed numbers in no order, another row of them for each thread.
struct Dice {
  uint32_t state;
  explicit Dice(int thread) : state(uint32_t(thread) * 2654435761U + 1) {}
  int below(int n) {
    state = state * 1664525U + 1013904223U;
    return int(state >> 16) % n;
  }
};

bool is(const Tensor& t, std::vector<float> expected) { return t.to_vector<float>() == expected; }

TENON_PROGRAM(AWholeBodyIsForgottenAtRandom, 999) {
  Tensor w = row({1, 2, 0.5});
  auto f = run.compile([&](const Tensor& x) { return (x * w + 1.0).relu(); });
  std::atomic<int> wrong{0};
  in_threads(n_threads, [&](int i) {
    Dice dice(i);
    for (int k = 0; k < turns; ++k) {
      if (dice.below(12) == 0) f.reset();
      float v = float(dice.below(9)) - 4;
      auto at = [&](float weight) { return std::max(v * weight + 1, 0.0F); };
      wrong += !is(f(full({3}, double(v))), {at(1), at(2), at(0.5F)});
    }
  });
  run.log("wrong", wrong.load());
}

TENON_PROGRAM(ACutBodyIsForgottenAtRandom, 999) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    if (y.sum().item<float>() > 4) return y + 1.0;
    Tensor z = y - x;
    return z.max().item<float>() < 0 ? -z : z * 4.0;
  });
  std::atomic<int> wrong{0};
  in_threads(n_threads, [&](int i) {
    Dice dice(i);
    for (int k = 0; k < turns; ++k) {
      if (dice.below(12) == 0) f.reset();
      float v = float(dice.below(9)) - 4;
      float expected = 4 * v > 4 ? 2 * v + 1 : v < 0 ? -v : 4 * v;
      wrong += !is(f(full({2}, double(v))), {expected, expected});
    }
  });
  run.log("wrong", wrong.load());
}

TENON_PROGRAM(SizesAndDtypesWhileOthersForget, 999) {
  auto f = run.compile([](const Tensor& x) { return (x + 1).sum(); });
  std::atomic<int> wrong{0};
  in_threads(n_threads, [&](int i) {
    Dice dice(i);
    for (int k = 0; k < turns; ++k) {
      if (dice.below(20) == 0) f.reset();
      int64_t n = 1 + dice.below(20);
      Dtype dtype = dice.below(2) ? Dtype::f32 : Dtype::f64;
      wrong += f(ones({n}, dtype)).to(Dtype::f64).item<double>() != 2.0 * double(n);
    }
  });
  run.log("wrong", wrong.load());
}

TENON_PROGRAM(BackwardOverTapesOfTheirOwn, 2) {
  auto loss =
      run.compile([](const Tensor& x, const Tensor& w) { return (x * w).relu().square().sum(); });
  std::vector<Tensor> gradients(n_threads);
  in_threads(n_threads, [&](int i) {
    Tensor w = row({float(i), -1, 0.5}).requires_grad_();
    for (int k = 0; k < turns; ++k) {
      Tensor x = row({1, float(k % 3), 2});
      loss(x, w).backward();
      (x * w).sum().backward();  // not through the compiled body
    }
    gradients[i] = w.grad();
  });
  run.log(gradients);
}

TENON_PROGRAM(BackwardIntoLeavesThatAreShared, 2) {
  Tensor w = row({1, 2, -0.5}).requires_grad_();
  auto loss = run.compile([&](const Tensor& x) { return (x * w).sum(); });
  w.set_grad(zeros({3}));
  in_threads(n_threads, [&](int i) {
    for (int k = 0; k < turns; ++k) {
      loss(row({1, float(i), float(k)})).backward();
      (w * 2.0).sum().backward();
    }
  });
  run.log(w.grad());
}

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 1};
  TENON_MODULE(Net, in, out)
  Net() { set_simply(parameters()); }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

TENON_PROGRAM(WholeStepsOfNetsOfTheirOwn, 16) {
  std::vector<Tensor> weights(n_threads);
  in_threads(n_threads, [&](int i) {
    Net net;
    optim::SGD opt(net.parameters(), {.lr = 0.0625, .momentum = 0.5});
    auto step = run.compile(
        [&](const Tensor& x) {
          opt.zero_grad();
          Tensor loss = (net(x) - 1.0).square().mean();
          loss.backward();
          opt.step();
          return loss.detach();
        },
        state(net, opt));
    for (int k = 0; k < 4; ++k) step(full({2, 2}, 0.25 * (i + k)));
    weights[i] = net.out.bias.detach().clone();
  });
  run.log(weights);
}

TENON_PROGRAM(OneNetServesEightThreads, 8) {
  Net net;
  auto serve = run.compile([&](const Tensor& x) {
    InferenceMode inference;
    return net(x);
  });
  std::vector<Tensor> results(n_threads);
  in_threads(n_threads, [&](int i) {
    for (int k = 0; k < turns; ++k)
      results[i] = serve((arange(2 * (i + 1)) % 5 - 2).reshape({i + 1, 2}) * 0.5);
  });
  run.log(results);
}

TENON_PROGRAM(CallablesComeAndGo, 999) {
  std::atomic<int> wrong{0};
  in_threads(n_threads, [&](int i) {
    for (int k = 0; k < 6; ++k) {
      auto f = run.compile([i](const Tensor& x) { return x * double(i) + x; });
      auto g = run.compile([&](const Tensor& x) { return f(x) - 1.0; });
      wrong += !is(g(row({1, 2})), {float(i), float(2 * i + 1)});
      wrong += f.explain().empty() != run.is_plain();
    }
  });
  run.log("wrong", wrong.load());
}

}  // namespace
}  // namespace tenon::programs
