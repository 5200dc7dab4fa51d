// User code in compiled passes: hooks that bring saved tensors back, hooks that write, rules that
// throw, and optimisers that step in the pass.
#include "unit/tape/tape_test.h"

#include <tenon/library.h>
#include <tenon/optim.h>

#include <memory>
#include <stdexcept>

namespace tenon {
namespace {

using Tensors = std::vector<Tensor>;

class UserCodeInPasses : public PassTest {
 protected:
  /// Graphs of the passes of `body`, as text.
  static std::vector<std::string> graphs_of(const std::function<void()>& body) {
    std::vector<std::string> texts;
    auto on = ca::enable([&texts](const compiler::Graph& graph, std::span<const Tensor>) {
      texts.push_back(graph.text());
      return [graph](const Tensors& in) { return graph.run(in); };
    });
    body();
    return texts;
  }
};

// ---- hooks of saved tensors

struct Calls {
  int packs = 0, unpacks = 0;
};

Tensor packed_chain(const Tensor& a, Calls& calls, Dtype unpacked = Dtype::f32) {
  autograd::SavedTensorHooks hooks(
      [&calls](const Tensor& t) {
        ++calls.packs;
        return std::make_shared<Tensor>(t * 2);
      },
      [&calls, unpacked](const std::shared_ptr<void>& data) {
        ++calls.unpacks;
        return (*std::static_pointer_cast<Tensor>(data) / 2).to(unpacked);
      });
  return a.sin().exp().sum();
}

TEST_F(UserCodeInPasses, DerivativesOfPackedTensorsAreCompiled) {
  auto step = [](int64_t n, Calls& calls) {
    Tensor a = parameter({n});
    packed_chain(a, calls).backward();
    return a.grad();
  };
  for (int64_t n : {3, 5, 1}) {
    Calls plain_calls, calls;
    Tensor plain = step(n, plain_calls), compiled;
    EXPECT_EQ(captures([&] { compiled = step(n, calls); }), n == 3);
    EXPECT_TRUE(close(compiled, plain));
    EXPECT_EQ(calls.packs, plain_calls.packs);
    EXPECT_EQ(calls.unpacks, plain_calls.unpacks);
  }
  Calls calls;
  std::vector<std::string> graphs = graphs_of([&] { step(3, calls); });
  ASSERT_EQ(graphs.size(), 3u);  // before, between and after both calls
  EXPECT_THAT(graphs[2], testing::HasSubstr("sin.self"));
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

TEST_F(UserCodeInPasses, AnUnpackHookMayGiveAnotherDtype) {
  auto step = [](Calls& calls) {
    Tensor a = parameter({3});
    packed_chain(a, calls, Dtype::f64).backward();
    return a.grad();
  };
  Calls plain_calls, calls;
  Tensor plain = step(plain_calls), compiled;
  captures([&] { compiled = step(calls); });
  EXPECT_TRUE(close(compiled, plain));
  EXPECT_EQ(calls.unpacks, plain_calls.unpacks);
  EXPECT_EQ(ca::stats().departures, 1);
}

TEST_F(UserCodeInPasses, APackedTapeThatWasFreedIsTheEnginesError) {
  auto step = [] {
    Calls calls;
    Tensor a = parameter({3}), loss = packed_chain(a, calls);
    loss.backward();
    loss.backward();
  };
  std::string plain = message_of(step);
  EXPECT_THAT(plain, testing::HasSubstr("a second time"));
  captures([&] { EXPECT_EQ(message_of(step), plain); });
}

TEST_F(UserCodeInPasses, CheckpointedRegionsAreCompiled) {
  int runs = 0;
  auto step = [&] {
    Tensor a = parameter({4});
    autograd::checkpoint(
        [&](const Tensors& in) {
          ++runs;
          return Tensors{(in[0].sin() * in[0]).exp()};
        },
        {a * 2})[0]
        .sum()
        .backward();
    return a.grad();
  };
  Tensor plain = step(), compiled;
  captures([&] { compiled = step(); });
  EXPECT_TRUE(close(compiled, plain));
  EXPECT_EQ(runs, 4);
}

TEST_F(UserCodeInPasses, ACheckpointedRegionThatWritesWhatItSavedIsTheEnginesError) {
  auto step = [] {
    Tensor a = parameter({4});
    auto region = [](const Tensors& in) {
      Tensor t = in[0].exp();
      t.mul_(4);
      return Tensors{t};
    };
    autograd::checkpoint(region, {a * 2})[0].sum().backward();
  };
  std::string plain = message_of(step);
  EXPECT_THAT(plain, testing::HasSubstr("ExpBackward: its result 0 of shape [4]"));
  captures([&] {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(message_of(step), plain);
  });
}

// ---- marks of gradients

TEST_F(UserCodeInPasses, AHookMayGiveAConjugate) {
  auto step = [] {
    Tensor a = complex(filled({3}), filled({3}) + 1).requires_grad_(), m = a * a;
    autograd::register_hook(m, [](const Tensor& g) { return g.conj(); });
    (m * m).abs().sum().backward();
    return view_as_real(a.grad());
  };
  Tensor plain = step(), compiled;
  captures([&] { compiled = step(); });
  EXPECT_TRUE(close(compiled, plain)) << compiled << plain;
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

// ---- writes in the middle of a pass

TEST_F(UserCodeInPasses, AHookThatWritesWhatLaterNodesNeedIsTheEnginesError) {
  auto step = [] {
    Tensor a = parameter({3}), b = filled({3}), m = a.sin() * b, n = m * 2;
    autograd::register_hook(n, [b](const Tensor&) { b.add_(1); });
    n.sum().backward();
  };
  std::string plain = message_of(step);
  EXPECT_THAT(plain, testing::HasSubstr("modified in place"));
  for (int i = 0; i < 2; ++i) captures([&] { EXPECT_EQ(message_of(step), plain); });
  EXPECT_EQ(ca::stats().captures, 1);
}

// ---- rules of the user

bool& throws_now() {
  static bool now = false;
  return now;
}

TENON_LIBRARY(tape_test, lib) {
  lib.op("throwing(Tensor x) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x) { return x.clone(); })
      .vjp([](const VjpCtx& c, const Tensor& dy) {
        if (throws_now()) throw std::runtime_error("from the rule");
        return c.grads(dy * 3);
      });
}

const Op<Tensor(const Tensor&)> throwing{"tape_test::throwing"};

TEST_F(UserCodeInPasses, ARuleThatThrowsLeavesGradientsAsTheEngineDoes) {
  auto step = [](bool throws) {
    throws_now() = throws;
    Tensor a = parameter({3}), b = parameter({3});
    Tensor loss = (b * throwing(a.sin())).sum();
    std::string what;
    try {
      loss.backward();
    } catch (const std::exception& error) {
      what = error.what();
    }
    throws_now() = false;
    return std::pair(what, std::vector{a.grad(), b.grad()});
  };
  auto plain = step(true);
  EXPECT_THAT(plain.first, testing::HasSubstr("from the rule"));
  captures([&] {
    auto found = step(true);
    EXPECT_EQ(found.first, plain.first);
    EXPECT_EQ(found.second[0].defined(), plain.second[0].defined());
    EXPECT_EQ(found.second[1].defined(), plain.second[1].defined());
  });
  EXPECT_EQ(captures([&] { EXPECT_EQ(step(false).first, ""); }), 1);  // not given up for good
}

// ---- optimisers

/// Two layers, trained for some steps; the parameters afterwards.
template <class Optimizer, class Options>
Tensors trained(const Options& options, bool in_backward) {
  Tensor w = parameter({4, 3}), v = parameter({3});
  Optimizer optimizer({w, v}, options);
  std::unique_ptr<optim::StepInBackward> stepping;
  if (in_backward) stepping = std::make_unique<optim::StepInBackward>(optimizer);
  for (int64_t batch : {5, 5, 2, 3, 7}) {
    (filled({batch, 4}).matmul(w).tanh() * v).sum().backward();
    if (!in_backward) {
      optimizer.step();
      optimizer.zero_grad();
    }
    EXPECT_FALSE(w.grad().defined() || v.grad().defined());
    optimizer.lr *= 0.5;
  }
  return {w.detach(), v.detach()};
}

template <class Optimizer, class Options>
void expect_same_training(const Options& options) {
  Tensors plain = trained<Optimizer>(options, false), stepping = trained<Optimizer>(options, true);
  Tensors compiled;
  {
    auto on = ca::enable("aot_eager");
    compiled = trained<Optimizer>(options, true);
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(close(stepping[i], plain[i])) << stepping[i] << plain[i];
    EXPECT_TRUE(close(compiled[i], plain[i])) << compiled[i] << plain[i];
  }
  EXPECT_EQ(ca::stats().captures, 1);
  EXPECT_EQ(ca::stats().hits, 4);
  ca::reset();
}

TEST_F(UserCodeInPasses, OptimisersStepInTheCodeOfThePass) {
  expect_same_training<optim::SGD>(optim::SGDOptions{.lr = 0.1});
  expect_same_training<optim::SGD>(
      optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01});
  expect_same_training<optim::Adam>(optim::AdamOptions{.lr = 0.1});
  expect_same_training<optim::AdamW>(optim::AdamWOptions{.lr = 0.1, .amsgrad = true});
  expect_same_training<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.1, .momentum = 0.5});
}

TEST_F(UserCodeInPasses, AllParametersAreUpdatedInOneGraph) {
  Tensor w = parameter({4, 3}), v = parameter({3});
  optim::SGD optimizer({w, v}, {.lr = 0.1});
  optim::StepInBackward stepping(optimizer);
  uint64_t version = w.version();
  std::vector<std::string> graphs = graphs_of([&] {
    (filled({5, 4}).matmul(w).tanh() * v).sum().backward();
  });
  ASSERT_EQ(graphs.size(), 2u);  // gradients, updates
  EXPECT_THAT(graphs[1], testing::HasSubstr("addcmul_"));
  EXPECT_GT(w.version(), version);
}

TEST_F(UserCodeInPasses, AStepInPiecesHasOneBackwardAndOneUpdate) {
  Tensor w = parameter({4, 3}), v = parameter({3});
  optim::SGD optimizer({w, v}, {.lr = 0.1});
  optim::StepInBackward stepping(optimizer);
  auto loss = compile(
      [&](const Tensor& x) {
        Tensor h = x.matmul(w), scaled = h.tanh();
        if (scaled.sum().item<float>() > 1e6f) return scaled.sum();
        return (scaled * v + h.sum()).sum();
      },
      {.backend = "aot_eager"});
  std::vector<std::string> graphs = graphs_of([&] {
    for (int i = 0; i < 3; ++i) loss(filled({5, 4})).backward();
  });
  EXPECT_EQ(graphs.size(), 2u) << testing::PrintToString(graphs);
  EXPECT_EQ(ca::stats().captures, 1);
  EXPECT_EQ(ca::stats().hits, 2);
}

// One step with an optimiser of its own, as programs with phases make them.
template <class Optimizer, class Options>
void step_once(const Options& options) {
  Tensor w = parameter({4, 3}), v = parameter({3});
  Optimizer optimizer({w, v}, options);
  optim::StepInBackward stepping(optimizer);
  (filled({5, 4}).matmul(w).tanh() * v).sum().backward();
}

TEST_F(UserCodeInPasses, ANewOptimiserOfTheSameKindTakesTheCodeThatIsThere) {
  auto steps = [](int64_t captures, const auto& step) {
    ca::reset();
    auto on = ca::enable("aot_eager");
    for (int i = 0; i < 3; ++i) step();
    EXPECT_EQ(ca::stats().captures, captures);
  };
  steps(1, [] { step_once<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}); });
  steps(1, [] { step_once<optim::Adam>(optim::AdamOptions{.amsgrad = true}); });
  steps(1, [] { step_once<optim::AdamW>(optim::AdamWOptions{}); });
  steps(1, [] { step_once<optim::RMSprop>(optim::RMSpropOptions{.centered = true}); });
  double lr = 1;
  steps(1, [&] { step_once<optim::SGD>(optim::SGDOptions{.lr = lr *= 0.5}); });
  double decay = 1;
  steps(3, [&] { step_once<optim::SGD>(optim::SGDOptions{.weight_decay = decay *= 0.5}); });
}

TEST_F(UserCodeInPasses, OptimisersWithOtherNumbersHaveCodeOfTheirOwn) {
  auto trained_with = [](double decay) {
    Tensor w = parameter({4, 3});
    optim::SGD optimizer({w}, {.lr = 0.5, .weight_decay = decay});
    optim::StepInBackward stepping(optimizer);
    filled({5, 4}).matmul(w).sum().backward();
    return w.detach();
  };
  for (double decay : {0.0, 0.25, 0.5, 0.0}) {
    Tensor plain = trained_with(decay), compiled;
    captures([&] { compiled = trained_with(decay); });
    EXPECT_TRUE(close(compiled, plain)) << decay << ": " << compiled << plain;
  }
}

TEST_F(UserCodeInPasses, UpdatesKeepTheirPlaceAmongHooks) {
  auto step = [] {
    Tensor a = parameter({3}), b = parameter({3});
    optim::SGD optimizer({a, b}, {.lr = 0.5});
    optim::StepInBackward stepping(optimizer);
    Tensors seen;
    autograd::register_post_accumulate_grad_hook(b, [&](const Tensor& leaf) {
      seen.push_back(leaf.detach().clone());
      seen.push_back(a.detach().clone());
    });
    autograd::register_hook(a, [&](const Tensor& g) { seen.push_back(b.detach() + g); });
    (a.sin() * b).sum().backward();
    seen.push_back(a.detach());
    seen.push_back(b.detach());
    return seen;
  };
  Tensors plain = step(), compiled;
  for (int i = 0; i < 2; ++i) {
    captures([&] { compiled = step(); });
    ASSERT_EQ(compiled.size(), plain.size());
    for (size_t k = 0; k < plain.size(); ++k) EXPECT_TRUE(close(compiled[k], plain[k])) << k;
  }
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

TEST_F(UserCodeInPasses, ASecondPassOverUpdatedParametersIsTheEnginesError) {
  auto step = [] {
    Tensor a = parameter({3}), loss = (a * a).sum();
    optim::SGD optimizer({a}, {.lr = 0.5});
    optim::StepInBackward stepping(optimizer);
    loss.backward({}, true);
    loss.backward();
  };
  std::string plain = message_of(step);
  EXPECT_THAT(plain, testing::HasSubstr("modified in place"));
  captures([&] { EXPECT_EQ(message_of(step), plain); });
}

TEST_F(UserCodeInPasses, OptimisersThatAreGoneStepNoMore) {
  Tensor a = parameter({3});
  {
    optim::SGD optimizer({a}, {.lr = 0.5});
    optim::StepInBackward stepping(optimizer);
  }
  captures([&] { (a * 2).sum().backward(); });
  EXPECT_TRUE(close(a.grad(), filled({3}).zeros_like() + 2));
  EXPECT_TRUE(close(a.detach(), filled({3})));
}

}  // namespace
}  // namespace tenon
