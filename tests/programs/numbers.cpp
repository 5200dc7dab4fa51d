// Numbers that a body reads, wherever they stand: they are those of the call, and new values
// compile at most once more.
#include "program.h"

#include <cmath>
#include <map>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ANumberByReferenceChangesLate, 2) {
  double factor = 2;
  auto f = run.compile([&](const Tensor& x) { return x * factor; });
  double sum = 0;
  for (int i = 0; i < 6000; ++i) {
    if (i == 5001) factor = 4;
    if (i == 5900) factor = 0.5;
    sum += f(ones({})).item<float>();
  }
  run.log(sum);
}

TENON_PROGRAM(ATextOfANumberThatIsReadIsThatOfItsValue, 3) {
  std::string text;
  auto f = run.compile([&](const Tensor& x) {
    Tensor total = (x * 2.0).sum();
    text = to_text(total.item<float>()) + to_text(total.item<int>());
    text += to_text((x > 1).any().item<bool>()) + message(" {}", total.item<double>());
    return x + 1.0;
  });
  for (double value : {0.5, 1.25, 2.0}) {
    run.log(f(full({2}, value)));
    run.log(text);
  }
}

int global_shift = 1;
std::string global_mode = "add";

struct Scaler {
  float by = 2;
  Tensor operator()(const Tensor& x) const { return x * by; }
};

TENON_PROGRAM(MembersGlobalsAndStringsChange, 6) {
  global_shift = 1, global_mode = "add";
  Scaler scaler;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = scaler(x);
    return global_mode == "add" ? y + global_shift : y - global_shift;
  });
  for (int i = 0; i < 24; ++i) {
    run.log(f(row({1, 2})));
    if (i % 4 == 1) scaler.by += 1;
    if (i % 4 == 2) global_shift *= 2;
    if (i % 4 == 3) global_mode = global_mode == "add" ? "subtract" : "add";
  }
}

TENON_PROGRAM(AnItemOfACapturedTensor, 3) {
  Tensor temperature = full({}, 2.0);
  auto f = run.compile([&](const Tensor& x) { return x / double(temperature.item<float>()); });
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({4, 8})));
    if (i % 3 == 1) temperature.mul_(2.0);
    if (i == 7) temperature = full({}, 0.25);
  }
}

TENON_PROGRAM(ACapturedTensorDecides, 4) {
  Tensor on = full({}, 1.0), table = row({1, 2, 3});
  auto f = run.compile([&](const Tensor& x) {
    std::vector<float> values = table.to_vector<float>();
    return on ? x * double(values[1]) : x + double(values[2]);
  });
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({1, 2})));
    on.fill_(i % 3);
    table.add_(1.0);
  }
}

TENON_PROGRAM(TheLearningRateAsADouble, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  optim::SGD opt({w}, {.lr = 1});
  auto f = run.compile([&](const Tensor& g) {
    NoGradGuard no_grad;
    w.sub_(g * double(opt.lr));
  });
  for (int i = 0; i < 8; ++i, opt.lr *= 0.5) {
    f(row({8, 16}));
    run.log(w);
  }
}

TENON_PROGRAM(TwoSizesAreEqualWhileANumberChanges, 5) {
  double shift = 1;
  auto f = run.compile([&](const Tensor& x) { return x.sum() + shift; });
  f(ones({2, 3}));
  f(ones({3, 5}));
  for (int i = 0; i < 70; ++i) {
    if (i % 9 == 4) shift += 1;
    run.log(f(ones({4, 4})));
  }
}

TENON_PROGRAM(ANumberOfTheDataInArithmetic, 4) {
  auto f = run.compile([](const Tensor& x) {
    float total = x.sum().item<float>();
    Tensor y = x * total;
    if (total > 100) y = y / 2.0;
    return y;
  });
  for (int i = 0; i < 300; ++i) run.log(f(row({float(i), 1})));
}

TENON_PROGRAM(APlainIntAndAPlainFloat, 2) {
  auto f = run.compile([](const Tensor& x, int n, float s) { return x * n + s; });
  for (int i = 0; i < 40; ++i) run.log(f(row({1, 2}), i + 2, 0.25f * float(i)));
}

TENON_PROGRAM(AnIntCountsTurns, 5) {
  auto f = run.compile([](const Tensor& x, int turns) {
    Tensor y = x;
    for (int t = 0; t < turns; ++t) y = y + x * (t + 1);
    return y;
  });
  for (int i = 0; i < 20; ++i) run.log(f(row({1, 2}), i % 4));
}

TENON_PROGRAM(ArithmeticOnASymFloat, 2) {
  auto f = run.compile([](const Tensor& x, SymFloat s) { return x * (s * 2 + 1) - s / 2; });
  for (int i = 0; i < 40; ++i) run.log(f(row({1, 2}), 0.5 * i));
}

TENON_PROGRAM(TheSmallerOfTwoSizes, 4) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    auto n = std::min(a.size(0), b.size(0));
    return (a.slice(0, 0, n) * b.slice(0, 0, n)).sum();
  });
  for (int i = 0; i < 20; ++i) run.log(f(ones({i + 2}), full({24 - i}, 2.0)));
}

enum class Kind { relu, negate };

TENON_PROGRAM(BoolsEnumsAndStringsAsArguments, 8) {
  auto f = run.compile([](const Tensor& x, bool twice, Kind kind, const std::string& end) {
    Tensor y = kind == Kind::relu ? x.relu() : -x;
    if (twice) y = y * 2.0;
    return end == "sum" ? y.sum() : y;
  });
  for (int i = 0; i < 24; ++i)
    run.log(f(row({-1, 2}), i % 2 == 0, i % 3 ? Kind::relu : Kind::negate, i % 5 ? "sum" : "all"));
}

TENON_PROGRAM(EveryFourthCallDoesMore, 2) {
  int calls = 0;
  Tensor average = zeros({2});
  auto f = run.compile([&](const Tensor& x) {
    if (++calls % 4 == 0) average.copy_((average + x) * 0.5);
    return x - average;
  });
  for (int i = 0; i < 24; ++i) run.log(f(row({float(i), 8})), calls);
}

TENON_PROGRAM(ANumberThatIsReturned, 2) {
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) { return std::pair(x + 1.0, 10 * ++calls); });
  for (int i = 0; i < 6; ++i) {
    auto [y, n] = f(row({float(i)}));
    run.log(y, n);
  }
}

TENON_PROGRAM(ANumberChangesItsKind, 4) {
  Number value = 2;
  auto f = run.compile([&](const Tensor& x) { return x * value; });
  for (int i = 0; i < 12; ++i) {
    run.log(f(tensor({1, 2, 3})));
    value = i % 3 == 0 ? Number(i) : i % 3 == 1 ? Number(0.5 * i) : Number(true);
  }
}

// A bound that no element can reach bounds nothing, also where it changes between calls.
TENON_PROGRAM(BoundsBeyondTheDtype, 30) {
  for (Dtype dtype : {Dtype::u8, Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64}) {
    auto f = run.compile([](const Tensor& x, int64_t k) {
      return std::tuple(x.clamp(-k, k), x.clamp_min(k), x.clamp_max(k));
    });
    Tensor x = tensor({0, 3, 100, 1}).to(dtype);
    for (int64_t k : std::vector<int64_t>{1, 2, -1, 300, -300, 70000, -70000, 5'000'000'000, 100}) {
      auto [both, low, high] = f(x, k);
      run.log(both, low, high);
    }
  }
}

TENON_PROGRAM(ATruthTimesANumber, 3) {
  auto f = run.compile([](const Tensor& x, int64_t k) { return x.add(x, k); });
  for (int64_t k : {1, 2, -1, 0, -3}) run.log(f(tensor({1, 0}).to(Dtype::bool_), k));
}

// Five kinds of arguments, and a number that is another in each call.
TENON_PROGRAM(NumbersChangeWithTheArguments, 7) {
  auto f = run.compile([](const Tensor& x, double s) { return x * s + 1.0; });
  for (int i = 0; i < 30; ++i) {
    std::vector<int64_t> sizes(static_cast<size_t>(i % 5 + 1), 2);
    run.log(f(ones(sizes), 0.5 * i));
  }
}

// Plain numbers that the body makes of symbolic arguments are its numbers like others.
TENON_PROGRAM(PlainNumbersOfSymbolicArguments, 2) {
  auto f = run.compile([](const Tensor& x, SymFloat lr, SymInt t) {
    return x * (std::sqrt(lr) * std::pow(0.5, t));
  });
  for (int i = 1; i <= 20; ++i) run.log(f(row({1, 2}), 0.25 * (i + 2) * (i + 2), i % 5));
}
TENON_PROGRAM_IN_ONE_GRAPH(PlainNumbersOfSymbolicArguments, 2);

TENON_PROGRAM(ASymbolicArgumentAsBoth, 2) {
  auto f = run.compile([](const Tensor& x, SymFloat lr, SymInt t) {
    float k = lr;
    double d = t;
    return (x * lr + k).slice(0, 0, t) * d + t;
  });
  for (int i = 1; i <= 20; ++i) run.log(f(row({1, 2, 3, 4}), 0.25 * i, i % 3 + 2));
}
TENON_PROGRAM_IN_ONE_GRAPH(ASymbolicArgumentAsBoth, 2);

TENON_PROGRAM(APlainNumberAndASymbolicResult, 2) {
  auto f = run.compile([](const Tensor& x, SymFloat lr, SymInt t) {
    double k = lr;
    return std::pair(x * k + double(t), SymFloat(lr * 2.0));
  });
  for (int i = 1; i <= 20; ++i) {
    auto [y, twice] = f(row({1, 2}), 0.25 * i, i);
    run.log(y, double(twice));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(APlainNumberAndASymbolicResult, 2);

TENON_PROGRAM(AConditionOnASymbolicArgumentStaysOne, 4) {
  auto f = run.compile([](const Tensor& x, SymInt t) {
    double k = t;
    return t > 8 ? x * k : x - k;
  });
  for (int i = 2; i <= 20; ++i) run.log(f(row({1, 2}), i));
  for (int i = 2; i <= 20; ++i) run.log(f(row({1, 2}), i));
}
TENON_PROGRAM_IN_ONE_GRAPH(AConditionOnASymbolicArgumentStaysOne, 4);

TENON_PROGRAM(PlainNumbersOfArgumentsOfACutBody, 6) {
  auto f = run.compile([](const Tensor& x, SymFloat lr, SymInt t) {
    double k = lr;
    Tensor y = x * k;
    if (y.sum().item<float>() > 1000) y = y / 2.0;
    return std::pair(y + double(t) * lr, t + 1);
  });
  for (int i = 1; i <= 20; ++i) {
    auto [y, next] = f(row({1, 2}), 0.25 * i, i);
    run.log(y, int64_t(next));
  }
}

TENON_PROGRAM(ATextOfASymbolicArgument, 2) {
  std::map<std::string, double> scales;
  for (int i = 0; i < 20; ++i) scales[std::to_string(i)] = 0.5 * i;
  auto f = run.compile([&](const Tensor& x, SymInt t) { return x * scales.at(to_text(t)) + t; });
  for (int i = 1; i < 20; ++i) run.log(f(row({1, 2}), i));
}
TENON_PROGRAM_IN_ONE_GRAPH(ATextOfASymbolicArgument, 2);

TENON_PROGRAM(AStepWithASymbolicRate, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  optim::SGD opt({w}, {.lr = 1, .momentum = 0.5});
  auto f = run.compile([&](const Tensor& x, SymFloat lr) {
    opt.zero_grad();
    Tensor loss = (x * w * double(lr)).sum();
    loss.backward();
    opt.lr = double(lr);
    opt.step();
    return loss.detach();
  });
  for (int i = 1; i <= 12; ++i) {
    run.log(f(row({1, 2}), 0.125 * i));
    run.log(w);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AStepWithASymbolicRate, 4);

// A body that is left out shows nothing of what it does with the number.
TENON_PROGRAM(PlainNumbersOfArgumentsOfAPureBody, 6) {
  auto f = run.compile(
      [](const Tensor& x, SymFloat lr) {
        double k = lr;
        return x * k;
      },
      {.pure = true});
  for (int i = 0; i < 20; ++i) run.log(f(row({1, 2}), 0.25 * (i % 4 + 1)));
}

}  // namespace
}  // namespace tenon::programs
