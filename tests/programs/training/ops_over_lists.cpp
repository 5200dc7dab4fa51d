// Ops of the program whose tensors may be many, or not there: gradients of the elements of lists, and
// writes to what is not given.
#include "program.h"

#include <tenon/library.h>

namespace tenon::programs {
namespace {

using Tensors = std::vector<Tensor>;

// xs[0] * 1 + xs[1] * 2 + ... where there are, times k, plus the bias.
Tensor weighted(TensorList xs, const Tensor& k, const std::optional<Tensor>& bias) {
  Tensor sum = bias ? *bias * 1 : zeros_like(k);
  for (size_t i = 0; i < xs.size(); ++i)
    if (xs[i].defined()) sum = sum + xs[i] * k * static_cast<double>(i + 1);
  return sum;
}

TENON_LIBRARY(ops_over_lists, lib) {
  lib.op("weighted(Tensor?[] xs, float scale, Tensor k, Tensor? bias=None) -> Tensor")
      .like(2)
      .kernel([](TensorList xs, double scale, const Tensor& k, const std::optional<Tensor>& bias) {
        NoGradGuard off;
        return weighted(xs, k, bias) * scale;
      })
      .vjp([](const VjpCtx& c, const Tensor& grad) {
        auto xs = c.attr<TensorList>("xs");
        Tensor k = c.input(2), g = grad * c.attr<double>("scale"), of_k = zeros_like(k);
        Tensors grads(xs.size());
        for (size_t i = 0; i < xs.size(); ++i) {
          if (!xs[i].defined()) continue;
          grads[i] = g * k * static_cast<double>(i + 1);
          of_k = of_k + g * xs[i] * static_cast<double>(i + 1);
        }
        grads.push_back(of_k);
        grads.push_back(g);
        return grads;
      });
  lib.op("forgetful(Tensor[] xs) -> Tensor")
      .meta([](TensorList xs) { return empty_like(xs[0]); })
      .kernel([](TensorList xs) {
        NoGradGuard off;
        return xs[0] + xs[1];
      })
      .vjp([](const VjpCtx&, const Tensor&) { return Tensors(); });
  lib.op("counted(Tensor x, Tensor(a!)? calls=None, Tensor(b!)? sum=None) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x, std::optional<Tensor> calls, std::optional<Tensor> sum) {
        NoGradGuard off;
        if (calls) calls->add_(1);
        if (sum) sum->add_(x);
        return x * 2;
      });
}

using Optional = std::optional<Tensor>;
const Op<Tensor(const Tensors&, double, const Tensor&, const Optional&)> weighted_op{
    "ops_over_lists::weighted"};
const Op<Tensor(const Tensors&)> forgetful{"ops_over_lists::forgetful"};
const Op<Tensor(const Tensor&, const Optional&, const Optional&)> counted{
    "ops_over_lists::counted"};

TENON_PROGRAM(GradientsOfTheElementsOfAList, 12) {
  Tensor a = row({1, 2}).requires_grad_(), b = row({0.5, -1}).requires_grad_(),
         k = row({2, -0.5}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int kind) {
    Tensors xs = kind == 0   ? Tensors{a * x, b}
                 : kind == 1 ? Tensors{a, Tensor(), b * x, a}
                 : kind == 2 ? Tensors{}
                             : Tensors{x, b};
    return weighted_op(xs, 0.5, k, kind % 2 ? Optional(b * x) : Optional()).sum();
  });
  for (int i = 0; i < 8; ++i) {
    for (Tensor* w : {&a, &b, &k}) w->set_grad({});
    f(row({1, 0.5f * float(i)}), i % 4).backward();
    run.log(a.grad(), b.grad(), k.grad());
  }
}

TENON_PROGRAM(SecondGradientsOfTheElementsOfAList, 4) {
  Tensor a = row({1, 2}).requires_grad_(), k = row({2, -0.5}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    return weighted_op({a * a, x, a}, 2, k, a).square().sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensors first = autograd::grad({f(row({1, float(i)}))}, {a, k}, {.create_graph = true});
    for (Tensor* w : {&a, &k}) w->set_grad({});
    (first[0].square().sum() + first[1].sum()).backward();
    run.log(first[0].detach(), first[1].detach(), a.grad(), k.grad());
  }
}

TENON_PROGRAM(AWholeStepWithAListOfWeights, 3) {
  Tensors ws = {row({1, 2}).requires_grad_(), row({0.5, -1}).requires_grad_()};
  auto step = run.compile([&](const Tensor& x) {
    for (Tensor& w : ws) w.set_grad({});
    Tensor loss = weighted_op({ws[0], x, ws[1]}, 1, x, {}).square().mean();
    loss.backward();
    NoGradGuard off;
    for (Tensor& w : ws) w.sub_(w.grad() * 0.125);
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(step(row({1, 0.25f * float(i)})), ws);
}

TENON_PROGRAM(ADerivativeWithTooFewGradients, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return forgetful({w * x, w}).sum(); });
  for (int i = 0; i < 2; ++i) run.log_error([&] { f(row({1, float(i)})).backward(); });
  run.log(w.grad().defined());
}

TENON_PROGRAM(WrittenArgumentsThatAreNotGiven, 8) {
  auto f = run.compile([](const Tensor& x, const Optional& calls, const Optional& sum) {
    Tensor y = counted(x, calls, sum), z = counted(y, {}, sum);
    return z + counted(x, {}, {});
  });
  Tensor calls = zeros({1}), sum = zeros({2});
  for (int i = 0; i < 8; ++i) {
    Tensor y = f(row({1, float(i)}), i & 1 ? Optional(calls) : Optional(),
                 i & 2 ? Optional(sum) : Optional());
    run.log(y, calls, sum);
  }
}

TENON_PROGRAM(AnOpIsCapturedByValue, 2) {
  Op<Tensor(const Tensor&, const Optional&, const Optional&)> op = counted;
  auto f = run.compile([op](const Tensor& x) { return op(x, {}, {}) + 1; });
  auto again = run.compile([copy = op](const Tensor& x) { return copy(copy(x, {}, {}), {}, {}); });
  op = counted;
  for (int i = 0; i < 2; ++i)
    run.log(f(row({1, float(i)})), again(row({float(i)})), op(ones({2}), {}, {}));
}

}  // namespace
}  // namespace tenon::programs
