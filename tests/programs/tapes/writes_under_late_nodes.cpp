// Writes to what a tape keeps, in whole steps whose tape is made only when somebody looks.
#include "tapes/two_layers.h"

#include <stdexcept>

namespace tenon::programs {
namespace {

TENON_PROGRAM(AKeptResultIsWrittenBeforeThePass, 8) {
  Net net;
  int n = 0;
  auto f = run.compile(
      [&](const Tensor& x) {
        ++n;
        net.zero_grad();
        Tensor hidden = net.in(x).relu(), loss = net.out(hidden).square().sum() * 0.25;
        if (n % 4 == 3) {
          NoGradGuard no_grad;
          hidden.mul_(0.5);
        }
        loss.backward();
        return loss.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 8; ++i) {
    try {
      run.log(f(points(i)), net.in.weight.grad());
    } catch (const std::exception& error) {
      run.log(std::string(error.what()).find("modified in place") != std::string::npos, n);
    }
  }
}

// Most calls ask for no pass over what was written.
TENON_PROGRAM(APassGoesOverWhatWasWritten, 8) {
  Net net;
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile(
      [&](const Tensor& x) {
        ++n;
        net.zero_grad();
        w.set_grad({});
        Tensor hidden = net.in(x).relu(), loss = net.out(hidden).square().sum() * 0.25;
        {
          NoGradGuard no_grad;
          hidden.mul_(0.5);
        }
        (x * w).sum().backward();
        if (n % 4 == 3) loss.backward();
        return loss.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 8; ++i) {
    try {
      run.log(f(points(i)), w.grad(), net.in.weight.grad().defined());
    } catch (const std::exception& error) {
      run.log(std::string(error.what()).find("modified in place") != std::string::npos, n);
    }
  }
}

TENON_PROGRAM(ResultsAreWrittenWithoutGradients, 6) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor y = net(x);
    if (n % 3 == 2) {
      NoGradGuard no_grad;
      y.mul_(0.5);
    }
    Tensor loss = (y * x).sum() * 0.5;
    loss.backward();
    return std::pair(y.detach(), loss.detach());
  });
  for (int i = 0; i < 7; ++i) {
    auto [y, loss] = f(points(i));
    run.log(y, loss, net.in.weight.grad(), net.out.bias.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ResultsAreWrittenWithoutGradients, 6);

TENON_PROGRAM(HistoriesAreCutInPlace, 6) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor hidden = net.in(x);
    Tensor scaled = hidden * 2.0;
    if (n % 3 == 2) hidden.detach_();
    Tensor loss = net.out(hidden.relu()).sum() + scaled.sum() * 0.25;
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) {
    run.log(f(points(i)), net.out.weight.grad(), net.in.weight.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HistoriesAreCutInPlace, 6);

TENON_PROGRAM(ViewsOfOneMemoryAreWeights, 6) {
  Tensor flat = row({1, 2, 3, 4});
  Tensor first = flat.slice(0, 0, 2).detach().requires_grad_();
  Tensor second = flat.slice(0, 2, 4).detach().requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    first.set_grad({});
    second.set_grad({});
    Tensor loss = (x * first).square().sum() * 0.25 + (x * second).sum();
    loss.backward();
    NoGradGuard no_grad;
    flat.add_(n % 2 ? 0.5 : 0.25);
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})), first, first.grad(), second.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(ViewsOfOneMemoryAreWeights, 6);

TENON_PROGRAM(AResultIsWrittenBehindItsPass, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor y = x + w;
    y.sum().backward();
    {
      NoGradGuard no_grad;
      y.mul_(2.0);
    }
    if (++n % 4 == 3) run.log(y.is_leaf());
    y.backward(x);
    return y.detach();
  });
  for (int i = 0; i < 7; ++i) run.log(f(row({1, 1})), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(AResultIsWrittenBehindItsPass, 8);

TENON_PROGRAM(ACapturedTensorIsWrittenBetweenPasses, 12) {
  Tensor b = row({1, 2}), w = row({3, 4}).requires_grad_();
  int n = 0;
  auto f = run.compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor y = b * (x * w);
        (x * w).sum().backward();
        b.mul_(0.5);
        if (++n % 4 == 3) (y * 2.0).sum().backward();
        return x * 1.0;
      },
      {.fullgraph = true});
  for (int i = 0; i < 8; ++i) {
    try {
      run.log(f(row({1, 1})), w.grad(), b);
    } catch (const std::exception& error) {
      run.log(std::string(error.what()).find("modified in place") != std::string::npos, n);
    }
  }
}

}  // namespace
}  // namespace tenon::programs
