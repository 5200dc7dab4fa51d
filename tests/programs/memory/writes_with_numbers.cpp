// Writes in place with numbers and tensors of other dtypes: what fits is stored, what does not is an
// error, in every dtype.
#include "program.h"

namespace tenon::programs {
namespace {

using Write = void (*)(const Tensor& x);

const Write writes[] = {
    [](const Tensor& x) { x.add_(1.5); },
    [](const Tensor& x) { x.mul_(2); },
    [](const Tensor& x) { x.div_(2); },
    [](const Tensor& x) { x.pow_(2); },
    [](const Tensor& x) {
      x.pow_(tensor({2, 0}));
    },
    [](const Tensor& x) { x.sub_(true); },
    [](const Tensor& x) {
      x.copy_(tensor({1.75, -2.75}));
    },
    [](const Tensor& x) { x.fill_(2.5); },
    [](const Tensor& x) { x.fill_(0.5); },
    [](const Tensor& x) { x.masked_fill_(x < 4, 0.25); },
    [](const Tensor& x) { x.clamp_(0, 1); },
    [](const Tensor& x) { x.bitwise_and_(3); },
    [](const Tensor& x) { x.select(0, 0).fill_(5); },
    [](const Tensor& x) { x.select(0, 0).copy_(tensor(2.5)); },
    [](const Tensor& x) { x.sqrt_(); },
    [](const Tensor& x) { x.masked_fill_(x > 1, 7); },
    [](const Tensor& x) { x.cumsum_(0); },
    [](const Tensor& x) { x.floor_divide_(2); },
    [](const Tensor& x) { x.remainder_(2.5); },
    [](const Tensor& x) { x.fmod_(2); },
    [](const Tensor& x) { x.lerp_(x + 1, 0.5); },
    [](const Tensor& x) { x.neg_(); },
    [](const Tensor& x) { x.logical_not_(); },
    [](const Tensor& x) { x.eq_(1); },
    [](const Tensor& x) { x.addcmul_(x, x, 2); },
    [](const Tensor& x) {
      x.index_add_(0, tensor({0, 0}), x.clone());
    },
};

TENON_PROGRAM(NumbersOfAllKindsAreStored, 999) {
  for (Dtype dtype : {Dtype::f32, Dtype::i64, Dtype::u8, Dtype::bool_, Dtype::bf16})
    for (Write write : writes) {
      auto f = run.compile([write](const Tensor& x) {
        write(x);
        return x + 0;
      });
      Tensor x = tensor({3, 1}).to(dtype);
      run.log_error([&] { run.log(to_text(f(x).dtype())); });
      run.log(x);
    }
}

TENON_PROGRAM(PowersThatChange, 4) {
  auto f = run.compile([](const Tensor& x, double exponent) {
    Tensor y = x * 1.0;
    y.pow_(exponent);
    return y.sum();
  });
  for (double exponent : {2.0, 3.0, 1.0, 2.0, 0.0}) {
    Tensor x = row({1, 2, 0.5}).requires_grad_(), y = f(x, exponent);
    y.backward();
    run.log(y, x.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
