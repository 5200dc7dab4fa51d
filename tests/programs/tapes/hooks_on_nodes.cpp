// What bodies ask of the tape about tensors that they compute: leaves, nodes, and hooks on nodes.
#include "program.h"

namespace tenon::programs {
namespace {

using autograd::grad_fn;

TENON_PROGRAM(LeavesAndOthers, 4) {
  Tensor w = row({1, 2}).requires_grad_(), scaled = w * 2.0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, constant = x * 2.0, cut = h.detach();
    for (const Tensor& t : {x, w, scaled, h, constant, cut, h.view({2, 1})})
      run.log(t.is_leaf(), t.requires_grad(), bool(grad_fn(t)), t.grad());
    {
      NoGradGuard off;
      Tensor off_tape = h + 1.0;
      run.log(off_tape.is_leaf(), off_tape.requires_grad());
    }
    return h.sum();
  });
  for (int i = 0; i < 3; ++i) f(row({1, float(i)})).backward();
  for (int i = 0; i < 2; ++i) f(row({1, float(i)}).requires_grad_() * 2.0).backward();
}

TENON_PROGRAM(LeavesAroundGraphBreaksAndWrites, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, sum = zeros({2});
    run.log(h.is_leaf(), sum.is_leaf());
    sum.add_(h);
    run.log(sum.is_leaf(), bool(grad_fn(sum)), sum.requires_grad());
    if (h.sum().item<float>() > 3) h = h * 2.0;
    run.log(h.is_leaf(), sum.is_leaf(), bool(grad_fn(h)), w.is_leaf());
    Tensor own = zeros({2}).requires_grad_();
    run.log(own.is_leaf(), own.requires_grad());
    return (sum * h + own).sum();
  });
  for (int i = 0; i < 5; ++i) f(row({1, float(i)})).backward();
  run.log(w.grad());
}

TENON_PROGRAM(NamesOfNodes, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    run.log(grad_fn(h).name(), grad_fn(h.exp()).name(), grad_fn(x * 2.0).name());
    h.relu_();
    run.log(grad_fn(h).name(), grad_fn(w).name());
    return h.sum();
  });
  for (int i = 0; i < 3; ++i) f(row({1, float(i)})).backward();
}

TENON_PROGRAM(AHookBeforeANode, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = (x * w).exp(), k = h * 2.0;
    grad_fn(h).register_prehook([&](const std::vector<Tensor>& grads) {
      run.log("before", grads);
      return std::vector<Tensor>{grads[0] * 0.5};
    });
    return k.sum() + h.sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookBeforeANode, 2);

TENON_PROGRAM(AHookBehindANode, 2) {
  Tensor w = row({1, 2}).requires_grad_(), b = row({3, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = (x * w) * (b + 1.0);
    grad_fn(h).register_hook(
        [&](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
          run.log("behind", outputs, inputs);
          return std::vector<Tensor>{outputs[0] * 2.0, outputs[1]};
        });
    return h.relu().sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad(), b.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookBehindANode, 2);

TENON_PROGRAM(HooksOfAllKindsAtOneNode, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = (x * w).exp();
    grad_fn(h).register_prehook([&](const std::vector<Tensor>& grads) {
      run.log("before the node", grads);
      return std::vector<Tensor>();
    });
    grad_fn(h).register_hook([&](const std::vector<Tensor>& outputs, const std::vector<Tensor>&) {
      run.log("behind the node", outputs);
      return std::vector<Tensor>();
    });
    autograd::register_hook(h, [&](const Tensor& g) {
      run.log("of the tensor", g);
      return g * 2.0;
    });
    h.retain_grad();
    return std::pair(h, (h * h).sum());
  });
  for (int i = 0; i < 3; ++i) {
    auto [h, loss] = f(row({1, float(i)}));
    autograd::register_hook(h, [&](const Tensor& g) { run.log("of the caller", g); });
    loss.backward();
    run.log(h.grad(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksOfAllKindsAtOneNode, 2);

TENON_PROGRAM(HooksOnSomeNodesOnSomeCalls, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, k = h.exp();
    int call = calls++;
    auto scale = [call](const std::vector<Tensor>& outputs, const std::vector<Tensor>&) {
      return std::vector<Tensor>{outputs[0] * float(call)};
    };
    if (call % 4 == 1) grad_fn(k).register_hook(scale);
    if (call % 4 == 2) autograd::register_hook(k, [&](const Tensor& g) { run.log("k", g); });
    if (call % 4 == 3)
      grad_fn(h).register_prehook([&](const std::vector<Tensor>& grads) {
        run.log("h", grads);
        return std::vector<Tensor>();
      });
    return (k * h).sum();
  });
  for (int i = 0; i < 12; ++i) {
    w.set_grad({});
    f(row({1, float(i % 3)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksOnNodesThatAreTakenAway, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  autograd::HookHandle kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = (x * w).exp();
    auto node = grad_fn(h);
    auto tenfold = [](const std::vector<Tensor>& grads) {
      return std::vector<Tensor>{grads[0] * 10.0};
    };
    auto gone = node.register_prehook(tenfold);
    kept = node.register_prehook(tenfold);
    gone.remove();
    return h.sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(row({1, float(i)}));
    if (i % 2) kept.remove();
    loss.backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksOnNodesBetweenGraphBreaks, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    grad_fn(h).register_prehook([&](const std::vector<Tensor>& grads) {
      run.log("h", grads);
      return std::vector<Tensor>{grads[0] * 2.0};
    });
    bool large = h.sum().item<float>() > 4;
    Tensor k = large ? h.exp() : h.relu() + h;
    grad_fn(k).register_prehook([&](const std::vector<Tensor>& grads) {
      run.log("k", grads);
      return std::vector<Tensor>();
    });
    return (k * k).sum();
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    f(row({1, float(i) - 1})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksOnNodesOfTensorsFromOutside, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    grad_fn(x).register_prehook([&](const std::vector<Tensor>& grads) {
      run.log("x", grads);
      return std::vector<Tensor>();
    });
    return (x * w).sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)}).requires_grad_().exp()).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(HooksOnNodesThatWrite, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    h.mul_(3.0);
    grad_fn(h).register_hook([&](const std::vector<Tensor>& outputs, const std::vector<Tensor>&) {
      run.log("of the write", outputs);
      return std::vector<Tensor>();
    });
    return h.exp().sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i) / 4})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(NodesThatDoNotExist, 4) {
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2.0;
    run.log(bool(grad_fn(h)), grad_fn(h).name(), grad_fn(h).next_functions().size());
    grad_fn(h).register_prehook([](const std::vector<Tensor>&) { return std::vector<Tensor>(); });
    return h;
  });
  for (int i = 0; i < 2; ++i) run.log_error([&] { f(row({1, 2})); });
}

// In a compiled run there is no such node any more.
TENON_PROGRAM(HooksOnNodesThatComeTooLate, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  autograd::GradFn kept;
  auto keeps = [](const std::vector<Tensor>&) { return std::vector<Tensor>(); };
  auto fails = [&](auto&& f) {
    try {
      f();
    } catch (const UserError& error) {
      return std::string(error.what()).find("register_prehook") != std::string::npos;
    }
    return false;
  };
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    if (h.sum().item<float>() > 100) return h;
    kept = grad_fn(h);
    return h * 2.0;
  });
  auto too_late = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    if (h.sum().item<float>() > 100) return h;
    fails([&] { grad_fn(h).register_prehook(keeps); });  // ends the call all the same
    return h * 2.0;
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)}));
    run.log(kept.name(), fails([&] { kept.register_prehook(keeps); }) == !run.is_plain());
    run.log(fails([&] { too_late(row({1, float(i)})); }) == !run.is_plain());
  }
}

TENON_PROGRAM(HooksOnNodesWithABackwardInTheBody, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor h = (x * w).exp();
    grad_fn(h).register_hook([&](const std::vector<Tensor>& outputs, const std::vector<Tensor>&) {
      return std::vector<Tensor>{outputs[0] * 0.5};
    });
    Tensor loss = h.sum();
    loss.backward();
    NoGradGuard off;
    w.sub_(w.grad() * 0.125);
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(step(row({1, float(i) / 4})), w.detach());
}

// Those on nodes that come later are called in the same pass.
TENON_PROGRAM(HooksThatHooksRegister, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) { return (x * w).exp(); });
  std::vector<autograd::HookHandle> hooks;
  auto triples = [&](const Tensor& g) {
    run.log("later", g);
    return g * 3.0;
  };
  for (int i = 0; i < 12; ++i) {
    w.set_grad({});
    Tensor h = f(row({1, float(i % 2)})) * 2.0, y = h.sin(), z = y * y;
    hooks.push_back(autograd::register_hook(z, [&](const Tensor&) {
      if (++n % 4 == 1) hooks.push_back(autograd::register_hook(h, triples));
      if (n % 4 == 2) hooks.push_back(autograd::register_hook(w, triples));
      if (n % 4 == 3)
        hooks.push_back(grad_fn(h).register_prehook(
            [&](const std::vector<Tensor>& g) { return std::vector<Tensor>{triples(g[0])}; }));
    }));
    z.sum().backward();
    run.log(w.grad());
    for (auto& hook : hooks) hook.remove();
  }
}

TENON_PROGRAM(HooksThatOtherUserCodeRegisters, 6) {
  Tensor w = row({1, 2}).requires_grad_(), late = row({3, 4}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) { return (x * w).exp(); });
  std::vector<autograd::HookHandle> hooks;
  auto triples = [&](const Tensor& g) {
    run.log("later", g);
    return g * 3.0;
  };
  for (int i = 0; i < 12; ++i) {
    w.set_grad({});
    late.set_grad({});
    Tensor h = f(row({1, float(i % 2)})) * 2.0, y;
    auto registers = [&, h](int turn) {
      if (n % 3 == turn) hooks.push_back(autograd::register_hook(h, triples));
    };
    {
      autograd::SavedTensorHooks packed(
          [](const Tensor& t) { return std::make_shared<Tensor>(t * 1.0); },
          [&, registers](const std::shared_ptr<void>& p) {
            registers(1);
            return *std::static_pointer_cast<Tensor>(p);
          });
      y = h.sin();
    }
    hooks.push_back(autograd::register_post_accumulate_grad_hook(
        late, [&, registers](const Tensor&) { registers(2); }));
    (y * late).sum().backward();
    run.log(w.grad(), late.grad(), ++n);
    for (auto& hook : hooks) hook.remove();
  }
}

TENON_PROGRAM(GradientsThatHooksRetain, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).exp(); });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    Tensor h = f(row({1, float(i % 2)})) * 2.0, y = h.sin(), z = y * y;
    auto hook = autograd::register_hook(z, [&](const Tensor&) {
      if (i % 3 != 1) (i % 3 ? y : h).retain_grad();
    });
    z.sum().backward();
    run.log(w.grad());
    if (i % 3 != 1) run.log((i % 3 ? y : h).grad());
    hook.remove();
  }
}

}  // namespace
}  // namespace tenon::programs
