// dynamo.suppress_errors: what cannot be compiled runs as it is, and no part of a body runs twice.
#include "unit/message_of.h"

#include <tenon/compiler.h>
#include <tenon/library.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SuppressedErrors : public testing::Test {
 protected:
  void SetUp() override {
    tenon::reset();
    n_asked = 0;
    static const bool is_registered = [] {
      compiler::register_backend("no_functions", &compile_or_fail);
      return true;
    }();
    static_cast<void>(is_registered);
  }

  // Takes sums and products only.
  static compiler::CompiledCode compile_or_fail(const compiler::Graph& graph,
                                                std::span<const Tensor>) {
    ++n_asked;
    std::vector<std::string> ops = graph.ops();
    if (std::ranges::any_of(ops, [](const auto& op) { return op.starts_with("aten.sin."); }))
      throw std::runtime_error("no sine");
    return [graph](const std::vector<Tensor>& inputs) { return graph.run(inputs); };
  }

  static Options hiding(Options options = {}) {
    if (options.backend.empty()) options.backend = "no_functions";
    options.options["dynamo.suppress_errors"] = "true";
    return options;
  }
  static int64_t hidden() {
    auto all = counters();
    return all["eager_fallback[suppressed_error]"];
  }

  static inline int n_asked = 0;
};

TEST_F(SuppressedErrors, ASegmentRunsOpByOpBehindWhatHasRun) {
  Tensor total = zeros({1});
  int n = 0;
  auto f = compile(
      [&](const Tensor& x) {
        ++n;
        total.add_(1);
        return total.item<float>() > 0 ? x.sin() + total : x;
      },
      hiding());
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(f(zeros({1})).item<float>(), i);
    EXPECT_EQ(total.item<float>(), i);
    EXPECT_EQ(n, i);
  }
  EXPECT_EQ(n_asked, 2) << "once a segment";
  EXPECT_EQ(f.stats().replays, 3) << "later calls follow the first one";
  EXPECT_EQ(hidden(), 4);
}

TEST_F(SuppressedErrors, NumbersAreDrawnOnceBeforeASegment) {
  auto body = [](const Tensor& x) {
    Tensor drawn = rand({2});
    return drawn.sum().item<float>() < 4 ? (x + drawn).sin() : x;
  };
  auto f = compile(body, hiding());
  for (int i = 0; i < 3; ++i) {
    manual_seed(3);
    Tensor plain = body(zeros({2}));
    manual_seed(3);
    EXPECT_TRUE(f(zeros({2})).equal(plain));
  }
}

TEST_F(SuppressedErrors, ABodyInOnePieceRunsOnce) {
  int n = 0;
  auto f = compile([&](const Tensor& x) { return x.sin() + ++n; }, hiding());
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(f(zeros({1})).item<float>(), i);
  EXPECT_EQ(n, 3);
  EXPECT_EQ(n_asked, 1) << "no later call tries again";
  EXPECT_EQ(f.stats().eager_calls, 3);
}

TEST_F(SuppressedErrors, ABodyThatLeavesItsPathRunsOnce) {
  bool takes_sine = false;
  int n = 0;
  auto f = compile([&](const Tensor& x) { return takes_sine ? x.sin() + ++n : x + 1; }, hiding());
  EXPECT_EQ(f(zeros({1})).item<float>(), 1);
  takes_sine = true;
  for (int i = 1; i <= 6; ++i) EXPECT_EQ(f(zeros({1})).item<float>(), i);
  EXPECT_EQ(n_asked, 2);
}

TEST_F(SuppressedErrors, ErrorsOnDataAreThrownAndDisableNothing) {
  Tensor total = zeros({1});
  auto f = compile(
      [&](const Tensor& x, const Tensor& at) {
        total.add_(1);
        return x.index_select(0, at);
      },
      hiding({.backend = "eager"}));
  EXPECT_THAT(message_of([&] { f(ones({3}), full({1}, 7, Dtype::i64)); }), HasSubstr("index 7"));
  EXPECT_EQ(total.item<float>(), 1);
  for (int i = 0; i < 2; ++i) f(ones({3}), full({1}, 1, Dtype::i64));
  EXPECT_EQ(total.item<float>(), 3);
  EXPECT_EQ(f.stats().hits, 2);
  EXPECT_EQ(f.stats().eager_calls, 0);
}

TEST_F(SuppressedErrors, ErrorsOfTheBodyAreThrownAndDisableNothing) {
  Tensor total = zeros({1});
  int n = 0;
  auto f = compile(
      [&](const Tensor& x) {
        ++n;
        total.add_(1);
        check(x.size(0) < 4, "too long");
        return x.matmul(ones({2, 2}));
      },
      hiding({.backend = "eager"}));
  EXPECT_THAT(message_of([&] { f(ones({5, 2})); }), HasSubstr("too long"));
  EXPECT_THAT(message_of([&] { f(ones({3, 3})); }), HasSubstr("inner sizes differ"));
  for (int i = 0; i < 2; ++i) f(ones({3, 2}));
  EXPECT_EQ(n, 4);
  EXPECT_EQ(total.item<float>(), 4);
  EXPECT_EQ(f.stats().hits, 1);
  EXPECT_EQ(f.stats().eager_calls, 0);
}

TEST_F(SuppressedErrors, ARefusedBodyLeavesNothingBehindBeforeItRunsAsItIs) {
  Tensor total = zeros({1});
  auto f = compile(
      [&](const Tensor& x) {
        total.add_(1);
        return total.item<float>() > 0 ? x + total : x;
      },
      hiding({.backend = "eager", .fullgraph = true}));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(f(zeros({1})).item<float>(), i);
  EXPECT_EQ(total.item<float>(), 3);
  EXPECT_EQ(f.stats().eager_calls, 3);
}

TEST_F(SuppressedErrors, ARefusedStepOfTrainingRunsAsItIs) {
  Tensor w = ones({2}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        Tensor loss = (x * w).sum();
        loss.backward();
        return loss.item<float>() > 0 ? loss * 2 : loss;
      },
      hiding({.backend = "eager", .fullgraph = true}));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(f(ones({2})).item<float>(), 4);
    EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(2, float(i)));
  }
}

TEST_F(SuppressedErrors, ABodyThatIsRefusedOffItsPathRunsAsItIsFromThenOn) {
  Tensor total = zeros({1});
  bool looks = false;
  int n = 0;
  auto f = compile(
      [&](const Tensor& x) {
        ++n;
        total.add_(1);
        return looks && total.item<float>() > 0 ? x * 3 + total : x + total;
      },
      hiding({.backend = "eager", .fullgraph = true}));
  for (int i = 1; i <= 8; ++i) {
    looks = i > 2;
    EXPECT_EQ(f(zeros({1})).item<float>(), i);
  }
  EXPECT_EQ(total.item<float>(), 8);
  EXPECT_EQ(n, 9) << "the call that was refused began twice";
}

TEST_F(SuppressedErrors, ARefusalBehindEffectsIsThrown) {
  Tensor total = zeros({1});
  auto f = compile(
      [&](const Tensor& x) {
        total.add_(1);
        Tensor y = x * total.item<float>();
        compiler::ErrorOnGraphBreak no_more;
        return y.sum().item<float>() > 0 ? y : x;
      },
      hiding({.backend = "eager"}));
  std::string error = message_of([&] { f(ones({1})); });
  EXPECT_THAT(error, HasSubstr("GraphBreakError: item()"));
  EXPECT_THAT(error, HasSubstr("suppress_errors does not hide this, since part of the body"));
  EXPECT_THAT(error.substr(1), Not(HasSubstr("GraphBreakError")));
  EXPECT_EQ(total.item<float>(), 1);
}

TEST_F(SuppressedErrors, AMarkThatTheBodyBreaksIsHidden) {
  auto f = compile([](const Tensor& x) { return x.size(0) == 4 ? x * 2 : x; },
                   hiding({.backend = "eager"}));
  Tensor x = ones({4});
  mark_dynamic(x, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(f(x).sum().item<float>(), 8);
  EXPECT_EQ(f.stats().eager_calls, 2);
}

TEST_F(SuppressedErrors, TheFirstOneIsSaid) {
  std::vector<std::string> told;
  auto watching = compiler::on_event([&](const compiler::Event& e) {
    if (e.kind == compiler::EventKind::fallback) told.push_back(e.text);
  });
  auto f = compile([](const Tensor& x) { return x.sin(); }, hiding());
  for (int i = 0; i < 2; ++i) f(ones({1}));
  EXPECT_THAT(told, ElementsAre("suppressed_error", "suppressed_error"));
}

// ---- a limit in a segment

TEST(LimitsOfSegments, EachCallOfAFurtherKindIsCounted) {
  tenon::reset();
  int n = 0, n_fallbacks = 0, n_recompiles = 0;
  auto watching = compiler::on_event([&](const compiler::Event& e) {
    n_fallbacks += e.kind == compiler::EventKind::fallback;
    n_recompiles += e.kind == compiler::EventKind::recompile;
  });
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * 2;
        graph_break("here");
        switch (n++ % 5) {
          case 0:
            return y.sin();
          case 1:
            return y.cos();
          case 2:
            return y.exp();
          case 3:
            return y.tanh();
          default:
            return y.abs();
        }
      },
      {.backend = "eager", .recompile_limit = 2, .name = "kinds"});
  for (int i = 0; i < 20; ++i) f(ones({3}));
  EXPECT_EQ(f.stats().eager_calls_after_limit, 12) << "three kinds of five";
  EXPECT_EQ(f.stats().eager_calls, 12);
  EXPECT_EQ(f.stats().compiles, 3);
  EXPECT_EQ(counters()["eager_fallback[recompile_limit]"], 12);
  EXPECT_EQ(counters()["recompiles[kinds]"], 1) << "the second kind";
  EXPECT_EQ(n_fallbacks, 12);
  EXPECT_EQ(n_recompiles, 1);
}

}  // namespace
}  // namespace tenon
