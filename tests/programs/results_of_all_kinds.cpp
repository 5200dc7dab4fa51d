// Results that are conditions on sizes, references to arguments, or texts of sizes.
#include "program.h"

#include <map>
#include <sstream>

namespace tenon::programs {
namespace {

struct Two {
  Tensor a, b;
};
struct Facts {
  SymBool is_long;
  Number is_three;
  Tensor sum;
};

TENON_PROGRAM(ConditionsOnSizesAreResults, 9) {
  auto one = run.compile([](const Tensor& x) { return x.size(0) == 3; });
  auto several = run.compile([](const Tensor& x) {
    std::vector<SymBool> all{x.size(0) > 3, x.size(0) > 4};
    return std::tuple(x * 2.0, x.size(0) > 3, Number(x.size(0) == 3), all);
  });
  for (int n : {3, 4, 5, 3}) {
    run.log(bool(one(ones({n}))));
    auto [twice, is_long, is_three, all] = several(ones({n}));
    run.log(twice, bool(is_long), is_three.to_bool(), bool(all[0]), bool(all[1]));
  }
}

TENON_PROGRAM(ConditionsOnSizesAreKeptInObjects, 4) {
  auto f = run.compile([](const Tensor& x, const std::shared_ptr<Facts>& facts) {
    facts->is_long = x.size(0) > 3;
    facts->is_three = x.size(0) == 3;
    facts->sum = x.sum();
    return x + 1.0;
  });
  auto facts = std::make_shared<Facts>();
  for (int n : {3, 4, 5, 3}) {
    run.log(f(ones({n}), facts));
    run.log(bool(facts->is_long), facts->is_three.to_bool(), facts->sum);
  }
}

TENON_PROGRAM(ReferencesToArgumentsAreValuesInResults, 5) {
  Options options = run.with_backend({});
  auto tied = compile([](const Tensor& x, const Tensor& y) { return std::tie(x, y); }, options);
  auto wrapped = compile([](const Tensor& x) { return std::cref(x); }, options);
  auto nested = compile(
      [](const Tensor& x, const Tensor& y) {
        return std::pair(std::cref(x), std::tuple<const Tensor&, int>(y, 3));
      },
      options);
  auto objects = compile([](const Two& two) { return std::tie(two, two.b); }, options);
  Tensor x = full({2}, 1.5), y = full({2}, 2.0);
  for (int i = 0; i < 3; ++i) {
    Tensor first = std::get<0>(tied(x, y)), second = std::get<1>(tied(x, y)), same = wrapped(x);
    auto [own, rest] = nested(x, y);
    run.log(first, second, same, own, std::get<0>(rest), std::get<1>(rest));
    Two two{x * 2.0, y * 2.0};
    auto [all, b] = objects(two);
    run.log(all.a, all.b, b);
  }
}

TENON_PROGRAM(WhatCannotBeCopiedIsMovedIntoTheBody, 3) {
  auto by_value = run.compile([](std::unique_ptr<Tensor> p) { return *p * 2.0; });
  auto by_reference = run.compile([](std::unique_ptr<Tensor>&& p) { return *p * 3.0; });
  auto in_list = run.compile([](std::vector<std::unique_ptr<Tensor>> all) {
    Tensor sum = *all[0] + *all[1];
    all.clear();
    return sum;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = full({2}, i + 0.5);
    run.log(by_value(std::make_unique<Tensor>(x)), by_reference(std::make_unique<Tensor>(x)));
    std::vector<std::unique_ptr<Tensor>> all;
    for (int k = 0; k < 2; ++k) all.push_back(std::make_unique<Tensor>(x * double(k)));
    run.log(in_list(std::move(all)));
  }
}

TENON_PROGRAM(ACallableAssignsItselfWhileItRuns, 4) {
  struct Step {
    CompiledFunction<Tensor(const Tensor&)>* f;
    Options options;
    int k, calls = 0;
    Tensor operator()(const Tensor& x) {
      Tensor y = x * double(k);
      if (++calls == 2) {
        Step next{f, options, k + 1};
        *f = compile(next, options);  // nothing of this object is used from here on
      }
      return y;
    }
  };
  CompiledFunction<Tensor(const Tensor&)> f;
  Options options = run.with_backend({});
  f = compile(Step{&f, options, 1}, options);
  for (int i = 0; i < 7; ++i) run.log(f(ones({2})));
}

TENON_PROGRAM(DisabledFunctionsReturnReferencesToArguments, 8) {
  auto larger = disable([](const Tensor& a, const Tensor& b) -> const Tensor& {
    return a.sum().item<float>() > b.sum().item<float>() ? a : b;
  });
  auto member = disable([](const Two& two) -> const Tensor& { return two.b; });
  auto element = disable([](const std::vector<Tensor>& list) -> const Tensor& { return list[1]; });
  auto doubled = disable([](Tensor& t) -> Tensor& { return t = t * 2.0; });
  auto grown = disable([](std::vector<Tensor>& list) -> Tensor& {
    list.push_back(list[0] * 2.0);
    return list.back();
  });
  auto f = run.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor& p = larger(x, y);
    Two two{x, y * 3.0};
    const Tensor& b = member(two);
    std::vector<Tensor> list{x, y};
    const Tensor& e = element(list);
    bool same = &p == &y && &b == &two.b && &e == &list[1];
    Tensor sum = p + b + e;
    Tensor z = x + 1.0;
    Tensor& twice = doubled(z);
    Tensor& last = grown(list);
    same = same && &twice == &z && &last == &list[2];
    last = last + 1.0;
    return std::tuple(sum, z * 1.0, list[2] * 1.0, same);
  });
  for (int i = 0; i < 3; ++i) {
    auto [sum, z, last, same] = f(full({2}, 1.5), full({2}, 2.0));
    run.log(sum, z, last, same);
  }
}

TENON_PROGRAM(DisabledFunctionsReturnTuplesOfReferencesToArguments, 8) {
  auto both = disable([](const Tensor& a, Two& two, int n) {
    two.b = two.b * 2.0;
    return std::tuple<const Tensor&, Tensor&, int>(a, two.b, n);
  });
  auto pair = disable([](Tensor& t, std::vector<Tensor>& list) {
    return std::pair<Tensor&, std::reference_wrapper<Tensor>>(t, list[1]);
  });
  auto moved = disable([](Tensor& t) {
    return std::tuple<Tensor&, std::unique_ptr<int>>(t, std::make_unique<int>(3));
  });
  auto f = run.compile([&](const Tensor& x) {
    Two two{x, x * 3.0};
    auto [a, b, n] = both(x, two, 4);
    bool same = &a == &x && &b == &two.b;
    b = b + n;
    Tensor z = x + 1.0;
    std::vector<Tensor> list{x, x * 5.0};
    auto parts = pair(z, list);
    same = same && &parts.first == &z && &parts.second.get() == &list[1];
    parts.first = parts.first * 2.0;
    parts.second.get() = list[1] - 1.0;
    auto rest = moved(z);
    same = same && &std::get<0>(rest) == &z && *std::get<1>(rest) == 3;
    return std::tuple(two.b * 1.0, z * 1.0, list[1] * 1.0, same);
  });
  for (int i = 0; i < 3; ++i) {
    auto [b, z, element, same] = f(full({2}, i + 0.5));
    run.log(b, z, element, same);
  }
}

TENON_PROGRAM(DisabledFunctionsThatThrowHaveChangedTheirArguments, 4) {
  auto scale = disable([](Tensor& t, std::vector<Tensor>& seen) {
    t = t * 4.0;
    seen.push_back(t);
    if (t.sum().item<float>() > 1) throw std::runtime_error("too large");
  });
  auto f = run.compile([&](const Tensor& x) {
    Tensor t = x + 0.25;
    std::vector<Tensor> seen;
    try {
      scale(t, seen);
    } catch (const std::runtime_error&) {
      t = t + 1.0;
    }
    return std::pair(t, seen[0] * 1.0);
  });
  for (double value : {1.0, 2.0, -1.0, 1.0}) {
    auto [t, seen] = f(full({2}, value));
    run.log(t, seen);
  }
}

// A text is a number that is asked for: one size, one entry.
TENON_PROGRAM(TextsOfSizesAreThoseOfTheCall, 8) {
  std::map<std::string, Tensor> tables;
  std::vector<std::string> texts;
  auto f = run.compile([&](const Tensor& x) {
    auto [at, is_new] = tables.try_emplace(to_text(x.sizes()));
    if (is_new) at->second = full({2}, double(tables.size()));
    std::ostringstream text;
    text << x.sizes() << x.strides() << to_text(x) << to_text(x.t()) << x.size(0)
         << to_text(x.size(0)) << to_text(Number(x.size(0))) << to_text(x.size(0) > 3)
         << to_text(x.size(0) / 2.0);
    texts.push_back(text.str());
    return x.sum() * at->second;
  });
  for (int n : {2, 3, 4, 5, 4, 3, 2, 5}) {
    run.log(f(ones({n, 2})));
    run.log(texts.back(), tables.size());
  }
}

}  // namespace
}  // namespace tenon::programs
