// Sizes of 1 that may be symbols: what is made for them serves later sizes, too, forward and
// backward.
#include "program.h"

#include <tenon/compiled_autograd.h>

namespace tenon::programs {
namespace {

Tensor rows(int64_t n, double first = 0) {
  return (arange(n * 3, Dtype::f32).reshape({n, 3}) + first) * 0.125;
}

/// Two operands of the same number of rows, each a symbol of its own.
void log_products(Run& run, const std::function<void(Tensor&)>& mark, Options options = {}) {
  auto f =
      run.compile([](const Tensor& x,
                     const Tensor& y) { return std::pair(x * y + x.expand_as(y), (x - y).sum(0)); },
                  options);
  for (int64_t n : {1, 2, 3, 1, 7}) {
    Tensor x = rows(n), y = rows(n, 2);
    mark(x), mark(y);
    auto [products, sums] = f(x, y);
    run.log(n, products, sums);
  }
}

void log_gradients(Run& run, const std::function<void(Tensor&)>& mark, Options options = {}) {
  auto f =
      run.compile([](const Tensor& x, const Tensor& y) { return (x * x * y).sum(1); }, options);
  for (int64_t n : {1, 2, 3, 1, 7}) {
    Tensor x = rows(n).requires_grad_(), y = rows(n, 2).requires_grad_();
    mark(x), mark(y);
    f(x, y).square().mean().backward();
    run.log(n, x.grad(), y.grad());
  }
}

void mark_rows(Tensor& x) { mark_dynamic(x, 0); }
void mark_nothing(Tensor&) {}

TENON_PROGRAM(MarkedRowsBeginAtOne, 4) {
  auto patch = config::patch({{"shapes.specialize_one", false}});
  log_products(run, mark_rows);
  log_gradients(run, mark_rows);
}

TENON_PROGRAM(EachRowCountIsItsOwnSymbol, 4) {
  auto patch = config::patch({{"shapes.specialize_one", false}, {"shapes.use_duck_shape", false}});
  log_products(run, mark_nothing, {.dynamic = true});
  log_gradients(run, mark_nothing, {.dynamic = true});
}

TENON_PROGRAM(SizesFollowTheRulesOfThoseWithoutAnExample, 4) {
  auto patch = config::patch({{"shapes.backed_size_oblivious", true}});
  log_products(run, mark_rows);
  log_gradients(run, mark_rows);
}

TENON_PROGRAM(PassesBeginWithOneRow, 0) {
  if (!run.is_plain()) compiled_autograd::enable_everywhere(run.backend());
  for (int64_t n : {1, 2, 3, 1, 7}) {
    Tensor w = rows(n).requires_grad_();
    w.exp().mean().backward();
    run.log(n, w.grad());
  }
}

TENON_PROGRAM(ALayerIsTrainedOnOneRowFirst, 8) {
  if (!run.is_plain()) compiled_autograd::enable_everywhere(run.backend());
  Tensor weight = rows(2, 1).requires_grad_(), bias = ones({2}).requires_grad_();
  auto f =
      run.compile([&](const Tensor& x) { return (matmul(x, weight.t()) + bias).relu().mean(); });
  for (int64_t n : {1, 2, 3, 1, 7}) {
    Tensor x = rows(n, -4).requires_grad_();
    f(x).backward();
    run.log(n, x.grad(), weight.grad(), bias.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
