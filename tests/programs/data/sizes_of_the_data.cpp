// Ops on sizes that only the data know, down to 1 and 0 elements: one graph serves them all.
#include "program.h"

#include <tenon/compiler.h>

#include <vector>

namespace tenon::programs {
namespace {

using Body = Tensor (*)(const Tensor& x);

/// Each body on the first n elements that a mask leaves, and its gradient where there is one.
template <size_t n>
void log_of_selected(Run& run, const Body (&bodies)[n], bool has_gradient = true) {
  for (Body body : bodies) {
    auto f = run.compile(
        [body](const Tensor& x, const Tensor& mask) { return body(x.masked_select(mask)); });
    for (int64_t size : {4, 3, 2, 1, 0}) {
      Tensor x = ((arange(6) * 3 % 5).to(Dtype::f32) * 0.5).requires_grad_(has_gradient);
      Tensor y = f(x, arange(6) < size);
      run.log(size, y.detach());
      if (!has_gradient) continue;
      y.sum().backward();
      run.log(x.grad());
    }
  }
}

TENON_PROGRAM(SlicesOfWhatAMaskLeaves, 60) {
  log_of_selected(run, {[](const Tensor& x) { return x.slice(0, 0, 2) + 1.0; },
                        [](const Tensor& x) { return x.slice(0, 1) * 2.0; },
                        [](const Tensor& x) { return x.slice(0, 0, -1) * 2.0; },
                        [](const Tensor& x) { return x.slice(0, 1, 3) * 2.0; },
                        [](const Tensor& x) { return x.slice(0, 3, 1) * 2.0; },
                        [](const Tensor& x) { return x.slice(0, -2) * 2.0; },
                        [](const Tensor& x) { return x.slice(0, -3, -1) * 2.0; },
                        [](const Tensor& x) {
                          return x.slice(0, 0, -1, 2) + x.slice(0, 1, INT64_MAX, 2).sum();
                        },
                        [](const Tensor& x) { return x.slice(0, 1) - x.slice(0, 0, -1); }});
}
TENON_PROGRAM_IN_ONE_GRAPH(SlicesOfWhatAMaskLeaves, 9);

TENON_PROGRAM(PartsOfWhatAMaskLeavesAreWritten, 30) {
  log_of_selected(
      run, {[](const Tensor& x) {
              Tensor y = x.clone();
              y.slice(0, 0, 2).mul_(4.0);
              return y;
            },
            [](const Tensor& x) {
              Tensor y = x * 1.0;
              y.slice(0, -2).add_(1.0);
              return y;
            },
            [](const Tensor& x) { return x.slice_scatter(x.slice(0, 0, 2) * 2.0, 0, 0, 2); }});
}
TENON_PROGRAM_IN_ONE_GRAPH(PartsOfWhatAMaskLeavesAreWritten, 3);

// The last n of x, which are all of it where n is 0.
TENON_PROGRAM(AsManyFromTheEndAsAMaskLeaves, 12) {
  log_of_selected(
      run,
      {[](const Tensor& x) { return (arange(6, Dtype::f32) + x.sum()).slice(0, -x.size(0)); },
       [](const Tensor& x) { return (arange(6, Dtype::f32) + x.sum()).slice(0, 0, x.size(0)); }});
}
TENON_PROGRAM_IN_ONE_GRAPH(AsManyFromTheEndAsAMaskLeaves, 2);

TENON_PROGRAM(NeighboursInWhatAMaskLeaves, 60) {
  log_of_selected(
      run, {[](const Tensor& x) { return diff(x); }, [](const Tensor& x) { return diff(x, 2); },
            [](const Tensor& x) { return cumulative_trapezoid(x); },
            [](const Tensor& x) { return vander(x); },
            [](const Tensor& x) { return roll(x, {1}, {0}) + 1.0; },
            [](const Tensor& x) { return roll(x, {-3}) + 1.0; },
            [](const Tensor& x) { return prod(x, 0); }});
}
TENON_PROGRAM_IN_ONE_GRAPH(NeighboursInWhatAMaskLeaves, 7);

TENON_PROGRAM(SumsOfWhatAMaskLeaves, 40) {
  log_of_selected(run,
                  {[](const Tensor& x) { return trapezoid(x); },
                   [](const Tensor& x) { return logsumexp(x, {0}); },
                   [](const Tensor& x) {
                     return logsumexp(outer(x, arange(2)), {0, 1}, true);
                   },
                   [](const Tensor& x) { return cov(x).isnan(); },
                   [](const Tensor& x) {
                     return cov(stack({x, x * 2.0}), 2).isfinite();
                   }},
                  false);
}
TENON_PROGRAM_IN_ONE_GRAPH(SumsOfWhatAMaskLeaves, 5);

TENON_PROGRAM(SlicesOfAMarkedSize, 2) {
  auto slices = run.compile([](const Tensor& x) {
    return std::vector{x.slice(0, 0, 2), x.slice(0, 1), x.slice(0, -2), x.slice(0, -3, -1)};
  });
  auto size = run.compile([](const Tensor& x) { return x.slice(0, 0, 2).size(0); });
  for (int64_t n : {5, 3, 2, 1, 0}) {
    Tensor x = arange(n, Dtype::f32);
    mark_unbacked(x, 0);
    run.log(slices(x), int64_t{size(x)});
  }
}

// A mixture of experts: each takes the rows that chose it, if there are any.
TENON_PROGRAM(SizesThatDecideOneAfterTheOther, 200) {
  auto patch = config::patch({{"dynamo.capture_dynamic_output_shape_ops", true}});
  auto f = run.compile([](const Tensor& x) {
    Tensor out = zeros({});
    for (int expert = 0; expert < 3; ++expert) {
      Tensor rows = (x > static_cast<double>(expert)).nonzero();
      if (rows.numel() > expert) out = out + rows.sum() * x.size(0);
      if (rows.size(0) == x.size(0) - expert) out = out + (x.size(0) > 6 ? 1.0 : 100.0);
    }
    return out;
  });
  for (int64_t n : {5, 2, 7, 3, 8, 4, 5, 9, 2})
    for (const Tensor& x : {ones({n}), arange(n) - 1.0, arange(n) + 0.5, zeros({n})}) run.log(f(x));
}

}  // namespace
}  // namespace tenon::programs
