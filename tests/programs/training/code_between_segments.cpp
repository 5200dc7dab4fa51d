// Code of the program that a body calls uncompiled uses tensors of the body that it captures: hooks
// of a pass in the body, functions given to disable(), hooks of saved tensors.
#include "../program.h"

#include <tenon/compiler.h>

namespace tenon::programs {
namespace {

Tensor weight(double value = 0.5) { return full({3}, value).requires_grad_(); }

TENON_PROGRAM(AHookScoresActivations, 10) {
  Tensor w = weight(), score = zeros({3});
  optim::SGD opt({w}, {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor h = (x * w).relu();
    autograd::register_hook(
        h, [&, h = h.detach()](const Tensor& g) { score.add_((h * g).sum(IntList{0}).abs()); });
    Tensor loss = h.square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(halves({2 + i % 2, 3}, i)), score, w);
}

TENON_PROGRAM(HooksMaskGradients, 12) {
  Tensor w = weight(), v = weight(2);
  bool with_mask = true;
  auto f = run.compile([&](const Tensor& x) {
    Tensor mask = (x > 0).to(Dtype::f32), h = x * w;
    autograd::HookHandle after = autograd::register_post_accumulate_grad_hook(
        w, [mask = mask.select(0, 0)](const Tensor& leaf) {
          NoGradGuard off;
          leaf.grad().mul_(mask);
        });
    if (with_mask) autograd::register_hook(h, [mask](const Tensor& g) { return g * mask; });
    autograd::register_hook(v, [x](const Tensor& g) { return g + x.sum(); });
    (h * v).square().sum().backward();
    after.remove();
    return mask;
  });
  for (int i = 0; i < 8; ++i) {
    with_mask = i % 4 < 2;
    w.set_grad({}), v = weight(2 + i % 3);
    run.log(f(halves({2, 3}, i)), w.grad(), v.grad());
  }
}

TENON_PROGRAM(AHookRunsAPassOfItsOwn, 10) {
  Tensor w = weight(), v = weight(2);
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, beside = (x * v).square().sum();
    Tensor z = x.detach().clone().requires_grad_(), u = (z * z * w.detach()).sum();
    autograd::register_hook(h, [&, beside, z, u](const Tensor& g) {
      beside.backward();
      z.set_grad(autograd::grad({u}, {z})[0] + g);
      return beside.is_leaf() ? g : g * 2;
    });
    h.square().sum().backward();
    return z.grad() * 0.5;
  });
  for (int i = 0; i < 5; ++i) {
    w.set_grad({}), v.set_grad({});
    run.log(f(halves({2, 3}, i)), w.grad(), v.grad());
  }
}

TENON_PROGRAM(DisabledCodeWritesWhatItCaptures, 12) {
  Tensor w = weight();
  int mode = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, m = x + 1;
    compiler::disable([&] {
      if (mode == 0) m.mul_(3);
      if (mode == 1) h.select(0, 0).add_(m.select(0, 0));
      if (mode == 2) h[0].copy_(w.detach());
    })();
    return (h + m) * w;
  });
  for (int i = 0; i < 9; ++i) {
    mode = i % 3;
    w.set_grad({});
    Tensor y = f(halves({2 + i % 2, 3}, i));
    run.log(y);
    y.sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(DisabledCodeAddsHistory, 12) {
  Tensor w = weight(), v = weight(3);
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, g = x * v;
    Tensor made = compiler::disable([&] {
      h.mul_(w);
      return g.exp() * h;
    })();
    return std::tuple(made + h, h.requires_grad(), g.sum());
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({}), v.set_grad({});
    auto [y, needs, s] = f(halves({2 + i % 2, 3}, i));
    run.log(y, needs, s);
    (y.sum() * s).backward();
    run.log(w.grad(), v.grad());
  }
}

struct Keeper {
  std::vector<Tensor> all;
  Tensor last;
};

TENON_PROGRAM(DisabledCodeKeepsWhatItCaptures, 12) {
  Tensor w = weight();
  Keeper kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    Tensor same = compiler::disable([&] {
      kept.all = {h, h.select(0, 1), h * 2, x};
      kept.last = h.detach();
      return h;
    })();
    h = h + 1;
    compiler::disable([&] { kept.all.push_back(h.view({-1})); })();
    return std::tuple(same * h, same.is_leaf(), same.requires_grad());
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    auto [y, is_leaf, needs] = f(halves({2 + i % 2, 3}, i));
    run.log(y, is_leaf, needs, kept.last);
    Tensor loss = y.sum();
    for (const Tensor& t : kept.all) run.log(t, t.requires_grad()), loss = loss + t.sum();
    loss.backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(DisabledCodeLooksAtWhatItCaptures, 10) {
  Tensor w = weight();
  std::vector<double> seen;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, top = h.amax();
    bool is_high = compiler::disable([&] {
      seen.push_back(double(top.item<float>()) + h.data_ptr<float>()[0] + x.to_vector<float>()[1]);
      return double(h.sum().item<float>()) > 0 && !h.is_leaf() && bool(autograd::grad_fn(h));
    })();
    return is_high ? h * 2 : h - 1;
  });
  for (int i = 0; i < 6; ++i) run.log(f(halves({2 + i % 2, 3}, i)));
  for (double value : seen) run.log(value);
}

TENON_PROGRAM(SavedTensorsArePackedWithAMask, 24) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    Tensor scale = x.amax() + 1;
    autograd::SavedTensorHooks hooks(
        [scale](const Tensor& t) { return std::make_shared<Tensor>(t.detach() / scale); },
        [scale](const std::shared_ptr<void>& p) {
          return *std::static_pointer_cast<Tensor>(p) * scale;
        });
    Tensor y = (x * w).square().sum();
    y.backward();
    return y.detach();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    run.log(f(ones({2, 3}) * (i + 1)), w.grad());
  }
}

TENON_PROGRAM(ACompiledFunctionIsCalledThere, 12) {
  Tensor w = weight();
  auto inner = run.compile([&](const Tensor& t) { return (t * w).relu() + 1; });
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, y;
    compiler::disable([&] { y = inner(h).sum(IntList{0}) * h.select(0, 0); })();
    return y + h;
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor y = f(halves({2 + i % 2, 3}, i));
    y.sum().backward();
    run.log(y, w.grad());
  }
}

TENON_PROGRAM(HistoryComesAndGoes, 8) {
  Tensor w = weight(2);
  bool adds = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2;
    compiler::disable([&] {
      if (adds)
        h.mul_(w);
      else
        h.mul_(2);
    })();
    Tensor y = h * 3;
    return std::tuple(y, h.requires_grad(), y.requires_grad());
  });
  for (int i = 0; i < 12; ++i) {
    adds = i % 3 == 2 || i > 8;
    w.set_grad({});
    auto [y, h_needs, y_needs] = f(halves({2, 3}, i));
    run.log(y, h_needs, y_needs);
    if (!y.requires_grad()) continue;
    y.sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AViewMadeThereSeesLaterWrites, 8) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, row;
    compiler::disable([&] { row = h.select(0, 0); })();
    Tensor column = compiler::disable([](const Tensor& t) { return t.select(1, 1); })(h);
    h.add_(1);
    return std::tuple(row + 0, column * w.sum(), h);
  });
  for (int i = 0; i < 5; ++i) {
    auto [row, column, h] = f(halves({2 + i % 2, 3}, i));
    run.log(row, column, h);
  }
}

TENON_PROGRAM(ItReshapesWhatItCaptures, 24) {
  int mode = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, m = (x + 1).unsqueeze(0);
    compiler::disable([&] {
      if (mode == 0) h.t_();
      if (mode == 1) m.squeeze_(0);
      if (mode == 2) h.unsqueeze_(0), m.transpose_(1, 2);
    })();
    return std::tuple(h * 3, m.sum(IntList{-1}), h.dim(), m.size(-1), h.is_contiguous());
  });
  for (int i = 0; i < 12; ++i) {
    mode = i % 4;
    auto [a, b, dims, last, is_contiguous] = f(halves({3 + i / 6, 3}, i));
    run.log(a, b, dims, int64_t(last), is_contiguous);
  }
}

TENON_PROGRAM(RecurrentLayersSaveThroughHooksOfTheCaller, 8) {
  manual_seed(4);
  nn::GRU layer(3, 2);
  Tensor scale;
  auto f = run.compile([&](const Tensor& x) {
    scale = x.abs().amax() + 1;
    return layer(x * 2).output * 3;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor y;
    {
      autograd::SavedTensorHooks hooks(
          [&](const Tensor& t) { return std::make_shared<Tensor>(t.detach().clone()); },
          [](const std::shared_ptr<void>& p) { return *std::static_pointer_cast<Tensor>(p); });
      y = f(halves({2 + i % 2, 1, 3}, i));
    }
    layer.zero_grad();
    y.sum().backward();
    run.log(y, scale, (layer.parameters()[0].grad() * 16.0).round());  // sums over the steps
  }
}

TENON_PROGRAM(AHookHoldsItsOwnTensor, 8) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor h = x * w, m = x * 2;
    autograd::register_hook(h, [h, m](const Tensor& g) { return g * (h > 0) + m; });
    Tensor loss = h.square().sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(halves({2 + i % 2, 3}, i)), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookHoldsItsOwnTensor, 2);

// They run between two graphs, where no flag lets them in.
TENON_PROGRAM(RecurrentLayersGetManyLengths, 6) {
  manual_seed(3);
  nn::GRU first(3, 4);
  nn::LSTM second(4, 2);
  nn::Linear head(2, 1);
  optim::SGD opt(first.parameters(), {.lr = 0.05});
  opt.add_param_group(second.parameters());
  Tensor state;
  auto f = run.compile([&](const Tensor& x) {
    auto [seen, last] = first(x * 2, state);
    state = last.detach();
    Tensor y = second(seen.relu()).output;
    return head(y).square().mean();
  });
  for (int i = 0; i < 14; ++i) {
    state = i % 5 ? state : zeros({1, 2, 4});
    opt.zero_grad();
    Tensor loss = f(halves({2 + i % 7, 2, 3}, i));
    loss.backward();
    opt.step();
    run.log(loss, state, first.parameters()[0]);
  }
}

// A path that other needs have recorded does not serve these.
TENON_PROGRAM(NeedsChangeInTurns, 16) {
  Tensor w = weight();
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2, d = x * w;
    disable([&] {
      if (turn % 2) h.requires_grad_();
      if (turn == 2) d.detach_();
      if (turn == 3) d = d.detach();
    })();
    Tensor y = h * d;
    return std::tuple(y, h, h.is_leaf(), y.requires_grad(), d.is_leaf());
  });
  for (int order : {3210, 321, 2313, 1203})
    for (int i = 0; i < 4; ++i, order /= 10) {
      turn = order % 10;
      w.set_grad({});
      auto [y, h, h_is_leaf, needs_grad, d_is_leaf] = f(halves({2 + i % 2, 3}, i));
      if (needs_grad) y.sum().backward();
      run.log(y, w.grad(), h_is_leaf ? h.grad() : h, h_is_leaf, needs_grad, d_is_leaf);
    }
}

TENON_PROGRAM(CapturedTensorsAreTurnedBetween, 14) {
  Tensor table = halves({2, 3});
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = table * 2 + x.sum();
    disable([&] {
      if (turn % 3 == 2) table.t_();
    })();
    Tensor b = table + 1;
    return b * a.sum();
  });
  for (; turn < 9; ++turn) run.log(f(halves({2 + turn % 2}, turn)), table);
}

TENON_PROGRAM(CapturedWeightsAreFrozenBetween, 14) {
  Tensor w = weight(), v = weight(2);
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w * v;
    disable([&] {
      w.requires_grad_(turn % 3 != 1);
      v.requires_grad_(turn % 4 != 2);
    })();
    Tensor y = h + x * w + v;
    return std::pair(y, y.requires_grad());
  });
  for (; turn < 12; ++turn) {
    w.set_grad({});
    v.set_grad({});
    auto [y, needs_grad] = f(halves({2 + turn % 2, 3}, turn));
    if (needs_grad) y.square().sum().backward();
    run.log(y, needs_grad, w.grad(), v.grad());
  }
}

// The program has a handle of its own to what it passes.
TENON_PROGRAM(ArgumentsAreTurnedThroughAnotherHandle, 10) {
  Tensor given;
  int turn = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x * 2;
    disable([&] {
      if (turn % 3 == 1) given.t_();
      if (turn % 3 == 2) given.mul_(2);
    })();
    return std::tuple(a, x + 1, given * 3, x.is_same(given));
  });
  for (; turn < 8; ++turn) {
    given = halves({2 + turn % 2, 3}, turn);
    auto [a, b, c, is_same] = f(given);
    run.log(a, b, c, is_same, given);
  }
}

}  // namespace
}  // namespace tenon::programs
