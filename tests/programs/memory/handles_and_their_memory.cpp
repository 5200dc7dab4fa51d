// Several handles of one memory: joined, separated, swapped, written in turn.
#include "program.h"

#include <map>

namespace tenon::programs {
namespace {

// Ping-pong buffers.
TENON_PROGRAM(TwoBuffersChangePlaces, 6) {
  Tensor a = row({1, 2, 3, 4}), b = zeros({4});
  auto f = run.compile([&](int n) {
    for (int i = 0; i < n; ++i) {
      b.copy_((a.roll({1}) + a.roll({-1})) * 0.5);
      std::swap(a, b);
    }
    return a - b;
  });
  Tensor first = a;
  for (int n : {1, 2, 3, 0, 2, 1}) run.log(f(n), a, b, a.is_same(first));
}

TENON_PROGRAM(SlicesThatOverlap, 4) {
  Tensor base = zeros({8});
  Tensor left = base.slice(0, 0, 5), right = base.slice(0, 3, 8);
  auto f = run.compile([&](const Tensor& x) {
    left.add_(x);
    right.mul_(2.0);
    Tensor sum = left.sum() + right.sum();
    base.as_strided({2, 2}, {3, 2}, 1).add_(sum);
    return base.unfold(0, 3, 2).sum(1) + left.slice(0, 1, 4);
  });
  for (int i = 0; i < 5; ++i) {
    run.log(f(halves({5}, i)), base);
    if (i == 1) left = base.slice(0, 1, 6);
    if (i == 2) base = base.clone();
    base.mul_(0.125);
  }
}

TENON_PROGRAM(AHandleThatTheBodyMovesOn, 6) {
  Tensor buffer = zeros({3, 2}), member = buffer.select(0, 0);
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    member.add_(x);
    ++i;
    member = buffer.select(0, i % 3);
    member.mul_(0.5);
    return buffer.sum(0);
  });
  for (int k = 0; k < 7; ++k) {
    run.log(f(halves({2}, k)), member, buffer);
    if (k == 3) buffer = buffer + 1.0;
    if (k == 5) member = zeros({2});
  }
}

TENON_PROGRAM(TwoArgumentsOfOneMemory, 6) {
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    a.add_(1.0);
    Tensor c = b * 2.0;
    b.mul_(3.0);
    return std::pair(a + c, b - a);
  });
  for (int i = 0; i < 10; ++i) {
    Tensor x = halves({2, 2}, i);
    Tensor y = i % 5 == 0   ? x
               : i % 5 == 1 ? x.t()
               : i % 5 == 2 ? x[0]
               : i % 5 == 3 ? x.clone()
                            : x.view({2, 2});
    run.log_error([&] {
      auto [p, q] = f(x, y);
      run.log(p, q);
    });
    run.log(x, y);
  }
}

TENON_PROGRAM(RowsAreAssigned, 8) {
  // Assignment of rows, through arguments and captured tensors.
  Tensor table = zeros({3, 2});
  auto f = run.compile([&](const Tensor& x, int64_t i) {
    table[i] = x;
    table[(i + 1) % 3] = 0.5;
    table[x > 0 ? 0 : 1] += 1.0;
    Tensor r = table[2];
    r += x;
    r = x * 2.0;
    return table * 1.0 + r;
  });
  for (int i = 0; i < 6; ++i)
    run.log_error([&] { run.log(f(i == 4 ? halves({2}, 1) : full({1}, i - 2.0), i % 3), table); });
}

TENON_PROGRAM(ACapturedMatrixIsTurnedAndBack, 11) {
  Tensor t = halves({2, 3});
  auto f = run.compile([&](const Tensor& x) {
    t.t_();
    Tensor y = t.matmul(x.t());
    t.unsqueeze_(0);
    Tensor z = t.sum(1);
    t.squeeze_(0);
    return y.sum(0) + z.sum();
  });
  for (int i = 0; i < 5; ++i) {
    Tensor x = i % 2 ? halves({2, 3}, i) : halves({2, 2}, i);
    run.log(f(x), t);
    if (i == 2) t = t.clone();
  }
}

TENON_PROGRAM(ABufferFitsTheBatch, 9) {
  Tensor b = zeros({2, 2});
  auto f = run.compile([&](const Tensor& x) {
    b.resize_({x.size(0), 2});
    b.copy_(x);
    Tensor d = b.detach();
    d.mul_(2.0);
    return b + d;
  });
  for (int n : {2, 3, 1, 3, 0, 4}) run.log(f(halves({n, 2}, n)), b);
}

TENON_PROGRAM(PartsOfAnArgumentAreWritten, 8) {
  auto f = run.compile([](const Tensor& x) {
    std::vector<Tensor> parts = x.chunk(3);
    parts[0].mul_(2.0);
    Tensor e = x[0].expand({4, 2});
    Tensor s = e.sum(0);
    for (size_t i = 1; i < parts.size(); ++i) parts[i].add_(parts[i - 1].sum());
    x.diagonal().fill_(9.0);
    return std::pair(cat(parts) + s, e * 1.0);
  });
  for (int n : {3, 6, 5, 4, 2, 1}) {
    Tensor x = halves({n, 2}, n);
    auto [a, b] = f(x);
    run.log(a, b, x);
  }
}

TENON_PROGRAM(AMemoByTensor, 4) {
  std::vector<std::pair<Tensor, Tensor>> memo;
  int misses = 0;
  auto f = run.compile([&](const Tensor& x) {
    for (auto& [k, v] : memo)
      if (k.is_same(x)) return v;
    ++misses;
    memo.push_back({x, x * 2.0 + double(misses)});
    return memo.back().second;
  });
  Tensor a = halves({2}), b = halves({2}, 1);
  for (const Tensor& t : {a, b, a, a.clone(), b, a}) {
    Tensor r = f(t);
    run.log(r, misses);
    r.add_(1.0);
  }
}

TENON_PROGRAM(ResultsOfTheSameState, 2) {
  Tensor state = halves({3});
  auto f = run.compile([&](const Tensor& x) {
    state.add_(x);
    return std::tuple(state, state.slice(0, 1, 3), x);
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = halves({3}, i);
    auto [s, v, y] = f(x);
    run.log(s, v, y, s.is_same(state), y.is_same(x));
    s.mul_(0.5);
    v.add_(1.0);
    if (i == 2) state = s.clone();
    if (i == 4) state = v.clone().repeat({2}).slice(0, 0, 3);
  }
}

TENON_PROGRAM(OneOfTwoHandlesIsReplaced, 4) {
  // Weights shared between two nets through a map of handles, one of them replaced in the body.
  std::map<std::string, Tensor> a{{"w", halves({2, 2}, 1)}, {"b", halves({2})}}, b = a;
  auto f = run.compile([&](const Tensor& x, bool split) {
    if (split) a["w"] = a["w"] * 0.5;
    a["w"].add_(0.25);
    b["b"].sub_(0.5);
    return std::pair(x.matmul(a["w"]) + a["b"], x.matmul(b["w"]) + b["b"]);
  });
  for (int i = 0; i < 6; ++i) {
    auto [p, q] = f(halves({1, 2}, i), i % 3 == 2);
    run.log(p, q, a["w"], b["w"], a["b"]);
    if (i == 3) b = a;
    if (i == 4) std::swap(a["w"], a["b"]), std::swap(a["w"], a["b"]);
  }
}

// Several handles of one captured tensor are separated and joined.
TENON_PROGRAM(HandlesAreJoinedAndSeparated, 10) {
  Tensor a = halves({3}), b = a, c = a.view({3}), d = a.slice(0, 0, 2);
  auto f = run.compile([&](const Tensor& x) {
    a.add_(x);
    b.mul_(2.0);
    c.sub_(1.0);
    d.fill_(0.5);
    return a + b * c + d.sum();
  });
  for (int i = 0; i < 10; ++i) {
    run.log(f(halves({3}, i)), a, b, c, d);
    if (i == 1) b = b.clone();
    if (i == 2) c = b.view({3});
    if (i == 3) a = c;
    if (i == 4) d = b.slice(0, 1, 3);
    if (i == 5) std::swap(a, b);
    if (i == 6) a = b = c = halves({3}, 6);
    if (i == 7) d = halves({2});
    if (i == 8) c = a.flip({0}), d = c.slice(0, 0, 2);
  }
}

TENON_PROGRAM(WeightsOfAListAreOne, 6) {
  // A list of weights: entries of it are the same, views of each other, or replaced.
  std::vector<Tensor> ws{halves({2}), halves({2}, 1), halves({2}, 2)};
  auto f = run.compile([&](Tensor x) {
    for (auto& w : ws) {
      x = x * w + 1.0;
      w.add_(0.5);
    }
    return x;
  });
  for (int i = 0; i < 9; ++i) {
    run.log(f(halves({2}, i)), ws[0], ws[1], ws.back());
    if (i == 1) ws[2] = ws[0];
    if (i == 3) ws[1] = ws[0];
    if (i == 4) ws = {ws[0].clone(), ws[0].clone(), ws[0].clone()};
    if (i == 5) {
      Tensor big = halves({6}, 3);
      ws = big.chunk(3);
    }
    if (i == 6) {
      Tensor big = halves({3}, 3);
      ws = {big.slice(0, 0, 2), big.slice(0, 1, 3)};
    }
    if (i == 7) ws.push_back(ws[0]);
  }
}

TENON_PROGRAM(ViewsOfTheArgumentBefore, 6) {
  // Views that the body makes of its argument are kept for the next call.
  std::vector<Tensor> views;
  auto f = run.compile([&](const Tensor& x) {
    Tensor s = zeros({});
    for (auto& v : views) s = s + v.sum(), v.add_(1.0);
    views = {x[0], x.t()[1], x.slice(0, 0, 1)};
    return x * 1.0 + s;
  });
  Tensor a = halves({2, 2}), b = halves({2, 2}, 1);
  for (int i = 0; i < 6; ++i) {
    run.log(f(i % 3 ? a : b), a, b);
    if (i == 2) a = halves({2, 3}, 2);
    if (i == 4) views.pop_back();
  }
}

TENON_PROGRAM(AnAccumulatorFollowsItsInput, 8) {
  // Dtype and layout of a captured accumulator follow the first input.
  Tensor acc;
  auto f = run.compile([&](const Tensor& x) {
    if (!acc.defined() || acc.dtype() != x.dtype()) acc = zeros_like(x);
    acc.add_(x);
    if (acc.is_contiguous()) return acc.sum(0);
    return acc.sum(1);
  });
  for (int i = 0; i < 8; ++i) {
    Tensor x = i % 3 == 2 ? halves({2, 2}, i).t() : halves({2, 2}, i);
    if (i >= 4) x = x.to(i == 6 ? Dtype::i64 : Dtype::f64);
    run.log(f(x), acc);
    if (i == 5) acc = {};
  }
}

}  // namespace
}  // namespace tenon::programs
