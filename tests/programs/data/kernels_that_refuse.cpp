// Kernels of the program that throw: the exception comes out as it is, of its own type.
#include "program.h"

#include <tenon/library.h>

namespace tenon::programs {
namespace {

/// No relative of std::exception, and what it carries is more than a text.
struct TooLarge {
  float most = 0;
};

float largest(const Tensor& x) { return x.max().item<float>().value(); }

TENON_LIBRARY(refusing, lib) {
  lib.op("positive(Tensor x) -> Tensor").like(0).kernel([](const Tensor& x) -> Tensor {
    if (largest(-x) > 0) throw std::invalid_argument("a negative number");
    return x * 2;
  });
  lib.op("small(Tensor x) -> Tensor").like(0).kernel([](const Tensor& x) -> Tensor {
    if (float most = largest(x); most > 10) throw TooLarge{most};
    return x + 1;
  });
}

const Op<Tensor(const Tensor&)> positive{"refusing::positive"}, small{"refusing::small"};

/// What `f` throws, by type.
template <class F>
std::string caught(F&& f) {
  try {
    f();
    return "nothing";
  } catch (const std::invalid_argument& error) {
    return std::string("an invalid argument: ") + error.what();
  } catch (const TooLarge& error) {
    return "too large: " + std::to_string(error.most);
  }
}

TENON_PROGRAM(TheCallerCatchesThemByType, 8) {
  auto f = run.compile([](const Tensor& x) { return small(positive(x.sin() + x) * 3) - 1; });
  for (float v : {1.0F, -1.0F, 9.0F, 0.5F, 8.0F, -2.0F, 1.5F})
    run.log(caught([&] { run.log(f(row({v, 0}))); }));
}

TENON_PROGRAM(ThoseInNestedCallsToo, 8) {
  auto inner = run.compile([](const Tensor& x) { return positive(x * 1.5); });
  auto outer = run.compile([&](const Tensor& x) { return small(inner(x) + x); });
  for (float v : {1.0F, 5.0F, -1.0F, 2.0F}) run.log(caught([&] { run.log(outer(row({v, 0}))); }));
}

}  // namespace
}  // namespace tenon::programs
