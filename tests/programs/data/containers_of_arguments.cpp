// What lies inside of the objects that pointers and spans among the arguments lead to: keys, opaque
// parts, parts that other pointers show, and parts of classes that others derive from.
#include "program.h"

#include <map>
#include <set>
#include <span>
#include <unordered_map>

namespace tenon::programs {
namespace {

struct Counter {
  std::vector<int> steps;
  std::string name = {};
};
struct Flags {
  int count = 0;
};
struct Scale {
  virtual ~Scale() = default;
  virtual Tensor apply(const Tensor& x) const { return x * w; }
  Tensor w;
  TENON_TREE(Scale, w)
};
struct Negated : Scale {
  Tensor apply(const Tensor& x) const override { return -x * w; }
};
struct Machine {
  Tensor w;
  int runs = 0;
  Tensor run(const Tensor& x) {
    ++runs;
    return x * w;
  }
};

}  // namespace
}  // namespace tenon::programs
TENON_OPAQUE(tenon::programs::Counter)
TENON_OPAQUE(tenon::programs::Flags)
TENON_OPAQUE(tenon::programs::Machine)

namespace tenon::programs {
namespace {

template <class Map>
void log_map(Run& run, const Map& map) {
  for (const auto& [key, value] : map) run.log(key, value);
}

TENON_PROGRAM(AnEntryGetsAnotherKey, 2) {
  auto f = run.compile([](std::shared_ptr<std::map<std::string, Tensor>> m,
                          std::shared_ptr<std::unordered_map<int, Tensor>> u, const Tensor& x) {
    m->erase(m->begin());
    (*m)["b" + std::to_string(m->size())] = x * 2;
    auto entry = u->extract(u->begin());
    entry.key() = 7;
    u->insert(std::move(entry));
    return x + 1;
  });
  auto m = std::make_shared<std::map<std::string, Tensor>>();
  auto u = std::make_shared<std::unordered_map<int, Tensor>>();
  (*m)["a"] = (*u)[1] = ones({2});
  for (int i = 0; i < 2; ++i) {
    run.log(f(m, u, ones({2})));
    log_map(run, *m);
    log_map(run, *u);
  }
}

TENON_PROGRAM(ElementsOfSetsBehindPointersAndSpans, 1) {
  auto f = run.compile([](std::shared_ptr<std::set<int>> s, std::span<std::map<int, int>> maps,
                          std::set<std::string>&& names, const Tensor& x) {
    s->erase(1);
    s->insert(7);
    maps[1].erase(1);
    maps[1][5] = 9;
    names = {"b"};
    return x + 1;
  });
  auto s = std::make_shared<std::set<int>>(std::set{1, 3});
  std::vector<std::map<int, int>> maps(2, {{1, 2}});
  std::set<std::string> names{"a"};
  run.log(f(s, maps, std::move(names), ones({2})));
  for (int n : *s) run.log(n);
  log_map(run, maps[0]);
  log_map(run, maps[1]);
  run.log(*names.begin(), names.size());
}

struct Holder {
  Tensor t;
  Counter counter;
  Flags flags;
  std::function<int()> next = [] { return 1; };
};

TENON_PROGRAM(OpaquePartsOfAnObject, 6) {
  auto f = run.compile([](std::shared_ptr<Holder> h, const Tensor& x) {
    h->counter.steps.push_back(h->next());
    ++h->flags.count;
    h->next = [n = h->flags.count] { return n; };
    h->t = x * double(h->counter.steps.size());
    return h->t + h->flags.count;
  });
  auto h = std::make_shared<Holder>();
  h->t = ones({2});
  for (int i = 0; i < 3; ++i)
    run.log(f(h, ones({2})), h->counter.steps, h->flags.count, h->next(), h->t);
}

TENON_PROGRAM(ElementsWithOpaquePartsAreSwapped, 2) {
  auto f = run.compile([](std::span<Holder> h, const Tensor& x) {
    std::swap(h[0], h[1]);
    return x + 1;
  });
  std::vector<Holder> h(2);
  h[0] = {ones({1}), {{1}, "a"}, {1}};
  h[1] = {zeros({1}), {{2, 3}, "b"}, {2}};
  for (int i = 0; i < 2; ++i) {
    run.log(f(h, ones({2})));
    for (const Holder& e : h) run.log(e.t, e.counter.steps, e.counter.name, e.flags.count);
  }
}

TENON_PROGRAM(APureBodyReadsOpaqueParts, 1) {
  auto f = run.compile([](std::shared_ptr<Holder> h, const Tensor& x) { return h->t * x; },
                       {.pure = true});
  auto h = std::make_shared<Holder>();
  h->t = ones({2});
  for (int i = 0; i < 3; ++i) run.log(f(h, ones({2})));
}

TENON_PROGRAM(OpaqueObjectsThatAListOwns, 1) {
  auto f = run.compile([](const std::vector<std::unique_ptr<Machine>>& machines, const Tensor& x) {
    Tensor y = x;
    for (const auto& m : machines) y = m->run(y);
    return y;
  });
  std::vector<std::unique_ptr<Machine>> machines;
  machines.push_back(std::make_unique<Machine>(Machine{ones({2}) * 2}));
  for (int i = 0; i < 3; ++i) run.log(f(machines, ones({2})), machines[0]->runs);
}

struct Branch {
  Tensor t;
  std::weak_ptr<Branch> up = {};
  std::shared_ptr<Branch> down = {};
  Branch* first = nullptr;
};

TENON_PROGRAM(WeakPointersUpATree, 2) {
  auto f = run.compile([](std::shared_ptr<Branch> b, const Tensor& x) {
    b->t = x * 5;
    b->down->up.lock()->t = b->down->up.lock()->t + 1;
    return b->t * 2;
  });
  auto b = std::make_shared<Branch>();
  b->down = std::make_shared<Branch>(Branch{ones({2}), b});
  b->t = ones({2});
  for (int i = 0; i < 2; ++i) run.log(f(b, ones({2})), b->t, b->down->up.lock() == b);
}

TENON_PROGRAM(WeakAndPlainPointersAreAimedAtArguments, 2) {
  auto f = run.compile([](std::shared_ptr<Branch> b, const Tensor& x) {
    b->up = b->down;
    b->first = b.get();
    return x + 1;
  });
  auto b = std::make_shared<Branch>();
  b->down = std::make_shared<Branch>();
  run.log(f(b, ones({2})), b->up.lock() == b->down, b->first == b.get());
}

TENON_PROGRAM(NumbersFinerThanADouble, 2) {
  auto f = run.compile([](std::shared_ptr<long double> n, long double step, const Tensor& x) {
    *n += step;
    return x * (step == 1.0L ? 1.0 : 2.0);
  });
  auto n = std::make_shared<long double>(1);
  const long double fine = 1e-18L;
  for (long double step : {fine, 1.0L, 1.0L + fine}) {
    Tensor y = f(n, step, ones({2}));
    run.log(y, *n == 1.0L, *n - 2 > 0, *n - 3 > fine);
  }
}

struct Pair {
  Tensor a, b;
};
struct Base {
  Tensor a;
  TENON_TREE(Base, a)
};
struct Derived : Base {
  Tensor b;
  TENON_TREE(Derived, a, b)
};

TENON_PROGRAM(PointersToPartsOfWhatOthersPointTo, 2) {
  auto f = run.compile([](std::shared_ptr<Tensor> first, std::shared_ptr<Pair> p,
                          std::shared_ptr<Tensor> second, const Tensor& x) {
    *first = x * 5;
    *second = *second + p->a;
    return p->a + p->b;
  });
  auto p = std::make_shared<Pair>(Pair{ones({2}), ones({2})});
  auto part = [&](Tensor& t) { return std::shared_ptr<Tensor>(p, &t); };
  for (int i = 0; i < 2; ++i) run.log(f(part(p->a), p, part(p->b), ones({2})), p->a, p->b);
}

TENON_PROGRAM(AnObjectByItsClassAndByItsBase, 3) {
  auto f = run.compile([](std::shared_ptr<Base> b, std::shared_ptr<Derived> d, const Tensor& x) {
    b->a = x * 5;
    return d->a + d->b;
  });
  auto g = run.compile([](std::shared_ptr<Derived> d, std::shared_ptr<Base> b, const Tensor& x) {
    d->b = d->b + b->a;
    b->a = x * 3;
    return d->a + d->b;
  });
  auto d = std::make_shared<Derived>();
  d->a = d->b = ones({2});
  for (int i = 0; i < 2; ++i) run.log(f(d, d, ones({2})), g(d, d, ones({2})), d->a, d->b);
}

TENON_PROGRAM(AResultPointsToAPartOfAnObject, 2) {
  auto f = run.compile(
      [](std::shared_ptr<Pair> p, std::shared_ptr<std::vector<Tensor>> v, const Tensor& x) {
        p->b = x * 2;
        return std::pair(std::shared_ptr<Tensor>(p, &p->b), std::shared_ptr<Tensor>(v, &(*v)[1]));
      });
  auto p = std::make_shared<Pair>(Pair{ones({2}), ones({2})});
  auto v = std::make_shared<std::vector<Tensor>>(2, ones({2}));
  for (int i = 0; i < 2; ++i) {
    auto [b, second] = f(p, v, ones({2}));
    *b = *b + 1;
    run.log(b.get() == &p->b, second.get() == &(*v)[1], p->b, p.use_count());
  }
}

// Plain runs get the object itself. A copy would be another object.
void log_refused(Run& run, const std::function<void()>& call) {
  if (run.is_plain())
    run.log("UserError");
  else
    run.log_error(call);
}

TENON_PROGRAM(AClassIsNotCopiedByItsBase, 3) {
  auto negated = std::make_shared<Negated>();
  auto scale = std::make_shared<Scale>();
  negated->w = scale->w = ones({2}) * 3;
  auto f = run.compile([](std::shared_ptr<Scale> s, const Tensor& x) { return s->apply(x); });
  auto g = run.compile([](const Scale& s, const Tensor& x) { return s.apply(x); });
  auto own = run.compile([](const Negated& s, const Tensor& x) { return s.apply(x); });
  run.log(f(scale, ones({2})), g(*scale, ones({2})), own(*negated, ones({2})));
  log_refused(run, [&] { f(negated, ones({2})); });
  log_refused(run, [&] { g(*negated, ones({2})); });
}

TENON_PROGRAM(PlacesOfArgumentsThatPureResultsOrKeysNeed, 2) {
  auto f = run.compile([](std::shared_ptr<Pair> p) { return p; }, {.pure = true});
  log_refused(run, [&] { f(std::make_shared<Pair>(Pair{ones({2}), ones({2})})); });
  auto g = run.compile([](const std::set<std::shared_ptr<Tensor>>& s, std::shared_ptr<Tensor> t) {
    return *t * double(s.count(t));
  });
  auto t = std::make_shared<Tensor>(ones({2}));
  log_refused(run, [&] { g(std::set{t, std::make_shared<Tensor>()}, t); });
  auto clear = run.compile([](std::shared_ptr<std::vector<std::unique_ptr<Pair>>> v) {
    v->clear();
    return ones({2});
  });
  auto v = std::make_shared<std::vector<std::unique_ptr<Pair>>>();
  v->push_back(std::make_unique<Pair>());
  log_refused(run, [&] { clear(v); });
}

TENON_PROGRAM(AResultIsOfADerivedClass, 3) {
  auto f = run.compile([](const Tensor& x) {
    std::shared_ptr<Scale> scale = std::make_shared<Negated>();
    scale->w = x * 2.0;
    return scale;
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({1, float(i)}))->apply(row({1, 2})));
}

}  // namespace
}  // namespace tenon::programs
