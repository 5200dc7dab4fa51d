// Norms of vectors and matrices by name or order, cross products, products of several matrices.
#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>

namespace tenon::ops {

namespace {

using Type = std::optional<Dtype>;
using Order = std::optional<Number>;

Tensor as_type(const Tensor& self, Type dtype) { return dtype ? to(self, *dtype) : self; }

std::array<int64_t, 2> matrix_dims(std::string_view op, const Tensor& self, IntList dims) {
  require(dims.size() == 2, "{}: two dimensions are expected, found {}", op, dims);
  std::array<int64_t, 2> pair = {wrap_dim(dims[0], self.dim()), wrap_dim(dims[1], self.dim())};
  require(pair[0] != pair[1], "{}: two different dimensions are expected, found {}", op, dims);
  return pair;
}

// Singular values of the matrices that two dimensions make, as the last dimension.
Tensor singular_values(const Tensor& self, std::array<int64_t, 2> dims) {
  return linalg_svdvals(movedim(self, {dims[0], dims[1]}, {-2, -1}));
}

// What was reduced over the last dimension, with the two dimensions kept as 1.
Tensor with_dims(const Tensor& reduced, std::array<int64_t, 2> dims, bool keepdim) {
  if (!keepdim) return reduced;
  auto [low, high] = std::minmax(dims[0], dims[1]);
  return unsqueeze(unsqueeze(reduced, low), high);
}

Tensor norm_by_order(const Tensor& self, Number order, IntList dims, bool keepdim, Type dtype) {
  auto pair = matrix_dims("linalg_matrix_norm", self, dims);
  Tensor x = as_type(self, dtype);
  double p = order.to_double();
  require(std::fabs(p) == 1 || std::fabs(p) == 2 || std::isinf(p),
          "linalg_matrix_norm: order must be 1, -1, 2, -2, inf or -inf, found {}", order);
  if (std::fabs(p) == 2) {
    Tensor values = singular_values(x, pair);
    return with_dims(p > 0 ? amax(values, {-1}) : amin(values, {-1}), pair, keepdim);
  }
  // Sums along one dimension, the extreme of them along the other.
  int64_t summed = std::isinf(p) ? pair[1] : pair[0], other = std::isinf(p) ? pair[0] : pair[1];
  Tensor sums = sum(abs(x), {summed}, true);
  Tensor found = p > 0 ? amax(sums, {other}, true) : amin(sums, {other}, true);
  return keepdim ? found : squeeze(found, {pair[0], pair[1]});
}

Tensor norm_by_name(const Tensor& self, std::string_view order, IntList dims, bool keepdim,
                    Type dtype) {
  require(order == "fro" || order == "nuc",
          "linalg_matrix_norm: order must be 'fro' or 'nuc', found '{}'", order);
  auto pair = matrix_dims("linalg_matrix_norm", self, dims);
  if (order == "fro") return linalg_vector_norm(self, 2, {pair[0], pair[1]}, keepdim, dtype);
  return with_dims(sum(singular_values(as_type(self, dtype), pair), {-1}), pair, keepdim);
}

Tensor linalg_norm_decomp(const Tensor& self, Order order, OptIntList dims, bool keepdim,
                          Type dtype) {
  if (!order) return linalg_vector_norm(self, 2, dims, keepdim, dtype);
  size_t n = dims ? dims->size() : static_cast<size_t>(self.dim());
  require(n == 1 || n == 2,
          "linalg_norm: with an order one or two dimensions are expected, found shape {}",
          self.sizes());
  if (n == 1) return linalg_vector_norm(self, *order, dims, keepdim, dtype);
  return linalg_matrix_norm(self, *order, dims ? *dims : IntList{-2, -1}, keepdim, dtype);
}

// ---- cross products

// c[i] = a[i+1] b[i+2] - a[i+2] b[i+1], counted around.
Tensor linalg_cross_decomp(const Tensor& self, const Tensor& other, int64_t dim) {
  require(self.dim() == other.dim(),
          "linalg_cross: shapes {} and {} have different numbers of dimensions", self.sizes(),
          other.sizes());
  std::vector<Tensor> both = broadcast_tensors(std::vector<Tensor>{self, other});
  require(sizes_match(both[0].size(dim), 3),
          "linalg_cross: dimension {} must have 3 elements, found shape {}", dim, both[0].sizes());
  auto turned = [dim](const Tensor& t, int64_t by) { return roll(t, {SymInt(-by)}, {dim}); };
  return sub(mul(turned(both[0], 1), turned(both[1], 2)),
             mul(turned(both[0], 2), turned(both[1], 1)));
}

Tensor cross_decomp(const Tensor& self, const Tensor& other, std::optional<int64_t> dim) {
  if (dim) return linalg_cross(self, other, *dim);
  for (int64_t d = 0; d < self.dim(); ++d)
    if (guard_or_false(self.size(d) == 3)) return linalg_cross(self, other, d);
  fail("cross: a dimension with 3 elements is expected, found shape {}; pass dim", self.sizes());
}

// ---- products of several matrices

// The first may be a row vector, the last a column vector.
Tensor multi_dot_decomp(TensorList tensors) {
  require(tensors.size() >= 2, "linalg_multi_dot: at least two tensors are expected, found {}",
          tensors.size());
  // From the side with the smaller products: a vector at the end is multiplied first.
  const Tensor& last = tensors[tensors.size() - 1];
  if (last.dim() == 1) {
    Tensor product = last;
    for (size_t i = tensors.size() - 1; i-- > 0;) product = matmul(tensors[i], product);
    return product;
  }
  Tensor product = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) product = matmul(product, tensors[i]);
  return product;
}

Tensor matrix_power_decomp(const Tensor& self, int64_t n) {
  require(self.dim() >= 2 && sizes_match(self.size(-1), self.size(-2)),
          "matrix_power: square matrices are expected, found shape {}", self.sizes());
  // A copy, so that the gradient of `self` is there and zero, as in PyTorch.
  if (n == 0) return copy(self, eye(self.size(-1), self.dtype(), std::nullopt, self.device()));
  Tensor base = n < 0 ? linalg_inv(self) : self, power;
  for (int64_t rest = std::abs(n); rest > 0; rest /= 2) {
    if (rest % 2 == 1) power = power.defined() ? matmul(power, base) : base;
    if (rest > 1) base = matmul(base, base);
  }
  return power.is_same(self) ? clone(power) : power;
}

// ---- weight normalisation

std::vector<int64_t> dims_but(const Tensor& t, int64_t dim) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (dim == -1 || d != wrap_dim(dim, t.dim())) dims.push_back(d);
  return dims;
}

// To reductions an empty list names all dimensions.
Tensor length_but(const Tensor& v, int64_t dim, int64_t power = 2) {
  if (dim == -1) return linalg_vector_norm(v, power);
  std::vector<int64_t> others = dims_but(v, dim);
  return others.empty() ? abs(v) : linalg_vector_norm(v, power, others, true);
}

Tensor sum_but(const Tensor& t, int64_t dim) {
  std::vector<int64_t> others = dims_but(t, dim);
  return others.empty() ? t : sum(t, others, dim != -1);
}

using Pair = std::tuple<Tensor, Tensor>;

Pair weight_norm_backward(const Tensor& grad, const Tensor& v, const Tensor& g, const Tensor& norms,
                          int64_t dim) {
  Tensor per_unit = sum_but(mul(grad, v), dim);
  Tensor grad_g = div(per_unit, norms);
  Tensor grad_v = mul(div(g, norms), sub(grad, mul(v, div(grad_g, norms))));
  return {grad_v, grad_g};
}

// Slices along `dim` that are longer than maxnorm are scaled down to it.
Tensor renorm_decomp(const Tensor& self, Number p, int64_t dim, Number maxnorm) {
  require(self.dim() >= 2, "renorm: at least two dimensions are expected, found shape {}",
          self.sizes());
  std::vector<int64_t> others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != wrap_dim(dim, self.dim())) others.push_back(d);
  Dtype dtype = self.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor length = linalg_vector_norm(self, p, others, true, dtype);
  double limit = maxnorm.to_double();
  Tensor factor = where(gt(length, limit), div(scalar_tensor(limit, dtype), add(length, 1e-7)),
                        ones_like(length));
  return contiguous(mul(self, to(factor, self.dtype())));
}

}  // namespace

static constexpr OpDef linalg_norms_rows[] = {
    {.schema = "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool "
               "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decomp = fn<norm_by_order>},
    {.schema = "linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool "
               "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decomp = fn<norm_by_name>},
    {.schema = "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, "
               "*, ScalarType? dtype=None) -> Tensor",
     .decomp = fn<linalg_norm_decomp>},
    {.schema = "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, "
               "*, ScalarType? dtype=None) -> Tensor",
     .decomp =
         [](const Tensor& self, std::string_view order, OptIntList dims, bool keepdim, Type dtype) {
           return linalg_matrix_norm(self, order, dims ? *dims : IntList{-2, -1}, keepdim, dtype);
         }},
    {.schema = "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
     .decomp =
         [](const Tensor& self, bool keepdim) {
           return norm_by_name(self, "nuc", {-2, -1}, keepdim, {});
         }},
    {.schema = "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
     .decomp = [](const Tensor& self, IntList dims,
                  bool keepdim) { return norm_by_name(self, "nuc", dims, keepdim, {}); }},
    {.schema = "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     .decomp = [](const Tensor& self, IntList dims,
                  bool keepdim) { return linalg_vector_norm(self, 2, dims, keepdim); }},
    {.schema = "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
     .decomp = fn<linalg_cross_decomp>},
    {.schema = "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
     .decomp = fn<cross_decomp>},
    {.schema = "linalg_multi_dot(Tensor[] tensors) -> Tensor", .decomp = fn<multi_dot_decomp>},
    {.schema = "linalg_matrix_power(Tensor self, int n) -> Tensor",
     .decomp = fn<matrix_power_decomp>},
    {.schema = "matrix_power(Tensor self, int n) -> Tensor", .decomp = fn<matrix_power_decomp>},
    {.schema = "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
     .decomp = [](const Tensor& v, int64_t power,
                  int64_t dim) { return length_but(v, dim, power); }},
    {.schema = "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
     .decomp = [](const Tensor& v, const Tensor& g,
                  int64_t dim) { return mul(v, div(g, length_but(v, dim))); }},
    {.schema = "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
     .decomp =
         [](const Tensor& v, const Tensor& g, int64_t dim) {
           Tensor norms = length_but(v, dim);
           return Pair{mul(v, div(g, norms)), norms};
         }},
    {.schema = "_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, "
               "Tensor saved_norms, int dim) -> (Tensor, Tensor)",
     .decomp = fn<weight_norm_backward>},
    {.schema = "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
     .variants = in_place,
     .decomp = fn<renorm_decomp>},
};

extern constinit const OpFamily op_family_linalg_norms{linalg_norms_rows};

}  // namespace tenon::ops
