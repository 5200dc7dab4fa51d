// Modes of the thread, of modules and of the callable itself, which change between calls.
#include "program.h"

#include <tenon/autocast.h>
#include <tenon/compiler.h>
#include <tenon/config.h>

namespace tenon::programs {
namespace {

TENON_PROGRAM(GradIsSwitchedOnAndOff, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).sum(); });
  for (int i = 0; i < 40; ++i) {
    EnableGradGuard mode(i % 2 == 0);
    Tensor y = f(row({1, float(i)}));
    run.log(y, y.requires_grad());
  }
}

struct Normed : nn::Module {
  nn::BatchNorm1d norm{2};
  nn::Dropout drop{0.5};
  TENON_MODULE(Normed, norm, drop)
  Tensor forward(const Tensor& x) const { return drop(norm(x)); }
};

TENON_PROGRAM(ANetTrainsAndEvaluates, 3) {
  Normed net;
  auto f = run.compile([&](const Tensor& x) { return net(x).detach(); });
  for (int i = 0; i < 12; ++i) {
    net.train(i % 3 != 2);
    run.log(f(arange(8, Dtype::f32).reshape({4, 2}) * float(i + 1)), net.norm.running_mean);
  }
}

TENON_PROGRAM(OneLayerIsPutIntoEvaluation, 4) {
  Normed net;
  auto f = run.compile([&](const Tensor& x) { return net(x).detach(); });
  for (int i = 0; i < 12; ++i) {
    net.drop.train(i % 2);
    net.norm.train(i % 4 < 2);
    run.log(f(arange(8, Dtype::f32).reshape({4, 2})), net.norm.num_batches_tracked);
  }
}

TENON_PROGRAM(TheBodySwitchesItsNet, 3) {
  Normed net;
  auto predict = run.compile([&](const Tensor& x) {
    bool was_training = net.is_training();
    net.eval();
    Tensor y = net(x);
    net.train(was_training);
    return y.detach();
  });
  for (int i = 0; i < 6; ++i) {
    run.log(predict(arange(8, Dtype::f32).reshape({4, 2})), net.is_training());
    net.train(i % 2);
  }
}

TENON_PROGRAM(AutocastIsSwitchedOnAndOff, 3) {
  Tensor w = full({2, 2}, 0.5);
  auto f = run.compile([&](const Tensor& x) { return x.matmul(w); });
  for (int i = 0; i < 12; ++i) {
    AutocastGuard mode({.dtype = i % 3 ? Dtype::bf16 : Dtype::f16, .enabled = i % 2 == 0});
    run.log(f(ones({2, 2})));
  }
}

TENON_PROGRAM(PartsOfTheBodyRecordNoGradient, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  bool stops = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    std::optional<NoGradGuard> no_grad;
    if (stops) no_grad.emplace();
    return (y * w).sum();
  });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    stops = i % 2;
    Tensor loss = f(row({1, 4}));
    run.log(loss.detach(), loss.requires_grad());
    if (loss.requires_grad()) loss.backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(InferenceModeInTurn, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x * w + 1.0; });
  for (int i = 0; i < 9; ++i) {
    std::optional<InferenceMode> mode;
    if (i % 3 == 1) mode.emplace();
    Tensor y = f(row({1, float(i)}));
    run.log(y, y.requires_grad());
  }
}

TENON_PROGRAM(TheStanceChanges, 2) {
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) { return x * double(++calls); });
  for (int i = 0; i < 9; ++i) {
    compiler::StanceScope stance(i % 3 == 1 ? compiler::Stance::force_eager
                                            : compiler::Stance::standard);
    run.log(f(row({1, 2})));
  }
}

TENON_PROGRAM(ThreadsAreDeterministicNowAndThen, 3) {
  auto f = run.compile([](const Tensor& x) { return x.sum(); });
  for (int i = 0; i < 6; ++i) {
    set_deterministic(i % 2);
    run.log(f(ones({1000})));
  }
  set_deterministic(false);
}

TENON_PROGRAM(ModeReplayAsAnOptionOfAPureCallable, 2) {
  double factor = 2;
  auto f = run.compile([&](const Tensor& x) { return x * factor; },
                       {.options = {{"capture.mode", "\"replay\""}}, .pure = true});
  for (int i = 0; i < 40; ++i, factor += 0.5) run.log(f(row({1, 2})));
}

TENON_PROGRAM(RetraceCheckAsAnOption, 4) {
  double factor = 2;
  auto f = run.compile([&](const Tensor& x) { return x * factor; },
                       {.options = {{"capture.retrace_check", "10"}}, .pure = true});
  for (int i = 0; i < 6000; ++i) f(row({1, 2}));
  factor = 5;
  for (int i = 0; i < 10; ++i) f(row({1, 2}));
  run.log(f(row({1, 2})));
}

TENON_PROGRAM(ModeReplayInAPatch, 3) {
  double factor = 2;
  auto f = run.compile([&](const Tensor& x) { return x * factor; }, {.pure = true});
  run.log(f(row({1, 2})));
  factor = 4;
  {
    auto flags = config::patch({{"capture.mode", "replay"}});
    run.log(f(row({1, 2})));
  }
}

TENON_PROGRAM(APureBodyOverTensorsCapturedByAddress, 2) {
  Tensor w = row({1, 2});
  auto f = run.compile([&](const Tensor& x) { return x * w; }, {.pure = true});
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({1, float(i)})));
    if (i % 3 == 0) w = row({float(i), 1});
    if (i % 3 == 1) w.mul_(2.0);
  }
}

}  // namespace
}  // namespace tenon::programs
