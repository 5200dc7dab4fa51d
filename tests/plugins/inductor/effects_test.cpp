// Ops that do something besides giving results, in the inductor backend: they run in the order of
// the program, also where nobody reads what they give.
#include <gmock/gmock.h>

#include "plugins/code_makers.h"
#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

std::vector<double> seen;  // by the op, in order

TENON_LIBRARY(effects_test, lib) {
  lib.op("see(Tensor x) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x) {
        seen.push_back(x.sum().item<double>());
        return x * 2;
      })
      .tags(TN_TAG_SIDE_EFFECT);
}
const Op<Tensor(const Tensor&)> see{"effects_test::see"};

class InductorEffects : public InductorOps {
 protected:
  void SetUp() override {
    InductorOps::SetUp();
    seen.clear();
  }
  template <class F>
  static std::vector<double> seen_by(F f, const Tensor& x) {
    seen.clear();
    f(x);
    return seen;
  }
};

TEST_F(InductorEffects, RunInTheOrderOfTheProgram) {
  // What the first one gets needs the longer way.
  auto f = [](const Tensor& x) {
    Tensor far = softmax(x, 0).sum() + x.mean();
    Tensor a = see(far), b = see(x.select(0, 0) * 0 + 5), c = see(a + 1);
    return std::vector<Tensor>{b + 1, c, a};
  };
  Tensor x = ones({4});
  EXPECT_THAT(seen_by(f, x), ElementsAre(2, 5, 5));
  for (const std::string& backend : code_makers())
    EXPECT_THAT(seen_by(compile(f, {.backend = backend}), x), ElementsAre(2, 5, 5)) << backend;
}

TEST_F(InductorEffects, RunThoughNobodyReadsTheirResults) {
  const std::string body = R"(
  input %x: f32[4]
  %a: f32[4] = aten.sin.default(%x)
  %one: f32[4] = effects_test.see.default(%a)
  %two: f32[4] = effects_test.see.default(%x)
  %y: f32[4] = aten.cos.default(%a)
  output %y
)";
  auto graph = graph_of(body);
  Tensor x = full({4}, 1.0);
  for (const std::string& backend : code_makers()) {
    auto artifact = compiled(backend, graph);
    seen.clear();
    run(*artifact, *graph, {full({4}, 0.0)});
    EXPECT_THAT(seen, ElementsAre(0, 0)) << backend;
    seen.clear();
    run(*artifact, *graph, {x});
    EXPECT_THAT(seen, ElementsAre(DoubleNear(sin(x).sum().item<double>(), 1e-6), 4)) << backend;
  }
}

}  // namespace
}  // namespace tenon
