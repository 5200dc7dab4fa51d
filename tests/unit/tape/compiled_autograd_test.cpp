// Compiled backward passes: what they compute, when they are captured, and what runs on the engine.
#include "unit/tape/tape_test.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

namespace tenon {
namespace {

class CompiledAutograd : public PassTest {};

TEST_F(CompiledAutograd, GradientsAreThoseOfTheEngine) {
  auto step = [] {
    Tensor w1 = parameter({4, 3}), b1 = parameter({4}), w2 = parameter({2, 4});
    Tensor hidden = (filled({5, 3}).matmul(w1.t()) + b1).tanh();
    hidden.matmul(w2.t()).pow(2).sum().backward();
    return std::vector{w1.grad(), b1.grad(), w2.grad()};
  };
  std::vector<Tensor> plain = step(), compiled;
  EXPECT_EQ(captures([&] { compiled = step(); }), 1);
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(close(compiled[i], plain[i])) << compiled[i] << plain[i];
  EXPECT_EQ(captures([&] { compiled = step(); }), 0);
  EXPECT_EQ(ca::stats().hits, 1);
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

TEST_F(CompiledAutograd, OneCaptureServesAllBatchSizes) {
  for (int64_t batch : {4, 8, 16, 3, 1, 2, 0, 5}) {
    auto step = [&] {
      Tensor w = parameter({3, 3});
      filled({batch, 3}).matmul(w).relu().sum({0}).mean().backward();
      return w.grad();
    };
    Tensor plain = step(), compiled;
    EXPECT_EQ(captures([&] { compiled = step(); }), batch == 4) << batch;
    EXPECT_TRUE(close(compiled, plain)) << batch;
  }
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

// What user code does that was not foreseen: the engine ends the pass.

TEST_F(CompiledAutograd, AHookMayGiveAnotherDtype) {
  auto step = [] {
    Tensor p = parameter({3}), m = p.sin();
    autograd::register_hook(m, [](const Tensor& g) { return g.to(Dtype::f64) * 3; });
    (m * 2).sum().backward();
    return p.grad();
  };
  Tensor plain = step(), compiled;
  captures([&] { compiled = step(); });
  EXPECT_TRUE(close(compiled, plain));
  EXPECT_EQ(ca::stats().departures, 1);
}

struct GivesLittle : autograd::Function<GivesLittle> {
  static inline bool all = false;
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    return {in[0] + in[1]};
  }
  static std::vector<Tensor> backward(autograd::Context&, std::vector<Tensor> grads) {
    return {grads[0] * 2, all ? grads[0] : Tensor()};
  }
};

TEST_F(CompiledAutograd, AFunctionThatGivesNoGradientIsLearnt) {
  auto step = [](bool all) {
    GivesLittle::all = all;
    Tensor a = parameter({3}), b = parameter({3});
    GivesLittle::apply({a.exp(), b.sin()})[0].cos().sum().backward();
    return std::vector{a.grad(), b.grad()};
  };
  for (bool all : {false, false, false, true, true, false}) {
    std::vector<Tensor> plain = step(all), compiled;
    captures([&] { compiled = step(all); });
    EXPECT_TRUE(close(compiled[0], plain[0]));
    EXPECT_EQ(compiled[1].defined(), all);
    if (all) {
      EXPECT_TRUE(close(compiled[1], plain[1]));
    }
  }
  EXPECT_EQ(ca::stats().eager_passes, 0);
  EXPECT_EQ(ca::stats().departures, 3);  // at the first of each turn
}

TEST_F(CompiledAutograd, AHookThatAlwaysSurprisesIsLeftToTheEngine) {
  for (int i = 0; i < 12; ++i)
    captures([] {
      Tensor p = parameter({3}), m = p.sin();
      autograd::register_hook(m, [](const Tensor& g) { return g.to(Dtype::f64); });
      m.sum().backward();
    });
  EXPECT_EQ(ca::stats().departures, 8);
  EXPECT_EQ(ca::stats().eager_passes, 4);
}

// ---- gradients of leaves

TEST_F(CompiledAutograd, GradientsThatAreThereAreWrittenInPlace) {
  Tensor p = parameter({3});
  captures([&] {
    (p * p).sum().backward();
    Tensor held = p.grad();
    (p * p).sum().backward();
    EXPECT_TRUE(p.grad().is_same(held));
    EXPECT_TRUE(close(held, p.detach() * 4));
  });
  EXPECT_EQ(ca::stats().captures, 1);
}

TEST_F(CompiledAutograd, TheFirstGradientIsNoAliasOfAnything) {
  captures([] {
    Tensor a = parameter({3}), b = parameter({3}), ones = filled({3});
    autograd::backward({a + b}, {.grad_outputs = {ones}});
    NoGradGuard off;
    a.grad().mul_(5);
    EXPECT_TRUE(close(b.grad(), filled({3})));
    EXPECT_TRUE(close(ones, filled({3})));
  });
}

TEST_F(CompiledAutograd, GradientsHaveTheLayoutOfTheirLeaves) {
  captures([] {
    Tensor leaf = filled({4, 3}).t().detach().requires_grad_();
    (leaf * filled({3, 4})).sum().backward();
    EXPECT_EQ(leaf.grad().stride(0).guard_int(), leaf.stride(0).guard_int());
    EXPECT_TRUE(close(leaf.grad(), filled({3, 4})));
  });
}

TEST_F(CompiledAutograd, InputsLimitWhatIsAccumulated) {
  captures([] {
    Tensor a = parameter({3}), b = parameter({3});
    autograd::backward({(a * b).sum()}, {}, {b});
    EXPECT_FALSE(a.grad().defined());
    EXPECT_TRUE(close(b.grad(), filled({3})));
  });
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

TEST_F(CompiledAutograd, GradientsOfInnerTensorsAreKeptWhereAsked) {
  captures([] {
    Tensor a = parameter({3}), m = a * 2;
    m.retain_grad();
    m.exp().sum().backward();
    EXPECT_TRUE(close(m.grad(), m.detach().exp()));
  });
}

TEST_F(CompiledAutograd, CodeForWritesToViewsServesOtherBatchSizes) {
  for (int64_t batch : {4, 6, 9, 2}) {
    auto step = [&] {
      Tensor a = parameter({batch, 4}), y = a * 1.0;
      y.narrow(1, 1, 2).mul_(filled({batch, 2}));
      y.sin().sum().backward();
      return a.grad();
    };
    Tensor plain = step(), compiled;
    EXPECT_EQ(captures([&] { compiled = step(); }), batch == 4) << batch;
    EXPECT_TRUE(close(compiled, plain)) << batch;
  }
}

// ---- exceptions

TEST_F(CompiledAutograd, AnExceptionInAHookLeavesGradientsAsTheEngineDoes) {
  auto step = [](bool throws) {
    Tensor a = parameter({3}), b = parameter({3}), m = a.sin(), n = b * m;
    autograd::register_hook(m, [throws](const Tensor&) {
      if (throws) throw std::runtime_error("from the hook");
    });
    std::string what;
    try {
      n.sum().backward();
    } catch (const std::exception& error) {
      what = error.what();
    }
    return std::pair(what, std::vector{a.grad(), b.grad()});
  };
  auto [plain_text, plain] = step(true);
  captures([&, &expected = plain, &text = plain_text] {
    auto [found_text, found] = step(true);
    EXPECT_EQ(found_text, text);
    EXPECT_EQ(found[0].defined(), expected[0].defined());
    EXPECT_EQ(found[1].defined(), expected[1].defined());
    EXPECT_FALSE(ca::in_compiled_autograd_region());
    auto [good_text, good] = step(false);
    EXPECT_EQ(good_text, "");
    EXPECT_TRUE(good[0].defined() && good[1].defined());
  });
  EXPECT_EQ(ca::stats().captures, 1);
  EXPECT_EQ(ca::stats().hits, 1);
}

TEST_F(CompiledAutograd, WritesToWhatWasSavedAreTheEnginesError) {
  auto step = [] {
    Tensor a = parameter({3}), m = a * 2, y = m * m;
    m.mul_(3);
    y.sum().backward();
  };
  std::string plain = message_of(step);
  EXPECT_THAT(plain, testing::HasSubstr("modified in place"));
  captures([&] { EXPECT_EQ(message_of(step), plain); });
  EXPECT_EQ(ca::stats().eager_passes, 1);
}

TEST_F(CompiledAutograd, ABackendThatFailsLeavesTheTapeUsable) {
  Tensor a = parameter({3}), y = (a * a).sum();
  {
    auto on =
        ca::enable([](const compiler::Graph&, std::span<const Tensor>) -> compiler::CompiledCode {
          throw std::runtime_error("no code today");
        });
    EXPECT_THAT(message_of([&] { y.backward(); }), testing::HasSubstr("no code today"));
  }
  EXPECT_FALSE(a.grad().defined());
  y.backward();
  EXPECT_TRUE(close(a.grad(), a.detach() * 2));
}

// ---- scopes

void pass() {
  Tensor a = parameter({3});
  (a * 2).sum().backward();
}

TEST_F(CompiledAutograd, ScopesNestAndEnd) {
  pass();
  EXPECT_EQ(ca::stats().captures, 0);
  {
    auto on = ca::enable("aot_eager");
    pass();
    EXPECT_EQ(ca::stats().captures, 1);
    {
      auto off = ca::disable();
      pass();
      auto again = ca::enable("aot_eager");
      pass();
    }
    pass();
    EXPECT_EQ(ca::stats().hits, 2);
  }
  pass();
  EXPECT_EQ(ca::stats().hits, 2);
}

TEST_F(CompiledAutograd, TheProcessMayBeEnabled) {
  ca::enable_everywhere("aot_eager");
  std::thread(pass).join();
  std::thread(pass).join();
  EXPECT_EQ(ca::stats().captures, 1);
  EXPECT_EQ(ca::stats().hits, 1);
  ca::disable_everywhere();
  pass();
  EXPECT_EQ(ca::stats().hits, 1);
}

TEST_F(CompiledAutograd, CodeOfAnotherBackendIsNotUsed) {
  int first = 0, second = 0;
  auto counting = [](int& runs) {
    return [&runs](const compiler::Graph& graph, std::span<const Tensor>) {
      return [graph, &runs](const std::vector<Tensor>& in) {
        ++runs;
        return graph.run(in);
      };
    };
  };
  {
    auto on = ca::enable(counting(first));
    pass();
  }
  auto on = ca::enable(counting(second));
  pass();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST_F(CompiledAutograd, ResetInsideAPassIsRefused) {
  captures([] {
    Tensor a = parameter({3}), m = a * 2;
    std::string error;
    autograd::register_hook(m, [&](const Tensor&) { error = message_of([] { ca::reset(); }); });
    m.sum().backward();
    EXPECT_THAT(error, testing::HasSubstr("inside of a compiled backward pass"));
  });
}

TEST_F(CompiledAutograd, CompiledCallablesMayEnableIt) {
  auto step = compile(
      [](const Tensor& w) {
        Tensor loss = (w * w).sum();
        loss.backward();
        return loss.detach();
      },
      {.backend = "aot_eager"});
  auto flag = config::patch({{"dynamo.compiled_autograd", true}});
  Tensor w = parameter({3});
  step(w);
  EXPECT_TRUE(close(w.grad(), w.detach() * 2));
  int64_t in_callables = ca::stats().captures + ca::stats().hits;
  pass();
  EXPECT_EQ(ca::stats().captures + ca::stats().hits, in_callables);
}

TEST_F(CompiledAutograd, TheOldestTapesGo) {
  auto few = config::patch({{"compiled_autograd.cache_size", 2}});
  auto power = [](double exponent) {
    return [exponent] {
      Tensor a = parameter({3});
      a.abs().pow(exponent).sum().backward();
    };
  };
  EXPECT_EQ(captures(power(1.5)), 1);
  EXPECT_EQ(captures(power(2.5)), 1);
  EXPECT_EQ(captures(power(1.5)), 0);
  EXPECT_EQ(captures(power(3.5)), 1);
  EXPECT_EQ(ca::stats().dropped, 1);
  EXPECT_EQ(captures(power(1.5)), 0);
  EXPECT_EQ(captures(power(2.5)), 1);
}

// ---- memory and threads

TEST_F(CompiledAutograd, NothingOfAPassStays) {
  std::weak_ptr<int> alive;
  captures([&] {
    auto owner = std::make_shared<int>(1);
    alive = owner;
    Tensor a = parameter({3}), m = a * 2;
    autograd::register_hook(m, [owner](const Tensor&) {});
    Tensor big = filled({64}).requires_grad_();
    (m.sum() + (big * big).sum()).backward();
    owner = nullptr;
  });
  EXPECT_TRUE(alive.expired());
}

TEST_F(CompiledAutograd, MemoryStaysFlatOverManySteps) {
  auto on = ca::enable("aot_eager");
  Tensor w = parameter({16, 16});
  auto step = [&] {
    Tensor h = filled({8, 16}).matmul(w).tanh();
    autograd::register_hook(h, [](const Tensor& g) { return g * 2; });
    h.sum().backward();
  };
  for (int i = 0; i < 10; ++i) step();
  int64_t in_use = allocator_stats().current_bytes, peak = peak_of(step);
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(allocator_stats().current_bytes, in_use);
  EXPECT_EQ(peak_of(step), peak);
}

TEST_F(CompiledAutograd, WhatNodesKeepIsFreedAfterItsLastUse) {
  auto step = [] {
    Tensor x = filled({1 << 14}).requires_grad_(), y = x;
    for (int i = 0; i < 12; ++i) y = y.sin();
    Tensor loss = y.sum();
    y = Tensor();
    int64_t peak = peak_of([&] { loss.backward(); });
    x.set_grad({});
    return peak;
  };
  int64_t plain = step(), compiled = 0;
  for (int i = 0; i < 2; ++i) captures([&] { compiled = step(); });
  EXPECT_LE(compiled, plain + (int64_t{1} << 16));
}

TEST_F(CompiledAutograd, ThreadsRunPassesAtOnce) {
  ca::enable_everywhere("aot_eager");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 30; ++i) {
        Tensor w = parameter({3, 3}), y = filled({2 + (i + t) % 5, 3}).matmul(w);
        for (int k = 0; k < (t + i) % 4; ++k) y = y.tanh();
        autograd::register_hook(y, [](const Tensor& g) { return g * 2; });
        Tensor loss = y.sum();
        loss.backward({}, true);
        Tensor once = w.grad().clone();
        auto off = ca::disable();
        w.set_grad({});
        loss.backward();
        wrong += !close(once, w.grad());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CompiledAutograd, ThreadsMayShareATape) {
  Tensor w = parameter({3}), shared = w.exp();
  ca::enable_everywhere("aot_eager");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) (shared * 2).sum().backward({}, true);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(close(w.grad(), w.detach().exp() * 160));
}

}  // namespace
}  // namespace tenon
