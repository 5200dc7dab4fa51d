// Arguments and results of many types, and numbers at the ends of their ranges.
#include "program.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>

namespace tenon::programs {
namespace {

using Value = std::variant<Tensor, double, std::string>;
TENON_PROGRAM(VariantsInAMap, 6) {
  auto f = run.compile([](const std::map<std::string, Value>& in, const Tensor& x) {
    std::map<std::string, Value> out;
    for (auto& [name, v] : in) {
      if (auto* t = std::get_if<Tensor>(&v))
        out[name] = *t + x;
      else if (auto* d = std::get_if<double>(&v))
        out[name] = x * *d;
      else
        out[name] = std::get<std::string>(v) + "!";
    }
    return out;
  });
  std::map<std::string, Value> state{{"a", halves({2})}, {"b", 0.5}, {"c", "text"}};
  for (int i = 0; i < 6; ++i) {
    auto out = f(state, halves({2}, i));
    for (auto& [n, v] : out)
      if (auto* t = std::get_if<Tensor>(&v))
        run.log(n, *t);
      else if (auto* s = std::get_if<std::string>(&v))
        run.log(n, *s);
    state = out;
    state["b"] = double(i);
    if (i == 3) state.erase("a");
  }
}

TENON_PROGRAM(OneLambdaForManyTypes, 8) {
  auto f = run.compile([](const auto& x) {
    using T = std::decay_t<decltype(x)>;
    if constexpr (std::is_same_v<T, Tensor>)
      return x * 2.0;
    else if constexpr (std::is_same_v<T, double>)
      return full({2}, x) * 3.0;
    else {
      Tensor s = zeros({2});
      for (auto& t : x) s = s + t;
      return s;
    }
  });
  for (int i = 0; i < 4; ++i) {
    run.log(f(halves({2}, i)), f(double(i)), f(std::vector<Tensor>{halves({2}), halves({2}, i)}));
    if (i == 2) f.reset();
  }
}

TENON_PROGRAM(EnumsTextsAndOptionals, 10) {
  enum class Mode { a, b, c };
  auto f = run.compile([](const Tensor& x, Mode m, std::string_view name, std::optional<int> k) {
    Tensor y = x;
    switch (m) {
      case Mode::a:
        y = y + 1.0;
        break;
      case Mode::b:
        y = y.relu();
        [[fallthrough]];
      case Mode::c:
        y = y * double(k.value_or(3));
    }
    return y * double(name.size());
  });
  for (int i = 0; i < 9; ++i)
    run.log(f(halves({2}, i), Mode(i % 3), i % 2 ? "x" : "long",
              i % 4 ? std::optional(i) : std::nullopt));
}

TENON_PROGRAM(NumbersOfAllKinds, 16) {
  auto f = run.compile([](const Tensor& x, Number k) { return (x * k + k, x / k, x + k); });
  auto g = run.compile([](const Tensor& x, Number k) { return std::pair(x * k, x / k); });
  for (Tensor x : {tensor({1, 2, 3}), tensor({1.5f, 2.f})})
    for (Number k : {Number(2), Number(1.5), Number(true), Number(3), Number(2.5)}) {
      auto [a, b] = g(x, k);
      run.log(f(x, k), a, b);
    }
}

TENON_PROGRAM(IntegersOfAllWidths, 6) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    return std::tuple(x / y, floor_divide(x, y), x % y, x & y, x | y, x ^ y, ~x, (x > y).sum(),
                      x * y, (x + 100).to(Dtype::i8));
  });
  for (Dtype d : {Dtype::i64, Dtype::i32, Dtype::i8, Dtype::i16, Dtype::i64}) {
    Tensor x = tensor({-7, 7, 100, -128, 5}).to(d), y = tensor({2, -3, 7, 3, -5}).to(d);
    auto [a, b, c, dd, e, g, h, i, j, k] = f(x, y);
    run.log(a, b, c, dd, e, g, h, i, j, k);
  }
}

TENON_PROGRAM(ZerosInfinitiesAndNaNs, 4) {
  auto f = run.compile(
      [](const Tensor& x, double k) { return std::tuple(x / k, x * k, x + k, x.pow(2) * k); });
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double k : {1.0, 0.0, -0.0, 0.0, nan, nan, inf, -inf, 1e300, 1e-300, 0.1, -0.0, 2.0, nan}) {
    auto [a, b, c, d] = f(row({1, -1, 0}), k);
    run.log(k, a, b, c, d, (1.0 / a));
  }
}

TENON_PROGRAM(IntegersAtTheEnds, 4) {
  auto f = run.compile([](const Tensor& x, int64_t k) {
    return std::tuple(x * k, x + k, x % (k == 0 ? 1 : k), x & k, x < k);
  });
  for (int64_t k : {int64_t(1), int64_t(1) << 40, -(int64_t(1) << 40), (int64_t(1) << 53) + 1,
                    int64_t(0), int64_t(-1), int64_t(7), int64_t(1) << 61}) {
    auto [a, b, c, d, e] = f(tensor({1, -3, 100}), k);
    run.log(a % 1000, b % 1000, c, d % 1000, e);
    run.log(a.equal(tensor({1, -3, 100}) * k), b.equal(tensor({1, -3, 100}) + k));
  }
}

enum class Small : uint8_t { a = 1, b = 200 };
TENON_PROGRAM(SmallNumbersAndLargeOnes, 4) {
  auto f = run.compile(
      [](const Tensor& x, uint8_t a, int8_t b, char c, Small e, float g, unsigned u, bool t) {
        return x * int(a) + int(b) * x + double(int(c)) + x * int(e) * g + x * int64_t(u) * t;
      });
  for (int i = 0; i < 6; ++i)
    run.log(f(row({1, 2}), uint8_t(250 + i), int8_t(-i), char('a' + i), i % 2 ? Small::a : Small::b,
              0.1f * float(i), 4000000000u + unsigned(i), i % 3 == 0));
}

TENON_PROGRAM(NumbersThatDecay, 10) {
  auto f = run.compile([](Tensor x, int n, double decay) {
    double rate = 1;
    for (int i = 0; i < n; ++i) {
      x = x * rate + double(i * n);
      rate *= decay;
      if (rate < 0.1) rate = 1;
    }
    return x;
  });
  for (int i = 0; i < 10; ++i) run.log(f(row({1, 2}), 2 + i % 4, i % 2 ? 0.5 : 0.25 + 0.125 * i));
}

using Arg = std::tuple<
    Tensor, std::array<Tensor, 2>,
    std::pair<std::optional<Tensor>, std::variant<Tensor, int64_t, std::vector<Tensor>>>>;
TENON_PROGRAM(TuplesOfVariants, 8) {
  auto f = run.compile([](const Arg& a) {
    auto& [x, two, more] = a;
    Tensor y = x + two[0] - two[1];
    if (more.first) y = y * *more.first;
    if (auto* t = std::get_if<Tensor>(&more.second))
      y = y + *t;
    else if (auto* n = std::get_if<int64_t>(&more.second))
      y = y * *n;
    else
      for (auto& t : std::get<std::vector<Tensor>>(more.second)) y = y - t;
    Arg out = a;
    std::get<0>(out) = y;
    std::get<1>(out)[1] = x;
    if (!more.first)
      std::get<2>(out).first = y * 2.0;
    else
      std::get<2>(out).first.reset();
    return out;
  });
  Arg a{halves({2}), {halves({2}, 1), halves({2}, 2)}, {std::nullopt, int64_t(2)}};
  for (int i = 0; i < 9; ++i) {
    a = f(a);
    run.log(std::get<0>(a), std::get<1>(a)[1], std::get<2>(a).first.value_or(Tensor()));
    auto& v = std::get<2>(a).second;
    if (i % 3 == 0) v = halves({2}, i);
    if (i % 3 == 1) v = std::vector<Tensor>{halves({2}, i), halves({2})};
    if (i % 3 == 2) v = int64_t(i);
  }
}

class Ema {
 public:
  explicit Ema(double d) : decay_(d) {}
  void update(const Tensor& x) {
    if (!value_.defined())
      value_ = x;
    else
      value_ = value_ * decay_ + x * (1 - decay_);
    ++n_;
  }
  const Tensor& value() const { return value_; }
  int n() const { return n_; }
  TENON_TREE(Ema, value_, decay_, n_)
 private:
  Tensor value_;
  double decay_ = 0.5;
  int n_ = 0;
};
TENON_PROGRAM(AClassWithItsFields, 6) {
  auto f = run.compile([](Ema e, const Tensor& x) {
    e.update(x);
    e.update(x * 2.0);
    return e;
  });
  Ema e(0.5), other(0.25);
  for (int i = 0; i < 6; ++i) {
    Ema& at = i % 3 == 1 ? other : e;
    at = f(at, halves({2}, i));
    run.log(at.value(), at.n());
  }
}

TENON_PROGRAM(NumbersByReference, 4) {
  auto f = run.compile([](Tensor x, int& n, double& d) {
    n += 2;
    x = x * double(n);
    d = d * 0.5 + n;
    return x + d;
  });
  Tensor x = halves({2});
  int n = 0;
  double d = 1;
  for (int i = 0; i < 6; ++i) {
    run.log(f(x, n, d), x, n, d);
    if (i == 3) x = halves({2}, 3), n = 0;
  }
}

TENON_PROGRAM(SpansOfTensors, 8) {
  std::vector<Tensor> list{halves({2}), halves({2}, 1), halves({2}, 2)};
  auto f = run.compile([](std::span<Tensor> s, std::span<const float> k) {
    for (size_t i = 1; i < s.size(); ++i) s[i] = s[i] + s[i - 1] * double(k[i % k.size()]);
    return s.empty() ? zeros({2}) : s.back() * 2.0;
  });
  std::vector<float> k{0.5f, 2.f};
  for (int i = 0; i < 6; ++i) {
    run.log(f(std::span(list).subspan(0, size_t(i % 4)), k));
    for (auto& t : list) run.log(t);
    k[1] += 1;
    if (i == 3) k.push_back(4);
  }
}

TENON_PROGRAM(AUniqueObject, 2) {
  auto f = run.compile([](const std::unique_ptr<Tensor>& p, const Tensor& x) {
    *p = *p + x;
    return std::make_unique<Tensor>(*p);
  });
  auto p = std::make_unique<Tensor>(halves({2}));
  for (int i = 0; i < 4; ++i) {
    p = f(p, halves({2}, i));
    run.log(*p);
  }
}

TENON_PROGRAM(WordsDecide, 4) {
  // Batches of strings and enums decide; the texts are results.
  auto f = run.compile([](const std::vector<std::string>& words, const Tensor& x) {
    std::map<std::string, Tensor> out;
    for (size_t i = 0; i < words.size(); ++i) {
      auto& at = out[words[i]];
      at = at.defined() ? at + x[int64_t(i)] : x[int64_t(i)] * 1.0;
    }
    return out;
  });
  std::vector<std::string> words{"a", "b", "a"};
  for (int i = 0; i < 6; ++i) {
    for (auto& [k, t] : f(words, halves({int64_t(words.size()), 2}, i))) run.log(k, t);
    if (i == 2) words.push_back("c");
    if (i == 3) words[0] = "b";
    if (i == 4) words.clear();
  }
}

struct Generator {
  Tensor state = ones({2});
  int n = 0;
  std::optional<Tensor> next(const Tensor& x) {
    if (n >= 3) return std::nullopt;
    ++n;
    state = state * x + double(n);
    return state;
  }
};
TENON_PROGRAM(AGeneratorOfTwoObjects, 4) {
  Generator a, b;
  auto next = run.compile(&Generator::next);
  for (int i = 0; i < 5; ++i)
    for (Generator* g : {&a, &b}) {
      auto y = next(*g, halves({2}, i));
      run.log(y ? *y : Tensor(), g->state, g->n);
      if (i == 2 && g == &b) g->n = 0;
    }
}

TENON_PROGRAM(FunctionsThatAreExchanged, 6) {
  std::function<Tensor(const Tensor&)> fn = [](const Tensor& x) { return x + 1.0; };
  auto f = run.compile([&](const Tensor& x) { return fn(x) * 2.0; });
  auto g = run.compile(std::function<Tensor(Tensor, int)>([n = 0](Tensor x, int k) mutable {
    n += k;
    return x * double(n);
  }));
  for (int i = 0; i < 6; ++i) {
    if (i == 2) fn = [t = halves({2}, 4)](const Tensor& x) { return x * t; };
    if (i == 4) fn = [fn](const Tensor& x) { return fn(x).sum() + x; };
    run.log(f(halves({2}, i)), g(halves({2}, i), i));
  }
}

}  // namespace
}  // namespace tenon::programs
