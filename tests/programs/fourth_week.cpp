// Serving and processing that has grown: caches that two callables share, results that are kept and
// written, empty batches, dtypes and layouts that change, sizes that only the data know.
#include "program.h"

#include <array>
#include <deque>
#include <optional>
#include <stdexcept>

namespace tenon::programs {
namespace {

Tensor steps(std::vector<int64_t> sizes, int i = 0) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return ((arange(n) * (2 * i + 3)) % 7 - 3).reshape(IntList(sizes)).to(Dtype::f32) * 0.5;
}

// One callable fills the cache with a prompt, another adds tokens; a third reads what is there.
struct Cache {
  Tensor keys = zeros({16, 2}), values = zeros({16, 2});
  int64_t used = 0;
};

TENON_PROGRAM(APromptAndItsTokensShareACache, 24) {
  Cache cache;
  Tensor table = steps({8, 2});
  auto prefill = run.compile([&](const Tensor& prompt) {
    Tensor e = table.index_select(0, prompt);
    int64_t n = int64_t(prompt.size(0));
    cache.keys.slice(0, 0, n).copy_(e);
    cache.values.slice(0, 0, n).copy_(e * 2.0);
    cache.used = n;
    return (e.matmul(e.t()).relu().matmul(e * 2.0)).select(0, -1);
  });
  auto decode = run.compile([&](const Tensor& token) {
    Tensor e = table.index_select(0, token);
    cache.keys.slice(0, cache.used, cache.used + 1).copy_(e);
    cache.values.select(0, cache.used).copy_((e * 2.0).select(0, 0));
    ++cache.used;
    Tensor k = cache.keys.slice(0, 0, cache.used), v = cache.values.slice(0, 0, cache.used);
    return e.matmul(k.t()).relu().matmul(v).matmul(table.t()).argmax(1);
  });
  auto look = run.compile([&] { return cache.values.slice(0, 0, cache.used).sum(0); });
  for (std::vector<int> prompt : {std::vector{1, 2, 3}, {4}, {5, 6, 7, 1, 2}, {3, 3, 3}}) {
    run.log(prefill(tensor(prompt)));
    Tensor token = tensor({prompt.back()});
    for (int i = 0; i < 5; ++i) {
      token = decode(token);
      run.log(token, cache.used);
      if (i % 2) run.log(look());
    }
    if (prompt.size() == 1) cache.used -= 2;  // two tokens are taken back
    run.log(decode(token), cache.keys.sum());
  }
}

// Callers keep results, write into them, and give them back.
TENON_PROGRAM(ResultsAreKeptWrittenAndGivenBack, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& bias) {
    Tensor y = x * 2.0 + bias;
    return std::tuple(y, y.select(0, 0), x.slice(0, 1, 2), bias);
  });
  std::deque<Tensor> kept;
  Tensor x = steps({3, 2}), bias = row({1, -1});
  for (int i = 0; i < 7; ++i) {
    auto [y, first, part, same] = f(x, bias);
    first.add_(1);              // a view of y
    part.mul_(0.5);             // a view of x
    if (i % 2) same.add_(0.5);  // bias itself
    kept.push_back(y);
    if (kept.size() > 3) {
      kept.front().fill_(float(i));
      x = kept.front();
      kept.pop_front();
    } else {
      x = y * 0.25;
    }
    for (const Tensor& k : kept) run.log(i, k);
    run.log(x, bias, part, first);
  }
}

// Filters leave no row at times; means of nothing are NaN, sums 0.
TENON_PROGRAM(FiltersThatLeaveNothing, 16) {
  auto f = run.compile([](const Tensor& rows, const Tensor& keep) {
    Tensor left = rows.index_select(0, keep.nonzero().squeeze(1));
    Tensor total = left.sum(0), biggest = cat({left, zeros({1, 2})}).amax(0);
    return std::tuple(left, total, biggest, int64_t(left.size(0)));
  });
  auto g = run.compile([](const Tensor& x) {
    Tensor h = (x.matmul(steps({2, 3})) + 1.0).relu();
    return std::pair(h.sum(0), cat({h, h * 2.0}).sum());
  });
  for (int i = 0; i < 9; ++i) {
    auto [left, total, biggest, n] = f(steps({4, 2}, i), (arange(4) * i) % 4 > 2 - i % 4);
    run.log(n, left, total, biggest);
    auto [sums, all] = g(left);
    run.log(sums, all, left.mean(0).isnan());
  }
}

// Sizes that only the data know, in the middle of a body.
TENON_PROGRAM(ClassesThatTheDataCount, 24) {
  auto f = run.compile([](const Tensor& labels, const Tensor& x) {
    Tensor hot = one_hot(labels).to(Dtype::f32);
    Tensor sums = hot.t().matmul(x), counts = hot.sum(0).clamp_min(1.0);
    return std::pair(sums / counts.unsqueeze(1), bincount(labels));
  });
  auto g = run.compile([](const Tensor& values, const Tensor& repeats) {
    Tensor longer = repeat_interleave(values, repeats);
    return std::pair(longer * 2.0, longer.cumsum(0));
  });
  for (int i = 0; i < 7; ++i) {
    Tensor labels = (arange(4 + i % 2) * i) % (i + 1);
    auto [means, counts] = f(labels, steps({4 + i % 2, 2}, i));
    run.log(means, counts);
    auto [twice, sums] = g(steps({3}, i), (arange(3) + i) % 4);
    run.log(twice, sums);
  }
}

// Where a window begins, or a cut is made, only the data know; some are out of range.
TENON_PROGRAM(WindowsThatTheDataChoose, 24) {
  Tensor x = arange(16, Dtype::f32).reshape({8, 2});
  auto window = run.compile([](const Tensor& x, const Tensor& at) {
    Tensor w = (x + 1.0).narrow(0, at, 2);
    return std::pair(w * 2.0, w.sum());
  });
  auto mark = run.compile([&](const Tensor& at, const Tensor& by) {
    Tensor w = x.narrow(0, at, 2);
    w.add_(by);
    return std::pair(w, x.sum(0));
  });
  auto cut = run.compile([](const Tensor& x, const Tensor& at) {
    std::vector<Tensor> parts = x.tensor_split(at, 0);
    return std::pair(parts[0].sum(), parts.back() * 2.0);
  });
  for (int at : {0, 3, 6, 7, -1, -2, 9, -9, 2, 8}) {
    run.log_error([&] {
      auto [w, sum] = window(x, tensor(at));
      run.log(at, w, sum);
    });
    run.log_error([&] {
      auto [w, sums] = mark(tensor(at), full({}, 0.5));
      w.mul_(2.0);
      run.log(at, w, sums, x);
    });
    run.log_error([&] {
      auto [sum, rest] = cut(x, tensor({at}));
      run.log(at, sum, rest);
    });
  }
}

// A model that is served in another dtype and layout now and then.
struct Eye : nn::Module {
  nn::Conv2d conv{2, 4, 3};
  nn::BatchNorm2d norm{4};
  nn::Linear out{4, 2};
  TENON_MODULE(Eye, conv, norm, out)
  Eye() { set_simply(parameters()); }
  Tensor forward(const Tensor& x) { return out(norm(conv(x)).relu().mean({2, 3})); }
};

TENON_PROGRAM(AModelMovesBetweenDtypesAndLayouts, 16) {
  Eye net;
  auto f = run.compile([&](const Tensor& x) { return net(x).to(Dtype::f32); });
  const Dtype dtypes[] = {Dtype::f32, Dtype::f64, Dtype::f32, Dtype::bf16, Dtype::f32};
  for (int i = 0; i < 10; ++i) {
    Dtype dtype = dtypes[i / 2];
    net.to(dtype);
    net.train(i % 4 == 1);
    Tensor x = steps({2, 2, 5, 5}, i).to(dtype);
    if (i % 3 == 2) x = x.contiguous(MemoryFormat::channels_last);
    InferenceMode inference;
    Tensor y = f(x);
    run.log(i, (y * 8.0).round(), net.norm.running_mean.to(Dtype::f32).sum() * 0 + double(i));
    if (i == 4) net.conv.weight.detach().mul_(0.5);
    if (i == 6) net.norm.running_var.fill_(4);
  }
}

// The body throws behind a write; the caller puts things right and tries again.
TENON_PROGRAM(AnErrorBehindAWriteAndAnotherTry, 12) {
  Tensor log = zeros({4}), total = zeros({});
  int at = 0, failures = 0;
  auto f = run.compile([&](const Tensor& x, int limit) {
    log.select(0, at % 4).add_(x.sum());
    ++at;
    if (at % 3 == limit) throw std::runtime_error("at " + std::to_string(at));
    Tensor y = x / total.clamp_min(1.0);
    if (y.max().item<float>() > 2) throw std::out_of_range("too large");
    total.add_(y.abs().sum());
    return y + log.sum();
  });
  for (int i = 0; i < 12; ++i) {
    Tensor x = steps({2 + i % 2}, i) * (i % 5 == 4 ? 8.0 : 1.0);
    for (int attempt = 0; attempt < 3; ++attempt) {
      int before = at;
      Tensor saved = log.clone();
      try {
        run.log(i, attempt, f(x, i % 4 == 3 ? 0 : -1));
        break;
      } catch (const std::exception& error) {
        run.log(error.what(), log, total);
        ++failures;
        log.copy_(saved);
        at = before + 1;
        x = x * 0.25;
      }
    }
  }
  run.log(log, total, at, failures);
}

// Callables that are cloned, given other states, and dropped in another order.
TENON_PROGRAM(CallablesAreDroppedInAnotherOrder, 40) {
  auto make = [&](Tensor w) {
    return run.compile([w, calls = std::make_shared<int>(0)](const Tensor& x) {
      return x.matmul(w) + double(++*calls);
    });
  };
  using F = decltype(make(Tensor()));
  std::vector<std::optional<F>> all;
  std::vector<Tensor> results;
  for (int i = 0; i < 4; ++i) all.emplace_back(make(steps({2, 2}, i)));
  for (int i = 0; i < 4; ++i) all.push_back(all[size_t(i)]);  // a copy each
  for (int i = 0; i < 24; ++i) {
    auto& f = all[size_t(i * 5 % 8)];
    if (f) results.push_back((*f)(steps({1 + i % 3, 2}, i)));
    if (i == 8) all[1].reset(), all[6].reset();
    if (i == 12) all[0]->reset();  // forgets its code, and so does its copy
    if (i == 16) all[4].reset();
    if (i == 18) all[1] = make(steps({2, 2}, 9));
    if (i == 20) all[0] = all[1];
  }
  all.erase(all.begin() + 2, all.begin() + 5);
  for (const Tensor& r : results) run.log(r);
}

// A ring of frames that a body reads through views of several kinds while callers write into it.
TENON_PROGRAM(ViewsAreWrittenBeforeAndAfterCalls, 10) {
  Tensor ring = zeros({4, 2, 3});
  std::array<Tensor, 3> views{ring.select(0, 1), ring.transpose(1, 2), ring.view({8, 3})};
  auto f = run.compile([&](const Tensor& frame, int64_t at) {
    ring.select(0, at).copy_(frame);
    Tensor edge = views[2].slice(0, 6, 8);
    edge.add_(views[0]);
    return std::tuple(views[1].sum(1), edge, ring.flip({0}));
  });
  for (int i = 0; i < 10; ++i) {
    views[size_t(i) % 3].add_(0.5);
    Tensor frame = i % 2 ? steps({2, 3}, i) : steps({3, 2}, i).t();
    auto [sums, edge, flipped] = f(frame, i % 4);
    run.log(sums, edge, flipped.select(0, 0));
    edge.mul_(0.5);
    flipped.zero_();
    frame.fill_(9);
    if (i == 4) ring = ring.clone();           // the views show the old one from now on
    if (i == 6) views[0] = ring.select(0, 3);  // but for these
    if (i == 7) views[2] = ring.view({8, 3});
    run.log(ring.sum(), views[0]);
  }
}

// The draws of a body follow the generator of the program, also where that is set back.
TENON_PROGRAM(DrawsAreTakenBack, 6) {
  nn::Dropout drop(0.5);
  auto f = run.compile([&](const Tensor& x) { return drop(x) + drop(x * 2.0); });
  std::optional<RngState> kept;
  for (int i = 0; i < 10; ++i) {
    if (i % 4 == 1) kept = rng_state();
    if (i % 4 == 3) set_rng_state(*kept);
    if (i == 6) manual_seed(3);
    drop.train(i % 5 != 4);
    run.log(f(ones({6 + i / 5})), rand({2}));
  }
}

}  // namespace
}  // namespace tenon::programs
