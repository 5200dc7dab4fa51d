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

TENON_PROGRAM(AListThatTheBodyGrowsAndJoins, 9) {
  std::vector<Tensor> history;
  auto f = run.compile([&](const Tensor& x) {
    history.push_back(x * 2.0);
    return cat(history).sum();
  });
  for (int i = 0; i < 30; ++i) run.log(f(row({1, float(i)})));
  run.log(history);
}

TENON_PROGRAM(ATensorThatGrowsByARow, 4) {
  Tensor keys = zeros({1, 2});
  auto f = run.compile([&](const Tensor& q) { return (keys * q).sum(1).amax() + keys.sum(); });
  for (int i = 0; i < 30; ++i) {
    run.log(f(row({1, 2})));
    keys = cat({keys, row({float(i), 1}).unsqueeze(0)});
  }
}

TENON_PROGRAM(TheBodyGrowsItsCache, 4) {
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

TENON_PROGRAM(KeysAndValuesGrowTogether, 4) {
  Tensor keys = ones({2, 3}), values = ones({2, 3});
  auto attend = run.compile([&](const Tensor& q) {
    return softmax(keys.matmul(q) * 0.5, 0).unsqueeze(0).matmul(values).sum();
  });
  for (int i = 0; i < 30; ++i) {
    run.log(attend(row({1, float(i % 3), 2})));
    Tensor more = row({float(i % 5), 1, 0}).unsqueeze(0);
    keys = cat({keys, more});
    values = cat({values, more * 2.0});
  }
}

TENON_PROGRAM(TablesThatNoLongerGrowTogether, 6) {
  Tensor a = ones({2, 3}), b = ones({2, 3});
  auto f = run.compile([&](const Tensor& x) { return (a * x).sum(0) + (b - x).sum(0) * 0.5; });
  for (int i = 0; i < 24; ++i) {
    run.log(f(row({1, float(i), 2})));
    a = ones({3 + i, 3}) * double(i);
    b = ones({i < 8 ? 3 + i : 40 - i, 3});
  }
}

TENON_PROGRAM(TablesThatShrinkToNothing, 6) {
  Tensor table = arange(24, Dtype::f32).reshape({12, 2});
  auto f = run.compile([&](const Tensor& x) { return (table + x).sum(0); });
  for (int i = 0; i < 26; ++i) {
    run.log(f(row({1, float(i)})));
    table = arange(24, Dtype::f32).reshape({12, 2}).slice(0, std::abs(13 - i), 12);
  }
}

TENON_PROGRAM(AWindowIntoABuffer, 5) {
  Tensor buffer = zeros({3, 16, 2}), seen;
  auto f = run.compile([&](const Tensor& x) { return seen.matmul(x).sum(1); });
  for (int i = 1; i < 16; ++i) {
    buffer.select(1, i).fill_(float(i));
    seen = buffer.narrow(1, 0, i + 1);
    run.log(f(row({1, float(i)})));
    seen = seen.transpose(0, 1).contiguous().transpose(0, 1);
    run.log(f(row({1, float(i)})));
  }
}

TENON_PROGRAM(CapturedSizesThatTakeTurnsWithThoseOfArguments, 6) {
  Tensor table = ones({4, 2});
  auto f = run.compile([&](const Tensor& rows) {
    if (rows.size(0) == table.size(0)) return (rows * table).sum(0);
    return (cat({rows, table}) * 2.0).sum(0);
  });
  for (int i = 0; i < 24; ++i) {
    run.log(f(ones({2 + i % 5, 2}) * float(i)));
    table = ones({2 + i % 3, 2}) * float(i);
  }
}

TENON_PROGRAM(AGrowingTableThatTheBodyWrites, 5) {
  Tensor table = zeros({2, 2});
  auto f = run.compile([&](const Tensor& x) {
    table.add_(x);
    table.select(0, 0).mul_(0.5);
    return table.sum(0);
  });
  for (int i = 0; i < 20; ++i) {
    run.log(f(row({1, float(i)})), table);
    if (i % 2) table = cat({table, ones({1, 2})});
  }
}

TENON_PROGRAM(AGrowingTableBehindALook, 6) {
  Tensor table = ones({2, 2});
  double scale = 1;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = (table * x).sum(0);
    if (y.sum().item<float>() > 40) y = y * scale;
    return (table * y).sum(0) + table.size(0);
  });
  for (int i = 0; i < 30; ++i) {
    run.log(f(row({1, float(i % 7)})));
    table = cat({table, ones({1, 2}) * 0.25});
    scale = 1.0 / double(1 + i);
  }
}

TENON_PROGRAM(TwoTablesSwapWhileTheyGrow, 6) {
  Tensor a = ones({2, 2}), b = ones({5, 2}) * 2.0;
  auto f = run.compile([&](const Tensor& x) { return (a * x).sum(0) - (b + x).amax(0); });
  for (int i = 0; i < 24; ++i) {
    run.log(f(row({1, float(i)})));
    if (i % 2) a = cat({a, ones({1, 2})});
    std::swap(a, b);
  }
}

TENON_PROGRAM(AGrowingTableIsDifferentiated, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  Tensor data = ones({2, 2});
  auto loss_of =
      run.compile([&](double scale) { return ((data * w).sum(1) * scale).square().mean(); });
  for (int i = 0; i < 20; ++i) {
    w.set_grad({});
    Tensor loss = loss_of(0.5);
    loss.backward();
    run.log(loss.detach(), w.grad());
    data = cat({data, row({float(i), 1}).unsqueeze(0)});
  }
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
