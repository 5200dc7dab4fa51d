// Arguments and results that are reshaped in place, by the body and by code that is not compiled in
// turn: the caller's tensors, captured handles of them and the body's own agree about it.
#include "program.h"

#include <string>

namespace tenon::programs {
namespace {

std::string sizes_of(const Tensor& t) {
  std::string text = "sizes";
  for (SymInt s : t.sizes()) text += " " + std::to_string(s.guard_int());
  return text;
}

TENON_PROGRAM(TurnedUncompiledAndInTheBody, 4) {
  auto f = run.compile([](const Tensor& x) {
    {
      NoCompile here;
      x.t_();
    }
    x.t_();
    return x.cumsum(0);
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({2, 3 + i % 2}, i);
    run.log(f(x), x);
  }
}

TENON_PROGRAM(TurnedAroundDisabledCalls, 12) {
  auto f = run.compile([](const Tensor& x) {
    auto turn = disable([&] { x.t_(); });
    auto nothing = disable([] {});
    turn();
    x.t_();
    nothing();
    x.t_();
    Tensor twice = x * 2.0;
    turn();
    return twice + x.t();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({2, 3}, i);
    run.log(f(x), x);
  }
}

TENON_PROGRAM(ResizedAroundDisabledCalls, 8) {
  Tensor cell = ones({3});
  auto f = run.compile([&](const Tensor& b) {
    auto resize = [&] {
      NoGradGuard no_grad;
      b.resize_({2, 2});
      b.fill_(0.5);
    };
    auto outside = disable([&] { resize(); });
    auto look = disable([&](const Tensor& t) { return t + cell; });
    outside();
    resize();
    look(cell);
    resize();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor weight = halves({2, 3}, i).requires_grad_(), b = weight * 0.5;
    f(b);
    run.log(b.detach(), b.requires_grad(), b.is_leaf());
  }
}

// A run that follows a path of others: the body asks for sizes before the next operation.
TENON_PROGRAM(TurnedInSomeCallsOnly, 10) {
  bool turns = false;
  auto f = run.compile([&](const Tensor& x) {
    disable([&](const Tensor& t) {
      if (turns) t.t_();
    })(x);
    Tensor none = zeros(x.sizes());
    x.mul_(2.0);
    return none + x;
  });
  for (int i = 0; i < 6; ++i) {
    turns = i % 3 == 2;
    Tensor x = halves({2, 3}, i);
    run.log(f(x), x);
  }
}

TENON_PROGRAM(TurnedThroughACapturedHandle, 14) {
  Tensor handle;
  bool turns = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    disable([&] {
      if (turns) handle.t_();
    })();
    handle.mul_(2.0);
    return y.sum() + x.cumsum(0) + handle;
  });
  for (int i = 0; i < 5; ++i) {
    turns = i % 2 == 1;
    handle = halves({2, 3}, i);
    run.log(f(handle), handle);
  }
}

TENON_PROGRAM(ACapturedHandleOfATurnedArgument, 3) {
  Tensor handle;
  auto f = run.compile([&](const Tensor& x) {
    x.t_();
    return zeros(handle.sizes());
  });
  for (int i = 0; i < 4; ++i) {
    handle = halves({2, 3 + i}, i);
    run.log(f(handle), handle);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ACapturedHandleOfATurnedArgument, 3);

TENON_PROGRAM(AnArgumentThatACapturedHandleReshapes, 6) {
  Tensor handle;
  auto f = run.compile([&](const Tensor& x) {
    handle.resize_({2, 2});
    Tensor sum = zeros(handle.sizes()) + x;
    x.unsqueeze_(0);
    sum = sum + ones(handle.sizes());
    handle.squeeze_(0);
    return sum * static_cast<double>(x.dim());
  });
  for (int i = 0; i < 4; ++i) {
    handle = halves({2, 3 + i}, i);
    run.log(f(handle), handle);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnArgumentThatACapturedHandleReshapes, 6);

// What has been shown to the body is so once its operations have run, whatever ends it.
TENON_PROGRAM(ATurnedArgumentAndAnError, 6) {
  Tensor handle;
  auto f = run.compile([&](const Tensor& x) {
    x.t_();
    handle.add_(1.0);
    if (handle.size(0) == 3) throw std::runtime_error(sizes_of(handle));
    return handle * 2.0;
  });
  for (int i = 0; i < 4; ++i) {
    handle = halves({2, 3 + i % 2}, i);
    run.log_error([&] { run.log(f(handle)); });
    run.log(handle, sizes_of(handle));
  }
}

TENON_PROGRAM(AResultInPlaceIsTheArgument, 3) {
  auto f = run.compile([&](const Tensor& x) {
    Tensor h;
    {
      NoCompile here;
      h = x * 2.0;
      Tensor same = h.neg_();
      same.unsqueeze_(0);
      run.log(same.is_same(h));
    }
    return h.cumsum(0);
  });
  for (int i = 0; i < 3; ++i) run.log(f(halves({2, 3}, i) + 2.0));
}

TENON_PROGRAM(AResultInPlaceIsTheArgumentWithHooks, 3) {
  auto pack = [](const Tensor& t) { return std::shared_ptr<void>(std::make_shared<Tensor>(t)); };
  auto unpack = [](const std::shared_ptr<void>& t) { return *static_cast<Tensor*>(t.get()); };
  auto f = run.compile([&](const Tensor& x) {
    Tensor h;
    {
      autograd::SavedTensorHooks hooks(pack, unpack);
      h = x * 2.0;
      Tensor same = h.neg_();
      same.unsqueeze_(0);
    }
    return h.cumsum(0);
  });
  for (int i = 0; i < 3; ++i) {
    run.log(f(halves({2, 3}, i) + 2.0));
  }
}

// What the backward needs is the argument as it lay before, or as the body has turned it.
TENON_PROGRAM(AReshapedArgumentInItsGradient, 24) {
  auto squares = [](auto reshape) {
    return [=](const Tensor& x) {
      reshape(x);
      return x * x;
    };
  };
  auto turned = run.compile(squares([](const Tensor& x) { x.transpose_(0, 1); }));
  auto longer = run.compile(squares([](const Tensor& x) { x.unsqueeze_(0); }));
  auto written = run.compile(squares([](const Tensor& x) { x.t_().mul_(2.0); }));
  auto product = run.compile([](const Tensor& x) {
    x.t_();
    return x.matmul(x.t());
  });
  auto twice = [&](const auto& f, int i) {
    Tensor w = halves({2, 3}, i).requires_grad_(), y = w * 3.0, z = f(y);
    Tensor g = autograd::grad({z.sum()}, {w}, {.create_graph = true})[0];
    run.log(z.detach(), y.detach(), g.detach());
    (g * g).sum().backward();
    run.log(w.grad());
  };
  for (int i = 0; i < 3; ++i) {
    twice(turned, i);
    twice(longer, i);
    twice(written, i);
    twice(product, i);
  }
}

TENON_PROGRAM(ReshapingCountsAsAChange, 8) {
  auto f = run.compile([](const Tensor& x) {
    x.transpose_(0, 1);
    return x + 1.0;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({2, 3}, i), w = ones({2, 3}).requires_grad_(), y = x * w;
    const uint64_t before = x.version();
    run.log(f(x), x);
    run.log(x.version() - before);
    run.log_error([&] { y.sum().backward(); });
  }
}

}  // namespace
}  // namespace tenon::programs
