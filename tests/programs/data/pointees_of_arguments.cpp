// What spans, smart pointers and references among the arguments lead to is the caller's: plain numbers
// and texts are changed there as tensors are, and nothing else is touched.
#include "program.h"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <variant>

namespace tenon::programs {
namespace {

TENON_PROGRAM(NumbersThatASpanShows, 4) {
  auto f = run.compile([](std::span<float> s, const Tensor& x) {
    s[0] += 1;
    return x * double(s[0]);
  });
  std::vector<float> v{1, 2};
  for (int i = 0; i < 3; ++i) run.log(f(v, ones({2})), v);
}

TENON_PROGRAM(TextsAndPairsThatSpansShow, 2) {
  auto f = run.compile([](std::span<std::string> names, std::span<double, 2> limits,
                          std::span<bool> on, const Tensor& x) {
    names[1] += "b";
    std::swap(limits[0], limits[1]);
    on[0] = !on[0];
    return x * 2.0;
  });
  std::vector<std::string> names{"a", "some text that is too long to lie inside of its object"};
  std::array<double, 2> limits{1, 4};
  std::array<bool, 1> on{false};
  for (int i = 0; i < 3; ++i)
    run.log(f(names, limits, on, ones({2})), names[0], names[1], limits[0], on[0]);
}

TENON_PROGRAM(NumbersAndTextsBehindPointers, 4) {
  auto f = run.compile([](std::shared_ptr<int> n, const std::unique_ptr<std::string>& s,
                          const std::vector<std::shared_ptr<double>>& d,
                          std::shared_ptr<std::vector<int>> list, const Tensor& x) {
    ++*n;
    *s += "b";
    *d[0] *= 2;
    list->push_back(*n);
    return x * double(*n);
  });
  auto n = std::make_shared<int>(0);
  auto s = std::make_unique<std::string>("a");
  std::vector d{std::make_shared<double>(1)};
  auto list = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 3; ++i) run.log(f(n, s, d, list, ones({2})), *n, *s, *d[0], *list);
}

TENON_PROGRAM(APureBodyMustNotWriteNumbersThere, 2) {
  std::vector<float> v{1, 2};
  auto f = run.compile(
      [](std::span<float> s, const Tensor& x) {
        s[0] += 1;
        return x * 2.0;
      },
      {.pure = true});
  if (run.is_plain())
    run.log("UserError");
  else
    run.log_error([&] { f(v, ones({2})); });
  auto g = run.compile([](std::span<float> s, const Tensor& x) { return x * double(s[0]); },
                       {.pure = true});
  run.log(v[1], g(v, ones({2})));
}

class Counter {
 public:
  int count() const { return *count_; }
  void add() const { ++*count_; }
  Tensor& total() const { return *total_; }
  TENON_TREE(Counter, count_, total_)

 private:
  std::shared_ptr<int> count_ = std::make_shared<int>(0);
  std::shared_ptr<Tensor> total_ = std::make_shared<Tensor>(zeros({2}));
};

TENON_PROGRAM(PointersInsideOfAClass, 2) {
  auto f = run.compile([](const Counter& c, const Tensor& x) {
    c.add();
    c.total() = c.total() + x;
    return c.total() * 2.0;
  });
  Counter c;
  for (int i = 0; i < 3; ++i) run.log(f(c, row({1, 2})), c.count(), c.total());
}

struct Fixed {
  const std::shared_ptr<Tensor> value;
};

TENON_PROGRAM(AConstantPointerInsideOfAStruct, 2) {
  auto f = run.compile([](const Fixed& s) {
    *s.value = *s.value * 2.0;
    return *s.value + 1.0;
  });
  Fixed s{std::make_shared<Tensor>(ones({2}))};
  for (int i = 0; i < 3; ++i) run.log(f(s), *s.value);
}

TENON_PROGRAM(SpansInsideOfOtherArguments, 3) {
  auto f = run.compile([](std::pair<std::span<Tensor>, bool> p, std::vector<std::span<int>> rows) {
    Tensor sum = p.first[0] + p.first[1];
    if (p.second) p.first[0] = sum;
    std::swap(rows[0][0], rows[1][1]);
    return sum * double(rows[0][0]);
  });
  std::vector<Tensor> v{ones({2}), ones({2})};
  std::vector<int> a{1, 2}, b{3, 4};
  for (int i = 0; i < 4; ++i)
    run.log(f(std::pair(std::span(v), i % 2 == 1), std::vector<std::span<int>>{a, b}), v, a, b);
}

TENON_PROGRAM(SpansOverPartsOfOneArray, 6) {
  auto f = run.compile([](std::span<const float> a, std::span<float> b, std::span<float, 2> c,
                          std::span<Tensor> t, std::span<Tensor> u) {
    b[0] += a[2];
    c[1] *= 2;
    t[1] = t[1] + 1.0;
    u[0] = u[0] * 4.0;
    return t[1] * double(b[1] + a[3] + c[0]);
  });
  std::vector<float> v{1, 2, 3, 4, 5};
  std::vector<Tensor> t{ones({2}), ones({2}), ones({2})};
  std::span<float> s = v;
  std::span<Tensor> ts = t;
  for (int i = 0; i < 3; ++i)
    run.log(f(s.first(4), s.subspan(2), s.subspan(1).first<2>(), ts.first(2), ts.last(2)), v, t);
}

// Each of the two has a copy: a write of one would not be seen by the other, or be lost.
TENON_PROGRAM(ObjectsThatOverlap, 4) {
  auto list = std::make_shared<std::vector<Tensor>>(std::vector<Tensor>{ones({2}), ones({2})});
  auto f = run.compile([](std::shared_ptr<std::vector<Tensor>> p, std::span<Tensor> s, bool write) {
    if (write) s[0] = s[0] * 2.0;
    return (*p)[0] + s[1];
  });
  run.log(f(list, *list, false));
  if (run.is_plain())
    run.log("UserError");
  else
    run.log_error([&] { f(list, *list, true); });
  run.log(*list);
}

struct View {
  Tensor& t;
  TENON_TREE(View, t)
};
struct Reader {
  const Tensor& t;
  int& reads;
  TENON_TREE(Reader, t, reads)
};

TENON_PROGRAM(AReferenceAmongTheFields, 2) {
  auto f = run.compile([](const View& v, const Reader& r, const Tensor& x) {
    ++r.reads;
    return v.t * r.t + x;
  });
  Tensor w = ones({2}), u = row({2, 4});
  int reads = 0;
  for (int i = 0; i < 3; ++i) run.log(f(View{w}, Reader{u, reads}, ones({2})), w, u, reads);
}

TENON_PROGRAM(AssigningToAReferenceAmongTheFields, 4) {
  auto f = run.compile([](const View& v, const Tensor& x) {
    v.t = v.t * x;
    if (v.t.sum().item<float>() > 100) throw std::runtime_error("too much");
    return v.t + 1.0;
  });
  Tensor w = ones({2});
  for (int i = 0; i < 4; ++i) run.log(f(View{w}, row({2, 2})), w);
}

TENON_PROGRAM(ReferencesToTensorsOfManySizes, 3) {
  auto f = run.compile([](const View& v, const Tensor& x) { return v.t * x; });
  auto g = run.compile([](const View& v, const Tensor& x) { return v.t * x; }, {.pure = true});
  for (int i = 1; i < 6; ++i) {
    Tensor w = ones({i}) * double(i), same = ones({2}) * double(i);
    run.log(f(View{w}, ones({i})), w, g(View{same}, ones({2})), same);
  }
}

TENON_PROGRAM(ATextThatIsNotThere, 3) {
  struct Labelled {
    const char* label;
    Tensor t;
  };
  auto f = run.compile(
      [](const char* s, const Labelled& l) { return std::pair(s ? l.t * 2.0 : l.t, l.label); });
  for (const char* s : {"a", static_cast<const char*>(nullptr), "b"}) {
    auto [y, label] = f(s, Labelled{s, ones({2})});
    run.log(y, label ? label : "none");
  }
}

// What the body has not moved from is the caller's still.
TENON_PROGRAM(ArgumentsThatMayBeMovedFrom, 5) {
  auto f = run.compile([](Tensor&& x, std::string&& name, int k) {
    if (k == 1) throw std::runtime_error("try again");
    if (k == 2) x = x * 2.0;
    if (k == 3) name += "!";
    Tensor y = x + double(name.size());
    if (k != 4) return y;
    std::string gone = std::move(name);
    Tensor taken = std::move(x);
    return y;
  });
  Tensor x = ones({2});
  std::string name = "some text that is too long to lie inside of its object";
  for (int i = 0; i < 10; ++i) {
    if (!x.defined()) x = row({4, 8});
    run.log_error([&] { run.log(f(std::move(x), std::move(name), i % 5)); });
    run.log(x.defined(), x.defined() ? x : zeros({1}), name);
  }
}

TENON_PROGRAM(ContainersOfUniquePointers, 2) {
  using Owner = std::unique_ptr<Tensor>;
  auto f = run.compile([](const std::optional<Owner>& m, const std::map<std::string, Owner>& n,
                          std::deque<Owner> d, const std::array<Owner, 2>& a,
                          const std::variant<int, Owner>& v) {
    **m = **m * 2.0;
    *n.at("a") = *n.at("a") + 1.0;
    return *a[1] + *d[0] + **m + *std::get<1>(v);
  });
  auto made = [] { return std::make_unique<Tensor>(ones({2})); };
  std::optional<Owner> m(made());
  std::map<std::string, Owner> n;
  n["a"] = made();
  std::array<Owner, 2> a{nullptr, made()};
  std::variant<int, Owner> v(made());
  for (int i = 0; i < 3; ++i) {
    std::deque<Owner> d;
    d.push_back(made());
    run.log(f(m, n, std::move(d), a, v), **m, *n["a"]);
  }
}

}  // namespace
}  // namespace tenon::programs
