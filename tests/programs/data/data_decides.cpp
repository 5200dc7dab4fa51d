// Bodies whose course, sizes and numbers follow from the data: right for every course, and compiled
// once a piece.
#include "program.h"

#include <algorithm>
#include <vector>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ARowThatTheDataChooses, 4) {
  Tensor table = arange(40, Dtype::f32).reshape({20, 2});
  auto f = run.compile([&](const Tensor& scores) {
    int64_t best = scores.argmax().item<int64_t>();
    return table.select(0, best) + table.narrow(0, best, 1).sum();
  });
  for (int i = 0; i < 40; ++i) run.log(f((arange(20) * (i * 7 + 3) % 23).to(Dtype::f32)));
}

TENON_PROGRAM(ALengthThatTheDataChooses, 5) {
  auto f = run.compile([](const Tensor& x) {
    int64_t n = x.sum().item<int64_t>();
    return arange(n, Dtype::f32).sum() + ones({n, 2}).sum();
  });
  for (int i = 0; i < 40; ++i) run.log(f(tensor(std::vector<int64_t>{i % 17, 3})));
}

TENON_PROGRAM(AsManyRowsAsAreAboveZero, 5) {
  auto f = run.compile([](const Tensor& x) {
    Tensor above = x.masked_select(x > 0), at = (x > 0).nonzero();
    return std::tuple((above * 2.0).sum(), at.sum(), above);
  });
  for (int i = 0; i < 12; ++i) {
    auto [sum, places, above] = f((arange(9) * i % 7 - 3).to(Dtype::f32));
    run.log(sum, places, above);
  }
}

TENON_PROGRAM(TwelveBranches, 30) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 12; ++i) y = y.sum().item<float>() > float(i) ? y - 1.0 : y * 1.5 + 0.5;
    return y;
  });
  for (int i = 0; i < 40; ++i) run.log(f(row({float(i % 9) - 2, float(i % 5)})));
}

TENON_PROGRAM(AThousandTurns, 6) {
  auto f = run.compile([](const Tensor& x, float bound) {
    Tensor y = x;
    int turns = 0;
    while (y.sum().item<float>() < bound) {
      y = y + 0.5;
      ++turns;
    }
    return std::pair(y, turns);
  });
  for (float bound : {4.0f, 1000.0f, 8.0f, 1000.0f}) {
    auto [y, turns] = f(row({1, 0}), bound);
    run.log(y, turns);
  }
}

TENON_PROGRAM(ASearchByHalves, 12) {
  Tensor sorted = arange(64, Dtype::f32) * 2.0;
  auto find = run.compile([&](const Tensor& key) {
    int64_t low = 0, high = 64;
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (sorted[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  });
  for (int i = 0; i < 40; ++i) run.log(find(full({}, float(i * 37 % 128))));
}

TENON_PROGRAM(ANormThatIsClipped, 4) {
  auto f = run.compile([](const Tensor& g) {
    float n = g.abs().sum().item<float>();
    return n > 4 ? g / double(n) * 4.0 : g;
  });
  for (int i = 0; i < 60; ++i) run.log(f(row({float(i % 11), 1})));
}

TENON_PROGRAM(AnItemIsReturnedAndLookedAtOutside, 2) {
  auto f = run.compile([](const Tensor& x) {
    return std::tuple(x.sum().item<float>(), (x > 1).any().item<bool>(),
                      x.argmax().item<int64_t>());
  });
  for (int i = 0; i < 6; ++i) {
    auto [sum, any, at] = f(row({float(i), 1, 3}));
    run.log(sum, any, at);
  }
}

TENON_PROGRAM(AnItemGoesIntoAContainerOfTheCaller, 3) {
  std::vector<float> losses;
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = x.square().mean();
    losses.push_back(loss.item<float>());
    return losses.size() > 3 && losses.back() > losses.front() ? loss * 0.5 : loss;
  });
  for (int i = 0; i < 12; ++i) run.log(f(row({float(i * 5 % 7), 1})), losses);
}

TENON_PROGRAM(AWriteOnlyWhereTheDataSaySo, 4) {
  Tensor best = full({2}, -100.0), seen = zeros({}, Dtype::i64);
  auto f = run.compile([&](const Tensor& x) {
    seen.add_(1);
    if ((x.sum() > best.sum()).item<bool>()) best.copy_(x);
    return best - x;
  });
  for (int i = 0; i < 12; ++i) run.log(f(row({float(i * 5 % 7), 1})), best, seen);
}

TENON_PROGRAM(GradientsThroughACutBody, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    h = h.sum().item<float>() > 4 ? h * h : h * 2.0;
    return h.sum();
  });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    f(row({1, float(i % 4)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AResultIsPrintedInTheBody, 4) {
  std::string printed;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    for (float v : y.to_vector<float>()) printed += std::to_string(int(v)) + ",";
    return y + double(printed.size());
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})), printed);
}

TENON_PROGRAM(EverySecondOfAsManyCounts, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor counts = bincount(x), odd = counts.slice(0, 1, INT64_MAX, 2);
    return std::pair(odd * 2, counts.slice(0, 0, INT64_MAX, 3).sum());
  });
  for (int64_t top : {3, 7, 4, 9}) {
    auto [odd, sum] = f(arange(top + 1) * 2 % (top + 1));
    run.log(odd, sum);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(EverySecondOfAsManyCounts, 4);

}  // namespace
}  // namespace tenon::programs
