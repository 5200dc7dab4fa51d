// Derivatives of formulas are found by their names, before anything was differentiated: a graph of
// a backward half is a file that another process reads.
#include "autograd/vjp_plan.h"
#include "graph/interpret.h"
#include "graph/text/parse.h"

#include <tenon/library.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

class DerivedNames : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Library::add("derived_names", [](Library& m) {
      m.def("cube_it(Tensor x, Scalar by) -> Tensor").formula<2>([](auto x, auto by) {
        return x * x * x * by;
      });
      m.def("wave.of(Tensor x) -> Tensor").formula<1>([](auto x) { return sin(x) * x; });
    });
  }
};

TEST_F(DerivedNames, OfRowsThatNobodyHasDifferentiated) {
  for (const char* name :
       {"tenon.vjp_derived_names_cube_it.x", "tenon.vjp_derived_names_wave_of.x"}) {
    EXPECT_EQ(find_added_op(name), nullptr) << name;
    EXPECT_NE(find_op(name), nullptr) << name;
  }
}

TEST_F(DerivedNames, OfDerivativesOfDerivatives) {
  const char* first = "tenon.vjp_derived_names_wave_of.x";
  const OpEntry* op = find_op(first);
  ASSERT_NE(op, nullptr);
  for (const SchemaArg& arg : op->schema.args) {
    std::string second = "tenon.vjp_tenon_vjp_derived_names_wave_of_x." + arg.name;
    EXPECT_NE(find_op(second), nullptr) << second;
  }
}

TEST_F(DerivedNames, OfOneOfSeveralFormulas) {
  EXPECT_NE(find_op("tenon.vjp_aten_logit.self"), nullptr);
  const OpEntry* with_eps = find_op("tenon.vjp_aten_logit_1.self");
  ASSERT_NE(with_eps, nullptr);
  EXPECT_EQ(with_eps->schema.args.size(),
            find_op("tenon.vjp_aten_logit.self")->schema.args.size() + 1);
}

TEST_F(DerivedNames, AreThoseThatTheTapeUses) {
  auto graph = parse_graph(R"(tng 1
graph @backward {
  input %g: f32[3]
  input %x: f32[3]
  %y: f32[3] = tenon.vjp_aten_sinh.self(%g, %x)
  output %y
}
)");
  Tensor x = tensor({0.5f, -1.0f, 2.0f}), g = ones({3});
  detail::TensorHead* inputs[] = {g.head(), x.head()};
  std::vector<Tensor> outputs(1);
  Interpreter(graph).run(inputs, {}, outputs);
  Tensor leaf = x.clone().requires_grad_();
  sinh(leaf).sum().backward();
  EXPECT_EQ(outputs[0].to_vector<float>(), leaf.grad().to_vector<float>());
}

TEST_F(DerivedNames, ThatNothingHasStayUnknown) {
  for (const char* name : {"tenon.vjp_aten_mm.self", "tenon.vjp_aten_logit_2.self",
                           "tenon.vjp_aten_logit_01.self", "tenon.vjp_aten_sinh.other",
                           "tenon.vjp_.x", "tenon.vjp_tenon_vjp_tenon_vjp_tenon_vjp_none_x_x_x.x"})
    EXPECT_EQ(find_op(name), nullptr) << name;
}

}  // namespace
}  // namespace tenon
