// Results that nobody used: the backward leaves out the work that only they need, and gradients are
// those of the tape.
#include "backend/backend.h"
#include "graph/artifact.h"
#include "graph/text/print.h"
#include "report/events.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

using Body = std::function<std::vector<Tensor>(const Tensor&, const Tensor&)>;

class UndefinedTangents : public testing::Test {
 protected:
  void SetUp() override {
    backwards().clear();
    register_backend(
        "keeps_backwards",
        [](const CompileRequest& request) {
          if (request.stage == Stage::backward) backwards().push_back(request);
          return interpreter_artifact(request.graph);
        },
        {}, Stage::inference);
  }
  static std::vector<CompileRequest>& backwards() {
    static std::vector<CompileRequest> requests;
    return requests;
  }
  static int64_t partial() { return report::counter("aot.partial_backward_compiles").value(); }

  static Tensor wave(std::initializer_list<int64_t> sizes, double step) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return arange(n).to(Dtype::f64).mul(step).sin().reshape(IntList(sizes)).requires_grad_();
  }

  static double distance(const Tensor& a, const Tensor& b) {
    return a.sub(b).abs().max().item<double>();
  }

  // Gradients of the results that `mask` has, by the tape or compiled; undefined ones stay so.
  template <class F>
  static std::vector<Tensor> gradients(F& f, uint32_t mask, int64_t n) {
    Tensor x = arange(n * 3).to(Dtype::f64).mul(0.37).sin().reshape({n, 3}).requires_grad_();
    Tensor w = wave({3, 3}, 0.71);
    std::vector<Tensor> results = f(x, w);
    Tensor loss = zeros({}, Dtype::f64);
    for (size_t i = 0; i < results.size(); ++i)
      if (mask >> i & 1) loss = loss + (results[i] * (0.5 + static_cast<double>(i))).sum();
    loss.backward();
    return {x.grad(), w.grad()};
  }

  template <class F>
  static void expect_tape(F& compiled, Body& body, uint32_t mask, int64_t n = 4) {
    auto expected = gradients(body, mask, n), found = gradients(compiled, mask, n);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(expected[i].defined(), found[i].defined()) << "mask " << mask << " input " << i;
      if (expected[i].defined()) {
        EXPECT_LT(distance(expected[i], found[i]), 1e-12) << "mask " << mask;
      }
    }
  }
};

TEST_F(UndefinedTangents, LeaveOutTheWorkOfTheirResult) {
  Body body = [](const Tensor& x, const Tensor& w) {
    return std::vector<Tensor>{x.matmul(w).tanh(), x.sin()};
  };
  auto f = compile(body, {.backend = "keeps_backwards"});
  expect_tape(f, body, 2);
  ASSERT_EQ(backwards().size(), 1u);
  EXPECT_THAT(to_text(*backwards()[0].graph), Not(HasSubstr("aten.mm.default")));
  EXPECT_THAT(to_text(*backwards()[0].graph), HasSubstr("tenon.vjp_aten_sin.self"));
  EXPECT_EQ(backwards()[0].graph->inputs().size(), 2u);  // x and the tangent of the second result
  EXPECT_EQ(backwards()[0].n_saved, 1u);
  expect_tape(f, body, 1);
  ASSERT_EQ(backwards().size(), 2u);
  EXPECT_THAT(to_text(*backwards()[1].graph), Not(HasSubstr("tenon.vjp_aten_sin.self")));
  expect_tape(f, body, 3);
  EXPECT_EQ(backwards().size(), 3u);
  for (uint32_t mask : {1, 2, 3, 2, 1}) expect_tape(f, body, mask);
  EXPECT_EQ(backwards().size(), 3u);
}

TEST_F(UndefinedTangents, InputsThatOnlyTheyReachGetNoGradient) {
  Body body = [](const Tensor& x, const Tensor& w) { return std::vector<Tensor>{x * 2, w.exp()}; };
  auto f = compile(body, {.backend = "keeps_backwards"});
  expect_tape(f, body, 1);
  expect_tape(f, body, 2);
  // Gradients that are the tangents themselves: there is no work to leave out.
  Body sums = [](const Tensor& x, const Tensor& w) { return std::vector<Tensor>{x + 2, w + 1}; };
  auto g = compile(sums, {.backend = "keeps_backwards"});
  expect_tape(g, sums, 1);
  expect_tape(g, sums, 2);
}

// Each body has results whose gradients meet in another way: sums, scatters, reductions, masks.
TEST_F(UndefinedTangents, GradientsAreThoseOfTheTapeForEveryCombination) {
  std::vector<Body> bodies = {
      [](const Tensor& x, const Tensor& w) {
        Tensor h = x.matmul(w).relu();
        return std::vector<Tensor>{h, h.sum(0), h.slice(0, 1, 3) * 2};
      },
      [](const Tensor& x, const Tensor& w) {
        std::vector<Tensor> halves = x.split(2, 0);
        return std::vector<Tensor>{halves[0].softmax(1), halves[1] / 3, w.t().sigmoid()};
      },
      [](const Tensor& x, const Tensor& w) {
        Tensor joined = cat({x, w}, 0);
        return std::vector<Tensor>{joined.index_select(0, tensor(std::vector<int64_t>{0, 5}, {2})),
                                   joined.cumsum(0), joined.var(0)};
      },
      [](const Tensor& x, const Tensor& w) {
        Tensor y = layer_norm(x, {3}, w.select(0, 0), w.select(0, 1));
        return std::vector<Tensor>{y, gelu(y), std::get<0>(x.max(1)).mul(w.select(0, 2).sum())};
      },
      [](const Tensor& x, const Tensor& w) {
        return std::vector<Tensor>{where(x.gt(0), x, x * w.select(0, 0)), x.pow(3) - w.select(0, 1),
                                   (x + 2).sqrt()};
      },
  };
  for (size_t b = 0; b < bodies.size(); ++b) {
    SCOPED_TRACE(b);
    auto f = compile(bodies[b], {.backend = "keeps_backwards"});
    for (uint32_t mask = 1; mask < 8; ++mask) expect_tape(f, bodies[b], mask);
  }
}

TEST_F(UndefinedTangents, OneHalfServesOtherSizes) {
  Body body = [](const Tensor& x, const Tensor& w) {
    return std::vector<Tensor>{x.matmul(w).tanh(), x.reshape({-1}).sin()};
  };
  auto f = compile(body, {.backend = "keeps_backwards", .dynamic = true});
  for (int64_t n : {4, 6, 9})
    for (uint32_t mask : {1, 2}) expect_tape(f, body, mask, n);
  EXPECT_LE(backwards().size(), 3u);
}

TEST_F(UndefinedTangents, MoreCombinationsThanTheBoundAreServedByTheWholeHalf) {
  Body body = [](const Tensor& x, const Tensor& w) {
    return std::vector<Tensor>{x.sin(), x.cos(), x.exp(), x.matmul(w).tanh()};
  };
  auto f = compile(body, {.backend = "keeps_backwards"});
  int64_t before = partial();
  // The last ones, which the whole half serves, leave out w.
  for (uint32_t mask = 15; mask > 0; --mask) expect_tape(f, body, mask);
  EXPECT_EQ(partial() - before, 8);
  EXPECT_EQ(backwards().size(), 9u);
}

}  // namespace
}  // namespace tenon
