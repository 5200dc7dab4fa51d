// What a function with a constant result gives is written, kept and returned; lines that wait when a
// body throws.
#include "program.h"

#include <stdexcept>
#include <string>

namespace tenon::programs {
namespace {

TENON_PROGRAM(AConstantIsWritten, 1) {
  auto zero = assume_constant_result([] { return zeros({2}); });
  auto f = run.compile([&](const Tensor& x) {
    Tensor c = zero();
    c.add_(x);
    return c * 1.0 + zero();
  });
  for (int i = 0; i < 4; ++i) run.log(f(full({2}, 1.0 + i)));
}

TENON_PROGRAM(AReturnedConstantIsWritten, 1) {
  auto zero = assume_constant_result([] { return zeros({2}); });
  auto f = run.compile([&](const Tensor& x) { return std::pair(zero(), zero() + x); });
  Tensor kept;
  for (int i = 0; i < 4; ++i) {
    auto [c, sum] = f(ones({2}));
    run.log(c, sum);
    c.add_(5);
    if (kept.defined()) run.log(kept);
    kept = c;
  }
}

TENON_PROGRAM(ConstantsInContainersAreWritten, 1) {
  auto state = assume_constant_result([] {
    return std::pair(std::vector<Tensor>{zeros({2}), ones({2, 3}).t()}, 3);
  });
  auto f = run.compile([&](const Tensor& x) {
    auto [tensors, n] = state();
    tensors[0].add_(x);
    tensors[1].mul_(static_cast<double>(n));
    return tensors[0] + tensors[1].sum() + state().first[0];
  });
  for (int i = 0; i < 4; ++i) run.log(f(ones({2})));
}

TENON_PROGRAM(AConstantThatTheProgramHoldsIsWritten, 1) {
  Tensor table = zeros({2});
  auto held = assume_constant_result([&] { return table; });
  auto f = run.compile([&](const Tensor& x) {
    Tensor c = held();
    c.add_(x);
    return c * 1.0;
  });
  for (int i = 0; i < 4; ++i) run.log(f(ones({2})), table);
}

TENON_PROGRAM(LinesBeforeAThrowAreTold, 2) {
  auto waits = config::patch({{"dynamo.reorderable_logging_functions", {"programs.line"}}});
  register_log_fn("programs.line", [&](std::string_view text, std::span<const Tensor> tensors) {
    run.log(text, tensors[0]);
  });
  Tensor w = zeros({2});
  bool throws = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    call_log_fn("programs.line", "doubled", {y});
    w.add_(1);
    call_log_fn("programs.line", "written", {w});
    if (throws) throw std::runtime_error("no");
    return y + 1.0;
  });
  for (int i = 0; i < 4; ++i) {
    throws = i % 2 == 1;
    try {
      run.log(f(full({2}, 1.0 + i)));
    } catch (const std::runtime_error& error) {
      run.log(std::string(error.what()));
    }
  }
}

}  // namespace
}  // namespace tenon::programs
