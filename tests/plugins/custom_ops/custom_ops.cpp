// Ops of each kind: by formula, by kernel and meta function, in place, by decomposition.
#include <tenon/custom_ops.hpp>

#include <algorithm>

using namespace tenon::plugin;

namespace {

// f32[m, n] and k to f32[m, n + k]: zeros to the right.
void pad_meta(const meta_call& c) {
  value x = c.tensor_at(0);
  const tn_arg k = c.call().arguments()[1];
  tn_dim more = k.kind == TN_ARG_SYMINT ? k.u.sym : c.constant(k.u.i);
  tn_dim sizes[] = {x.dims()[0], c.combine(TN_EX_ADD, x.dims()[1], more)};
  c.give(0, x.dtype, sizes);
}

void pad_kernel(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  if (x->dtype != TN_F32) throw error(TN_INVALID_ARGUMENT, "pad_columns takes f32");
  int64_t rows = x->sizes[0], columns = x->sizes[1], k = c.args[1].u.i;
  int64_t sizes[] = {rows, columns + k};
  tensor out = tensor::empty(sizes, TN_F32);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = out.data<float>() + i * (columns + k);
    for (int64_t j = 0; j < columns; ++j)
      row[j] = static_cast<const float*>(x->data)[i * x->strides[0] + j * x->strides[1]];
    std::fill_n(row + columns, k, 0.0f);
  }
  c.give(0, std::move(out));
}

}  // namespace

TENON_PLUGIN(p) {
  add_op({.schema = "test_ops::swiglu(Tensor x, Tensor gate, *, float beta=1.0) -> Tensor",
          .pt2_compliant = true,
          .formula = formula_of_elements<3>(
              [](auto x, auto gate, auto beta) { return x * gate * sigmoid(beta * gate); })});
  add_op({.schema = "test_ops::pad_columns(Tensor x, SymInt k=1) -> Tensor",
          .meta = pad_meta,
          .kernel = pad_kernel});
  add_op({.schema = "test_ops::scale_(Tensor(a!) x, float by) -> Tensor(a!)",
          .like = 0,
          .kernel = [](const kernel_call& c) {
            auto* x = c.tensor_at(0);
            for (int64_t i = 0; i < x->numel; ++i)
              static_cast<float*>(x->data)[i] *= static_cast<float>(c.args[1].u.f);
          }});
  add_op({.schema = "test_ops::relu_and_neg(Tensor x) -> (Tensor, Tensor)",
          .decompose = [](const kernel_call& c) {
            tn_tensor* x = c.values[c.args[0].u.value];
            c.give(0, call("aten.relu.default", x));
            c.give(1, call("aten.neg.default", x));
          }});
  add_op({.schema = "test_ops::twice(Tensor x) -> Tensor",
          .like = 0,
          .kernel =
              [](const kernel_call& c) { c.give(0, call("aten.mul.Scalar", c.tensor_at(0), 2.0)); },
          .vjp = [](const vjp_call& c) { c.give(0, call("aten.mul.Scalar", c.grad(0), 2.0)); }});
  add_op({.schema = "test_ops::first_of(Tensor[] xs, Tensor by) -> Tensor",
          .like = 1,
          .kernel =
              [](const kernel_call& c) {
                tn_tensor* first = c.values[c.args[0].u.values[0]];
                c.give(0, call("aten.mul.Tensor", first, c.tensor_at(1)));
              },
          .vjp =
              [](const vjp_call& c) {
                tn_tensor* first = c.abi->values[c.args()[0].u.values[0]];
                c.give(0, call("aten.mul.Tensor", c.grad(0), c.tensor_at(1)));
                c.give(c.abi->n_out - 1, call("aten.mul.Tensor", c.grad(0), first));
              }});
  add_op({.schema = "test_ops::lies(Tensor x) -> Tensor",
          .like = 0,
          .kernel = [](const kernel_call& c) {
            c.give(0, tensor::empty(sizes(c.tensor_at(0)), TN_I64));
          }});
  add_op({.schema = "test_ops::fails(Tensor x) -> Tensor",
          .like = 0,
          .kernel = [](const kernel_call&) { throw error(TN_OUT_OF_RANGE, "told to fail"); }});
}
