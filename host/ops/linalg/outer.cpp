// Products that are made of others: outer, inner, kron, bilinear, sums of batches.
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shapes.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

Tensor outer_decomp(const Tensor& a, const Tensor& b) {
  require(a.dim() == 1 && b.dim() == 1, "outer: two vectors are expected, found shapes {} and {}",
          a.sizes(), b.sizes());
  return mul(reshape(a, {a.size(0), SymInt(1)}), b);
}

bool is_number(Number n, double value) { return !n.is_symbolic() && n.to_double() == value; }

Tensor addr_decomp(const Tensor& self, const Tensor& a, const Tensor& b, Number beta,
                   Number alpha) {
  Promotion promotion;
  for (const Tensor& t : {self, a, b}) promotion.add(t);
  Dtype dtype = promotion.result();
  bool has_fractions = is_floating(dtype) || is_complex(dtype);
  require(
      has_fractions || !(beta.is_floating() || alpha.is_floating()),
      "addr: beta and alpha of a result of {} must be integers, found a floating number; cast the "
      "input to a floating dtype",
      dtype);
  Tensor product = outer_decomp(scaled(to(a, dtype), alpha), b);
  Dims sizes = broadcast_sizes(self.sizes(), product.sizes());
  require(sizes.size() == 2 && sizes_match(sizes[0], a.size(0)) && sizes_match(sizes[1], b.size(0)),
          "addr: self of shape {} does not broadcast to the product's shape {}", self.sizes(),
          product.sizes());
  // The gradient of what is left out is zeros, not none.
  return add(is_number(beta, 0) ? zero(self) : scaled(to(self, dtype), beta), product);
}

Tensor inner_decomp(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) return mul(a, b);
  return tensordot(a, b, {-1}, {-1});
}

Tensor addbmm_decomp(const Tensor& self, const Tensor& a, const Tensor& b, Number beta,
                     Number alpha) {
  Tensor product = scaled(sum(bmm(a, b), {0}, false, a.dtype()), alpha);
  return add(is_number(beta, 0) ? zero(self) : scaled(self, beta), product);
}

Tensor kron_decomp(const Tensor& a, const Tensor& b) {
  int64_t rank = std::max(a.dim(), b.dim());
  Dims left, right, sizes;
  for (int64_t d = -rank; d < 0; ++d) {
    SymInt x = -d <= a.dim() ? a.size(d) : SymInt(1), y = -d <= b.dim() ? b.size(d) : SymInt(1);
    left.push_back(x), left.push_back(1);
    right.push_back(1), right.push_back(y);
    sizes.push_back(x * y);
  }
  return reshape(mul(reshape(a, list_of(left)), reshape(b, list_of(right))), list_of(sizes));
}

Tensor with_dims(Tensor t, IntList dims) {
  for (int64_t d : dims) t = unsqueeze(t, d);
  return t;
}

Tensor trilinear_decomp(const Tensor& a, const Tensor& b, const Tensor& c, IntList expand1,
                        IntList expand2, IntList expand3, IntList summed, int64_t) {
  Tensor product = mul(mul(with_dims(a, expand1), with_dims(b, expand2)), with_dims(c, expand3));
  return summed.empty() ? product : sum(product, summed, false, product.dtype());
}

Tensor bilinear_decomp(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  require(a.dim() == b.dim() && a.dim() > 0 && weight.dim() == 3,
          "bilinear: inputs of one rank and a weight with 3 dimensions are expected, found shapes "
          "{}, {} and {}",
          a.sizes(), b.sizes(), weight.sizes());
  Dims sizes = dims_of(List<SymInt>(a.sizes().data(), a.sizes().size() - 1));
  sizes.push_back(weight.size(0));
  Tensor x = reshape(a, {SymInt(-1), a.size(-1)}), y = reshape(b, {SymInt(-1), b.size(-1)});
  Tensor out = reshape(_trilinear(x, weight, y, {1, 3}, {0}, {1, 2}, {2, 3}), list_of(sizes));
  return bias.defined() ? add(out, bias) : out;
}

Tensor chained(TensorList matrices) {
  require(!matrices.empty(), "chain_matmul: at least one matrix is expected");
  Tensor out = matrices[0];
  for (const Tensor& m : matrices.slice(1)) out = mm(out, m);
  return out;
}

}  // namespace

static constexpr OpDef linalg_outer_rows[] = {
    {.schema = "outer(Tensor self, Tensor vec2) -> Tensor",
     .decomp = fn<outer_decomp>,
     .linear = "self * vec2"},
    {.schema = "ger(Tensor self, Tensor vec2) -> Tensor", .decomp = fn<outer_decomp>},
    {.schema =
         "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .decomp = fn<addr_decomp>},
    {.schema = "inner(Tensor self, Tensor other) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = fn<inner_decomp>},
    {.schema = "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
               "alpha=1) -> Tensor",
     .variants = in_place,
     .tags = OpTags::matmul,
     .decomp = fn<addbmm_decomp>,
     .autocast = Autocast::lower},
    {.schema = "kron(Tensor self, Tensor other) -> Tensor", .decomp = fn<kron_decomp>},
    {.schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = [](const Tensor& x, const Tensor& y,
                  int64_t dim) { return sum(mul(is_complex(x.dtype()) ? conj(x) : x, y), {dim}); },
     .autocast = Autocast::lower},
    {.schema = "chain_matmul(Tensor[] matrices) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = fn<chained>},
    {.schema =
         "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, "
         "int[] sumdim, int unroll_dim=1) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = fn<trilinear_decomp>},
    {.schema = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = fn<bilinear_decomp>},
};

extern constinit const OpFamily op_family_linalg_outer{linalg_outer_rows};

}  // namespace tenon::ops
