// Kinds of models and of training, each over several steps.
#include "training/small_nets.h"

#include <tenon/autograd.h>
#include <tenon/optim.h>

#include <map>

namespace tenon::programs {
namespace {

// A value is rounded forward and passes its gradient as it is.
struct Straight : autograd::Function<Straight> {
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    return {in[0].round()};
  }
  static std::vector<Tensor> backward(autograd::Context&, const std::vector<Tensor>& grads) {
    return grads;
  }
};

TENON_PROGRAM(FoldsWithModelsOfTheirOwn, 16) {
  std::vector<std::unique_ptr<SmallNet>> nets;
  std::vector<std::unique_ptr<optim::Adam>> adams;
  for (int k = 0; k < 3; ++k) {
    nets.push_back(std::make_unique<SmallNet>(3, 4, 2));
    adams.push_back(std::make_unique<optim::Adam>(nets[k]->parameters(),
                                                  optim::AdamOptions{.lr = 0.01 * (k + 1)}));
  }
  auto step = run.compile([&](size_t k, const Tensor& x, const Tensor& y) {
    adams[k]->zero_grad();
    Tensor loss = cross_entropy((*nets[k])(x), y);
    loss.backward();
    adams[k]->step();
    return loss.detach();
  });
  auto check = run.compile([&](size_t k, const Tensor& x) {
    NoGradGuard off;
    return (*nets[k])(x).argmax(1);
  });
  for (int i = 0; i < 9; ++i) {
    run.log(step(i % 3, halves({4, 3}, i), arange(4) % 2));
    if (i % 3 == 2) run.log(check((i + 1) % 3, halves({5, 3}, i)));
  }
  for (auto& n : nets) log_weights(run, *n);
}

TENON_PROGRAM(StopsEarlyAndGoesBack, 10) {
  SmallNet net(3, 4, 1);
  optim::SGD sgd(net.parameters(), {.lr = 0.5, .momentum = 0.5});
  StateDict best;
  double least = 1e9;
  int bad = 0;
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    sgd.zero_grad();
    Tensor loss = mse_loss(net(x), y);
    loss.backward();
    sgd.step();
    return loss.detach();
  });
  auto valid = run.compile([&](const Tensor& x, const Tensor& y) {
    NoGradGuard off;
    net.eval();
    Tensor l = mse_loss(net(x), y);
    net.train();
    return l;
  });
  for (int i = 0; i < 8; ++i) {
    run.log(step(halves({4, 3}, i), halves({4, 1}, i)));
    double l = valid(halves({6, 3}, 2), halves({6, 1}, 5)).item<double>().value();
    run.log(l);
    if (l < least) {
      least = l;
      best.clear();
      for (auto& [name, t] : net.state_dict()) best[name] = t.detach().clone();
      bad = 0;
    } else if (++bad == 2) {
      net.load_state_dict(best);
      for (auto& g : sgd.groups()) g.lr *= 0.5;
      bad = 0;
    }
  }
  log_weights(run, net);
}

TENON_PROGRAM(PartsOfABatchAddUp, 10) {
  SmallNet net(3, 4, 2);
  optim::AdamW adam(net.parameters(), {.lr = 0.01});
  std::map<std::string, double> totals;
  struct Metrics {
    Tensor right = zeros({}, Dtype::i64), seen = zeros({}, Dtype::i64);
    std::vector<Tensor> losses;
  } metrics;
  auto batch = run.compile([&](const std::vector<Tensor>& xs, const std::vector<Tensor>& ys) {
    adam.zero_grad();
    Tensor sum = zeros({});
    for (size_t i = 0; i < xs.size(); ++i) {
      Tensor out = net(xs[i]);
      Tensor loss = cross_entropy(out, ys[i]) / double(xs.size());
      loss.backward();
      sum = sum + loss.detach();
      metrics.right += (out.argmax(1) == ys[i]).sum();
      metrics.seen += xs[i].size(0);
      totals["rows"] += double(int64_t(xs[i].size(0)));
    }
    metrics.losses.push_back(sum);
    adam.step();
    return sum;
  });
  for (int i = 0; i < 6; ++i) {
    std::vector<Tensor> xs, ys;
    for (int k = 0; k < (i % 3 == 2 ? 1 : 2); ++k) {
      int64_t n = i % 2 && k ? 3 : 4;
      xs.push_back(halves({n, 3}, i + k));
      ys.push_back(arange(n) % 2);
    }
    run.log(batch(xs, ys), metrics.right, metrics.seen, metrics.losses.size(), totals["rows"]);
  }
  run.log(stack(metrics.losses));
  log_weights(run, net);
}

TENON_PROGRAM(CurvatureAlongADirection, 8) {
  SmallNet net(3, 4, 1);
  auto ps = net.parameters();
  auto product = run.compile([&](const Tensor& x, const Tensor& y, const std::vector<Tensor>& v) {
    Tensor loss = mse_loss(net(x), y);
    auto g = autograd::grad({loss}, ps, {.create_graph = true});
    Tensor dot = zeros({});
    for (size_t i = 0; i < g.size(); ++i) dot = dot + (g[i] * v[i]).sum();
    return autograd::grad({dot}, ps, {.allow_unused = true});
  });
  std::vector<Tensor> v;
  for (auto& p : ps) v.push_back(ones_like(p.detach()) * 0.5);
  for (int i = 0; i < 5; ++i) {
    auto h = product(halves({4 - i % 2, 3}, i), halves({4 - i % 2, 1}, i), v);
    Tensor norm = zeros({});
    for (auto& t : h)
      if (t.defined()) norm = norm + t.square().sum();
    for (size_t k = 0; k < v.size(); ++k)
      if (h[k].defined()) v[k] = h[k] / (norm.sqrt() + 0.5);
    run.log(norm);
    for (auto& t : h) run.log(t.defined() ? t : zeros({}));
  }
}

TENON_PROGRAM(GradientsOfEachSample, 10) {
  SmallNet net(3, 4, 2);
  auto ps = net.parameters();
  auto clipped = run.compile([&](const Tensor& x, const Tensor& y, double bound) {
    std::vector<Tensor> sums;
    for (int64_t r = 0; r < int64_t(x.size(0)); ++r) {
      Tensor loss = cross_entropy(net(x.slice(0, r, r + 1)), y.slice(0, r, r + 1));
      auto g = autograd::grad({loss}, ps);
      Tensor norm = zeros({});
      for (auto& t : g) norm = norm + t.square().sum();
      Tensor factor = (bound / (norm.sqrt() + 1e-3)).clamp_max(1.0);
      for (size_t i = 0; i < g.size(); ++i) {
        if (r == 0)
          sums.push_back(g[i] * factor);
        else
          sums[i] = sums[i] + g[i] * factor;
      }
    }
    return sums;
  });
  for (int i = 0; i < 4; ++i)
    run.log(
        clipped(halves({i % 2 ? 2 : 3, 3}, i), arange(i % 2 ? 2 : 3) % 2, 0.25 + 0.25 * (i / 2)));
}

TENON_PROGRAM(CodesAreRoundedStraightThrough, 8) {
  SmallNet enc(3, 4, 2), dec(2, 4, 3);
  auto ps = enc.parameters();
  for (auto& p : dec.parameters()) ps.push_back(p);
  Tensor book = halves({4, 2}), counts = zeros({4});
  optim::Adam adam(ps, {.lr = 0.01});
  auto step = run.compile([&](const Tensor& x) {
    Tensor z = enc(x);
    Tensor d = (z.unsqueeze(1) - book.unsqueeze(0)).square().sum({2});
    Tensor code = d.argmin(1);
    Tensor q = book.index_select(0, code);
    Tensor through = z + (q - z).detach();
    Tensor loss =
        mse_loss(dec(through + Straight::apply({z})[0] * 0.25), x) + 0.25 * mse_loss(z, q.detach());
    adam.zero_grad();
    loss.backward();
    adam.step();
    NoGradGuard off;
    Tensor hot = one_hot(code, 4).to(Dtype::f32);
    counts.mul_(0.5).add_(hot.sum({0}) * 0.5);
    book.lerp_(hot.t().matmul(z.detach()) / (hot.sum({0}).unsqueeze(1) + 0.5), 0.25);
    return std::pair(loss.detach(), code);
  });
  for (int i = 0; i < 6; ++i) {
    auto [loss, code] = step(halves({i == 4 ? 3 : 4, 3}, i));
    run.log(loss, code, counts, book);
  }
}

TENON_PROGRAM(ExpertsChosenByAGate, 14) {
  std::vector<std::unique_ptr<SmallNet>> experts;
  for (int k = 0; k < 3; ++k) experts.push_back(std::make_unique<SmallNet>(3, 4, 2));
  nn::Linear gate(3, 3);
  set_simply(gate.parameters());
  std::vector<Tensor> ps = gate.parameters();
  for (auto& e : experts)
    for (auto& p : e->parameters()) ps.push_back(p);
  optim::SGD sgd(ps, {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor w = gate(x).softmax(1);
    auto [top, which] = w.topk(2, 1);
    Tensor out = zeros({x.size(0), 2});
    for (int64_t k = 0; k < 3; ++k) {
      Tensor mine = (which == k).any(1).nonzero().squeeze(1);
      if (mine.size(0) == 0) continue;
      Tensor share = (top * (which == k).to(Dtype::f32)).sum({1}).index_select(0, mine);
      out = out.index_add(0, mine, (*experts[k])(x.index_select(0, mine)) * share.unsqueeze(1));
    }
    Tensor loss = cross_entropy(out, y);
    sgd.zero_grad();
    loss.backward();
    for (auto& p : ps)
      if (!p.grad().defined()) p.set_grad(zeros_like(p.detach()));
    sgd.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(step(halves({5, 3}, i), arange(5) % 2));
  for (auto& e : experts)
    for (const Tensor& p : e->parameters()) run.log(coarse(p.detach()));
}

TENON_PROGRAM(LayersAreAddedWhileItTrains, 16) {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  auto add = [&] {
    layers.push_back(std::make_unique<nn::Linear>(3, 3));
    set_simply(layers.back()->parameters(), 0.25);
  };
  add();
  auto sgd = std::make_unique<optim::SGD>(layers[0]->parameters(), optim::SGDOptions{.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    Tensor h = x;
    for (auto& l : layers) h = (*l)(h).tanh() + h;
    Tensor loss = h.square().mean();
    sgd->zero_grad();
    loss.backward();
    sgd->step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 3) {
      add();
      sgd->add_param_group(layers.back()->parameters(), {.lr = 0.25});
    }
    if (i == 6) {
      layers.erase(layers.begin());
      std::vector<Tensor> ps;
      for (auto& l : layers)
        for (auto& p : l->parameters()) ps.push_back(p);
      sgd = std::make_unique<optim::SGD>(ps, optim::SGDOptions{.lr = 0.125});
    }
    run.log(step(halves({2, 3}, i)));
  }
  for (auto& l : layers) log_weights(run, *l);
}

TENON_PROGRAM(AVariationalCoder, 8) {
  SmallNet enc(3, 4, 4), dec(2, 4, 3);
  auto ps = enc.parameters();
  for (auto& p : dec.parameters()) ps.push_back(p);
  optim::Adam adam(ps, {.lr = 0.01});
  double weight = 0;
  auto step = run.compile([&](const Tensor& x) {
    auto parts = enc(x).chunk(2, 1);
    Tensor mean = parts[0], log_var = parts[1];
    Tensor z = mean + (log_var * 0.5).exp() * randn_like(mean);
    Tensor kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum({1}).mean();
    Tensor loss = mse_loss(dec(dropout(z, 0.25, true)), x) + weight * kl;
    adam.zero_grad();
    loss.backward();
    adam.step();
    weight = std::min(1.0, weight + 0.125);
    return std::tuple(loss.detach(), kl.detach());
  });
  manual_seed(7);
  for (int i = 0; i < 7; ++i) {
    auto [loss, kl] = step(halves({i % 3 ? 4 : 3, 3}, i));
    run.log(coarse(loss), coarse(kl));
  }
  run.log(coarse(rand({2})));
}

TENON_PROGRAM(ForwardProbabilitiesOfAChain, 10) {
  Tensor trans = halves({3, 3}).requires_grad_(), emit = halves({3, 4}).requires_grad_();
  optim::SGD sgd({trans, emit}, {.lr = 0.125});
  auto step = run.compile([&](const Tensor& symbols, const Tensor& lengths) {
    Tensor e = emit.log_softmax(1)
                   .t()
                   .index_select(0, symbols.reshape({-1}))
                   .reshape({symbols.size(0), symbols.size(1), 3});
    Tensor t = trans.log_softmax(1), alpha = e.select(1, 0);
    for (int64_t i = 1; i < int64_t(symbols.size(1)); ++i) {
      Tensor next = logsumexp(alpha.unsqueeze(2) + t.unsqueeze(0), {1}) + e.select(1, i);
      alpha = where((lengths > i).unsqueeze(1), next, alpha);
    }
    Tensor loss = -logsumexp(alpha, {1}).mean();
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    int64_t n = 3 + i % 3;
    run.log(step(((arange(2 * n) * 3 + i) % 4).reshape({2, n}), tensor<int64_t>({n, 2})),
            coarse(trans.detach()));
  }
}

TENON_PROGRAM(StepsInAThreadOfTheirOwn, 8) {
  SmallNet net(3, 4, 1);
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    adam.zero_grad();
    Tensor loss = mse_loss(net(x), y);
    loss.backward();
    adam.step();
    return loss.detach();
  });
  std::vector<Tensor> losses(6);
  in_threads(1, [&](int) {
    for (int i = 0; i < 6; ++i) losses[i] = step(halves({4, 3}, i), halves({4, 1}, i));
  });
  for (auto& l : losses) run.log(l);
  run.log(step(halves({4, 3}), halves({4, 1})));
  log_weights(run, net);
}

// The largest singular value by one power step a call, whose vectors are buffers.
TENON_PROGRAM(WeightsOfNormOne, 8) {
  Tensor w = halves({4, 3}).requires_grad_(), u = ones({4}) * 0.5, v = ones({3}) * 0.5;
  optim::SGD sgd({w}, {.lr = 0.125});
  bool training = true;
  auto f = run.compile([&](const Tensor& x) {
    if (training) {
      NoGradGuard off;
      v.copy_(w.t().mv(u));
      v.div_(v.norm() + 0.125);
      u.copy_(w.mv(v));
      u.div_(u.norm() + 0.125);
    }
    Tensor sigma = u.clone().dot(w.mv(v.clone()));
    return x.matmul((w / sigma).t());
  });
  for (int i = 0; i < 8; ++i) {
    training = i % 3 != 2;
    Tensor y = f(halves({2 + i % 2, 3}, i));
    run.log(y.detach(), u, v);
    if (!training) continue;
    sgd.zero_grad();
    y.square().mean().backward();
    sgd.step();
    run.log(w.detach());
  }
}

}  // namespace
}  // namespace tenon::programs
