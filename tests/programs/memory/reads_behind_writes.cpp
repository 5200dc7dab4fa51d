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
TENON_PROGRAM(ANumberFromBeforeTheWrite, 1) {
  auto f = run.compile([](const Tensor& x) {
    Tensor sum = x.sum();
    auto before = sum.item<float>();
    sum.add_(8.0);
    auto between = sum.item<float>(), same = between;
    sum.mul_(2.0);
    return std::tuple(before, between, same, sum);
  });
  for (int i = 0; i < 3; ++i) {
    auto [before, between, same, sum] = f(row({1, float(i)}));
    run.log(float(before), float(between), float(same), sum);
  }
}

TENON_PROGRAM(ANumberOfAnArgumentThatIsWritten, 12) {
  auto f = run.compile([](const Tensor& x, const Tensor& to) {
    auto first = x.select(0, 0).item<float>(), second = x.select(0, 1).item<float>();
    to.mul_(3.0);  // x on some calls
    Tensor y = x + 1.0;
    if (second > 3) y = y - double(second);
    return y * double(first) + double(second);
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = row({1, float(i)}), other = row({5, 6});
    run.log(f(x, i % 2 ? x : other), x, other);
  }
}

TENON_PROGRAM(NumbersThatTurnWithTheTensor, 24) {
  auto f = run.compile([](const Tensor& x) {
    Tensor a = x.sum(), b = x.prod();
    Scalar<float> last = a.item<float>();
    for (int i = 0; i < 3; ++i) {
      b.add_(a);
      Scalar<float> next = b.item<float>();
      a.copy_(b);
      b.mul_(double(last));
      last = next;
    }
    return std::pair(a + b, last);
  });
  for (int i = 0; i < 4; ++i) {
    auto [y, last] = f(row({1, float(i)}));
    run.log(y, float(last));
  }
}

TENON_PROGRAM(ANumberAcrossWritesOfTheHost, 12) {
  auto uncompiled = disable([](const Tensor& t) { t.mul_(5.0); });
  auto f = run.compile([&](const Tensor& x, bool by_pointer) {
    Tensor sum = x.sum();
    auto number = sum.item<float>();
    if (by_pointer)
      *sum.data_ptr<float>() = 7;
    else
      uncompiled(sum);
    return std::tuple(x * double(number), sum, number);
  });
  for (int i = 0; i < 6; ++i) {
    auto [y, sum, number] = f(row({1, float(i)}), i % 3 == 1);
    run.log(y, sum, float(number));
  }
}

TENON_PROGRAM(ANumberThatOutlivesItsCall, 4) {
  std::vector<Scalar<float>> kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor sum = x.sum();
    kept.push_back(sum.item<float>());
    return sum;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor sum = f(row({1, float(i)}));
    sum.fill_(-1.0);
    run.log(float(kept.back()), sum);
  }
}

TENON_PROGRAM(AStepThatReportsItsLossAfterIt, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.25});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = (x * w).square().sum();
    auto before = loss.item<float>();
    auto first = w.detach().select(0, 0).item<float>();
    loss.backward();
    opt.step();
    return std::pair(before, first);
  });
  for (int i = 0; i < 5; ++i) {
    auto [before, first] = step(row({0.5, float(i) / 4}));
    run.log(float(before), float(first), w);
  }
}

TENON_PROGRAM(WhereAnArgumentBegins, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor tail = x.slice(0, 1);
    return std::tuple(x * double(x.storage_offset()), x.storage_offset(), tail.storage_offset());
  });
  Tensor all = arange(12).to(Dtype::f32);
  for (int i = 0; i < 8; ++i) {
    auto [y, begin, tail] = f(all.slice(0, i, i + 3));
    run.log(y, begin, tail);
  }
}

TENON_PROGRAM(WhetherATensorWasWritten, 40) {
  Tensor state = zeros({2});
  auto f = run.compile([&](const Tensor& x, bool writes) {
    uint64_t before = state.version(), before_of_x = x.version();
    if (writes) state.add_(x);
    bool state_is_written = state.version() != before;
    x.mul_(2.0);
    return std::tuple(x + 1.0, state_is_written, x.version() != before_of_x);
  });
  for (int i = 0; i < 8; ++i) {
    auto [y, state_is_written, x_is_written] = f(row({1, float(i)}), i % 3 == 0);
    run.log(y, state, state_is_written, x_is_written);
  }
}

}  // namespace
}  // namespace tenon::programs
