// Objects with state of their own: functors, mutable lambdas, member functions, members that hold
// compiled callables, and things that are made when they are first used.
#include "program.h"

#include <map>

namespace tenon::programs {
namespace {

TENON_PROGRAM(AMutableLambda, 2) {
  auto f = run.compile([n = 0, sum = zeros({2})](const Tensor& x) mutable {
    sum = sum * 0.5 + x;
    return sum * double(++n);
  });
  auto g = f;
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})), g(row({1, 1})));
}

struct Smoother {
  double keep = 0.5;
  Tensor state = zeros({2});
  Tensor operator()(const Tensor& x) {
    state = state * keep + x * (1 - keep);
    return state - x;
  }
  Tensor without(const Tensor& x) const { return x - state * keep; }
};

TENON_PROGRAM(AFunctorWithState, 3) {
  Smoother original;
  auto f = run.compile(original);
  for (int i = 0; i < 6; ++i) run.log(f(row({4, float(i)})), original.state);
}

TENON_PROGRAM(AMemberFunctionOfSeveralObjects, 2) {
  Smoother a, b{.keep = 0.25, .state = row({4, 8})};
  auto f = run.compile(&Smoother::without);
  for (int i = 0; i < 8; ++i) {
    run.log(f(std::ref(i % 2 ? a : b), row({1, float(i)})));
    a.state = row({float(i), 1});
    b.keep += 0.25;
  }
}

class Model {
 public:
  explicit Model(Run& run)
      : weights_{{"w", row({1, 2})}},
        forward_(run.compile(
            Forward([this](const Tensor& x) { return x * weights_["w"] + double(shift_); }))) {}
  Model(const Model&) = delete;
  Tensor operator()(const Tensor& x) {
    ++shift_;
    return forward_(x);
  }
  void load(const Tensor& w) { weights_["w"] = w; }

 private:
  using Forward = std::function<Tensor(const Tensor&)>;
  std::map<std::string, Tensor> weights_;
  int shift_ = 0;
  Run::Callable<Forward> forward_;
};

TENON_PROGRAM(AModelThatKeepsItsCompiledForward, 4) {
  Model a(run), b(run);
  for (int i = 0; i < 6; ++i) {
    run.log(a(row({1, float(i)})), b(row({2, 2})));
    if (i % 2) a.load(row({float(i), 0}));
  }
}

TENON_PROGRAM(ATableMadeOnFirstUse, 6) {
  std::map<int64_t, Tensor> tables;
  auto positions = [&](int64_t n) -> const Tensor& {
    auto [at, is_new] = tables.try_emplace(n);
    if (is_new) at->second = arange(n, Dtype::f32) * 0.5;
    return at->second;
  };
  auto f = run.compile([&](const Tensor& x) { return x + positions(x.size(0)); });
  for (int i = 0; i < 12; ++i) run.log(f(ones({i % 3 + 2})));
  for (auto& [n, table] : tables) run.log(n, table);
}

TENON_PROGRAM(ALayerMadeOnFirstUse, 3) {
  Tensor w;
  auto f = run.compile([&](const Tensor& x) {
    if (!w.defined()) w = ones({x.size(1), 2}).mul_(0.5).requires_grad_();
    return x.matmul(w).sum();
  });
  for (int i = 0; i < 4; ++i) {
    if (w.defined()) w.set_grad({});
    Tensor loss = f(full({2, 3}, float(i)));
    loss.backward();
    run.log(loss.detach(), w.is_leaf(), w.grad());
  }
}

struct Base {
  virtual ~Base() = default;
  virtual Tensor apply(const Tensor& x) const = 0;
};
struct Add : Base {
  Tensor by = row({1, 2});
  Tensor apply(const Tensor& x) const override { return x + by; }
};
struct Scale : Base {
  double by = 2;
  Tensor apply(const Tensor& x) const override { return x * by; }
};

TENON_PROGRAM(VirtualLayersAreExchanged, 6) {
  std::vector<std::unique_ptr<Base>> layers;
  layers.push_back(std::make_unique<Add>());
  layers.push_back(std::make_unique<Scale>());
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x;
    for (const auto& layer : layers) y = layer->apply(y);
    return y;
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(row({1, float(i)})));
    if (i == 2) std::swap(layers[0], layers[1]);
    if (i == 4) layers.push_back(std::make_unique<Add>());
    if (i == 6) layers.erase(layers.begin());
  }
}

TENON_PROGRAM(ArgumentsAreTakenByValueAndChanged, 3) {
  auto f = run.compile([](std::vector<Tensor> list, Tensor x, int n) {
    list.push_back(x * double(n));
    x = x + 1.0;
    list[0] = list[0] - x;
    ++n;
    return std::pair(list, n);
  });
  std::vector<Tensor> list{row({1, 2})};
  for (int i = 0; i < 5; ++i) {
    Tensor x = row({float(i), 1});
    auto [out, n] = f(list, x, i);
    run.log(out, n, list, x);
  }
}

TENON_PROGRAM(AnArgumentIsPartOfTheResult, 1) {
  auto f = run.compile([](const Tensor& x) { return std::vector<Tensor>{x, x * 2.0, x}; });
  for (int i = 0; i < 4; ++i) {
    Tensor x = row({1, float(i)});
    std::vector<Tensor> out = f(x);
    out[0].add_(1.0);
    run.log(out, x, out[0].is_same(x), out[2].is_same(x));
  }
}

TENON_PROGRAM(ACopyOfACallable, 2) {
  double factor = 2;
  auto f = run.compile([&](const Tensor& x) { return x * factor; });
  std::vector<decltype(f)> copies(3, f);
  for (size_t i = 0; i < 9; ++i) {
    run.log(copies[i % 3](row({1, float(i)})));
    factor += i % 3 == 0;
  }
}

}  // namespace
}  // namespace tenon::programs
