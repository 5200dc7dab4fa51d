// Functions of the program as single operations of captured graphs.
#include <tenon/allow_in_graph.h>
#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool is_close(const Tensor& a, const Tensor& b) {
  return (a.detach() - b.detach()).abs().max().item<float>() < 1e-5f;
}

const auto& scaled() {
  static const auto fn = compiler::allow_in_graph(
      "allowed::scaled", [](const Tensor& x, double k, bool up, int64_t n) {
        Tensor y = x.sin() * k;
        for (int64_t i = 0; i < n; ++i) y = up ? y + 1.0 : y - 1.0;
        return y;
      });
  return fn;
}
Tensor plain_scaled(const Tensor& x) { return x.sin() * 2.0 + 1.0 + 1.0; }

// Others do not compile.
static_assert(detail::is_op_result<Tensor> && detail::is_op_result<std::tuple<Tensor, Tensor>>);
static_assert(!detail::is_op_result<std::vector<Tensor>> && !detail::is_op_result<int> &&
              !detail::is_op_result<std::tuple<Tensor, int>>);

class AllowInGraph : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, AllowInGraph, testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& test) { return std::string(test.param); });

TEST(AllowInGraphNodes, ACapturedGraphHasOne) {
  Explanation found =
      explain([](const Tensor& x) { return scaled()(x, 2.0, true, 2) * 3.0; }, ones({2}));
  ASSERT_EQ(found.graph_count(), 1u);
  EXPECT_THAT(found.graphs[0].ops, ElementsAre(HasSubstr("scaled"), "aten.mul.Scalar"));
}

// Flag dynamo.allowed_functions_module_string_ignorelist.
TEST(AllowInGraphNodes, ThoseOfAListedNamespaceAreTracedThrough) {
  auto scope = config::patch({{"dynamo.allowed_functions_module_string_ignorelist",
                               std::vector<std::string>{"allow", "allowed"}}});
  auto body = [](const Tensor& x) { return scaled()(x, 2.0, true, 1) * 3.0; };
  Explanation found = explain(body, ones({2}));
  ASSERT_EQ(found.graph_count(), 1u);
  EXPECT_THAT(found.graphs[0].ops, ElementsAre("aten.sin.default", "aten.mul.Scalar",
                                               "aten.add.Scalar", "aten.mul.Scalar"));
  auto f = compile(body, {.backend = "aot_eager"});
  for (int i = 0; i < 3; ++i) f(ones({2}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(AllowInGraph, ResultsAreThoseOfTheFunction) {
  auto f =
      compile([](const Tensor& x) { return scaled()(x, 2.0, true, 2); }, {.backend = GetParam()});
  for (int64_t n : {3, 4, 5}) {
    Tensor x = rand({n});
    EXPECT_TRUE(is_close(f(x), plain_scaled(x)));
    EXPECT_TRUE(is_close(scaled()(x, 2.0, true, 2), plain_scaled(x)));
  }
  EXPECT_LE(f.stats().compiles, 2);
}

TEST_P(AllowInGraph, GradientsGoThrough) {
  auto f = compile([](const Tensor& x) { return scaled()(x, 2.0, true, 1).sum(); },
                   {.backend = GetParam()});
  for (int i = 0; i < 3; ++i) {
    Tensor x = rand({4}).requires_grad_();
    f(x).backward();
    EXPECT_TRUE(is_close(x.grad(), x.detach().cos() * 2.0));
  }
  Tensor x = rand({4}).requires_grad_();
  scaled()(x, 3.0, false, 1).sum().backward();
  EXPECT_TRUE(is_close(x.grad(), x.detach().cos() * 3.0));
}

TEST_P(AllowInGraph, TheFunctionIsNotLookedInto) {
  int runs = 0;
  static int* counter = nullptr;
  counter = &runs;
  static const auto counted = compiler::allow_in_graph("allowed::counted", [](const Tensor& x) {
    ++*counter;
    return x * 2.0;
  });
  auto f = compile([](const Tensor& x) { return counted(x); }, {.backend = GetParam()});
  f(ones({2}));
  int recorded = runs;
  for (int i = 0; i < 5; ++i) f(ones({2}));
  EXPECT_GE(recorded, 1);
  bool is_compiled = GetParam() != std::string("eager");
  EXPECT_EQ(runs == recorded, is_compiled);  // then its operations are in the code
}

TEST_P(AllowInGraph, SeveralResultsAndLists) {
  static const auto parts = compiler::allow_in_graph(
      "allowed::parts",
      [](const std::vector<Tensor>& xs) { return std::tuple(xs[0] + xs[1], xs[0] * xs[1]); });
  auto f = compile(
      [](const Tensor& x, const Tensor& y) {
        auto [sum, product] = parts({x, y});
        return sum - product;
      },
      {.backend = GetParam()});
  EXPECT_EQ(values(f(full({2}, 3.0), full({2}, 4.0))), (std::vector<float>{-5, -5}));
}

TEST_P(AllowInGraph, TextsComeAsStringsOrViewsOfThem) {
  auto by_name = [](const Tensor& x, std::string_view how) {
    return how == "twice" ? x * 2.0 : x * 3.0;
  };
  static const auto of_string = compiler::allow_in_graph(
      std::string("allowed::of_string_") + GetParam(),
      [by_name](const Tensor& x, const std::string& how) { return by_name(x, how); });
  static const auto of_view = compiler::allow_in_graph(
      std::string("allowed::of_view_") + GetParam(),
      [by_name](const Tensor& x, std::string_view how) { return by_name(x, how); });
  auto f = compile(
      [](const Tensor& x, const std::string& how) { return of_string(x, how) + of_view(x, how); },
      {.backend = GetParam()});
  for (const char* how : {"twice", "thrice", "twice"})
    EXPECT_TRUE(is_close(f(ones({2}), how), by_name(ones({2}), how) * 2.0)) << how;
}

TEST(AllowInGraphErrors, NamesAreCheckedAndDataIsOutOfReach) {
  auto fn = [](const Tensor& x) { return x; };
  EXPECT_THAT(message_of([&] { compiler::allow_in_graph("nothing", fn); }), HasSubstr("ns::name"));
  compiler::allow_in_graph("allowed::once", [](const Tensor& x) { return x * 2.0; });
  EXPECT_THAT(message_of([&] { compiler::allow_in_graph("allowed::once", fn); }),
              HasSubstr("allowed"));
  auto looks = compiler::allow_in_graph("allowed::looks", [](const Tensor& x) {
    return x.sum().item<float>() > 0 ? x + 1.0 : x - 1.0;
  });
  EXPECT_EQ(values(looks(ones({1}))), std::vector<float>{2});
  auto body = [&](const Tensor& x) { return looks(x); };
  auto whole = compile(body, {.backend = "eager", .fullgraph = true});
  EXPECT_THAT(message_of([&] { whole(ones({1})); }), HasSubstr("looks at data"));
  auto never = config::patch({{"shapes.no_data_dependent_graph_break", true}});
  auto f = compile(body, {.backend = "eager"});
  EXPECT_THAT(message_of([&] { f(ones({1})); }), HasSubstr(", inside of allowed.looks.default"));
}

// What it looks at is there when it runs between two graphs.
TEST(AllowInGraphErrors, WhatLooksAtDataIsAGraphBreak) {
  auto chooses = compiler::allow_in_graph("allowed::chooses", [](const Tensor& x) {
    return x.sum().item<float>() > 0 ? x + 1.0 : x - 1.0;
  });
  auto body = [&](const Tensor& x) { return chooses(x * 2.0) * 3.0; };
  Explanation found = explain(body, ones({1}));
  ASSERT_EQ(found.graph_count(), 2u);
  EXPECT_THAT(found.break_reasons, ElementsAre(HasSubstr("allowed.chooses")));
  EXPECT_EQ(values(compile(body, {.backend = "aot_eager"})(ones({1}))), std::vector<float>{9});
}

}  // namespace
}  // namespace tenon
