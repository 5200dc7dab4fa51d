// Smart pointers and references as arguments and in results: each call's result is its own, and the
// caller's objects stay the caller's.
#include "program.h"

namespace tenon::programs {
namespace {

using Shared = std::shared_ptr<Tensor>;

TENON_PROGRAM(EachCallGivesASharedObjectOfItsOwn, 1) {
  auto f = run.compile([](const Tensor& x) { return std::make_shared<Tensor>(x * 2.0); });
  std::vector<Shared> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(f(row({1, float(i)})));
  for (const Shared& p : kept) run.log(*p, p.use_count());
}

struct Step {
  std::shared_ptr<std::vector<Tensor>> values;
  std::unique_ptr<Tensor> last;
  std::optional<Shared> extra;
};

TENON_PROGRAM(PointersInsideOfAResult, 3) {
  auto f = run.compile([](const Tensor& x, bool more) {
    Step out{std::make_shared<std::vector<Tensor>>(), std::make_unique<Tensor>(x - 1.0), {}};
    out.values->push_back(x + 1.0);
    if (more) out.extra = std::make_shared<Tensor>(x * 4.0);
    return out;
  });
  std::vector<Step> steps;
  for (int i = 0; i < 6; ++i) steps.push_back(f(row({float(i)}), i % 2 == 1));
  for (const Step& s : steps) run.log(*s.values, *s.last, s.extra ? **s.extra : Tensor());
}

TENON_PROGRAM(OneObjectTwiceInAResult, 1) {
  auto f = run.compile([](const Tensor& x) {
    auto p = std::make_shared<Tensor>(x * 2.0);
    return std::pair(p, p);
  });
  for (int i = 0; i < 4; ++i) {
    auto [a, b] = f(row({float(i)}));
    run.log(*a, a == b);
  }
}

TENON_PROGRAM(AnObjectThatTheBodyRemembers, 2) {
  Shared memo;
  auto f = run.compile([&](const Tensor& x) {
    if (!memo) memo = std::make_shared<Tensor>(x * 2.0);
    return memo;
  });
  Shared first = f(row({1, 2}));
  for (int i = 0; i < 4; ++i) run.log(*f(row({float(i), 1})), f(row({1, 1})) == first);
  memo.reset();
  run.log(*f(row({8, 8})), *first);
}

TENON_PROGRAM(TheCallersTensorStaysBehindASharedPointer, 1) {
  auto f = run.compile([](const Shared& p) { return *p * 2.0; });
  auto p = std::make_shared<Tensor>(row({1, 2}));
  Tensor before = *p;
  for (int i = 0; i < 4; ++i) run.log(f(p), p->is_same(before), p->is_fake(), p.use_count());
  *p = row({4, 8});
  run.log(f(p));
}

TENON_PROGRAM(TheBodyWritesThroughASharedPointer, 1) {
  auto f = run.compile([](const Shared& p) {
    p->mul_(2.0);
    return *p + 1.0;
  });
  auto p = std::make_shared<Tensor>(row({1, 2}));
  for (int i = 0; i < 4; ++i) run.log(f(p), *p);
}

TENON_PROGRAM(TheBodyAssignsThroughASharedPointer, 1) {
  auto f = run.compile([](const Shared& p) {
    *p = *p * 2.0;
    return *p + 1.0;
  });
  auto p = std::make_shared<Tensor>(row({1, 2}));
  for (int i = 0; i < 4; ++i) run.log(f(p), *p);
}

TENON_PROGRAM(TwoPointersToOneTensorAsArguments, 2) {
  auto f = run.compile([](const Shared& a, const Shared& b) {
    a->add_(1.0);
    return *a * *b;
  });
  auto p = std::make_shared<Tensor>(row({1, 2})), q = std::make_shared<Tensor>(row({1, 2}));
  for (int i = 0; i < 6; ++i) run.log(f(p, i % 2 ? q : p), *p, *q);
}

TENON_PROGRAM(PointersMayBeEmpty, 2) {
  auto f =
      run.compile([](const Tensor& x, const Shared& bias) { return bias ? x + *bias : x - 1.0; });
  auto bias = std::make_shared<Tensor>(row({4, 8}));
  for (int i = 0; i < 6; ++i) run.log(f(row({1, 2}), i % 2 ? bias : nullptr));
}

TENON_PROGRAM(AnUnrecordedFunctionGivesResultsByReference, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor sum, product;
    int calls = 0;
    disable([](const Tensor& t, Tensor& s, Tensor& p, int& n) {
      s = t + 1.0;
      p = t * double(t.sum().item<float>());
      ++n;
    })(x * 2.0, sum, product, calls);
    return sum + product + calls;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})));
}

struct Statistics {
  int n = 0;
  std::vector<Tensor> seen;
};

TENON_PROGRAM(AnUnrecordedFunctionFillsAStruct, 4) {
  Statistics all;
  auto note = disable([&](const Tensor& t, Statistics& s) {
    s.seen.push_back(t);
    ++s.n;
  });
  auto f = run.compile([&](const Tensor& x) {
    Statistics mine;
    note(x * 2.0, mine);
    note(x + 1.0, mine);
    note(x - 1.0, all);
    return mine.seen[0] * mine.n + mine.seen[1];
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})));
  run.log(all.n, all.seen);
}

TENON_PROGRAM(AnUnrecordedFunctionReturnsAReference, 2) {
  std::vector<Tensor> table{row({1, 2}), row({4, 8})};
  auto at = disable([&](size_t i) -> Tensor& { return table[i]; });
  auto f = run.compile([&](const Tensor& x, int i) {
    at(size_t(i)) = at(size_t(i)) + 1.0;
    return x * at(size_t(i));
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, 2}), i % 2), table);
}

TENON_PROGRAM(AnUnrecordedFunctionMovesItsArguments, 2) {
  std::vector<Tensor> kept;
  auto keep = disable([&](Tensor&& t, std::unique_ptr<Tensor> p) {
    kept.push_back(std::move(t));
    kept.push_back(*p);
  });
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    keep(std::move(y), std::make_unique<Tensor>(x + 1.0));
    return x - 1.0;
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({1, float(i)})));
  run.log(kept);
}

struct Net : nn::Module {
  nn::Linear fc{2, 1};
  TENON_MODULE(Net, fc)
  explicit Net(float w) {
    NoGradGuard no_grad;
    fc.weight.fill_(w);
    fc.bias.fill_(1);
  }
  Tensor forward(const Tensor& x) const { return fc(x); }
};

TENON_PROGRAM(NetsBehindPointersAsArguments, 3) {
  auto f = run.compile([](const std::shared_ptr<Net>& net, const Tensor& x) { return (*net)(x); });
  auto a = std::make_shared<Net>(2), b = std::make_shared<Net>(4);
  for (int i = 0; i < 6; ++i) run.log(f(i % 2 ? a : b, row({1, float(i)})), a.use_count());
}

}  // namespace
}  // namespace tenon::programs
