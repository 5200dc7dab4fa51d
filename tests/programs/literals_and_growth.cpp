// Tensors made of literals in the body, and captured things that grow: no compile for each call.
#include "program.h"

#include <algorithm>
#include <map>

namespace tenon::programs {
namespace {

TENON_PROGRAM(AFilterIsALiteral, 2) {
  auto f = run.compile([](const Tensor& image) {
    Tensor kernel = tensor({{1.0f, 2.0f, 1.0f}, {0.0f, 0.0f, 0.0f}, {-1.0f, -2.0f, -1.0f}});
    Tensor four = image.unsqueeze(0).unsqueeze(0);
    return conv2d(four, kernel.unsqueeze(0).unsqueeze(0)).abs().sum();
  });
  for (int i = 0; i < 10; ++i) run.log(f(arange(30, Dtype::f32).reshape({5, 6}) * float(i)));
  run.log("eager", f.stats().eager_calls);
}

TENON_PROGRAM(ALiteralOfNumbersThatChange, 2) {
  double angle = 0;
  auto f = run.compile([&](const Tensor& x) {
    return x * tensor({float(angle), 1.0f}) + tensor(float(angle) * 2);
  });
  for (int i = 0; i < 20; ++i, angle += 0.5) run.log(f(row({2, 4})));
  run.log("eager", f.stats().eager_calls);
}

TENON_PROGRAM(ALiteralBuiltInALoop, 3) {
  auto f = run.compile([](const Tensor& x, int n) {
    std::vector<float> window;
    for (int i = 0; i < n; ++i) window.push_back(float(i * i));
    return x.slice(0, 0, n) * tensor(window);
  });
  for (int i = 0; i < 20; ++i) run.log(f(ones({8}), i % 2 ? 3 : 5));
}

TENON_PROGRAM(ALargeTable, 2) {
  auto f = run.compile([](const Tensor& i) {
    std::vector<float> squares(1000);
    for (size_t k = 0; k < squares.size(); ++k) squares[k] = float(k % 50);
    return tensor(squares).index_select(0, i).sum();
  });
  for (int i = 0; i < 12; ++i) run.log(f(tensor({i, 2 * i, 999 - i})));
  run.log("eager", f.stats().eager_calls);
}

TENON_PROGRAM(ALiteralIsWrittenInTheBody, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor acc = tensor({1.0f, 2.0f});
    acc.add_(x);
    acc.mul_(2.0);
    return acc;
  });
  Tensor first = f(row({1, 2}));
  for (int i = 0; i < 6; ++i) run.log(f(row({float(i), 1})), first);
}

TENON_PROGRAM(ALiteralIsReturned, 2) {
  auto f = run.compile([](const Tensor& x) {
    return std::tuple(tensor({1.0f, 2.0f}), x + 1.0, tensor(3));
  });
  Tensor kept = std::get<0>(f(row({0})));
  kept.add_(100.0);
  for (int i = 0; i < 4; ++i) {
    auto [literal, y, three] = f(row({float(i)}));
    run.log(literal, y, three, kept);
  }
}

TENON_PROGRAM(AListThatGrowsByOneEachCall, 9) {
  std::vector<Tensor> history;
  auto f = run.compile([&](const Tensor& x) {
    Tensor sum = x;
    for (const Tensor& t : history) sum = sum + t * 0.5;
    return sum;
  });
  for (int i = 0; i < 30; ++i) {
    run.log(f(row({1, float(i)})));
    history.push_back(row({float(i), 0}));
  }
}

TENON_EXPECTED_FAILURE(AListThatTheBodyGrowsAndJoins, 9) {
  std::vector<Tensor> history;
  auto f = run.compile([&](const Tensor& x) {
    history.push_back(x * 2.0);
    return cat(history).sum();
  });
  for (int i = 0; i < 30; ++i) run.log(f(row({1, float(i)})));
  run.log(history);
}

TENON_EXPECTED_FAILURE(ATensorThatGrowsByARow, 4) {
  Tensor keys = zeros({1, 2});
  auto f = run.compile([&](const Tensor& q) { return (keys * q).sum(1).amax() + keys.sum(); });
  for (int i = 0; i < 30; ++i) {
    run.log(f(row({1, 2})));
    keys = cat({keys, row({float(i), 1}).unsqueeze(0)});
  }
}

TENON_EXPECTED_FAILURE(TheBodyGrowsItsCache, 4) {
  Tensor cache;
  auto f = run.compile([&](const Tensor& x) {
    cache = cache.defined() ? cat({cache, x.unsqueeze(0)}) : x.unsqueeze(0);
    return cache.sum(0);
  });
  for (int i = 0; i < 30; ++i) run.log(f(row({1, float(i)})));
  run.log(cache);
}

TENON_PROGRAM(ARingThatIsFilledInPlace, 4) {
  Tensor ring = zeros({8, 2});
  int64_t next = 0;
  auto f = run.compile([&](const Tensor& x) {
    ring.select(0, next % 8).copy_(x);
    ++next;
    return ring.slice(0, 0, std::min<int64_t>(next, 8)).sum(0);
  });
  for (int i = 0; i < 30; ++i) run.log(f(row({1, float(i)})));
}

TENON_PROGRAM(AMapThatGetsKeys, 9) {
  std::map<int, Tensor> memo;
  auto f = run.compile([&](const Tensor& x, int key) {
    auto [at, is_new] = memo.try_emplace(key);
    if (is_new) at->second = x * double(key);
    return at->second + x;
  });
  for (int i = 0; i < 30; ++i) run.log(f(row({1, float(i)}), i * i % 7));
}

}  // namespace
}  // namespace tenon::programs
