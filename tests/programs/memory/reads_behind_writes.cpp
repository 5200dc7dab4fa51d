// Numbers that a body reads from a tensor that it captures, behind its own writes to it: through the
// tensor, a view, another handle, or an argument that lies in the same memory.
#include "program.h"

#include <sstream>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ACounterIsReadWhereItHasCounted, 4) {
  Tensor count = zeros({});
  auto f = run.compile([&](const Tensor& x) {
    count.add_(x.sum());
    float n = count.item<float>();
    return std::pair(x * n, n);
  });
  for (int i = 0; i < 5; ++i) {
    auto [y, n] = f(row({1, float(i)}));
    run.log(y, n, count);
    if (i == 2) count = full({}, 0.5);
  }
}

TENON_PROGRAM(ANumberThatIsGivenOut, 4) {
  Tensor kept = zeros({}, Dtype::f64);
  auto f = run.compile([&](const Tensor& x, double to) {
    kept.fill_(to);
    return std::pair(x + 1.0, double(kept.item<double>()));
  });
  for (int i = 0; i < 4; ++i) {
    auto [y, number] = f(row({1, 2}), 0.5 * i);
    run.log(y, number);
  }
}

TENON_PROGRAM(AllElementsATruthAndAPrint, 8) {
  Tensor state = zeros({2});
  std::ostringstream printed;
  auto f = run.compile([&](const Tensor& x) {
    state.add_(x);
    std::vector<float> values = state.to_vector<float>();
    state.mul_(0.5);
    printed << state;
    state.add_(1.0);
    bool is_large = state.select(0, 1).clone().item<float>() > 3;
    return std::pair(x * double(values[1]), is_large);
  });
  for (int i = 0; i < 4; ++i) {
    auto [y, is_large] = f(row({1, float(i)}));
    run.log(y, is_large, state);
  }
  run.log(printed.str());
}

TENON_PROGRAM(WrittenThroughAViewAndAnotherHandle, 8) {
  Tensor state = zeros({2, 2}), same = state, corner = state.select(0, 1).select(0, 1);
  auto f = run.compile([&](const Tensor& x, bool by_view) {
    if (by_view)
      state.select(0, 1).add_(x);
    else
      same.mul_(2.0);
    float now = corner.item<float>();
    return x * now;
  });
  for (int i = 0; i < 8; ++i) run.log(f(row({1, float(i)}), i % 3 != 2), state);
}

// The memory is that of the captured tensor on some calls only.
TENON_PROGRAM(WrittenThroughAnArgument, 12) {
  Tensor total = zeros({});
  auto f = run.compile([&](const Tensor& x, const Tensor& to) {
    to.add_(x.sum());
    Tensor y = x + 1.0;
    return y * total.item<float>();
  });
  for (int i = 0; i < 8; ++i) {
    Tensor other = full({}, float(i));
    run.log(f(row({1, float(i)}), i % 3 == 1 ? total : other), total, other);
  }
}

// Nothing of it was written: reading it ends no segment.
TENON_PROGRAM(AReadOfWhatOthersWrite, 2) {
  Tensor scale = full({}, 0.5), seen = zeros({2});
  auto f = run.compile([&](const Tensor& x) {
    seen.add_(x);
    return x * scale.item<float>();
  });
  for (int i = 0; i < 4; ++i) {
    run.log(f(row({1, float(i)})), seen);
    scale.add_(0.5);
  }
  run.log(f.stats().graph_breaks);
}

TENON_PROGRAM(ARateThatTheBodySets, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.5, .momentum = 0.5});
  optim::StepLR schedule(opt, 2, 0.5);
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = (x * w).square().sum();
    loss.backward();
    opt.lr *= 0.5;
    opt.step();
    double rate = opt.lr;
    schedule.step();
    return std::tuple(loss.detach(), rate, double(opt.lr));
  });
  for (int i = 0; i < 6; ++i) {
    auto [loss, first, second] = step(row({0.5, float(i) / 4}));
    run.log(loss, first, second, w);
  }
}

// A number that is not looked at yet when its tensor is written is the one from before the write.
TENON_EXPECTED_FAILURE(ANumberFromBeforeTheWrite, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor sum = x.sum();
    auto before = sum.item<float>();
    sum.add_(8.0);
    return std::pair(before, sum);
  });
  for (int i = 0; i < 3; ++i) {
    auto [before, sum] = f(row({1, float(i)}));
    run.log(float(before), sum);
  }
}

}  // namespace
}  // namespace tenon::programs
