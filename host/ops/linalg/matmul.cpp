// Products of matrices and vectors: mm, bmm, their add forms, matmul, linear and dot.
#include "core/sym/sym_int.h"
#include "ops/forms/complex_forms.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/product.h"
#include "ops/op.h"
#include "ops/shapes.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// ---- shapes

void require_rank(std::string_view op, std::string_view name, const Tensor& t, int64_t rank) {
  require(t.dim() == rank, "{}: {} must have {} dimensions, found shape {}", op, name, rank,
          t.sizes());
}

void require_inner(std::string_view op, const Tensor& a, const Tensor& b, SymInt left,
                   SymInt right) {
  require(sizes_match(left, right),
          "{}: inner sizes differ: self is {}, other is {}; transpose one of them?", op, a.sizes(),
          b.sizes());
  require_factors(op, a, b);
}

TensorMeta mm_meta(const Tensor& a, const Tensor& b) {
  require_rank("mm", "self", a, 2);
  require_rank("mm", "mat2", b, 2);
  require_inner("mm", a, b, a.size(1), b.size(0));
  return contiguous_meta({a.size(0), b.size(1)}, a.dtype(), a.device());
}

TensorMeta bmm_meta(const Tensor& a, const Tensor& b) {
  require_rank("bmm", "self", a, 3);
  require_rank("bmm", "mat2", b, 3);
  require(sizes_match(a.size(0), b.size(0)), "bmm: batch sizes differ: self is {}, mat2 is {}",
          a.sizes(), b.sizes());
  require_inner("bmm", a, b, a.size(2), b.size(1));
  return contiguous_meta({a.size(0), a.size(1), b.size(2)}, a.dtype(), a.device());
}

// `self` of addmm and its relatives must broadcast to the product.
TensorMeta added_meta(std::string_view op, const Tensor& self, TensorMeta product) {
  require(self.dtype() == product.dtype, "{}: self has dtype {}, the matrices {}; cast one of them",
          op, self.dtype(), product.dtype);
  Dims sizes = broadcast_sizes(self.sizes(), list_of(product.sizes));
  bool fits = sizes.size() == product.sizes.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes_match(sizes[i], product.sizes[i]);
  require(fits, "{}: self of shape {} does not broadcast to the product's shape {}", op,
          self.sizes(), list_of(product.sizes));
  return product;
}

TensorMeta mv_meta(const Tensor& a, const Tensor& v) {
  require_rank("mv", "self", a, 2);
  require_rank("mv", "vec", v, 1);
  require_inner("mv", a, v, a.size(1), v.size(0));
  return contiguous_meta({a.size(0)}, a.dtype(), a.device());
}

TensorMeta dot_meta(const Tensor& a, const Tensor& b) {
  require_rank("dot", "self", a, 1);
  require_rank("dot", "tensor", b, 1);
  require_inner("dot", a, b, a.size(0), b.size(0));
  return contiguous_meta({}, a.dtype(), a.device());
}

SymIntList leading(SymIntList sizes, size_t dropped) {
  return List<SymInt>(sizes.data(), sizes.size() - dropped);
}

TensorMeta matmul_meta(const Tensor& a, const Tensor& b) {
  require(a.dim() > 0 && b.dim() > 0,
          "matmul: both tensors need a dimension, found shapes {} and {}", a.sizes(), b.sizes());
  require_inner("matmul", a, b, a.size(-1), b.size(b.dim() == 1 ? 0 : -2));
  size_t a_inner = std::min<size_t>(a.sizes().size(), 2),
         b_inner = std::min<size_t>(b.sizes().size(), 2);
  Dims sizes = broadcast_sizes(leading(a.sizes(), a_inner), leading(b.sizes(), b_inner));
  if (a.dim() > 1) sizes.push_back(a.size(-2));
  if (b.dim() > 1) sizes.push_back(b.size(-1));
  return contiguous_meta(list_of(sizes), a.dtype(), a.device());
}

void require_rows(const Tensor& input, const Tensor& weight) {
  require(weight.dim() == 2 || weight.dim() == 1,
          "linear: weight must have 1 or 2 dimensions, found shape {}", weight.sizes());
  require(input.dim() > 0, "linear: input needs a dimension");
  require(sizes_match(input.size(-1), weight.size(-1)),
          "linear: input of shape {} has rows of {} elements, weight of shape {} takes rows of {}",
          input.sizes(), input.size(-1), weight.sizes(), weight.size(-1));
  require_factors("linear", input, weight);
}

TensorMeta linear_meta(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  require_rows(input, weight);
  Dims sizes = dims_of(leading(input.sizes(), 1));
  if (weight.dim() == 2) sizes.push_back(weight.size(0));
  TensorMeta meta = contiguous_meta(list_of(sizes), input.dtype(), input.device());
  return bias.defined() ? added_meta("linear", bias, std::move(meta)) : meta;
}

// ---- kernels

void add_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b,
                 Number beta, Number alpha) {
  bool reads = beta.to_double() != 0;
  if (reads) copy_broadcast(out, self);
  multiply(out, a, b, alpha, beta);
}

// A view with one more dimension of size 1 at `dim`.
Tensor with_dim(const Tensor& t, size_t dim) {
  Dims sizes, strides;
  for (size_t d = 0; d <= t.sizes().size(); ++d) {
    if (d == dim) {
      sizes.push_back(1);
      strides.push_back(1);
    }
    if (d == t.sizes().size()) break;
    sizes.push_back(t.sizes()[d]);
    strides.push_back(t.strides()[d]);
  }
  return make_view(t, list_of(sizes), list_of(strides), t.storage_offset());
}

void mv_kernel(Tensor& out, const Tensor& a, const Tensor& v) {
  multiply(with_dim(out, 1), a, with_dim(v, 1));
}

void dot_kernel(Tensor& out, const Tensor& a, const Tensor& b) {
  multiply(with_dim(with_dim(out, 0), 0), with_dim(a, 0), with_dim(b, 1));
}

// A left operand whose rows lie evenly is one tall matrix for a right operand without batch.
bool rows_lie_evenly(const Tensor& t) {
  IntList sizes = sizes_of(t), strides = strides_of(t);
  for (size_t d = 0; d + 2 < sizes.size(); ++d)
    if (sizes[d] != 1 && strides[d] != strides[d + 1] * sizes[d + 1]) return false;
  return true;
}

Tensor as_matrix(const Tensor& t, int64_t columns, int64_t row_step, int64_t column_step) {
  int64_t rows = columns ? numel_of(t) / columns : 0;
  return make_view(t, {SymInt(rows), SymInt(columns)}, {SymInt(row_step), SymInt(column_step)},
                   t.storage_offset());
}

void matmul_kernel(Tensor& out, const Tensor& a, const Tensor& b) {
  Tensor left = a.dim() == 1 ? with_dim(a, 0) : a, right = b.dim() == 1 ? with_dim(b, 1) : b;
  Tensor result = out;
  if (b.dim() == 1) result = with_dim(result, result.sizes().size());
  if (a.dim() == 1) result = with_dim(result, result.sizes().size() - 1);
  bool tall = left.dim() > 2 && right.dim() == 2 && numel_of(out) > 0 && numel_of(a) > 0 &&
              rows_lie_evenly(left);
  if (!tall) return multiply(result, left, right);
  int64_t k = left.size(-1), n = right.size(-1);
  multiply(as_matrix(result, n, n, 1), as_matrix(left, k, left.stride(-2), left.stride(-1)), right);
}

void linear_kernel(Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (weight.dim() == 2 && input.dim() > 0) return multiply_linear(out, input, weight, bias);
  if (bias.defined()) copy_broadcast(out, bias);
  Tensor column = with_dim(weight, 1);
  Tensor rows = input.dim() == 1 ? with_dim(input, 0) : input;
  Tensor result = with_dim(out, out.sizes().size());
  multiply(input.dim() == 1 ? with_dim(result, 0) : result, rows, column, 1,
           bias.defined() ? 1 : 0);
}

// ---- decompositions

// Whether the larger operand is one tall matrix without a copy, as ATen decides it.
bool should_fold(const Tensor& a, const Tensor& b) {
  bool first_larger = a.dim() >= b.dim();
  Tensor larger = first_larger ? a : transpose(b, -2, -1);
  int64_t smaller_rank = first_larger ? b.dim() : a.dim();
  if (larger.dim() < 3 || smaller_rank > 2) return false;
  if ((first_larger ? b : a).requires_grad()) return true;
  if (a.dim() == 2) return false;
  if (guard_or_false(larger.numel() == 0)) return true;
  for (int64_t d = 0; d + 2 < larger.dim(); ++d)
    if (!is_one(larger.size(d)) &&
        !guard_or_false(larger.stride(d) == larger.stride(d + 1) * larger.size(d + 1)))
      return false;
  return true;
}

Tensor folded_matmul(const Tensor& a, const Tensor& b) {
  bool swapped = b.dim() > a.dim();
  Tensor larger = swapped ? transpose(b, -2, -1) : a;
  Tensor smaller = !swapped ? b : a.dim() == 2 ? t(a) : a;
  Dims sizes = dims_of(leading(larger.sizes(), 1));
  SymInt rows = product(list_of(sizes));
  if (smaller.dim() == 2) sizes.push_back(smaller.size(1));
  Tensor tall = reshape(larger, {rows, larger.size(-1)});
  if (smaller.dim() == 1) return _unsafe_view(mv(tall, smaller), list_of(sizes));
  Tensor result = _unsafe_view(mm(tall, smaller), list_of(sizes));
  return swapped ? contiguous(transpose(result, -2, -1)) : result;
}

// Expanded to the common batch and flattened to three dimensions.
Tensor batched(const Tensor& m, SymIntList batch, SymInt rows, SymInt columns) {
  Dims sizes = dims_of(batch);
  sizes.push_back(rows);
  sizes.push_back(columns);
  return reshape(expand(m, list_of(sizes)), {product(batch), rows, columns});
}

Tensor batched_matmul(const Tensor& a, const Tensor& b) {
  Tensor left = a.dim() == 1 ? unsqueeze(a, 0) : a, right = b.dim() == 1 ? unsqueeze(b, 1) : b;
  Dims batch = broadcast_sizes(leading(left.sizes(), 2), leading(right.sizes(), 2));
  Tensor x = batched(left, list_of(batch), left.size(-2), left.size(-1));
  Tensor y = batched(right, list_of(batch), right.size(-2), right.size(-1));
  if (a.dim() > 1) batch.push_back(left.size(-2));
  if (b.dim() > 1) batch.push_back(right.size(-1));
  return _unsafe_view(bmm(x, y), list_of(batch));
}

Tensor matmul_decomp(const Tensor& a, const Tensor& b) {
  matmul_meta(a, b);
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (a.dim() == 2 && b.dim() == 1) return mv(a, b);
  if (a.dim() == 1 && b.dim() == 2) return squeeze(mm(unsqueeze(a, 0), b), 0);
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  return should_fold(a, b) ? folded_matmul(a, b) : batched_matmul(a, b);
}

Tensor linear_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  require_rows(input, weight);  // the parts check what is left
  if (!bias.defined()) return matmul(input, weight.dim() == 2 ? t(weight) : weight);
  if (input.dim() == 2 && weight.dim() == 2) return addmm(bias, input, t(weight));
  if (input.dim() < 3 || weight.dim() != 2 || bias.dim() != 1 || !input.is_contiguous())
    return add(matmul(input, weight.dim() == 2 ? t(weight) : weight), bias);
  Dims sizes = dims_of(leading(input.sizes(), 1));
  Tensor tall = view(input, {product(list_of(sizes)), input.size(-1)});
  sizes.push_back(weight.size(0));
  return view(addmm(bias, tall, t(weight)), list_of(sizes));
}

// ---- derivatives

bool is_column_major(const Tensor& t) {
  return guard_or_false(t.stride(0) == 1) && guard_or_false(t.stride(1) == t.size(0));
}

// A gradient lies as its operand does, as in PyTorch: that of the weights of a layer, which
// multiplies by their transpose, comes out of the product row by row, and the optimiser walks along.
Tensor left_gradient(const Tensor& g, const Tensor& b, const Tensor& a) {
  return is_column_major(a) ? b.mm(g.t()).t() : g.mm(b.t());
}
Tensor right_gradient(const Tensor& g, const Tensor& a, const Tensor& b) {
  return is_column_major(b) ? g.t().mm(a).t() : a.t().mm(g);
}

}  // namespace

static constexpr OpDef linalg_matmul_rows[] = {
    {.schema = "mm(Tensor self, Tensor mat2) -> Tensor",
     .tags = OpTags::matmul,
     .core = true,
     .meta = fn<mm_meta>,
     .eager = [](Tensor& out, const Tensor& a, const Tensor& b) { multiply(out, a, b); },
     .complex = fn<complex_mm>,
     .vjp = {{"self", "grad, mat2, self.meta", fn<left_gradient>},
             {"mat2", "grad, self, mat2.meta", fn<right_gradient>}},
     .linear = "self * mat2",
     .autocast = Autocast::lower},
    {.schema = "_int_mm(Tensor self, Tensor mat2) -> Tensor",
     .decomp =
         [](const Tensor& a, const Tensor& b) {
           require(a.dtype() == Dtype::i8 && b.dtype() == Dtype::i8,
                   "_int_mm: matrices of i8 are expected, found {} and {}", a.dtype(), b.dtype());
           return mm(to(a, Dtype::i32), to(b, Dtype::i32));
         }},
    {.schema = "bmm(Tensor self, Tensor mat2) -> Tensor",
     .tags = OpTags::matmul,
     .core = true,
     .meta = fn<bmm_meta>,
     .eager = [](Tensor& out, const Tensor& a, const Tensor& b) { multiply(out, a, b); },
     .complex = fn<complex_bmm>,
     .vjp = {{"self", "grad, mat2",
              [](const Tensor& g, const Tensor& b) { return g.bmm(b.transpose(1, 2)); }},
             {"mat2", "grad, self",
              [](const Tensor& g, const Tensor& a) { return a.transpose(1, 2).bmm(g); }}},
     .linear = "self * mat2",
     .autocast = Autocast::lower},
    {.schema =
         "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .tags = OpTags::matmul,
     .core = true,
     .meta = [](const Tensor& self, const Tensor& a, const Tensor& b, Number,
                Number) { return added_meta("addmm", self, mm_meta(a, b)); },
     .eager = [](Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, Number beta,
                 Number alpha) { add_product(out, self, a, b, beta, alpha); },
     .complex = fn<complex_addmm>,
     .vjp = {{"self", "grad, beta", [](const Tensor& g, Number beta) { return scaled(g, beta); }},
             {"mat1", "grad, mat2, mat1.meta, alpha",
              [](const Tensor& g, const Tensor& b, const Tensor& a, Number alpha) {
                return scaled(left_gradient(g, b, a), alpha);
              }},
             {"mat2", "grad, mat1, mat2.meta, alpha",
              [](const Tensor& g, const Tensor& a, const Tensor& b, Number alpha) {
                return scaled(right_gradient(g, a, b), alpha);
              }}},
     .linear = "self + mat1 * mat2",
     .autocast = Autocast::lower},
    {.schema = "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
               "alpha=1) -> Tensor",
     .variants = in_place,
     .tags = OpTags::matmul,
     .meta = [](const Tensor& self, const Tensor& a, const Tensor& b, Number,
                Number) { return added_meta("baddbmm", self, bmm_meta(a, b)); },
     .eager = [](Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, Number beta,
                 Number alpha) { add_product(out, self, a, b, beta, alpha); },
     .decomp = [](const Tensor& self, const Tensor& batch1, const Tensor& batch2, Number beta,
                  Number alpha) { return added_product(self, bmm(batch1, batch2), beta, alpha); },
     .complex = as_decomposed,
     .vjp = {{"self", "grad, beta", [](const Tensor& g, Number beta) { return scaled(g, beta); }},
             {"batch1", "grad, batch2, alpha",
              [](const Tensor& g, const Tensor& b, Number alpha) {
                return scaled(g.bmm(b.transpose(1, 2)), alpha);
              }},
             {"batch2", "grad, batch1, alpha",
              [](const Tensor& g, const Tensor& a, Number alpha) {
                return scaled(a.transpose(1, 2).bmm(g), alpha);
              }}},
     .linear = "self + batch1 * batch2",
     .autocast = Autocast::lower},
    {.schema = "mv(Tensor self, Tensor vec) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<mv_meta>,
     .eager = fn<mv_kernel>,
     .decomp = [](const Tensor& self,
                  const Tensor& vec) { return squeeze(mm(self, unsqueeze(vec, 1)), 1); },
     .complex = as_decomposed,
     .vjp = {{"self", "grad, vec", [](const Tensor& g, const Tensor& v) { return g.outer(v); }},
             {"vec", "grad, self", [](const Tensor& g, const Tensor& a) { return a.t().mv(g); }}},
     .linear = "self * vec"},
    {.schema =
         "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .tags = OpTags::matmul,
     .meta = [](const Tensor& self, const Tensor& a, const Tensor& v, Number,
                Number) { return added_meta("addmv", self, mv_meta(a, v)); },
     .eager =
         [](Tensor& out, const Tensor& self, const Tensor& a, const Tensor& v, Number beta,
            Number alpha) {
           add_product(with_dim(out, 1), self.dim() ? with_dim(self, 1) : self, a, with_dim(v, 1),
                       beta, alpha);
         },
     .decomp = [](const Tensor& self, const Tensor& mat, const Tensor& vec, Number beta,
                  Number alpha) { return added_product(self, mv(mat, vec), beta, alpha); },
     .complex = as_decomposed,
     .vjp = {{"self", "grad, beta", [](const Tensor& g, Number beta) { return scaled(g, beta); }},
             {"mat", "grad, vec, alpha",
              [](const Tensor& g, const Tensor& v,
                 Number alpha) { return scaled(g.outer(v), alpha); }},
             {"vec", "grad, mat, alpha",
              [](const Tensor& g, const Tensor& a,
                 Number alpha) { return scaled(a.t().mv(g), alpha); }}},
     .linear = "self + mat * vec"},
    {.schema = "dot(Tensor self, Tensor tensor) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<dot_meta>,
     .eager = fn<dot_kernel>,
     .decomp =
         [](const Tensor& self, const Tensor& tensor) {
           return sum(mul(self, tensor), std::nullopt, false, self.dtype());
         },
     .complex = as_decomposed,
     .vjp = {{"self", "grad, tensor", [](const Tensor& g, const Tensor& b) { return g.mul(b); }},
             {"tensor", "grad, self", [](const Tensor& g, const Tensor& a) { return g.mul(a); }}},
     .linear = "self * tensor"},
    {.schema = "vdot(Tensor self, Tensor other) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<dot_meta>,
     .eager = fn<dot_kernel>,
     .decomp =
         [](const Tensor& self, const Tensor& other) {
           return sum(mul(self, other), std::nullopt, false, self.dtype());
         },
     .complex = fn<complex_vdot>,
     .vjp = {{"self", "grad, other", [](const Tensor& g, const Tensor& b) { return g.mul(b); }},
             {"other", "grad, self", [](const Tensor& g, const Tensor& a) { return g.mul(a); }}},
     .linear = "self * other"},
    {.schema = "matmul(Tensor self, Tensor other) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<matmul_meta>,
     .eager = fn<matmul_kernel>,
     .decomp = fn<matmul_decomp>,
     .complex = as_decomposed,
     .autocast = Autocast::lower},
    {.schema = "linalg_matmul(Tensor self, Tensor other) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = [](const Tensor& a, const Tensor& b) { return matmul(a, b); }},
    {.schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<linear_meta>,
     .eager = fn<linear_kernel>,
     .decomp = fn<linear_decomp>,
     .complex = as_decomposed,
     .autocast = Autocast::lower},
};

extern constinit const OpFamily op_family_linalg_matmul{linalg_matmul_rows};

}  // namespace tenon::ops
