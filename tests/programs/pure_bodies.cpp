// Bodies that are stated pure, and are: later calls leave them out, and nothing else is different.
#include "program.h"

#include <algorithm>
#include <map>

namespace tenon::programs {
namespace {

Options pure(std::map<std::string, std::string> options = {}) {
  options.emplace("capture.on_stale", "\"error\"");
  return {.options = std::move(options), .pure = true};
}

TENON_PROGRAM(TheBodyIsLeftOut, 1) {
  int calls = 0;
  auto f = run.compile(
      [&](const Tensor& x) {
        ++calls;
        return x * 2.0;
      },
      pure({{"capture.mode", "\"hit\""}}));
  for (int i = 0; i < 100; ++i) run.log(f(row({1, float(i)})));
  run.log(run.is_plain() || calls == 1);
}

TENON_PROGRAM(KindsOfArgumentsInTurn, 8) {
  auto f = run.compile(
      [](const std::vector<Tensor>& list, int n) {
        Tensor sum = list[0] * double(n);
        for (size_t i = 1; i < list.size(); ++i) sum = sum + list[i];
        return sum;
      },
      pure());
  for (int i = 0; i < 300; ++i) {
    Dtype dtype = i % 2 ? Dtype::f64 : Dtype::f32;
    std::vector<Tensor> list;
    for (int k = 0; k <= i % 3; ++k) list.push_back(full({2}, i + k, dtype));
    run.log(f(list, 3));
  }
}

TENON_PROGRAM(SlicesOfOneTensor, 2) {
  Tensor data = arange(120, Dtype::f32).reshape({40, 3});
  auto f = run.compile([](const Tensor& x) { return x.sum(0) * 0.5; }, pure());
  for (int epoch = 0; epoch < 20; ++epoch)
    for (int64_t at = 0; at < 40; at += 7)
      run.log(f(data.slice(0, at, std::min<int64_t>(at + 7, 40))));
}

TENON_PROGRAM(ResultsBehindPointers, 1) {
  auto f = run.compile(
      [](const Tensor& x) {
        return std::pair(std::make_shared<Tensor>(x * 2.0), std::make_unique<Tensor>(x + 1.0));
      },
      pure());
  std::vector<std::shared_ptr<Tensor>> kept;
  for (int i = 0; i < 20; ++i) {
    auto [a, b] = f(row({1, float(i)}));
    kept.push_back(a);
    run.log(*b);
  }
  for (const auto& p : kept) run.log(*p, p.use_count());
}

TENON_PROGRAM(CapturedTensorsAreExchanged, 1) {
  Tensor a = row({1, 2}), b = row({4, 8});
  auto f = run.compile(
      [&](const Tensor& x) {
        b.add_(1.0);
        return x * a - b;
      },
      pure());
  for (int i = 0; i < 100; ++i) {
    run.log(f(row({1, float(i)})), a, b);
    if (i % 3 == 0) std::swap(a, b);
    if (i % 10 == 9) a = row({float(i), 1});
  }
}

TENON_PROGRAM(WeightsChangeInPlace, 1) {
  Tensor w = row({1, 2}).requires_grad_();
  auto loss = run.compile([&](const Tensor& x) { return (x * w).square().sum(); }, pure());
  for (int i = 0; i < 40; ++i) {
    w.set_grad({});
    Tensor l = loss(row({0.5, 0.5}));
    l.backward();
    NoGradGuard no_grad;
    w.sub_(w.grad() * 0.25);
    run.log(l.detach(), w);
  }
}

TENON_PROGRAM(AFrozenWeight, 2) {
  Tensor w = row({1, 2});
  auto f = run.compile([&](const Tensor& x) { return x * w; }, pure());
  for (int i = 0; i < 40; ++i) {
    w.requires_grad_(i / 5 % 2);
    Tensor y = f(row({1, float(i)}));
    run.log(y, y.requires_grad());
  }
}

// The same objects all the time: what they are changes behind the handles.
TENON_PROGRAM(WeightsAreTurnedAndResizedInPlace, 8) {
  Tensor turned = arange(6, Dtype::f32).reshape({2, 3}), grown = full({3}, 2.0);
  auto f =
      run.compile([&] { return turned.sum(0).sum() * grown + double(turned.size(0)); }, pure());
  for (int i = 0; i < 40; ++i) {
    if (i % 4 == 3) turned.transpose_(0, 1);
    if (i % 10 == 9) grown.resize_({i % 20 == 9 ? 5 : 3}).fill_(2.0);
    run.log(f(), turned, grown);
  }
}

TENON_PROGRAM(RandomNumbersAreFresh, 1) {
  auto f = run.compile([](const Tensor& x) { return x + randint(0, 100, {3}); }, pure());
  for (int i = 0; i < 20; ++i) run.log(f(zeros({3})));
}

TENON_PROGRAM(APureBodyThatLooks, 6) {
  auto f = run.compile(
      [](const Tensor& x) {
        float n = x.sum().item<float>();
        return n > 4 ? x / double(n) : x + 1.0;
      },
      pure());
  for (int i = 0; i < 40; ++i) run.log(f(row({1, float(i % 7)})));
}

TENON_PROGRAM(BranchesOnSizes, 4) {
  auto f = run.compile(
      [](const Tensor& x) { return x.size(0) > 5 ? x.sum() : x.amax() + double(x.size(0)); },
      pure());
  for (int i = 0; i < 60; ++i) run.log(f(full({i * 3 % 9 + 2}, float(i))));
}

TENON_PROGRAM(ALiteralInAPureBody, 1) {
  auto f = run.compile([](const Tensor& x) { return x * tensor({1.0f, 0.5f}) + 1.0; }, pure());
  for (int i = 0; i < 30; ++i) run.log(f(row({1, float(i)})));
  run.log("eager", f.stats().eager_calls);
}

// What was one tensor when the body was recorded may be two later.
TENON_PROGRAM(ACapturedTensorIsTheArgument, 4) {
  Tensor w = row({1, 2}), v = w;
  auto f = run.compile([&](const Tensor& x) { return x * 2.0 + w * v; }, pure());
  run.log(f(w), f(w), f(row({5, 7})), f(w));
  v = row({3, 4});
  run.log(f(w), f(w));
  w = row({8, 8});
  run.log(f(w), f(v), f(row({0, 1})));
}

TENON_PROGRAM(ACapturedMemberIsTheArgument, 4) {
  auto held = std::make_shared<std::vector<Tensor>>(2, row({1, 2}));
  auto f = run.compile([held](const Tensor& x) { return x + (*held)[0] * (*held)[1]; }, pure());
  run.log(f((*held)[0]), f(row({1, 1})), f((*held)[1]), f(row({2, 1})));
}

TENON_PROGRAM(LayoutsOfOneSizeTakeTurns, 3) {
  auto f = run.compile([](const Tensor& x) { return x * 2.0; }, {.pure = true});
  Tensor a = arange(6, Dtype::f32).reshape({2, 3}), b = arange(6, Dtype::f32).reshape({3, 2}).t();
  Tensor c = arange(12, Dtype::f32).reshape({2, 6}).slice(1, 1, 4);
  for (int i = 0; i < 40; ++i) run.log(f(i % 3 == 0 ? a : i % 3 == 1 ? b : c));
}

void fill(nn::Module& net, double value) {
  NoGradGuard no_grad;
  for (Tensor& p : net.parameters()) p.fill_(value);
}

TENON_PROGRAM(NetworksChangePlaces, 2) {
  nn::Linear a{3, 2}, b{3, 2};
  fill(a, 1);
  fill(b, 2);
  auto f = run.compile([&](const Tensor& x) { return a(x); }, pure());
  auto g = run.compile([p = &a](const Tensor& x) { return (*p)(x) + 1.0; }, pure());
  for (int i = 0; i < 40; ++i) {
    if (i % 3 == 2) std::swap(a, b);
    run.log(f(ones({1, 3})), g(ones({1, 3})));
  }
}

struct TwoLayers : nn::Module {
  nn::Linear first{3, 4}, second{4, 2};
  TENON_MODULE(TwoLayers, first, second)
  Tensor forward(const Tensor& x) { return second(first(x).relu()); }
};

TENON_PROGRAM(ANetworkIsReplacedWhileTheOldWeightsLive, 3) {
  TwoLayers net;
  auto shared = std::make_shared<TwoLayers>();
  fill(net, 0.5);
  fill(*shared, 0.25);
  optim::SGD opt(net.parameters(), {.lr = 0.5}), other(shared->parameters(), {.lr = 0.5});
  auto f = tenon::compile(net, run.with_backend(pure()));
  auto g = run.compile([shared](const Tensor& x) { return (*shared)(x); }, pure());
  auto h = run.compile([&](const Tensor& x) { return net(x) * 2.0; }, pure());
  for (int i = 0; i < 40; ++i) {
    if (i % 5 == 2) {
      net = TwoLayers{};
      *shared = TwoLayers{};
      fill(net, 0.25 * (i % 4));
      fill(*shared, 0.5 * (i % 4));
    }
    run.log(f(ones({1, 3})), g(ones({1, 3})), h(ones({1, 3})));
  }
}

// What is not captured by address is found by a check, which says which tensor it is.
TENON_PROGRAM(AnExchangedElementIsNamed, 2) {
  std::vector<Tensor> list{full({3}, 1.0), full({3}, 2.0)};
  auto f =
      run.compile([&](const Tensor& x) { return (x + 1.0) * list[0]; },
                  {.options = {{"capture.retrace_check", "1"}, {"capture.on_stale", "\"error\""}},
                   .pure = true});
  run.log(f(ones({3})), f(ones({3})));
  std::swap(list[0], list[1]);
  std::string error;
  try {
    f(ones({3}));
  } catch (const UserError& e) {
    error = e.what();
  }
  for (const char* part : {"captured tensor 0", "f32[3]", "mul", "pure_bodies.cpp"})
    run.log(run.is_plain() || error.find(part) != std::string::npos);
  run.log(f(ones({3})));
}

TENON_PROGRAM(AnExchangedMemberIsSeenAfterACheck, 2) {
  struct Two {
    Tensor first, second;
  } two{full({3}, 1.0), full({3}, 2.0)};
  Tensor old = two.second;
  auto f = run.compile([&](const Tensor& x) { return x * two.second; },
                       {.options = {{"capture.retrace_check", "1"}}, .pure = true});
  for (int i = 0; i < 4; ++i) run.log(f(ones({3})));
  two.second = full({3}, 5.0);
  for (int i = 0; i < 4; ++i) run.log(f(ones({3})));
}

}  // namespace
}  // namespace tenon::programs
