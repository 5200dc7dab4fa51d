// Small programs that came after three weeks: states that are cut loose, penalties, views between
// calls, dtypes and empty batches in turn.
#include "program.h"

#include <numeric>

namespace tenon::programs {
namespace {

void set_simply(const std::vector<Tensor>& parameters) {
  NoGradGuard no_grad;
  int i = 0;
  for (const Tensor& p : parameters)
    p.copy_((arange(p.numel()) % 5 - 2).reshape(p.sizes()) * 0.25 + 0.125 * i++);
}

TENON_PROGRAM(AStateIsCutLooseEveryThirdStep, 6) {
  nn::GRUCell cell(2, 3);
  set_simply(cell.parameters());
  auto step = run.compile([&](const Tensor& x, const Tensor& h, bool cuts) {
    Tensor next = cell(x, cuts ? h.detach() : h);
    return std::pair(next, next.square().sum());
  });
  Tensor h = zeros({1, 3}), total = zeros({});
  for (int i = 0; i < 9; ++i) {
    auto [next, loss] = step(row({float(i % 2), 0.5}).unsqueeze(0), h, i % 3 == 0);
    h = next;
    total = total + loss;
    if (i % 3 < 2) continue;
    cell.zero_grad();
    total.backward();
    run.log(total.detach(), cell.weight_hh.grad().sum());
    total = zeros({});
  }
}

TENON_PROGRAM(StatisticsOfABatchNormOverModes, 8) {
  nn::BatchNorm1d norm(2);
  auto f = run.compile([&](const Tensor& x) { return norm(x); });
  for (int i = 0; i < 9; ++i) {
    norm.train(i % 3 != 2);
    if (i == 4) norm.running_mean.fill_(0.5);
    if (i == 6) norm.weight.requires_grad_(false);
    Tensor y = f((arange(4 + 2 * (i % 2)).reshape({-1, 2}) * float(i)).to(Dtype::f32));
    run.log(y, norm.running_mean, norm.running_var, norm.num_batches_tracked);
  }
}

TENON_PROGRAM(APenaltyOnTheSlopeOfACritic, 8) {
  nn::Linear in(2, 3), out(3, 1);
  set_simply(in.parameters());
  set_simply(out.parameters());
  auto f = run.compile([&](const Tensor& real, const Tensor& fake, double share) {
    in.zero_grad();
    out.zero_grad();
    Tensor mixed = (real * share + fake * (1 - share)).detach().requires_grad_();
    auto critic = [&](const Tensor& x) { return out(in(x).square()); };
    Tensor slope = autograd::grad({critic(mixed).sum()}, {mixed}, {.create_graph = true})[0];
    Tensor penalty = (slope.square().sum(1) - 1.0).square().mean();
    Tensor loss = critic(fake).mean() - critic(real).mean() + penalty * 0.25;
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) {
    Tensor real = (arange(6) % 3).reshape({3, 2}) * 0.5, fake = real - float(i) / 4;
    run.log(f(real, fake, i % 2 ? 0.5 : 0.25), in.weight.grad(), out.bias.grad());
  }
}

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

TENON_PROGRAM(HooksFromOutsideComeGoAndThrow, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).square().sum(); });
  std::optional<autograd::HookHandle> scaling, throwing;
  for (int i = 0; i < 9; ++i) {
    if (i == 2) scaling = autograd::register_hook(w, [](const Tensor& g) { return g * 0.5; });
    if (i == 4)
      throwing = autograd::register_hook(w, [](const Tensor& g) -> Tensor {
        throw std::runtime_error("in a hook: " + std::to_string(g.numel()));
      });
    if (i == 6) throwing->remove();
    if (i == 7) scaling->remove();
    run.log_error([&] { f(row({1, float(i)})).backward(); });
    run.log(w.grad());
  }
}

TENON_PROGRAM(MetricsThatRunAlong, 6) {
  Tensor right = zeros({}, Dtype::i64), seen = zeros({}, Dtype::i64),
         table = zeros({3, 3}, Dtype::i64);
  auto update = run.compile([&](const Tensor& scores, const Tensor& labels) {
    Tensor guess = scores.argmax(1);
    right.add_(guess.eq(labels).sum());
    seen.add_(labels.numel());
    table.view({9}).index_add_(0, labels * 3 + guess, ones_like(guess));
    return right.to(Dtype::f32) / seen;
  });
  for (int i = 0; i < 6; ++i) {
    int64_t n = 2 + i % 3;
    Tensor scores = ((arange(3 * n) * (i + 2)) % 5).reshape({n, 3}).to(Dtype::f32);
    run.log(update(scores, arange(n) % 3), right, seen, table);
    if (i == 3) right.zero_(), seen.zero_();
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

TENON_PROGRAM(ModulesInAVectorThatGrowsAndShrinks, 10) {
  std::vector<std::shared_ptr<nn::Linear>> layers;
  auto add = [&] {
    layers.push_back(std::make_shared<nn::Linear>(2, 2));
    set_simply(layers.back()->parameters());
  };
  add();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x;
    for (const auto& layer : layers) h = (*layer)(h).relu() + h;
    return h.sum();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 2 || i == 3) add();
    if (i == 5) layers.erase(layers.begin());
    if (i == 6) std::swap(layers[0], layers[1]);
    for (const auto& layer : layers) layer->zero_grad();
    Tensor loss = f((arange(4) - float(i)).reshape({2, 2}).to(Dtype::f32));
    loss.backward();
    run.log(loss.detach(), layers.back()->weight.grad(), layers.size());
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
