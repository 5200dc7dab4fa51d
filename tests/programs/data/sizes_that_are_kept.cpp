// Sizes and numbers that outlive their call: in members, callbacks, hooks, functions, exceptions.
#include "program.h"

#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

namespace tenon::programs {
namespace {

TENON_PROGRAM(TheLastSizeIsAFactor, 4) {
  SymInt last = 1;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * last;
    last = x.size(0);
    return y;
  });
  for (int64_t n : {3, 4, 5, 6, 7, 4}) run.log(f(ones({n})), static_cast<int64_t>(last));
}

TENON_PROGRAM(ACallFailsBehindTheSizeThatItKeeps, 4) {
  SymInt last = 1;
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * last;
    last = x.size(0);
    if (calls++ == 1) throw std::runtime_error("bad batch");
    return y;
  });
  for (int64_t n : {3, 4, 5, 6, 7}) run.log_error([&] { run.log(f(ones({n}))); });
}

TENON_PROGRAM(ABufferIsMadeForTheLastSize, 8) {
  SymInt size = -1;
  Tensor buffer;
  auto f = run.compile([&](const Tensor& x) {
    if (size != x.size(0)) {
      buffer = zeros({x.size(0)});
      size = x.size(0);
    }
    buffer.add_(x);
    return buffer * 1;
  });
  for (int64_t n : {3, 4, 4, 6, 6, 3, 3}) run.log(f(ones({n})));
}

TENON_PROGRAM(TheLargestSizeSoFar, 5) {
  SymInt largest = 0;
  auto f = run.compile([&](const Tensor& x) {
    largest = sym_max(largest, x.size(0));
    return x * largest;
  });
  for (int64_t n : {3, 4, 5, 3, 6, 2, 7}) run.log(f(ones({n})));
}

TENON_PROGRAM(AKeptSizeBehindALookAtData, 8) {
  SymInt last = 1;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2;
    if (y.sum().item<float>() < 0) y = -y;
    y = y * last;
    last = x.size(0);
    return y;
  });
  for (int64_t n : {3, 4, 5, 6, 7}) run.log(f(ones({n})));
}

TENON_PROGRAM(SizesOfAFunctionThatIsGone, 8) {
  SymInt kept = 1;
  {
    auto f = run.compile([&](const Tensor& x) {
      kept = x.size(0) * 2;
      return x * 2;
    });
    f(ones({3})), f(ones({7}));
    f.reset();
  }
  auto g = run.compile([&](const Tensor& x) { return x * kept + x.size(0); });
  for (int64_t n : {3, 4, 5}) run.log(g(ones({n})), static_cast<int64_t>(kept));
}

TENON_PROGRAM(OpsWithKeptSizes, 2) {
  SymInt n = 1;
  auto f = run.compile([&](const Tensor& x) {
    n = x.size(0);
    return x * 2;
  });
  for (int64_t size : {3, 4, 5}) {
    f(ones({size}));
    Tensor t = arange(n * 2, Dtype::f32);
    run.log(t.view({2, n}), t.slice(0, 0, n), zeros({n}), full({n}, n), t.expand({n, n * 2}).sum());
    run.log(static_cast<int64_t>(t.view({n, 2}).size(0)), to_text(n), bool(n > 3));
  }
}

TENON_PROGRAM(KeptSizesAreArgumentsAndResults, 8) {
  SymInt last = 1;
  auto f = run.compile([&](const Tensor& x, SymInt factor) {
    SymInt before = last;
    last = x.size(0) + factor;
    return std::pair(x * factor, before);
  });
  for (int64_t n : {3, 4, 5, 3, 6}) {
    auto [y, before] = f(ones({n}), last);
    run.log(y, static_cast<int64_t>(before));
  }
}

TENON_PROGRAM(AnAverageOfNumberArguments, 4) {
  SymFloat mean = 1.0;
  auto f = run.compile([&](const Tensor& x, SymFloat next) {
    mean = mean * 0.5 + next;
    return x * mean;
  });
  for (int i = 0; i < 6; ++i) run.log(f(ones({2}), SymFloat(i * 0.5)), static_cast<double>(mean));
}

TENON_PROGRAM(ACallbackKnowsASize, 4) {
  std::function<Tensor(const Tensor&)> mean;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = mean ? mean(x) : x;
    mean = [n = x.size(0)](const Tensor& t) { return t / n; };
    return y * 2;
  });
  for (int64_t n : {4, 8, 2, 4, 16}) {
    run.log(f(ones({n})));
    run.log(mean(ones({1})));
  }
}

struct BadLength {
  SymInt length;
};

TENON_PROGRAM(AnExceptionTellsASize, 3) {
  auto f = run.compile([](const Tensor& x) {
    if (x.size(0) > 5) throw BadLength{x.size(0)};
    return x * 2;
  });
  for (int64_t n : {4, 8, 5, 9, 4}) try {
      run.log(f(ones({n})));
    } catch (const BadLength& e) {
      run.log(static_cast<int64_t>(e.length));
    }
}

struct Mean : autograd::Function<Mean> {
  static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in) {
    c.user = std::make_shared<SymInt>(in[0].size(0));
    return {in[0].mean() * 1};
  }
  static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> grads) {
    SymInt n = *static_cast<SymInt*>(c.user.get());
    return {grads[0] / n * ones({n})};
  }
};

TENON_PROGRAM(BackwardOfAFunctionReadsASize, 3) {
  Tensor w = ones({1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Mean::apply({x * w})[0]; });
  for (int64_t n : {4, 8, 16, 4}) {
    w.set_grad({});
    f(ones({n})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(BackwardWithinTheBodyReadsASize, 9) {
  Tensor w = ones({1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Mean::apply({x * w})[0].backward();
    return w.grad() * 1;
  });
  for (int64_t n : {4, 8, 16, 4}) run.log(f(ones({n})));
}

TENON_PROGRAM(AHookReadsASize, 3) {
  Tensor w = ones({1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    autograd::register_hook(y, [n = x.size(0)](const Tensor& g) { return n > 6 ? g * 2 : g / n; });
    return y.sum();
  });
  for (int64_t n : {4, 8, 2, 4, 16}) {
    w.set_grad({});
    f(ones({n})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(DisabledCodeReadsASize, 9) {
  auto f = run.compile([](const Tensor& x) {
    SymInt n = x.size(0);
    auto code = disable([n](const Tensor& t) { return t / n + ones({n}); });
    return code(x * 2) + 1;
  });
  for (int64_t n : {4, 8, 2, 4, 16}) run.log(f(ones({n})));
}

TENON_PROGRAM(AnotherThreadReadsASizeLater, 2) {
  std::optional<SymInt> kept;
  auto f = run.compile([&](const Tensor& x) {
    kept = x.size(0);
    return x * 2;
  });
  for (int64_t n : {4, 8, 2, 4, 16}) {
    f(ones({n}));
    std::thread([&] { run.log(static_cast<int64_t>(*kept)); }).join();
  }
}

TENON_PROGRAM(SumsOfKeptSizesGoOn, 3) {
  SymInt n = 1, sum = 0;
  auto f = run.compile([&](const Tensor& x) {
    n = x.size(0);
    sum += n;
    return x * 2;
  });
  for (int64_t size : {3, 4, 5, 6}) f(ones({size}));
  f.reset();
  for (int i = 0; i < 2000; ++i) sum += n * (i % 5);
  run.log(static_cast<int64_t>(sum));
}

}  // namespace
}  // namespace tenon::programs
