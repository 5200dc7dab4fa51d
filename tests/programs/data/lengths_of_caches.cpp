// Loops that look at data and ask what grows in them for its length: positions, masks, windows, means.
#include "program.h"

namespace tenon::programs {
namespace {

// Sums and products of these are exact, whoever fuses them.
Tensor table(int64_t rows, int64_t columns, int64_t step) {
  Tensor count = arange(rows * columns, Dtype::f32) * static_cast<double>(step);
  return ((count.remainder(13) - 6) * 0.125).reshape({rows, columns});
}

struct SmallDecoder {
  Tensor embedding = table(16, 8, 7), positions = table(40, 8, 3), mix = table(8, 8, 11),
         keys = zeros({2, 0, 4}), values = keys;

  static Tensor heads_of(const Tensor& t) { return t.reshape({1, 2, 4}).transpose(0, 1); }
  void clear() { keys = values = zeros({2, 0, 4}); }
  int64_t next(int64_t token) {
    Tensor x = (embedding.select(0, token) + positions.select(0, keys.size(1))).unsqueeze(0);
    Tensor y = x.matmul(mix);
    keys = cat({keys, heads_of(y)}, 1);
    values = cat({values, heads_of(x)}, 1);
    Tensor scores = heads_of(x).matmul(keys.transpose(1, 2)).clamp(-1, 1);
    Tensor seen = scores.matmul(values).transpose(0, 1).reshape({1, 8});
    return (seen + x).matmul(embedding.t()).argmax().item<int64_t>();
  }
};

TENON_PROGRAM(ThePositionIsTheLengthOfTheCache, 7) {
  SmallDecoder decoder;
  auto f = run.compile([&](int64_t first, int64_t n) {
    decoder.clear();
    std::vector<int64_t> tokens{first};
    while (std::ssize(tokens) < n) tokens.push_back(decoder.next(tokens.back()));
    return tokens;
  });
  for (int64_t n : {24, 24, 9, 33, 24}) {
    for (int64_t token : f(n % 7, n)) run.log(token);
    run.log(decoder.keys, decoder.values);
  }
}

TENON_PROGRAM(AMaskIsAsLongAsTheCache, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor cache = x.narrow(0, 0, 1), sum = zeros({4});
    for (int64_t i = 1; i < x.size(0); ++i) {
      cache = cat({cache, x.narrow(0, i, 1)});
      int64_t n = cache.size(0);
      Tensor is_near = arange(n) >= n - 3;
      sum = sum + where(is_near.unsqueeze(1), cache, 0.5).sum(0) * static_cast<double>(n);
      if (sum.max().item<float>() > 1e5f) break;
    }
    return std::pair(cache, sum);
  });
  for (int64_t n : {20, 20, 12, 27}) {
    auto [cache, sum] = f(table(n, 4, 9));
    run.log(cache, sum);
  }
}

TENON_PROGRAM(AWindowSlidesOverTheCache, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor cache = x.narrow(0, 0, 2), sum = zeros({4});
    for (int64_t i = 2; i < x.size(0); ++i) {
      cache = cat({x.narrow(0, i, 1) + sum, cache});
      int64_t n = cache.size(0), width = std::min<int64_t>(n, 5);
      sum = cache.narrow(0, n - width, width).sum(0) * 0.25 + cache.slice(0, 0, n / 2).sum(0);
      if (sum.max().item<float>() > 1e5f) break;
    }
    return std::pair(cache, sum);
  });
  for (int64_t n : {18, 18, 11, 23}) {
    auto [cache, sum] = f(table(n, 4, 9));
    run.log(cache, sum);
  }
}

// Two lengths that agree now and then, and their difference.
TENON_PROGRAM(TwoCachesOfOtherLengths, 15) {
  auto f = run.compile([](const Tensor& x) {
    Tensor slow = x.narrow(0, 0, 9), fast = x.narrow(0, 0, 2);
    for (int i = 0; i < 14; ++i) {
      fast = cat({fast, x.narrow(0, i % 3, 2)});
      if (i % 2) slow = cat({slow, fast.narrow(0, 0, 1)});
      int64_t apart = std::abs(slow.size(0) - fast.size(0));
      slow = slow + fast.narrow(0, 1, 2).mean(0) * static_cast<double>(apart);
      if (slow.max().item<float>() > 1e5f) break;
      slow = slow.remainder(3);
    }
    return std::pair(slow, fast);
  });
  for (int i = 0; i < 4; ++i) {
    auto [slow, fast] = f(table(9, 4, 9) + i);
    run.log(slow, fast);
  }
}

// It is emptied where the data say so: lengths of 0 and 1 come again and again.
TENON_PROGRAM(TheCacheIsEmptiedNowAndThen, 11) {
  auto f = run.compile([](const Tensor& x) {
    Tensor cache = zeros({0, 4}), sum = zeros({4});
    for (int64_t i = 0; i < x.size(0); ++i) {
      cache = cat({cache, x.narrow(0, i, 1)});
      int64_t n = cache.size(0);
      sum = sum * 0.5 + cache.select(0, n - 1) + cache.sum(0) * static_cast<double>(n);
      if (sum.abs().sum().item<float>() > 9) cache = zeros({0, 4});
    }
    return std::pair(cache, sum);
  });
  for (int64_t step : {9, 9, 4, 11, 9}) {
    auto [cache, sum] = f(table(21, 4, step));
    run.log(cache, sum);
  }
}

TENON_PROGRAM(LengthsBeginWithThoseOfTheArgument, 14) {
  auto f = run.compile([](const Tensor& prompt, const Tensor& positions) {
    Tensor cache = prompt;
    for (int i = 0; i < 9; ++i) {
      Tensor next = cache.sum(0, true) * 0.125 + positions.narrow(0, cache.size(0), 1);
      cache = cat({cache, next * 0.5});
      if (next.max().item<float>() > 1e5f) break;
    }
    return cache.view({1, cache.size(0), 4}) * static_cast<double>(cache.size(0));
  });
  Tensor positions = table(60, 4, 3);
  for (int64_t n : {5, 5, 7, 9, 1, 2, 30, 5, 1}) run.log(f(table(n, 4, 9), positions));
}

TENON_PROGRAM(GradientsThroughACacheWithPositions, 9) {
  Tensor w = table(4, 4, 8).requires_grad_(), positions = table(30, 4, 3).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor cache = x.matmul(w);
    for (int i = 0; i < 8; ++i) {
      Tensor next = (cache * positions.narrow(0, 0, cache.size(0))).sum(0, true);
      cache = cat({cache, next * 0.25 + positions.narrow(0, cache.size(0), 1)});
      if (next.max().item<float>() > 1e5f) break;
    }
    return cache.square().sum();
  });
  for (int64_t n : {3, 3, 4, 3}) {
    w.set_grad({});
    positions.set_grad({});
    Tensor loss = f(table(n, 4, 9));
    loss.backward();
    run.log(loss, w.grad(), positions.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
