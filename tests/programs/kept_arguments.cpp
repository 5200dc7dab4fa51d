// Tensors that a body keeps: the argument of an earlier call, in the handle that is passed again.
#include "program.h"

namespace tenon::programs {
namespace {

// The body assigns to the very handle that the caller passes.
TENON_PROGRAM(TheHandleOfTheArgumentIsAssigned, 4) {
  Tensor last = row({9, 9});
  auto f = run.compile([&](const Tensor& x) {
    last = x;
    return x * 2.0;
  });
  for (int i = 0; i < 3; ++i)
    run.log(f(row({1, float(i)})), f(last), f(row({5, 6})), f(last), last);
  Tensor state = row({1, 1});
  auto next = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    state = y + 1.0;
    return y;
  });
  for (int i = 0; i < 4; ++i) run.log(next(state), state);
}

}  // namespace
}  // namespace tenon::programs
