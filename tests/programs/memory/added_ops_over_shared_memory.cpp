// Ops of the program that write an argument while another one shows the same memory.
#include "program.h"

#include <tenon/library.h>

namespace tenon::programs {
namespace {

TENON_LIBRARY(shared_memory, lib) {
  lib.op("mixed(Tensor a, Tensor(b!) b) -> Tensor")
      .like(0)
      .kernel([](const Tensor& a, const Tensor& b) {
        b.mul_(2);
        return a + b;
      });
  lib.op("both(Tensor(a!) a, Tensor(b!) b) -> ()").kernel([](const Tensor& a, const Tensor& b) {
    a.add_(1);
    b.mul_(2);
    a.add_(b);
  });
  lib.op("listed(Tensor[] xs, Tensor(b!) b, Tensor? more=None) -> Tensor")
      .like(1)
      .kernel([](TensorList xs, const Tensor& b, std::optional<Tensor> more) {
        b.mul_(2);
        Tensor sum = b * 1;
        for (const Tensor& x : xs) sum += x;
        return more ? sum + *more : sum;
      });
  lib.op("maybe(Tensor x, Tensor(b!)? y=None) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x, std::optional<Tensor> y) {
        if (y) y->add_(1);
        return y ? x + *y : x * 1;
      });
  lib.op("bits(Tensor(a!) a, Tensor whole) -> Tensor")
      .like(0)
      .kernel([](const Tensor& a, const Tensor& whole) {
        a.mul_(2);
        return a + whole.sum();
      });
}
const Op<Tensor(const Tensor&, const Tensor&)> mixed{"shared_memory::mixed"};
const Op<void(const Tensor&, const Tensor&)> both{"shared_memory::both"};
const Op<Tensor(const std::vector<Tensor>&, const Tensor&, std::optional<Tensor>)> listed{
    "shared_memory::listed"};
const Op<Tensor(const Tensor&, const Tensor&)> maybe{"shared_memory::maybe"};
const Op<Tensor(const Tensor&, const Tensor&)> bits{"shared_memory::bits"};

// With other sizes in the end.
template <class F>
void run_twice(Run& run, F body) {
  auto f = run.compile(body);
  for (int64_t n : {6, 6, 8, 10}) {
    Tensor x = halves({n}, 1);
    run.log(f(x), x);
  }
}

TENON_PROGRAM(OneTensorIsBothArguments, 2) {
  run_twice(run, [](const Tensor& x) {
    Tensor c = x * 1;
    both(c, c);
    return mixed(x, x) + c;
  });
}

TENON_PROGRAM(PartsThatOverlapAreArguments, 2) {
  run_twice(run, [](const Tensor& x) {
    Tensor c = x * 1;
    Tensor sum = mixed(c.slice(0, 0, 4), c.slice(0, 1, 5));
    both(c.slice(0, 0, 4), c.slice(0, 2, 6));
    c.view({2, -1}).t().add_(1);
    return sum.sum() + mixed(c.view({2, -1}).t(), c.view({2, -1}).t()).reshape({-1}) + c;
  });
}

TENON_PROGRAM(AListShowsWhatIsWritten, 2) {
  run_twice(run, [](const Tensor& x) {
    Tensor c = x * 1, other = x + 1;
    Tensor sum = listed({c, other, c.slice(0, 0, 1)}, c, c.slice(0, 1, 2));
    return sum + listed({other}, other, std::nullopt) + maybe(c, c) + c;
  });
}

TENON_PROGRAM(AnExpandedReaderShowsWhatIsWritten, 2) {
  run_twice(run, [](const Tensor& x) {
    Tensor c = x * 1;
    Tensor rows = c.slice(0, 0, 2).unsqueeze(0).expand({3, 2});
    Tensor sum = bits(c, rows);
    return sum + bits(c.as_strided({2}, {1}, 1), c.as_strided({3, 2}, {1, 1})).sum() + c;
  });
}

TENON_PROGRAM(TheMemoryIsShownAsAnotherDtype, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor c = complex(x, x + 1);
    Tensor sum = bits(view_as_real(c), view_as_real(c).select(1, 0));
    return sum + view_as_real(c);
  });
  for (int64_t n : {3, 3, 5}) run.log(f(halves({n})));
}

TENON_PROGRAM(TwoArgumentsBecomeOneTensor, 3) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) { return mixed(a, b); });
  Tensor p = halves({4}), q = halves({4}, 1);
  run.log(f(p, q), p, q);
  run.log(f(p, p), p);
  run.log(f(p.slice(0, 0, 3), p.slice(0, 1)), p);
}

}  // namespace
}  // namespace tenon::programs
