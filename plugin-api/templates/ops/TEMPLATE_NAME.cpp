// SPDX-License-Identifier: Apache-2.0
// TEMPLATE_NAME: ops that any program, graph and backend may use by name.
//
// Where to go from here: an op that is not elementwise has `.meta` in the place of `.like`.
#include <tenon/custom_ops.hpp>

using namespace tenon::plugin;

namespace {

void cube(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  c.give(0, call("aten.mul.Tensor", call("aten.mul.Tensor", x, x), x));
}

// The gradient of x from that of the result: 3 x^2 times it.
void cube_vjp(const vjp_call& c) {
  tn_tensor* x = c.tensor_at(0);
  tensor slope = call("aten.mul.Scalar", call("aten.mul.Tensor", x, x), 3.0);
  c.give(0, call("aten.mul.Tensor", c.grad(0), slope));
}

}  // namespace

TENON_PLUGIN(p) {
  (void)p;  // it offers ops only
  // The host derives shapes, promotion, the kernel, the derivative and fused code from a formula.
  add_op(
      {.schema = "TEMPLATE_NAME::swish(Tensor x, *, float beta=1.0) -> Tensor",
       .formula = formula_of_elements<2>([](auto x, auto beta) { return x * sigmoid(beta * x); })});
  add_op({.schema = "TEMPLATE_NAME::cube(Tensor x) -> Tensor",
          .like = 0,
          .kernel = cube,
          .vjp = cube_vjp});
}
