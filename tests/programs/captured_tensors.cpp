// Tensors that a body captures are those of the moment, whoever else keeps the old ones.
#include "program.h"

#include <map>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear fc{2, 2};
  TENON_MODULE(Net, fc)
  explicit Net(float w = 1) { set(w); }
  void set(float w) {
    NoGradGuard no_grad;
    fc.weight.fill_(w);
    fc.bias.fill_(0.5);
  }
  Tensor forward(const Tensor& x) const { return fc(x); }
};

TENON_PROGRAM(AWeightIsReplacedWhileTheOptimizerKeepsTheOldOne, 2) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.5});
  auto f = run.compile([&](const Tensor& x) { return net(x); });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({1, 2})));
    if (i % 2) net.fc.weight = nn::Parameter(full({2, 2}, float(i)));
  }
  run.log(opt.groups()[0].slots[0].parameter);
}

TENON_PROGRAM(AWeightIsReplacedWhileTheStateNamesTheOldOne, 1) {
  Net net;
  auto f = run.compile([&](const Tensor& x) { return net(x); }, state(net));
  for (int i = 0; i < 20; ++i) {
    run.log(f(row({1, 2})));
    net.fc.weight = nn::Parameter(full({2, 2}, float(i)));
  }
}

TENON_PROGRAM(NetworksAreSwappedAndCopied, 3) {
  Net online(1), target(2);
  auto f = run.compile([&](const Tensor& x) { return online(x) - target(x) * 0.5; });
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({1, -2})));
    if (i % 3 == 0) std::swap(online, target);
    if (i == 7) target = online;
    if (i == 9) target = Net(float(i));
  }
}

struct Field {
  int steps = 0;
  Tensor now = ones({3}), next = zeros({3});
};

TENON_PROGRAM(BuffersOfAStructAreExchangedAndWritten, 1) {
  Field field;
  auto step = run.compile([&](const Tensor& force) {
    field.next.copy_(field.now * 0.5 + force);
    return field.next.sum();
  });
  for (int i = 0; i < 20; ++i) {
    run.log(step(row({1, 2, float(i)})), field.now, field.next);
    std::swap(field.now, field.next);
  }
}

TENON_PROGRAM(BuffersOfAVectorAndOfAMapAreExchangedAndWritten, 1) {
  std::vector<Tensor> list{ones({2}), zeros({2})};
  std::map<std::string, Tensor> named{{"a", ones({2})}, {"b", zeros({2})}};
  auto step = run.compile([&](const Tensor& x) {
    list[1].copy_(list[0] + x);
    named["b"].add_(named["a"]).sub_(x);
  });
  for (int i = 0; i < 12; ++i) {
    step(row({1, float(i)}));
    run.log(list, named["a"], named["b"]);
    std::swap(list[0], list[1]);
    std::swap(named["a"], named["b"]);
  }
}

Tensor scaled(Tensor weight, const Tensor& x) { return weight * x; }

TENON_PROGRAM(TheBodyCopiesItsHandles, 1) {
  Tensor w = row({1, 2}), old = w;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = w;
    std::vector<Tensor> both{h, x};
    return scaled(w, x) + stack(both).sum(0);
  });
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({4, 8})), old);
    if (i % 4 == 1) w = row({float(i), 2});
  }
}

TENON_PROGRAM(AnOptionalComesAndGoes, 2) {
  std::optional<Tensor> mask;
  auto f = run.compile([&](const Tensor& x) { return mask ? x * *mask : x + 1.0; });
  for (int i = 0; i < 16; ++i) {
    run.log(f(row({1, 2})));
    if (i % 5 == 2) mask = row({float(i), 0});
    if (i % 5 == 4) mask.reset();
  }
}

TENON_PROGRAM(APointerIsAimedAtOtherNets, 1) {
  Net nets[3] = {Net(1), Net(2), Net(4)};
  const Net* current = &nets[0];
  auto f = run.compile([&](const Tensor& x) { return (*current)(x); });
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({1, 2})));
    current = &nets[(i * 2 + 1) % 3];
  }
}

TENON_PROGRAM(TwoCallablesShareOneNet, 2) {
  Net net;
  auto look = run.compile([&](const Tensor& x) {
    NoGradGuard no_grad;
    return net(x);
  });
  auto decay = run.compile([&] {
    NoGradGuard no_grad;
    net.fc.weight.mul_(0.5);
  });
  for (int i = 0; i < 8; ++i) {
    run.log(look(row({1, 2})));
    decay();
    if (i == 4) net.fc.weight = nn::Parameter(full({2, 2}, 3.0));
  }
  run.log(net.fc.weight);
}

TENON_PROGRAM(TheBodyReplacesWhatItCaptures, 2) {
  Tensor mean = zeros({2});
  auto f = run.compile([&](const Tensor& x) {
    Tensor centred = x - mean;
    mean = mean * 0.5 + x * 0.5;
    return centred;
  });
  for (int i = 0; i < 8; ++i) run.log(f(row({4, float(i)})), mean);
  mean = ones({2});
  run.log(f(row({4, 8})), mean);
}

TENON_PROGRAM(ATensorIsCapturedAndAnArgument, 3) {
  Tensor w = row({1, 2});
  auto f = run.compile([&](const Tensor& x) {
    x.add_(1.0);
    return w * 2.0;
  });
  for (int i = 0; i < 9; ++i) {
    Tensor other = row({float(i), 0});
    run.log(f(i % 3 == 2 ? w : other), other, w);
  }
}

TENON_PROGRAM(CapturedViewsAreOfAnotherTensor, 4) {
  Tensor table = arange(12, Dtype::f32).reshape({4, 3}), line = table.select(0, 1);
  auto f = run.compile([&](const Tensor& x) {
    line.add_(x);
    return table.sum(0) + line;
  });
  for (int i = 0; i < 10; ++i) {
    run.log(f(row({1, 0, 2})));
    if (i == 3) line = table.select(0, 3);
    if (i == 5) line = ones({3});
    if (i == 7) table = zeros({4, 3}), line = table.select(0, 0);
  }
}

TENON_PROGRAM(ACapturedClosureGetsAnotherWeight, 1) {
  Tensor w = row({1, 2});
  std::function<Tensor(const Tensor&)> layer = [w](const Tensor& x) { return x * w; };
  auto f = run.compile([&](const Tensor& x) { return layer(x) + 1.0; });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({4, 8})));
    if (i % 2) layer = [v = row({float(i), 1})](const Tensor& x) { return x * v; };
  }
}

}  // namespace
}  // namespace tenon::programs
