// Ops at the edge of what they take: negative classes, batches of nothing, tensors without
// dimensions, infinite elements, windows without elements.
#include "program.h"

#include <limits>

namespace tenon::programs {
namespace {

// ---- classes count from 0, and never from the end

TENON_PROGRAM(ANegativeClassIsRefused, 8) {
  Tensor scores = row({1, 2, 5, 0, 1, 0}).reshape({2, 3}).requires_grad_();
  auto loss = run.compile([](const Tensor& x, const Tensor& t) { return cross_entropy(x, t); });
  auto margin =
      run.compile([](const Tensor& x, const Tensor& t) { return multi_margin_loss(x, t); });
  for (int label : {0, -1, 2, -3, 3}) {
    Tensor labels = tensor({label, 1});
    run.log_error([&] { loss(scores, labels).backward(); });
    run.log_error([&] { margin(scores, labels).backward(); });
    run.log(scores.grad());
  }
}

TENON_PROGRAM(ANegativeClassIsRefusedByTheDerivative, 8) {
  Tensor scores = row({1, 2, 5, 0, 1, 0}).reshape({2, 3});
  auto f = run.compile([](const Tensor& g, const Tensor& x, const Tensor& t) {
    return nll_loss_backward(g, x, t, {}, 2, -100, ones({}));
  });
  for (int label : {0, -1, -100, 3})
    run.log_error([&] { run.log(f(ones({}), scores, tensor({label, 1}))); });
}

TENON_PROGRAM(NoClassIsNegativeInOneHot, 8) {
  auto f = run.compile([](const Tensor& t) { return one_hot(t, 3); });
  auto counted = run.compile([](const Tensor& t) { return one_hot(t); });
  for (int label : {0, -1, 2, 3, -5}) {
    run.log_error([&] { run.log(f(tensor({label, 1}))); });
    run.log_error([&] { run.log(counted(tensor({label, 1}))); });
  }
}

// ---- a batch of nothing

TENON_PROGRAM(RunningStatisticsOutliveAnEmptyBatch, 8) {
  Tensor mean = row({1, 2}), variance = row({3, 4}), weight = ones({2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    return batch_norm(x, weight, {}, mean, variance, true, 0.5, 1e-5, false);
  });
  auto parts = run.compile([](const Tensor& x, const Tensor& m, const Tensor& v) {
    return _native_batch_norm_legit_functional(x, {}, {}, m, v, true, 0.5, 0.25);
  });
  for (int n : {3, 0, 2, 0}) {
    Tensor x = halves({int64_t{n}, 2});
    f(x).sum().backward();
    run.log(n, mean, variance, weight.grad() * 0.0);  // but for its last digits
    auto [y, m, r, running_m, running_v] = parts(x, mean, variance);
    run.log(y, m, r, running_m, running_v);
  }
}

// ---- tensors without dimensions

TENON_PROGRAM(OneElementIsChosenOnce, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& i) { return x.index_select(0, i); });
  for (int n : {1, 2, 6, 0})
    run.log_error([&] { run.log(f(tensor(7.0F), zeros({n}, Dtype::i64))); });
  auto top = run.compile([](const Tensor& x, int64_t k) { return topk(x, k); });
  for (int64_t k : {0, 1, 2})
    run.log_error([&] {
      auto [values, places] = top(tensor(7.0F), k);
      run.log(values, places);
    });
}

TENON_PROGRAM(AMaskWithoutDimensionsTakesAllOrNothing, 16) {
  Tensor table = halves({2, 3}).requires_grad_();
  auto read = run.compile([](const Tensor& x, const Tensor& m) { return x[m]; });
  auto between = run.compile([](const Tensor& x, const Tensor& i, const Tensor& m) {
    return x.index({i, m});
  });
  auto write = run.compile(
      [](const Tensor& x, const Tensor& m, const Tensor& v) { return x.index_put({m}, v); });
  for (bool holds : {true, false}) {
    Tensor mask = tensor(holds);
    Tensor chosen = read(table, mask);
    run.log(chosen.size(0).guard_int(), chosen, between(table, tensor({1}), mask));
    chosen.sum().backward();
    run.log(table.grad(), write(table, mask, tensor(9.0F)), write(table, mask, row({7, 8, 9})));
    Tensor value = row({1, 2, 3}).requires_grad_();
    (write(table, mask, value) * 2.0).sum().backward();
    run.log(table.grad(), value.grad());
  }
}

// ---- quantiles

TENON_PROGRAM(AQuantileOfOneInfiniteElementIsThat, 8) {
  auto f = run.compile([](const Tensor& x) { return quantile(x, 0.3, 0); });
  auto g = run.compile([](const Tensor& x) { return nanquantile(x, 0.5, 0); });
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Tensor& x : {row({infinity}), row({-infinity}), row({-infinity, 1, infinity})})
    run.log(f(x), g(x));
}

// The check does not depend on whether the call is recorded, nor on who does it.
TENON_PROGRAM(AQuantileOfHalfPrecisionIsRefused, 8) {
  auto f = run.compile([](const Tensor& x) { return quantile(x, 0.25, 0); });
  for (Dtype dtype : {Dtype::f16, Dtype::f32}) {
    Tensor x = row({1, 2, 3, 4, 5}).to(dtype);
    run.log_error([&] { run.log(f(x)); });
    Tensor w = x.detach().requires_grad_();
    run.log_error([&] {
      f(w).backward();
      run.log(w.grad());
    });
  }
}

// ---- pooling

// The last window has no element: its maximum is that of none, and nothing gets its gradient.
TENON_PROGRAM(AWindowThatLiesInThePadding, 16) {
  auto f = run.compile([](const Tensor& x) { return max_pool1d(x, {2}, {3}, {1}, {2}, true); });
  auto places = run.compile([](const Tensor& x) {
    return max_pool2d_with_indices(x, {2, 2}, {3, 3}, {1, 1}, {2, 2}, true);
  });
  auto back = run.compile([](const Tensor& g, const Tensor& x, const Tensor& i) {
    return max_pool2d_with_indices_backward(g, x, {2, 2}, {3, 3}, {1, 1}, {2, 2}, true, i);
  });
  for (Dtype dtype : {Dtype::f32, Dtype::f64})
    for (int64_t n : {1, 4}) {
      Tensor x = halves({1, n}).to(dtype).requires_grad_();
      f(x).sum().backward();
      Tensor plane = halves({1, 1, n, n}, 1).to(dtype);
      auto [largest, at] = places(plane);
      run.log(f(x.detach()), x.grad(), largest, at);
      Tensor g = ones_like(largest).requires_grad_();
      Tensor spread = back(g, plane, at);
      (spread * (plane + 4.0)).sum().backward();
      run.log(spread.detach(), g.grad());
    }
}

// 0.3 is true, and so are -1 and 1 together.
TENON_PROGRAM(TruthsAreCounted, 6) {
  auto f = run.compile([](const Tensor& x) {
    return std::tuple(x.sum({1}, false, Dtype::bool_), x.prod(1, false, Dtype::bool_),
                      x.sum(Dtype::bool_), sum(x, {0}, true, Dtype::i32));
  });
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16})
    for (double by : {1.0, 0.3}) {
      auto [sums, products, all, whole] =
          f((tensor({{0.3f, 0.4f}, {-1.f, 1.f}, {0.f, 0.f}}) * by).to(dtype));
      run.log(sums, products, all, whole);
    }
}

// ---- what a result looks like, and what values fit

TENON_PROGRAM(ARolledTensorIsContiguous, 4) {
  auto f = run.compile([](const Tensor& x) { return x.roll({1}, {0}); });
  for (bool needs_gradient : {false, true, false}) {
    Tensor x = halves({2, 2, 3, 4}).contiguous(MemoryFormat::channels_last);
    Tensor y = f(x.requires_grad_(needs_gradient));
    run.log(y, y.is_contiguous(), y.is_contiguous(MemoryFormat::channels_last));
  }
}

TENON_PROGRAM(ValuesOfAnotherTypeAreNotPut, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& values) {
    return x.clone().index_put_({arange(2)}, values);
  });
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::f32})
    run.log_error([&] { run.log(f(halves({2, 3}), full({2, 3}, 3.0, dtype))); });
}

// ---- indices that belong to no bag, rows that are integers

TENON_PROGRAM(ABagLeavesNoIndexOut, 24) {
  Tensor table = halves({5, 3}).requires_grad_(), indices = tensor({2, 3, 1, 2, 3, 2});
  for (int64_t mode : {0, 1, 2}) {
    auto f = run.compile([mode](const Tensor& w, const Tensor& i, const Tensor& offsets) {
      return std::get<0>(embedding_bag(w, i, offsets, false, mode, false, {}, true));
    });
    for (int last : {6, 3, 7, 6})
      run.log_error([&] {
        table.set_grad({});
        Tensor y = f(table, indices, tensor({0, 2, 2, last}));
        y.sum().backward();
        run.log(y, table.grad());
      });
  }
}

TENON_PROGRAM(NoRowOfIntegersIsMadeShorter, 8) {
  auto f = run.compile([](const Tensor& t, const Tensor& i) {
    Tensor rows = t.clone();
    return embedding_renorm_(rows, i, 1, 2);
  });
  for (int n : {0, 1, 0})
    for (int64_t rows : {2, 0})
      run.log_error([&] { run.log(f(ones({rows, 3}, Dtype::i64), zeros({n}, Dtype::i64))); });
}

// ---- values of other types

TENON_PROGRAM(AMaskIsFilledWithAComplexValue, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& value) {
    Tensor mask = tensor({true, false}), written = x * 2.0;
    written.masked_fill_(mask, value);
    return std::tuple(x.masked_fill(mask, value), written);
  });
  Tensor value = complex(tensor(1.0F), tensor(2.0F)), x = halves({3, 2});
  for (const Tensor& self : {complex(x, x + 1.0), x, complex(x, x).mT().contiguous().mT()})
    run.log_error([&] {
      auto [filled, written] = f(self, value);
      run.log(view_as_real(filled), view_as_real(written));
    });
}

TENON_PROGRAM(ADivisorIsTakenInTheTypeOfTheResult, 6) {
  auto f = run.compile(
      [](const Tensor& x, const Tensor& y) { return std::tuple(gcd(x, y), lcm(x, y)); });
  for (int64_t other : {int64_t{4294967293}, int64_t{12}, int64_t{-4294967292}}) {
    auto [divisor, multiple] = f(tensor({0, 6, -8}).to(Dtype::i32), tensor(other));
    run.log(divisor, multiple);
  }
}

TENON_PROGRAM(TruthsAreRaisedToTruths, 8) {
  auto f = run.compile([](const Tensor& x, bool by) {
    Tensor raised = x.clone();
    raised.pow_(by);
    return std::tuple(x.pow(by), raised);
  });
  for (bool by : {true, false}) {
    auto [power, raised] = f(tensor({true, false}), by);
    run.log(power, raised, power.dtype() == Dtype::bool_);
  }
}

// ---- what is not there

TENON_PROGRAM(NothingHasAMedian, 16) {
  auto f = run.compile([](const Tensor& x) { return std::tuple(median(x), nanmedian(x)); });
  for (Dtype dtype : {Dtype::f32, Dtype::i64})
    for (int64_t n : {0, 3}) {
      auto [one, other] = f(ones({n}, dtype));
      run.log(one, other);
    }
  Tensor empty = zeros({0}).requires_grad_();
  std::get<0>(f(empty)).backward();
  run.log(empty.grad().size(0).guard_int());
}

TENON_PROGRAM(SingularVectorsThatNobodyComputesAreZero, 6) {
  auto f = run.compile([](const Tensor& x) { return svd(x, true, false); });
  for (int64_t rows : {2, 3}) {
    auto [u, s, v] = f(eye(2).repeat({rows, 1, 1}).reshape({2 * rows, 2}));
    run.log(u, s, v);
  }
}

TENON_PROGRAM(AVectorHasANormForEachElement, 8) {
  auto f = run.compile([](const Tensor& v, const Tensor& g) {
    auto [w, norms] = _weight_norm_interface(v, g, 0);
    return std::tuple(norm_except_dim(v, 2, 0), w, norms);
  });
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{3}, {3, 2}}) {
    Tensor v = halves(sizes).requires_grad_();
    auto [norms, w, same] = f(v, ones({3}).reshape(sizes.size() == 1 ? IntList{3} : IntList{3, 1}));
    (norms.sum() + w.sum()).backward();
    run.log(norms, w, same, v.grad());
  }
}

// ---- elements that have no mean

// Running moments have none with infinite elements; the means of channels are sums, which are
// infinite.
TENON_PROGRAM(InfiniteElementsHaveAMeanInChannelsOnly, 40) {
  const float infinity = std::numeric_limits<float>::infinity();
  auto rows = run.compile([](const Tensor& x) {
    auto [variance, mean] = var_mean(x, {1});
    auto [deviation, same] = std_mean(x, {1});
    auto [y, of_layer, rstd] = native_layer_norm(x, {x.size(1)}, {}, {}, 1e-5);
    return std::tuple(variance, mean, deviation, same, of_layer);
  });
  auto channels = run.compile([](const Tensor& x, const Tensor& mean, const Tensor& variance) {
    return batch_norm(x, {}, {}, mean, variance, true, 0.5, 1e-5, false);
  });
  for (const Tensor& x : {row({infinity, 1, 2, 4}), row({1, 2, 4, -infinity}),
                          row({infinity, 1, -infinity, 2}), row({1, 2, 3, 4})}) {
    auto [variance, mean, deviation, same, of_layer] = rows(x.reshape({1, 4}));
    run.log(variance, mean, deviation, same, of_layer);
    for (const Tensor& images : {x.reshape({4, 1}), x.reshape({2, 1, 2})}) {
      Tensor running_mean = zeros({1}), running_variance = ones({1});
      run.log(channels(images, running_mean, running_variance), running_mean, running_variance);
    }
  }
}

}  // namespace
}  // namespace tenon::programs
