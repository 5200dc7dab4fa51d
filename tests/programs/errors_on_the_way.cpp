// Errors in bodies: caught within, thrown by parts, met by destructors; and the calls that follow.
#include "program.h"

#include <stdexcept>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ADestructorWritesOnTheWayOut, 4) {
  struct Leave {
    Tensor& log;
    Tensor by;
    ~Leave() { log.add_(by); }
  };
  Tensor log = zeros({2});
  auto f = run.compile([&](const Tensor& x, bool fails) {
    Leave leave{log, x * 0.5};
    Tensor y = x + log;
    log.mul_(2.0);
    if (fails) throw std::runtime_error("fails");
    return y * log;
  });
  for (int i = 0; i < 6; ++i) {
    run.log_error([&] { run.log(f(row({1, float(i)}), i % 3 == 1)); });
    run.log(log);
  }
}

TENON_PROGRAM(AnotherWayWhereAnOpFails, 4) {
  Tensor w = ones({3, 2});
  int fallbacks = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor count = zeros({});
    try {
      count.add_(1);
      Tensor y = x.matmul(w);
      return y + count;
    } catch (const UserError&) {
      ++fallbacks;
      count.add_(4);
      return x.t().matmul(w) + count;
    }
  });
  for (int i = 0; i < 6; ++i) run.log(f(i % 2 ? halves({3, 2}, i) : halves({2, 3}, i)), fallbacks);
}

TENON_PROGRAM(TheOuterBodyCatches, 4) {
  Tensor seen = zeros({2});
  auto inner = run.compile([&](const Tensor& x) {
    seen.add_(x);
    Tensor y = x * 2.0;
    if (y.sum().item<float>() > 6) throw std::out_of_range("large");
    seen.add_(y);
    return y;
  });
  auto outer = run.compile([&](const Tensor& x) {
    Tensor h = x + 1.0;
    seen.mul_(0.5);
    try {
      h = inner(h) + h;
    } catch (const std::out_of_range&) {
      seen.mul_(2.0);
      h = h * -1.0;
    }
    return h + seen;
  });
  for (int i = 0; i < 7; ++i) run.log(outer(row({1, float(i % 4)})), seen);
}

TENON_PROGRAM(ChecksThatFailNowAndThen, 4) {
  auto f = run.compile([&](const Tensor& x, int64_t k) {
    check(SymBool(k >= 0), "k");
    Tensor y = x.cumsum(0);
    check((y[-1] > 0).all(), "positive");
    return y * double(k);
  });
  for (int i = 0; i < 6; ++i) run.log_error([&] { run.log(f(halves({4}, i), i % 3 - 1)); });
}

TENON_PROGRAM(ErrorsBetweenWaitingWrites, 6) {
  // What a caught exception of an op has left behind, in the middle of pending writes.
  Tensor a = zeros({2}), b = ones({3});
  auto f = run.compile([&](const Tensor& x) {
    int failures = 0;
    for (int i = 0; i < 3; ++i) {
      a.add_(double(i));
      try {
        Tensor t = i == 1 ? x + b : x + a;
        a.add_(t.sum());
      } catch (const std::exception&) {
        ++failures;
        b.mul_(2.0);
      }
    }
    return a * double(failures) + b.sum();
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(halves({i == 3 ? 1 : i % 2 ? 3 : 2}, i).slice(0, 0, i == 3 ? 1 : 2)), a, b);
    a.mul_(0.25);
    if (i == 4) b = ones({2});
  }
}

TENON_PROGRAM(TheInnerOneFailsUntilItFits, 4) {
  // An inner compiled function fails; the outer one catches, changes and tries again.
  int tries = 0;
  Tensor buffer = zeros({2});
  auto inner = run.compile([&](const Tensor& x) {
    buffer.add_(1.0);
    Tensor y = x.view({2, -1});
    buffer.add_(y.sum());
    return y;
  });
  auto outer = run.compile([&](Tensor x) {
    for (;; ++tries) {
      try {
        return inner(x).sum(1) + buffer;
      } catch (const UserError&) {
        x = cat({x, ones({1})});
        buffer.mul_(0.5);
      }
    }
  });
  for (int n : {4, 3, 2, 5, 3}) run.log(outer(halves({n}, n)), tries, buffer);
}

TENON_PROGRAM(ErrorsOfManyOps, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& i, int how) {
    switch (how) {
      case 0:
        return x.index_select(0, i);
      case 1:
        return x.gather(0, i);
      case 2:
        return x / i;
      case 3:
        return floor_divide(i, i - 1);
      case 4:
        return x.to(Dtype::i64).mean();
      case 5:
        return x.view({3, 2});
      case 6:
        return x.matmul(x.t().matmul(x.unsqueeze(0)));
      default:
        return x[7];
    }
  });
  for (int r = 0; r < 3; ++r)
    for (int how = 0; how < 8; ++how)
      for (int bad : {0, 9, -1})
        run.log_error([&] { run.log(how, bad, f(halves({4}, r), tensor({1, bad, 2}), how)); });
}

}  // namespace
}  // namespace tenon::programs
