// Results have the strides, the place and the needs that they have in a plain run.
#include "program.h"

#include <algorithm>

namespace tenon::programs {
namespace {

std::string layout(const Tensor& t) {
  std::string text = to_text(t.dtype()) + to_text(t.sizes()) + " strides";
  for (size_t d = 0; d < t.strides().size(); ++d)
    text += int64_t(t.sizes()[d]) > 1 ? " " + std::to_string(int64_t(t.strides()[d])) : " any";
  text += " at " + std::to_string(t.storage_offset());
  return text + (t.requires_grad() ? " needs a gradient" : "") + (t.is_leaf() ? " leaf" : "");
}

TENON_PROGRAM(StridesOfResults, 10) {
  auto f = run.compile([](const Tensor& x, int how) -> Tensor {
    switch (how) {
      case 0:
        return x.t() * 2.0;
      case 1:
        return (x.t() + x.t().contiguous());
      case 2:
        return x.sum(0).unsqueeze(1).expand({3, 2});
      case 3:
        return cat({x.t(), x.t()}, 1);
      case 4:
        return x.unsqueeze(0).permute({2, 0, 1}) + 1.0;
      case 5:
        return x.matmul(x.t()).t();
      case 6:
        return where(x.t() > 0, x.t(), x.t() * 0.0);
      case 7:
        return x.slice(1, 0, 3, 2) * 2.0;
      case 8:
        return x.t().clone();
      case 9:
        return x.t().relu().view({-1, 3});
      case 10:
        return x.expand({2, 2, 3}) * 1.0;
      case 11:
        return softmax(x.t(), 0);
      case 12:
        return x.t().sum(0, true) + x.t();
      case 13:
        return x.t().to(Dtype::f64);
      case 14:
        return zeros_like(x.t()) + x.t();
      case 15:
        return x.flip({0}).t();
      case 16:
        return x.cumsum(0).t() * x.t();
      case 17:
        return x.t().index_select(0, tensor({2, 0}));
      case 18:
        return stack({x.t(), x.t()}, 2);
      case 19:
        return x.t().empty_like().fill_(2.0);
      case 20:
        return conv2d(x.reshape({1, 1, 2, 3}), ones({2, 1, 1, 1}))
                   .contiguous(MemoryFormat::channels_last) *
               2.0;
      case 21:
        return x.t().masked_fill(x.t() > 0, 1.0);
      case 22:
        return x.t().sort(0).values;
      case 23:
        return x.t().gather(0, x.t().argmax(0, true));
      case 24:
        return x.addmm(x.matmul(ones({3, 3})), eye(3)).t();
      case 25:
        return layer_norm(x.t(), {2});
      default:
        return x.t().reshape({3, 2}).mul_(2.0);
    }
  });
  for (int r = 0; r < 3; ++r)
    for (int how = 0; how <= 26; ++how) {
      Tensor x = r == 2 ? halves({3, 2}, how).t() : halves({2, 3}, r);
      run.log_error([&] {
        Tensor y = f(x, how);
        run.log(r, how, layout(y), (y * 64.0).round());
      });
    }
}

TENON_PROGRAM(ResultsThatShareMemory, 2) {
  Tensor w = halves({3, 2}, 2).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    return std::tuple(y, y.t(), y[0], y.view({-1}), x.t(), w.view({-1}), y.detach(), y.unsqueeze(0),
                      x.slice(0, 1, 3), w);
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({3, 2}, i);
    auto [a, b, c, d, e, g, h, k, l, m] = f(x);
    for (auto* t : {&a, &b, &c, &d, &e, &g, &h, &k, &l, &m}) run.log(layout(*t));
    h.add_(1.0);
    l.mul_(2.0);
    run.log(a.detach(), b.detach(), c.detach(), d.detach(), e, k.detach(), x);
    run.log_error([&, b = b] { b.mul_(2.0); });
    run.log_error([&, g = g] { g.mul_(2.0); });
    run.log(a.detach(), c.detach(), d.detach());
    w.set_grad({});
    run.log_error([&, a = a, d = d] { (a.sum() + d.sum() * 2.0).backward(); });
    run.log(w.grad());
  }
}

TENON_PROGRAM(AnArgumentInOtherClothes, 4) {
  // Results that are arguments with other flags.
  auto f =
      run.compile([](const Tensor& x) { return std::tuple(x, x.detach(), x.view({-1}), x.t()); });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2, 2}, i);
    if (i % 2) x.requires_grad_();
    auto [a, b, c, d] = f(x);
    run.log(a.is_same(x), b.requires_grad(), c.requires_grad(), d.is_leaf(), c.is_leaf());
    b.add_(1.0);
    run.log(x.detach(), c.detach(), d.detach());
    run.log_error([&, c = c] { c.mul_(2.0); });
    if (i % 2) {
      (c.sum() + (d * d).sum()).backward();
      run.log(x.grad());
    }
  }
}

TENON_PROGRAM(SizesOneAndNone, 10) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) { return (x + y).squeeze() * 2.0; });
  for (int n : {1, 3, 1, 2, 0, 3, 1, 0, 5})
    for (int m : {1, n}) run.log(f(ones({n, 1}), ones({m, 2})), f(ones({1, m}), ones({1, 1})));
}

TENON_PROGRAM(RowsThatMayBeMissing, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor h = x.reshape({-1, 2});
    return std::tuple(h.sum(0), h.numel(), x.mean(), cat({h, h}).amax());
  });
  for (int n : {4, 2, 0, 6, 1, 8, 0})
    run.log_error([&] {
      auto [a, b, c, d] = f(ones({n}));
      run.log(a, int64_t(b), c, d);
    });
}

TENON_PROGRAM(WindowsOfABatch, 6) {
  auto f = run.compile([](const Tensor& x) {
    int64_t n = x.size(0);
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < n; i += 2) parts.push_back(x.slice(0, i, std::min(i + 2, n)).sum(0));
    return parts.empty() ? zeros({1, 2}) : stack(parts);
  });
  for (int n : {4, 5, 0, 1, 7, 4}) {
    Tensor x = halves({n, 2}, n);
    if (n > 1) maybe_mark_dynamic(x, 0);
    run.log(f(x));
  }
}

TENON_PROGRAM(TwoSizesInEveryOrder, 10) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    if (a.size(0) == b.size(0)) return a + b;
    if (a.size(0) > b.size(0)) return cat({a, b}) * 2.0;
    return cat({b, a}) * double(b.size(0) - a.size(0));
  });
  for (int i = 0; i < 12; ++i) run.log(f(halves({i % 3 + 1}, i), halves({(i * 5) % 4 + 1})));
}

// Of two dimensions with one stride, as in sliding windows, the sizes tell which lies inside.
TENON_PROGRAM(WindowsOfSizesThatTakeTurns, 16) {
  auto scaled = run.compile([](const Tensor& w) { return w * 2.0; });
  auto copied = run.compile([](const Tensor& x) {
    Tensor c = x.unfold(0, 3, 1).clone();
    c[0].fill_(9);
    return std::pair(c, c.t());
  });
  auto asked = run.compile([](const Tensor& w) {
    Tensor t = (w * 2.0).t();
    return t.is_contiguous() ? t.view({-1}) : t.reshape({-1}) + 1.0;
  });
  for (int n : {10, 12, 4, 9, 5, 3, 4}) {
    Tensor x = arange(n).to(Dtype::f32) * 0.5, w = x.unfold(0, 3, 1), y = scaled(w);
    auto [c, t] = copied(x);
    run.log(layout(y), y, layout(c), c, layout(t), t, asked(w));
  }
}

TENON_PROGRAM(WindowsOfTwoSizesThatTakeTurns, 8) {
  auto f = run.compile([](const Tensor& x) { return x.clone(); });
  for (auto [n, m] : {std::pair(2, 3), {4, 2}, {2, 4}, {5, 3}}) {
    Tensor y = f((arange(n + m - 1) * 0.5).to(Dtype::f32).as_strided({n, m}, {1, 1}));
    run.log(layout(y), y);
  }
}

// Here each size is another one, in another order, and the order of the dimensions is one.
TENON_PROGRAM(OrdersThatHoldForAllSizes, 2) {
  auto f = run.compile([](const Tensor& x, const Tensor& b) {
    Tensor t = x.transpose(1, 2), sum = t + b;
    return std::tuple(sum, sum.clone(), t.unsqueeze(0) * 2.0, cat({t, t}, 1) + b);
  });
  for (auto [n, m, k] : {std::tuple(2, 3, 4), {5, 4, 3}, {3, 2, 6}, {4, 7, 2}}) {
    auto [sum, copy, row, both] = f(halves({n, m, k}), halves({m}));
    run.log(layout(sum), layout(copy), layout(row), layout(both), sum.sum(), both.sum());
  }
}

TENON_PROGRAM(PoolsOfNothing, 2) {
  auto f = run.compile([](const Tensor& x) {
    return x.avg_pool2d({2, 2}, {2, 2}, {1, 1}, /*ceil_mode=*/true, /*count_include_pad=*/false);
  });
  for (int n : {4, 6, 4}) run.log(f(zeros({1, 1, 0, n})));
}

// Like the query's, whether the fused op computes it or its parts do for the tape.
TENON_PROGRAM(AttentionOverHeadsOfOneProduct, 8) {
  Tensor w = (halves({8, 24}) * 0.02).requires_grad_();
  auto heads = [](const Tensor& t) { return t.view({2, 6, 2, 4}).transpose(1, 2); };
  for (double dropout : {0.0, 1.0})
    for (bool is_causal : {true, false}) {
      auto step = run.compile([&](const Tensor& x) {
        std::vector<Tensor> qkv = x.matmul(w).chunk(3, -1);
        Tensor y = scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {},
                                                dropout, is_causal);
        y = y.transpose(1, 2);
        bool is_dense = y.is_contiguous();
        y = y.contiguous().view({2, 6, 8});
        (y * y).sum().backward();
        return is_dense ? y.detach() : -y.detach();
      });
      for (int i = 0; i < 2; ++i) {
        w.set_grad({});
        Tensor y = step(halves({2, 6, 8}) * (0.1 * i + 0.1));
        run.log((y * 1024.0).round(), (w.grad() * 64.0).round());
      }
    }
}
TENON_PROGRAM_IN_ONE_GRAPH(AttentionOverHeadsOfOneProduct, 4);

TENON_PROGRAM(AttentionOverQueriesInOtherOrders, 8) {
  auto f = run.compile([](const Tensor& q) {
    Tensor y = scaled_dot_product_attention(q, q, q);
    return y.is_contiguous() ? y : y * 2.0;
  });
  for (std::vector<int64_t> order : {std::vector<int64_t>{0, 2, 1, 3}, {2, 1, 0, 3}, {1, 2, 0, 3}})
    for (bool needs_grad : {false, true}) {
      Tensor w = (halves({2, 3, 2, 4}) * 0.1).requires_grad_(needs_grad);
      Tensor y = f(w.permute(order));
      run.log(layout(y), (y.detach() * 1024.0).round());
    }
}

// With gradients they run as parts of two dimensions.
TENON_PROGRAM(PoolsOfTransposedRows, 12) {
  for (bool needs : {false, true}) {
    auto f = run.compile([](const Tensor& x) {
      Tensor rows = x.transpose(1, 2);
      std::vector<Tensor> results{avg_pool1d(rows, {2}), max_pool1d(rows, {2})};
      results.push_back(results[0].is_contiguous() ? results[1] * 2.0 : results[1]);
      return results;
    });
    for (int i = 0; i < 2; ++i)
      for (const Tensor& t : f(halves({2, 4, 3}, i).requires_grad_(needs))) run.log(layout(t), t);
  }
}

// Without elements no order of dimensions is kept, whatever the symbols beside the 0 are.
TENON_PROGRAM(TurnedTensorsWithoutElements, 6) {
  auto f = run.compile([](const Tensor& x) { return x.relu(); }, {.dynamic = true});
  for (int64_t rows : {4, 4, 5, 2}) {
    Tensor y = f(zeros({rows, 0}).t());
    run.log(to_text(y.sizes()), to_text(y.strides()));
  }
}

}  // namespace
}  // namespace tenon::programs
