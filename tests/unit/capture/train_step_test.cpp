// Bodies that call backward(): a whole training step as one graph.
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TrainStep : public testing::TestWithParam<const char*> {};

struct Fit {
  Tensor w = tensor(std::vector<double>{1, -2, 3}, {3}).requires_grad_();
  Tensor momentum = zeros({3}, Dtype::f64);

  Tensor step(const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).sin().sum();
    loss.backward();
    NoGradGuard update;
    momentum.mul_(0.9).add_(w.grad());
    w.sub_(momentum * 0.1);
    return loss.detach();
  }
};

TEST_P(TrainStep, IsOneGraphThatGivesWhatTheBodyGives) {
  Fit eager, compiled;
  auto f = compile([&](const Tensor& x) { return compiled.step(x); },
                   {.backend = GetParam(), .fullgraph = true});
  for (int i = 1; i <= 6; ++i) {
    Tensor x = tensor(std::vector<double>{0.5 * i, 1, 2}, {3});
    Tensor expected = eager.step(x), found = f(x);
    EXPECT_DOUBLE_EQ(found.item<double>(), expected.item<double>()) << i;
    EXPECT_TRUE(compiled.w.equal(eager.w)) << i;
    EXPECT_TRUE(compiled.w.grad().equal(eager.w.grad())) << i;
    EXPECT_TRUE(compiled.momentum.equal(eager.momentum)) << i;
    EXPECT_FALSE(compiled.w.grad().is_fake());
  }
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(f.stats().graph_breaks, 0);
}

TEST_P(TrainStep, RefusesAnArgumentThatTheBodyCapturesToo) {
  Tensor w = ones({2}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        (x * w).sum().backward();
        return w.grad();
      },
      {.backend = GetParam(), .fullgraph = true});
  try {
    f(w);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("captures a tensor of shape [2] that needs a gradient and is "
                                    "its argument, too"));
  }
}

TEST_P(TrainStep, ReturnsNumbersWithoutACut) {
  Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor loss = (x * w * w).sum();
        loss.backward();
        return loss.item<double>();
      },
      {.backend = GetParam(), .fullgraph = true});
  Tensor x = tensor(std::vector<double>{1, 1}, {2});
  EXPECT_EQ(static_cast<double>(f(x)), 5);
  EXPECT_EQ(static_cast<double>(f(x * 2)), 10);
  EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(4, 8));
}

TEST_P(TrainStep, GradientsOfArgumentsAndGradInTheBody) {
  auto body = [](const Tensor& x) {
    Tensor y = (x * x * x).sum();
    Tensor first = autograd::grad({y}, {x}, {.create_graph = true})[0];
    return autograd::grad({first.sum()}, {x})[0];
  };
  auto f = compile(body, {.backend = GetParam()});
  Tensor x = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  for (int call = 0; call < 2; ++call)
    EXPECT_THAT(f(x).detach().to_vector<double>(), ElementsAre(6, 12));
}

TEST_P(TrainStep, GradientsAddUpOverCalls) {
  for (bool fullgraph : {false, true}) {
    Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
    auto f = compile(
        [&](const Tensor& x) {
          Tensor loss = (x * w).sum();
          loss.backward();
          return loss.detach();
        },
        {.backend = GetParam(), .fullgraph = fullgraph});
    Tensor x = tensor(std::vector<double>{3, 4}, {2});
    for (int i = 1; i < 6; ++i) {
      f(x);
      EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(3 * i, 4 * i));
    }
    Tensor held = w.grad();
    w.set_grad({});
    f(x);
    EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(3, 4));
    EXPECT_THAT(held.to_vector<double>(), ElementsAre(15, 20));
  }
}

TEST_P(TrainStep, ResultsHaveNoHistoryOfTheirOwn) {
  Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor loss = (x * w).sum();
        loss.backward();
        return loss;
      },
      {.backend = GetParam(), .fullgraph = true});
  Tensor loss = f(tensor(std::vector<double>{3, 4}, {2}));
  EXPECT_TRUE(loss.requires_grad());
  try {
    loss.backward();
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no history of its own"));
  }
}

TEST_P(TrainStep, AHistoryBeyondTheCallIsRefused) {
  Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  Tensor total = zeros({2}, Dtype::f64), x = tensor(std::vector<double>{3, 4}, {2});
  auto writes = [&](auto write, bool is_detached = false) {
    auto f = compile(
        [&, write, is_detached](const Tensor& given) {
          write(given);
          (x * w).sum().backward();
          if (is_detached) total.detach_();
        },
        {.backend = GetParam(), .fullgraph = true});
    f(zeros({2}, Dtype::f64));
  };
  auto is_refused = [&](auto write) {
    try {
      writes(write);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("would have a history beyond the call"));
    }
    EXPECT_FALSE(total.requires_grad());
    EXPECT_THAT(total.to_vector<double>(), ElementsAre(0, 0));
    EXPECT_FALSE(w.grad().defined());
  };
  is_refused([&](const Tensor&) { total.add_(w); });
  is_refused([&](const Tensor&) { total[0] = w[1]; });
  is_refused([&](const Tensor& given) { given.add_(w); });
  writes([&](const Tensor&) { total.add_(w.detach()); });
  writes([&](const Tensor&) {
    NoGradGuard no_grad;
    total.add_(w);
  });
  writes([&](const Tensor&) { total.add_(w); }, true);
  EXPECT_THAT(total.to_vector<double>(), ElementsAre(3, 6));
  EXPECT_FALSE(total.requires_grad());
}

TEST_P(TrainStep, ResultsOfABodyThatBeginsAHistoryAreRefusedWithThatReason) {
  auto body = [](Tensor x) {
    x.requires_grad_();
    return (x * x).sum();
  };
  auto f = compile(body, {.backend = GetParam(), .fullgraph = true});
  Tensor loss = f(tensor(std::vector<double>{3, 4}, {2}));
  try {
    loss.backward();
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("calls backward() or requires_grad_()"));
  }
}

TEST_P(TrainStep, ALookAtDataIsRefusedInOneGraphOnly) {
  Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  auto body = [&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).sum();
    loss.backward();
    if (loss.item<double>() > 12) w.set_grad({});
    return loss.detach();
  };
  Tensor small = tensor(std::vector<double>{3, 4}, {2}), large = small * 2.0;
  try {
    compile(body, {.backend = GetParam(), .fullgraph = true})(small);
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("fullgraph = true forbids"));
  }
  EXPECT_FALSE(w.grad().defined());
  auto f = compile(body, {.backend = GetParam()});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(f(small).item<double>(), 11);
    EXPECT_TRUE(w.grad().defined());
    EXPECT_EQ(f(large).item<double>(), 22);
    EXPECT_FALSE(w.grad().defined());
  }
}

struct Net : nn::Module {
  nn::Linear in{6, 16}, out{16, 3};
  nn::BatchNorm1d norm{16};
  nn::Dropout drop{0.25};
  TENON_MODULE(Net, in, norm, drop, out)
  Tensor forward(const Tensor& x) { return out(drop(norm(in(x)).relu())); }
};

// Module, loss, backward and optimiser together, with a rate that changes between steps.
std::vector<double> losses_of(bool compiled, const char* backend) {
  manual_seed(11);
  Net net;
  optim::AdamW opt(net.parameters(), {.lr = 0.05});
  std::function<Tensor(const Tensor&, const Tensor&)> step = [&](const Tensor& x,
                                                                 const Tensor& labels) {
    opt.zero_grad();
    Tensor loss = cross_entropy(net(x), labels);
    loss.backward();
    opt.step();
    return loss.detach();
  };
  auto fast = compile(step, {.backend = backend, .fullgraph = true});
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i, opt.lr *= 0.8) {
    Tensor x = randn({12, 6}), labels = randint(0, 3, {12});
    losses.push_back((compiled ? fast(x, labels) : step(x, labels)).item<double>());
  }
  if (compiled) {
    EXPECT_EQ(fast.stats().compiles, 1);
  }
  return losses;
}

TEST_P(TrainStep, OfAModuleAndAnOptimizerAgreesStepByStep) {
  std::vector<double> body = losses_of(false, GetParam()), code = losses_of(true, GetParam());
  for (size_t i = 0; i < body.size(); ++i) EXPECT_NEAR(code[i], body[i], 1e-5) << i;
  EXPECT_EQ(losses_of(true, GetParam()), code);
}

TEST_P(TrainStep, AModuleIsCompiledForEachOfItsModes) {
  nn::Dropout drop(0.5);
  auto f = compile([&](const Tensor& x) { return drop(x); }, {.backend = GetParam()});
  Tensor x = ones({64});
  auto zeros_in = [](const Tensor& t) { return (t == 0.0).sum().item<int64_t>(); };
  EXPECT_GT(zeros_in(f(x)), 0);
  drop.eval();
  EXPECT_EQ(zeros_in(f(x)), 0);
  drop.train();
  EXPECT_GT(zeros_in(f(x)), 0);
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_P(TrainStep, GuardNnModulesOffKeepsTheModeOfTheRecording) {
  auto flags = config::patch({{"dynamo.guard_nn_modules", false}, {"capture.mode", "hit"}});
  nn::Dropout drop(0.5);
  auto f = compile([&](const Tensor& x) { return drop(x); }, {.backend = GetParam()});
  Tensor x = ones({64});
  f(x);
  drop.eval();
  f(x);
  EXPECT_EQ(f.stats().compiles, 1);
}

// A body that begins to call backward() later on is found by looking again, and runs from then on.
TEST_P(TrainStep, ABackwardThatBeginsLaterIsNoticed) {
  Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  bool trains = false;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor loss = (x * w).sum();
        if (trains) {
          w.set_grad({});
          loss.backward();
        }
        return loss.detach();
      },
      {.backend = GetParam()});
  Tensor x = tensor(std::vector<double>{3, 4}, {2});
  f(x);
  trains = true;
  EXPECT_EQ(f(x).item<double>(), 11);
  EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(3, 4));
}

// As in the specification of what users write.
TEST_P(TrainStep, StateNamesWhatTheBodyMayWrite) {
  manual_seed(3);
  Net net;
  optim::AdamW opt(net.parameters(), {.lr = 1e-2});
  auto train = [&](const Tensor& x, const Tensor& y) {
    opt.zero_grad();
    Tensor logits = net(x), loss = cross_entropy(logits, y);
    loss.backward();
    opt.step();
    return std::tuple{loss.item<float>(), (logits.argmax(1) == y).sum().item<int64_t>()};
  };
  auto step = compile(train, state(net, opt), {.backend = GetParam(), .fullgraph = true});
  Tensor x = randn({12, 6}), y = randint(0, 3, {12});
  float first = 0, last = 0;
  for (int epoch = 0; epoch < 5; ++epoch, opt.lr *= 0.5) {
    auto [loss, hits] = step(x, y);
    last = loss;
    if (epoch == 0) first = loss;
    EXPECT_LE(static_cast<int64_t>(hits), 12);
  }
  EXPECT_LT(last, first);
  EXPECT_EQ(step.stats().compiles, 1);
  try {
    compile(train, state(opt), {.backend = GetParam()})(x, y);
    ADD_FAILURE() << "the statistics of the normalisation are written, and are not named";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("that state() does not name"));
  }
}

TEST_P(TrainStep, AWriteToWhatTheBackwardNeedsIsFound) {
  Tensor w = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
  auto body = [&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w * w).sum();
    {
      NoGradGuard update;
      w.mul_(2.0);
    }
    loss.backward();
    return loss.detach();
  };
  Tensor x = tensor(std::vector<double>{3, 4}, {2});
  EXPECT_THROW(body(x), UserError);
  try {
    compile(body, {.backend = GetParam(), .fullgraph = true})(x);
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("was modified in place"));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TrainStep, testing::Values("eager", "aot_eager", "debug_nop"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace tenon
