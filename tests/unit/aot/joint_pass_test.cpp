// functorch.joint_custom_pass: what a pass sees of the joint graph, and where its edits are found.
#include "backend/backend.h"
#include "graph/artifact.h"
#include "graph/text/print.h"
#include "report/events.h"
#include "report/log.h"
#include "unit/distance.h"
#include "unit/message_of.h"

#include <tenon/joint_pass.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

namespace tenon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class JointPasses : public testing::Test {
 protected:
  void SetUp() override {
    halves().clear();
    register_backend(
        "keeps_halves",
        [](const CompileRequest& request) {
          halves().push_back(to_text(*request.graph));
          return interpreter_artifact(request.graph);
        },
        {}, Stage::inference);
  }
  static std::vector<std::string>& halves() {
    static std::vector<std::string> texts;
    return texts;
  }
  static std::string backward() { return halves().size() == 2 ? halves()[1] : "not compiled"; }

  static config::Patch with_pass(const std::string& name, JointPass pass) {
    register_joint_pass(name, std::move(pass));
    return config::patch({{"functorch.joint_custom_pass", name}});
  }
  static Tensor leaf(std::vector<double> values) {
    return tensor(values, {static_cast<int64_t>(values.size())}).requires_grad_();
  }
};

TEST_F(JointPasses, MayGiveAViewInPlaceOfATangent) {
  auto flag = with_pass("test.views", [](JointGraph& graph) {
    graph.rewrite([](const JointCall& call) -> std::vector<Tensor> {
      if (call.kind != JointCall::Kind::tangent) return {};
      const Tensor& g = call.results[0];
      return {stack({g, g * 2.0}).select(0, 1)};  // it begins behind the first element
    });
  });
  for (const char* backend : {"aot_eager", "inductor"}) {
    auto f = compile([](const Tensor& x) { return x.mean(); }, {.backend = backend});
    Tensor x = leaf({1, 2, 3, 4});
    f(x).backward();
    EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(4, 0.5)) << backend;
  }
}

TEST_F(JointPasses, SeeBothHalvesAndTheTangents) {
  std::vector<std::string> seen;
  auto flag = with_pass("test.lists", [&](JointGraph& graph) {
    graph.rewrite([&](const JointCall& call) -> std::vector<Tensor> {
      std::string where = call.is_backward ? "backward " : "forward ";
      seen.push_back(where + std::string(call.op.empty() ? call.name : call.op));
      return {};
    });
    EXPECT_THAT(graph.text(), HasSubstr("tangents_1"));
  });
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "keeps_halves"});
  f(leaf({1, 2}));
  ASSERT_EQ(seen.size(), 4u);
  seen[0] = "forward primal";  // whatever its name is
  EXPECT_THAT(seen, ElementsAre("forward primal", "forward aten.sin.default", "backward tangents_1",
                                "backward tenon.vjp_aten_sin.self"));
}

// A draw that nobody reads stays, since later ones go on behind it; where a rule has put something
// else in its place, none is made.
TEST_F(JointPasses, DrawsThatAreReplacedAreNotMade) {
  for (bool is_replaced : {false, true}) {
    halves().clear();
    auto flag = with_pass(message("test.draws{}", is_replaced), [=](JointGraph& graph) {
      graph.rewrite([=](const JointCall& call) -> std::vector<Tensor> {
        if (!is_replaced || call.op != "aten.rand.default") return {};
        return {full({2}, 0.5, Dtype::f64)};
      });
    });
    auto f = compile(
        [](const Tensor& x) {
          Tensor unread = randn({2}, Dtype::f64);
          return x * rand({2}, Dtype::f64);
        },
        {.backend = "keeps_halves"});
    f(leaf({1, 2})).sum().backward();
    EXPECT_THAT(halves().at(0), HasSubstr("aten.randn.default"));
    EXPECT_EQ(halves().at(0).find("aten.rand.default") == std::string::npos, is_replaced);
    EXPECT_THAT(backward(), Not(HasSubstr("aten.rand")));
  }
}

TEST_F(JointPasses, EditsShowInBothHalves) {
  auto flag = with_pass("test.edits", [](JointGraph& graph) {
    graph.rewrite([](const JointCall& call) -> std::vector<Tensor> {
      if (call.kind == JointCall::Kind::tangent) return {call.results[0].abs()};
      if (call.op == "aten.sin.default") return {exp(call.tensors[0])};
      return {};
    });
  });
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "keeps_halves"});
  Tensor x = leaf({0.5}), y = f(x);
  EXPECT_DOUBLE_EQ(y.item<double>(), std::exp(0.5));
  y.backward(tensor(std::vector<double>{-2}, {1}));
  EXPECT_DOUBLE_EQ(x.grad().item<double>(), 2 * std::cos(0.5));
  EXPECT_THAT(halves()[0], HasSubstr("aten.exp.default"));
  EXPECT_THAT(halves()[0], Not(HasSubstr("aten.sin.default")));
  EXPECT_THAT(backward(), HasSubstr("aten.abs.default"));
}

// The tangent of a transposed result is laid out like it; what replaces a value is laid out so too.
TEST_F(JointPasses, ReplacementsGetTheLayoutOfWhatTheyReplace) {
  auto flag = with_pass("test.dense", [](JointGraph& graph) {
    graph.rewrite([](const JointCall& call) -> std::vector<Tensor> {
      if (call.kind != JointCall::Kind::tangent) return {};
      return {call.results[0].contiguous() * 1};
    });
  });
  auto f =
      compile([](const Tensor& x) { return (x * 2).t().clone(); }, {.backend = "keeps_halves"});
  Tensor x = ones({2, 3}, Dtype::f64).requires_grad_();
  Tensor sent = arange(6, Dtype::f64).reshape({3, 2});
  f(x).backward(sent);
  EXPECT_TRUE(x.grad().equal(sent.t() * 2));
}

TEST_F(JointPasses, WorkForSizesThatAreSymbols) {
  auto flag = with_pass("test.doubles", [](JointGraph& graph) {
    graph.rewrite([](const JointCall& call) -> std::vector<Tensor> {
      if (call.kind != JointCall::Kind::tangent) return {};
      return {call.results[0] * 2};
    });
  });
  auto f = compile([](const Tensor& x) { return (x.reshape({-1}) * x.sum()).sin(); },
                   {.backend = "keeps_halves", .dynamic = true});
  for (int64_t n : {3, 5}) {
    Tensor x = linspace(0.1, 0.9, n, Dtype::f64).requires_grad_();
    Tensor again = x.detach().requires_grad_();
    f(x).sum().backward();
    ((again * again.sum()).sin() * 2).sum().backward();
    EXPECT_LT(distance(x.grad(), again.grad()), 1e-12) << n;
  }
  EXPECT_EQ(halves().size(), 2u);
}

// Groups of aliases are numbered anew when a graph is copied.
std::string with_groups_in_order(const std::string& text) {
  std::map<std::string, std::string> names;
  std::string out, word;
  std::istringstream words(text);
  for (bool is_group = false; words >> word; is_group = word == "alias")
    out += (is_group ? names.try_emplace(word, "g" + std::to_string(names.size())).first->second
                     : word) +
           " ";
  return out;
}

// Aliases, layouts, symbols and facts of the copied graph are those that the partitioner saw
// before.
TEST_F(JointPasses, ThatChangeNothingLeaveTheHalvesAsTheyWere) {
  auto body = [](const Tensor& x, const Tensor& w) {
    auto [a, b] = std::pair{x.matmul(w), x.t().softmax(0)};
    return std::pair{dropout(a.relu(), 0.5, true), b.slice(0, 0, 2).cumsum(0)};
  };
  std::vector<std::string> plain;
  for (bool with : {false, true}) {
    halves().clear();
    register_joint_pass("test.nothing", [](JointGraph& graph) {
      graph.rewrite([](const JointCall&) { return std::vector<Tensor>(); });
    });
    auto flag = config::patch({{"functorch.joint_custom_pass", with ? "test.nothing" : ""}});
    auto f = compile(body, {.backend = "keeps_halves"});
    auto [a, b] = f(ones({4, 3}).requires_grad_(), ones({3, 3}).requires_grad_());
    (a.sum() + b.sum()).backward();
    for (std::string& text : halves()) text = with_groups_in_order(text);
    if (with) {
      EXPECT_EQ(halves(), plain);
    }
    plain = halves();
  }
  EXPECT_EQ(plain.size(), 2u);
}

TEST_F(JointPasses, AreSaidNotToRunOverWholeSteps) {
  int n_runs = 0;
  register_joint_pass("test.counts", [&](JointGraph&) { ++n_runs; });
  auto flag = config::patch({{"functorch.joint_custom_pass", "test.counts"}});
  Tensor w = leaf({2});
  report::LogCapture lines;
  for (int i = 0; i < 2; ++i)
    compile(
        [&](const Tensor& x) {
          (x * w).sum().backward();
          return x + 1;
        },
        {.backend = "keeps_halves", .fullgraph = true})(ones({2}));
  EXPECT_EQ(n_runs, 0);
  EXPECT_EQ(lines.count("pass 'test.counts' does not run over bodies that call backward()"), 1u);
}

TEST_F(JointPasses, AnUnknownNameIsAnErrorThatNamesTheOthers) {
  register_joint_pass("test.known", [](JointGraph&) {});
  auto flag = config::patch({{"functorch.joint_custom_pass", "test.knwon"}});
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "keeps_halves"});
  std::string message = message_of([&] { f(leaf({1})); });
  EXPECT_THAT(message, HasSubstr("there is no pass 'test.knwon'"));
  EXPECT_THAT(message, HasSubstr("test.known"));
}

TEST_F(JointPasses, AReplacementOfAnotherSizeIsRefused) {
  auto flag = with_pass("test.sums", [](JointGraph& graph) {
    graph.rewrite([](const JointCall& call) -> std::vector<Tensor> {
      if (call.op != "aten.sin.default") return {};
      return {call.results[0].sum()};
    });
  });
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "keeps_halves"});
  EXPECT_THAT(message_of([&] {
                f(leaf({1, 2}));
              }),
              AllOf(HasSubstr("functorch.joint_custom_pass: pass 'test.sums' failed: "),
                    HasSubstr("a value keeps its dtype, device and sizes")));
}

TEST_F(JointPasses, ARuleMayNotRewriteTheGraphThatIsWalkedOver) {
  std::string refused;
  auto flag = with_pass("test.nests", [&](JointGraph& graph) {
    auto leave = [](const JointCall&) -> std::vector<Tensor> { return {}; };
    refused = message_of<UserError>([&] {
      graph.rewrite([&](const JointCall&) -> std::vector<Tensor> {
        graph.rewrite(leave);
        return {};
      });
    });
    graph.rewrite(leave);  // after one that failed, too
  });
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "keeps_halves"});
  Tensor x = leaf({0});
  f(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(1, 1));
  EXPECT_THAT(refused, HasSubstr("JointGraph::rewrite: expected a call by a pass, found one by a "
                                 "rule"));
}

TEST_F(JointPasses, WhatAPassThrowsNamesThePass) {
  auto flag = with_pass("test.throws", [](JointGraph&) { throw std::runtime_error("no luck"); });
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "keeps_halves"});
  EXPECT_THAT(message_of([&] { f(leaf({1})); }), HasSubstr("pass 'test.throws' failed: no luck"));
}

}  // namespace
}  // namespace tenon
