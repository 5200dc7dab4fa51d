// What is seen through views, indices and masks between calls, with dtypes, sizes and empty batches
// that take turns.
#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(TheCallerWritesWhatItGot, 4) {
  Tensor kept = zeros({3});
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x + 1.0;
    return std::tuple(y, y.view({3, 1}), x.view({1, 3}), kept.narrow(0, 0, 2));
  });
  Tensor x = row({1, 2, 3});
  for (int i = 0; i < 5; ++i) {
    auto [y, column, same, head] = f(x);
    column.mul_(2.0);
    same.add_(float(i));
    head.add_(1.0);
    run.log(y, column, x, kept, y.is_same(column));
  }
}

TENON_PROGRAM(OneResultTwiceAndAnArgumentBack, 3) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor z = x * y;
    return std::tuple(z, z, x, y.detach(), z.t());
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = (arange(4).reshape({2, 2}) + i).to(Dtype::f32).requires_grad_(i % 2 == 1);
    auto [a, b, c, d, e] = f(x, ones({2, 2}) * 2.0);
    if (i % 2 == 0) d.add_(1.0);
    run.log(a.is_same(b), c.is_same(x), d, e, a.requires_grad());
    if (i % 2) {
      (a.sum() + b.sum() + e.select(0, 0).sum()).backward();
      run.log(x.grad());
    }
  }
}

TENON_PROGRAM(WindowsThatOverlapAreArguments, 16) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    a.add_(b);
    return a.sum() - b.sum();
  });
  for (int i = 0; i < 8; ++i) {
    Tensor base = arange(8).to(Dtype::f32);
    int64_t second = i < 4 ? 4 : i % 4 + 1;
    run.log(f(base.narrow(0, i % 2, 3), base.narrow(0, second, 3)), base);
  }
}

// What is cloned of one of them stays, whatever becomes of their memory.
TENON_PROGRAM(AWindowIsClonedAndWritten, 8) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    Tensor kept = a.clone();
    a.relu_();
    return std::tuple(kept, kept * 0.5, b.sum());
  });
  for (int i = 0; i < 8; ++i) {
    int64_t n = i < 4 ? 2 : i;
    Tensor base = arange(3 * n + 3).to(Dtype::f32).reshape({n + 1, 3}) - 4.0;
    auto [kept, half, sum] = f(base.narrow(0, 0, n), base.narrow(0, 1, n));
    run.log(kept, half, sum, base);
  }
}

TENON_PROGRAM(DtypesAndEmptyBatchesInTurn, 24) {
  Tensor w = row({1, 2, -1});
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x.matmul(w.to(x.dtype()).unsqueeze(1)).squeeze(1);
    return std::tuple(h.sum(), h.relu(), (h > 0).sum(), h.cumsum(0));
  });
  for (int round = 0; round < 2; ++round)
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i64, Dtype::i32})
      for (int64_t n : {3, 0, 1, 5}) {
        auto [sum, relu, count, running] = f((arange(3 * n) % 7 - 3).reshape({n, 3}).to(dtype));
        run.log(sum, relu, count, running);
      }
}

TENON_PROGRAM(IndicesArePutAndAdded, 6) {
  Tensor table = zeros({4, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& at, const Tensor& value, bool accumulates) {
    Tensor t = table * 1.0;
    t.index_put_({at}, value, accumulates);
    t.select(1, 0).masked_fill_(at.eq(1).any(), 5.0);
    return t;
  });
  for (int i = 0; i < 6; ++i) {
    table.set_grad({});
    Tensor value = (arange(4).reshape({2, 2}) + i).to(Dtype::f32).requires_grad_();
    Tensor t = f(tensor({int64_t(i % 3), int64_t(2)}), value, i % 2 == 1);
    (t * row({1, 3})).sum().backward();
    run.log(t.detach(), table.grad(), value.grad());
  }
}

TENON_PROGRAM(SlicesFromBehindAndWithSteps, 10) {
  auto f = run.compile([](const Tensor& x, int64_t step) {
    Tensor y = x.clone();
    y.slice(1, 0, std::nullopt, step).mul_(-1.0);
    y.slice(0, -2).add_(y.flip({0}).slice(0, 0, 2));
    return std::pair(y, y.slice(1, 1, std::nullopt, step).sum(0));
  });
  for (int64_t n : {3, 5, 4, 3})
    for (int64_t step : {1, 2, 3}) {
      auto [y, sum] = f(arange(3 * n).reshape({3, n}).to(Dtype::f32), step);
      run.log(y, sum);
    }
}

TENON_PROGRAM(ABeamThatIsReorderedInPlace, 6) {
  Tensor cache = zeros({2, 4, 2});
  auto step = run.compile([&](const Tensor& scores, const Tensor& x, int64_t at) {
    cache.select(1, at).copy_(x);
    auto [best, place] = scores.reshape({-1}).topk(2);
    Tensor beam = place.div(Number(3), "floor");
    cache.copy_(cache.index_select(0, beam));
    return std::tuple(best, place % 3, cache.narrow(1, 0, at + 1).sum({1}));
  });
  for (int i = 0; i < 4; ++i) {
    Tensor scores = ((arange(6) * (2 * i + 5)) % 7).reshape({2, 3}).to(Dtype::f32);
    auto [best, word, sums] = step(scores, (arange(4) + i).reshape({2, 2}).to(Dtype::f32), i);
    run.log(best, word, sums, cache);
  }
}

TENON_PROGRAM(PartsOfAListAreWrittenAndReturned, 8) {
  auto f = run.compile([](const Tensor& x, int64_t n) {
    std::vector<Tensor> parts = x.chunk(n, 0);
    parts.front().add_(1.0);
    parts.back().mul_(2.0);
    return parts;
  });
  for (int64_t n : {2, 3, 2, 1}) {
    Tensor x = arange(6).reshape({6, 1}).to(Dtype::f32);
    std::vector<Tensor> parts = f(x, n);
    parts[0].sub_(10.0);
    run.log(x, parts.size(), parts.back());
  }
}

TENON_PROGRAM(RandomOrdersAndMasksFromASeed, 6) {
  auto f = run.compile([](const Tensor& x, double p) {
    Tensor order = randperm(x.size(0));
    Tensor y = dropout(x.index_select(0, order), p, true);
    return std::pair(y, bernoulli(ones({3}) * 0.5));
  });
  for (int i = 0; i < 6; ++i) {
    if (i % 2 == 0) manual_seed(7 + i / 4);
    auto [y, coins] = f(arange(4 + i % 2).to(Dtype::f32), i < 3 ? 0.5 : 0.25);
    run.log(y, coins);
  }
}

// As in PyTorch: only products of single elements are defined.
TENON_PROGRAM(BoolsHaveNoProductsOfMatrices, 24) {
  auto product = run.compile([](const Tensor& a, const Tensor& b) { return a.matmul(b); });
  auto layer =
      run.compile([](const Tensor& x, const Tensor& w) { return linear(x, w, w.select(0, 0)); });
  auto outer_one = run.compile([](const Tensor& a) { return outer(a, a); });
  Tensor square = eye(2, Dtype::bool_), line = square.select(0, 0), batch = square.unsqueeze(0);
  for (int i = 0; i < 2; ++i) {
    for (const auto& [a, b] : std::vector<std::pair<Tensor, Tensor>>{
             {square, square}, {square, line}, {line, line}, {batch, batch}, {batch, square}})
      run.log_error([&] { run.log(product(a, b)); });
    run.log_error([&] { run.log(layer(square, square)); });
    run.log(outer_one(line), product(square.to(Dtype::i64), square.to(Dtype::i64)));
  }
}

}  // namespace
}  // namespace tenon::programs
