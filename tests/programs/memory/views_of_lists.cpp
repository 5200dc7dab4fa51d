// Ops that take a list of tensors and give views of its elements: what is written to the view is
// written to the element, and the other way round.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor square(float last) { return row({1, 2, 3, last}).view({2, 2}); }

TENON_PROGRAM(TheDiagonalByEinsumIsWritten, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 1.0;
    einsum("ii->i", {y}).zero_();
    return y;
  });
  auto of_argument = run.compile([](const Tensor& x) {
    Tensor diagonal = einsum("ii->i", {x});
    diagonal.add_(1.0);
    return diagonal;
  });
  Tensor w = square(4).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    Tensor x = square(i);
    run.log(f(x), of_argument(x), x);
    w.set_grad({});
    (f(w) * x).sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(WhatEinsumShowsIsWritten, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 1.0, turned = einsum("ij->ji", {y});
    y.mul_(3.0);
    return turned;
  });
  Tensor w = square(4).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    run.log(f(square(i)));
    (f(w) * square(i)).sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(OneOfSeveralElementsIsWritten, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 1.0, z = x * 2.0;
    std::vector<Tensor> parts = broadcast_tensors({y, z});
    parts[1].add_(1.0);
    y.mul_(4.0);
    return std::vector<Tensor>{y, z, parts[0], parts[1]};
  });
  for (int i = 0; i < 3; ++i) run.log(f(square(i)));
}

TENON_PROGRAM(OneTensorIsSeveralElements, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 1.0;
    std::vector<Tensor> same = broadcast_tensors({y, y});
    same[1].add_(1.0);
    std::vector<Tensor> turned = broadcast_tensors({y, y.t()});
    turned[1].select(0, 0).mul_(3.0);
    return std::vector<Tensor>{y, same[0], same[1], turned[0], turned[1]};
  });
  for (int i = 0; i < 3; ++i) run.log(f(square(i)));
}

TENON_PROGRAM(AGridOfOneIsWritten, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 1.0;
    meshgrid({y}, "ij")[0].add_(1.0);
    return y;
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({1, float(i)})));
}

}  // namespace
}  // namespace tenon::programs
