// Habits of training loops: averages of weights, tied weights, scaled losses, frozen layers, restarts,
// states that are cut loose, penalties, metrics.
#include "program.h"

#include <algorithm>
#include <cmath>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  TENON_MODULE(Net, in, out)
  Net() { set_simply(parameters()); }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor batch(int i, int64_t n = 3) { return (arange(2 * n) % 5 - 2 + i % 3).reshape({n, 2}) * 0.5; }

TENON_PROGRAM(AnAverageOfTheWeightsIsServed, 6) {
  Net net, average;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  auto step = run.compile(
      [&](const Tensor& x, double decay) {
        opt.zero_grad();
        Tensor loss = net(x).square().mean();
        loss.backward();
        opt.step();
        NoGradGuard no_grad;
        auto from = net.parameters(), to = average.parameters();
        for (size_t i = 0; i < from.size(); ++i) to[i].lerp_(from[i], 1 - decay);
        return loss.detach();
      },
      state(net, opt, average));
  auto serve = run.compile([&](const Tensor& x) {
    InferenceMode inference;
    return average(x).argmax(1);
  });
  for (int i = 0; i < 6; ++i) {
    run.log(step(batch(i), i < 3 ? 0.5 : 0.75));
    if (i % 2) run.log(serve(batch(i, 2 + i)), average.out.bias);
  }
}

// The output layer is the embedding, until it gets weights of its own.
struct Tied : nn::Module {
  nn::Embedding words{5, 4};
  nn::Linear out{4, 5, {.bias = false}};
  TENON_MODULE(Tied, words, out)
  Tied() {
    set_simply(parameters());
    out.weight = words.weight;
  }
  Tensor forward(const Tensor& ids) const { return out(words(ids)); }
};

TENON_PROGRAM(TiedWeightsAndTheirSeparation, 6) {
  Tied net;
  run.log(net.parameters().size());
  auto opt = std::make_unique<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.0625});
  auto step = run.compile([&](const Tensor& ids) {
    opt->zero_grad();
    Tensor loss = net(ids).square().mean();
    loss.backward();
    opt->step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    if (i == 3) {
      net.out.weight = nn::Parameter(net.words.weight.detach().clone());
      opt = std::make_unique<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.0625});
    }
    run.log(step(tensor({1, 3, 1, 0})), net.words.weight.select(0, 1), net.out.weight.sum());
    run.log(net.words.weight.is_same(net.out.weight), opt->state_tensors().size());
  }
}

TENON_PROGRAM(AScaledLossWithStepsThatAreSkipped, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  double scale = 4;
  int good = 0;
  auto backward = run.compile([&](const Tensor& x, const Tensor& factor) {
    AutocastGuard lower;
    Tensor loss = net(x).to(Dtype::f32).square().mean();
    (loss * factor).backward();
    return loss.detach();
  });
  auto unscale = run.compile([&](const Tensor& factor) {
    NoGradGuard no_grad;
    Tensor finite = ones({}, Dtype::bool_);
    for (const Tensor& p : net.parameters()) {
      p.grad().mul_(factor.reciprocal());
      finite = finite.logical_and(p.grad().isfinite().all());
    }
    return finite;
  });
  for (int i = 0; i < 7; ++i) {
    opt.zero_grad();
    Tensor x = batch(i);
    if (i == 2 || i == 5) x = x * (i == 2 ? INFINITY : NAN);
    Tensor factor = tensor(float(scale)), loss = backward(x, factor);
    bool is_good = unscale(factor).item<bool>();
    if (is_good) opt.step();
    good = is_good ? good + 1 : 0;
    scale = !is_good ? scale / 2 : good == 2 ? scale * 2 : scale;
    // Backends round to 16 bits at other places.
    run.log(is_good, scale, loss.isfinite(), net.in.bias.detach() > 0.2);
  }
}

TENON_PROGRAM(LayersAreThawedOneByOne, 6) {
  Net net;
  net.in.requires_grad_(false);
  optim::SGD opt(net.out.parameters(), {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 2) {
      net.in.requires_grad_(true);
      opt.add_param_group(net.in.parameters(), {.lr = 0.0625});
    }
    if (i == 4) net.out.weight.requires_grad_(false);
    if (i == 5) opt.groups()[1].lr = 0.25;
    if (i == 6) net.out.weight.requires_grad_(true);
    run.log(step(batch(i)), net.in.bias, net.out.bias, net.in.weight.grad().defined());
  }
}

TENON_PROGRAM(AScheduleWithAWarmUpAndARestart, 4) {
  Net net;
  optim::AdamW opt(net.parameters(), {.lr = 0.25});
  auto make = [&] { return std::make_unique<optim::LinearLR>(opt, 0.25, 1, 4); };
  auto schedule = make();
  auto step = run.compile(
      [&](const Tensor& x) {
        opt.zero_grad();
        Tensor loss = net(x).square().mean();
        loss.backward();
        optim::clip_grad_norm_(net.parameters(), 0.5);
        opt.step();
        return loss.detach();
      },
      state(net, opt));
  StateDict weights, moments;
  for (int i = 0; i < 9; ++i) {
    if (i == 3) {
      for (const auto& [name, t] : net.state_dict()) weights[name] = t.clone();
      for (const auto& [name, t] : opt.state_dict()) moments[name] = t.clone();
    }
    if (i == 6) {
      net.load_state_dict(weights);
      opt.load_state_dict(moments);
      schedule->restart_at(3);
    }
    run.log(step(batch(i % 6)), double(opt.lr));
    schedule->step();
  }
}

TENON_PROGRAM(AStepThatFailsHalfWay, 6) {
  Net net;
  optim::Adam opt(net.parameters(), {.lr = 0.125});
  auto step = run.compile(
      [&](const Tensor& x, int fails) {
        opt.zero_grad();
        Tensor h = net.in(x).relu();
        if (fails == 1) throw std::runtime_error("before the backward");
        Tensor loss = net.out(h).square().mean();
        loss.backward();
        if (fails == 2) throw std::runtime_error("before the step");
        opt.step();
        if (fails == 3) throw std::runtime_error("behind the step");
        return loss.detach();
      },
      state(net, opt));
  for (int i = 0; i < 8; ++i) {
    int fails = i % 2 ? (i + 1) / 2 : 0;
    run.log_error([&] { run.log(step(batch(i), fails)); });
    run.log(net.in.bias, net.in.weight.grad().defined());
  }
}

// A copy of a module shares tensors until it gets values of its own.
TENON_PROGRAM(CopiesOfANetTrainApart, 8) {
  Net net;
  Net copy = net;
  for (Tensor* t : std::initializer_list<Tensor*>{&copy.in.weight, &copy.in.bias, &copy.out.weight,
                                                  &copy.out.bias})
    *static_cast<nn::Parameter*>(t) = nn::Parameter(t->detach().clone());
  auto train = run.compile([](Net& n, const Tensor& x, double rate) {
    n.zero_grad();
    Tensor loss = n(x).square().mean();
    loss.backward();
    NoGradGuard no_grad;
    for (const Tensor& p : n.parameters()) p.sub_(p.grad() * rate);
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    Net& turn = i % 2 ? copy : net;
    run.log(train(turn, batch(i), i < 4 ? 0.125 : 0.25), net.in.bias, copy.in.bias);
  }
}

struct Scale : autograd::Function<Scale> {
  struct Setting {
    double factor;
    std::vector<int64_t> order;
    std::string name;
  };
  static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in) {
    auto setting = std::make_shared<Setting>(current);
    c.user = setting;
    c.save_for_backward({in[0]});
    return {in[0].permute(setting->order) * setting->factor};
  }
  static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> grads) {
    const auto& setting = *static_cast<Setting*>(c.user.get());
    Tensor g = grads[0].permute(setting.order) * setting.factor;
    return {setting.name == "signed" ? g * c.saved_tensors()[0].sign() : g};
  }
  static Tensor with(const Tensor& x, Setting setting) {
    current = std::move(setting);
    return apply({x})[0];
  }
  static inline thread_local Setting current;
};

TENON_PROGRAM(AFunctionWithSettings, 8) {
  Tensor w = row({1, -2, 3, -4}).reshape({2, 2}).requires_grad_();
  auto f = run.compile([&](double factor, bool turned, const std::string& name) {
    auto order = turned ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 1};
    return (Scale::with(w, {factor, order, name}) * row({1, 2})).sum();
  });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    f(i < 4 ? 2.0 : 0.5 * i, i % 2 == 1, i % 4 < 2 ? "plain" : "signed").backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(PackedRowsOfManyLengths, 4) {
  Tensor w = row({1, 0.5}).requires_grad_();
  auto f = run.compile([&](const Tensor& flat, const Tensor& lengths) {
    Tensor ends = lengths.cumsum(0), starts = ends - lengths;
    Tensor owner = arange(flat.size(0)).unsqueeze(1).ge(ends).to(Dtype::i64).sum(1);
    Tensor position = arange(flat.size(0)) - starts.index_select(0, owner);
    Tensor h = flat * w + position.unsqueeze(1).to(Dtype::f32);
    Tensor sums = zeros({lengths.size(0), 2}).index_add(0, owner, h);
    return sums / lengths.unsqueeze(1).to(Dtype::f32);
  });
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{2, 1, 4}, {1, 1}, {4, 2, 1, 1}, {8}, {2, 4, 1}}) {
    w.set_grad({});
    int64_t n = 0;
    for (int64_t l : lengths) n += l;
    Tensor means = f((arange(2 * n) % 7 - 3).reshape({n, 2}).to(Dtype::f32), tensor(lengths));
    means.sum().backward();
    run.log(means.detach(), w.grad());
  }
}

TENON_PROGRAM(MaskedAttentionOverPaddedRows, 4) {
  Tensor w = (arange(4) - 1.5).reshape({2, 2}).requires_grad_();
  auto attend = run.compile([&](const Tensor& x, const Tensor& lengths) {
    Tensor padded = arange(x.size(1)).unsqueeze(0).ge(lengths.unsqueeze(1));
    Tensor scores = x.matmul(w).bmm(x.transpose(1, 2));
    scores = scores.masked_fill(padded.unsqueeze(1), -INFINITY);
    Tensor out = softmax(scores, -1).bmm(x);
    return out.masked_fill(padded.unsqueeze(2), 0);
  });
  for (int64_t length : {3, 5, 3, 2}) {
    w.set_grad({});
    Tensor x = (arange(4 * length) % 3 - 1).reshape({2, length, 2}) * 0.5;
    Tensor out = attend(x, tensor({length, length - 1}));
    out.sum().backward();
    run.log(out.detach(), w.grad());
  }
}

TENON_PROGRAM(ARingIsReadThroughViewsWhileItIsWritten, 4) {
  Tensor ring = zeros({4, 2}), head = ring.select(0, 0), column = ring.select(1, 1);
  auto push = run.compile([&](const Tensor& x, int64_t at) {
    ring.select(0, at).copy_(x);
    column.add_(1.0);
    return head.sum() + ring.sum();
  });
  for (int i = 0; i < 7; ++i) {
    run.log(push(row({float(i), 1}), i % 4), head, column);
    if (i == 3) head = ring.select(0, 2);
    if (i == 5) column = ring.select(1, 0);
  }
}

TENON_PROGRAM(GradAndInferenceTakeTurnsOverOneNet, 6) {
  Net net;
  auto f = run.compile([&](const Tensor& x) { return net(x).sum(); });
  for (int i = 0; i < 9; ++i) {
    net.zero_grad();
    if (i % 3 == 0) {
      Tensor loss = f(batch(i));
      loss.backward();
      run.log(loss.detach(), net.in.weight.grad());
    } else if (i % 3 == 1) {
      NoGradGuard no_grad;
      run.log(f(batch(i)), f(batch(i)).requires_grad());
    } else {
      InferenceMode inference;
      run.log(f(batch(i)), f(batch(i)).requires_grad());
    }
  }
}

TENON_PROGRAM(ACheckpointInACompiledStep, 6) {
  Net net;
  auto step = run.compile([&](const Tensor& x, bool saves) {
    net.zero_grad();
    Tensor h = net.in(x);
    auto deep = [&](const std::vector<Tensor>& in) {
      return std::vector{net.out(in[0].relu() * in[0].sigmoid())};
    };
    Tensor y = saves ? autograd::checkpoint(deep, {h})[0] : deep({h})[0];
    Tensor loss = y.square().sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(step(batch(i), i % 3 != 1), net.in.bias.grad());
}

TENON_PROGRAM(GradientsOverSeveralBatches, 6) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5, .nesterov = true});
  auto accumulate = run.compile([&](const Tensor& x, int64_t parts) {
    Tensor loss = net(x).square().mean() / double(parts);
    loss.backward();
    return loss.detach();
  });
  int64_t parts = 2, done = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 4) parts = 3;
    run.log(accumulate(batch(i, 2 + i % 2), parts));
    if (++done < parts) continue;
    Tensor norm = optim::clip_grad_norm_(net.parameters(), 1);
    opt.step();
    opt.zero_grad(i > 6);
    done = 0;
    run.log(norm, net.out.bias, net.out.bias.grad().defined());
  }
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

}  // namespace
}  // namespace tenon::programs
