// Control flow under inductor: the bodies are kernels, the host branches between them.
#include <gtest/gtest.h>

#include "plugins/inductor/graphs.h"

namespace tenon {
namespace {

class InductorBodies : public InductorTest {};

TEST_F(InductorBodies, EachBodyIsCompiled) {
  auto graph = graph_of(
      "  graph @then {\n    input %a: f32[64]\n    %s: f32[64] = aten.sin.default(%a)\n"
      "    %r: f32[64] = aten.mul.Scalar(%s, 2)\n    output %r\n  }\n"
      "  graph @else {\n    input %a: f32[64]\n    %s: f32[64] = aten.exp.default(%a)\n"
      "    %r: f32[64] = aten.add.Scalar(%s, 1)\n    output %r\n  }\n"
      "  input %p: bool[]\n  input %x: f32[64]\n"
      "  %y: f32[64] = higher_order.cond.default(%p, @then, @else, [%x])\n  output %y\n");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["kernels"], 2);
  auto reference = compiled("eager", graph);
  for (bool which : {true, false}) {
    std::vector<Tensor> inputs{full({}, which, Dtype::bool_), randn({64})};
    Tensor found = run(*artifact, *graph, inputs)[0], wanted = run(*reference, *graph, inputs)[0];
    EXPECT_LE(abs(found - wanted).max().item<double>(), 1e-5) << which;
  }
}

}  // namespace
}  // namespace tenon
