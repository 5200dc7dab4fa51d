// Arguments that leave memory out between their elements, and what a backward keeps of them.
#include "program.h"

#include <memory>

namespace tenon::programs {
namespace {

// 1 to 12 as every second of a row, as the last half of one, as a turned matrix, or row by row.
Tensor spread(int kind) {
  Tensor y = full({3, 4}, 9.0);
  Tensor shown = kind % 4 == 0   ? y.slice(1, 0, std::nullopt, 2)
                 : kind % 4 == 1 ? y.slice(1, 2)
                 : kind % 4 == 2 ? full({2, 3}, 9.0).t()
                                 : full({3, 2}, 9.0);
  return shown.copy_((arange(6).reshape({3, 2}) - 2) * 0.5);
}

// The backward reads what the argument was, by the strides that it had.
TENON_PROGRAM(AnArgumentIsSavedAndWritten, 12) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor v = x * (y * y);
    y.zero_();
    return v;
  });
  auto copied = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor square = y * y, v = x * square;
    y.copy_(v.detach());
    return v * square;
  });
  for (int i = 0; i < 8; ++i) {
    Tensor x = tensor(0.5f).requires_grad_(), y = spread(i);
    f(x, y).sum().backward();
    run.log(x.grad(), y);
    Tensor z = spread(i + 1);
    copied(x, z).sum().backward();
    run.log(x.grad(), z);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnArgumentIsSavedAndWritten, 12);

TENON_PROGRAM(RowsOfChangingLengthAreSavedAndWritten, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor v = x * (y * y);
    y.add_(1);
    return v;
  });
  for (int i = 2; i < 8; ++i) {
    Tensor x = tensor(0.5f).requires_grad_();
    Tensor y = (arange(6 * i).reshape({3, 2 * i}) * 0.25).slice(1, 0, std::nullopt, 2);
    f(x, y).sum().backward();
    run.log(x.grad(), y);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(RowsOfChangingLengthAreSavedAndWritten, 4);

TENON_PROGRAM(TheSecondDerivativeReadsWhatWasWritten, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor v = x * x * x * (y * y);
    y.zero_();
    return v;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = tensor(0.5f).requires_grad_(), y = spread(i);
    Tensor first = autograd::grad({f(x, y).sum()}, {x}, {.create_graph = true})[0];
    first.backward();
    run.log(first.detach(), x.grad(), y);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(TheSecondDerivativeReadsWhatWasWritten, 4);

// A copy that a hook keeps lies row by row.
TENON_PROGRAM(HooksKeepSavedArgumentsElsewhere, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) { return x * (y * y); });
  auto pack = [](const Tensor& t) -> std::shared_ptr<void> {
    return std::make_shared<Tensor>(t.detach().clone(MemoryFormat::contiguous));
  };
  auto unpack = [](const std::shared_ptr<void>& kept) {
    return *std::static_pointer_cast<Tensor>(kept);
  };
  for (int i = 0; i < 8; ++i) {
    Tensor x = tensor(0.5f).requires_grad_(), y = spread(i), out;
    {
      autograd::SavedTensorHooks hooks(pack, unpack);
      out = f(x, y);
    }
    out.sum().backward();
    run.log(x.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksKeepSavedArgumentsElsewhere, 8);

TENON_PROGRAM(ANormalisedMatrixKeepsItsOrder, 12) {
  Tensor w = full({3}, 2.0).requires_grad_();
  auto plain = run.compile([](const Tensor& x) { return rms_norm(x, {3}); });
  auto weighted = run.compile([&](const Tensor& x) { return rms_norm(x, {3}, w); });
  for (int i = 0; i < 6; ++i) {
    Tensor x = ones({3, 4}).t(), y = i % 2 ? x : x.contiguous();
    run.log(to_text(plain(y)), to_text(weighted(y)), plain(y));
    weighted(y).sum().backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ANormalisedMatrixKeepsItsOrder, 12);

TENON_PROGRAM(BytesOfTensorsWithoutElements, 12) {
  auto f = run.compile([](const Tensor& x) {
    x.view(Dtype::u8).fill_(0);
    return x + 1;
  });
  for (int n : {3, 2, 0, 1, 4, 0}) run.log(f(ones({2, n})), f(ones({n, 2})), f(ones({1, n})));
}
TENON_PROGRAM_IN_ONE_GRAPH(BytesOfTensorsWithoutElements, 12);

}  // namespace
}  // namespace tenon::programs
