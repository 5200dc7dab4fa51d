// Results of operations that need no gradient, although an argument does.
#include "program.h"

namespace tenon::programs {
namespace {

using List = std::vector<Tensor>;

std::vector<int> needs_of(const List& tensors) {
  std::vector<int> needs;
  for (const Tensor& t : tensors) needs.push_back(t.requires_grad());
  return needs;
}

// Called with an argument that needs no gradient, then with one that does.
template <class F>
void run_with_needs(Run& run, F body) {
  auto f = run.compile([body](const Tensor& x, const Tensor& y) {
    List results = body(x + 1.0, y);
    return std::pair(results, needs_of(results));
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({3}, i);
    if (i > 1) x.requires_grad_();
    auto [results, needs] = f(x, halves({3}, i + 1));
    run.log(results, needs, needs_of(results));
    if (i < 2) continue;
    Tensor sum = zeros({});
    for (const Tensor& t : results) sum = sum + t.sum();
    sum.backward();
    run.log(x.grad());
  }
}

// The other tensor tells sizes or a type.
TENON_PROGRAM(AnArgumentIsTakenForItsSizes, 4) {
  run_with_needs(run, [](const Tensor& s, const Tensor& y) {
    return List{s, y.expand_as(s), y.view_as(s), y.reshape_as(s), y.type_as(s), s.expand_as(y)};
  });
}

TENON_PROGRAM(AListIsWorkedOnElementByElement, 4) {
  run_with_needs(run, [](const Tensor& s, const Tensor& y) {
    List both = broadcast_tensors(List{y, s}), grid = meshgrid(List{s, y});
    return List{both[0], both[1], grid[0], grid[1]};
  });
}

TENON_PROGRAM(ListsAreAddedElementByElement, 4) {
  run_with_needs(run, [](const Tensor& s, const Tensor& y) {
    List sums = _foreach_add(List{s, y, y}, List{y, s, y});
    List halved = _foreach_mul(List{y, s}, Number(0.5));
    return List{sums[0], sums[1], sums[2], halved[0], halved[1]};
  });
}

TENON_PROGRAM(MemoryIsWrittenBeforeAViewIsTaken, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor copy = y.clone();
    y.data_ptr<float>()[0] = 0;
    Tensor s = x + 1.0, as_large = y.expand_as(s);
    return List{s, copy, as_large, s + as_large};
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({3}, i);
    if (i > 1) x.requires_grad_();
    run.log(f(x, halves({3}, i + 1)));
  }
}

// An op that is made of others needs what its parts need.
TENON_PROGRAM(PartsOfAnOpTellWhatItNeeds, 4) {
  auto f = run.compile([](const Tensor& x) {
    auto [order, lower, upper] = linalg_lu(x);
    return std::pair(List{order, lower, upper}, order.requires_grad() ? upper * 100.0 : upper);
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = (halves({3, 3}, i) + eye(3) * 4.0).requires_grad_(i > 0);
    auto [parts, result] = f(x);
    run.log(needs_of(parts), result.detach());
    if (i > 0) result.sum().backward();
    run.log(x.grad());
  }
}

TENON_PROGRAM(SizesTellWhetherThereIsAHistory, 12) {
  auto f = run.compile([](const Tensor& x) { return trapezoid(x, 1.0, 0); });
  for (int64_t size : {2, 0, 3, 0, 4}) {
    Tensor area = f(halves({size, 3}, 1).requires_grad_());
    run.log(area.detach(), area.requires_grad());
  }
}

TENON_PROGRAM(PartsOfAnOpInABodyOfControlFlow, 4) {
  auto f = run.compile([](const Tensor& x) {
    List parts = cond(
        x.sum() > 0.0,
        [&] {
          auto [order, lower, upper] = linalg_lu(x);
          return List{order * 1.0, upper};
        },
        [&] {
          return List{x.detach() * 2.0, x * 2.0};
        });
    return std::pair(parts, needs_of(parts));
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = ((halves({3, 3}, i) + eye(3) * 4.0) * (i % 2 ? 1.0 : -1.0)).requires_grad_();
    auto [parts, needs] = f(x);
    run.log(needs, needs_of(parts), parts[0].detach(), parts[1].detach());
  }
}

}  // namespace
}  // namespace tenon::programs
