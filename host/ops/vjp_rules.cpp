// Pieces that the vjp rules of several rows share.
#include "ops/vjp_rules.h"

#include "core/sym/sym_int.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

int64_t wrapped(int64_t dim, size_t rank) {
  return dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
}

bool reduces(OptIntList dims, size_t dim, size_t rank) {
  if (!dims || dims->empty()) return true;
  return std::any_of(dims->begin(), dims->end(),
                     [&](int64_t d) { return wrapped(d, rank) == static_cast<int64_t>(dim); });
}

Tensor with_reduced_dims(Tensor t, OptIntList dims, size_t rank, bool keepdim) {
  if (keepdim) return t;
  for (size_t d = 0; d < rank; ++d)
    if (reduces(dims, d, rank)) t = t.unsqueeze(static_cast<int64_t>(d));
  return t;
}

}  // namespace

Tensor unreduced(const Tensor& grad, SymIntList sizes, OptIntList dims, bool keepdim) {
  return with_reduced_dims(grad, dims, sizes.size(), keepdim).expand(sizes);
}

Tensor unreduced(const Tensor& grad, SymIntList sizes, int64_t dim, bool keepdim) {
  return unreduced(grad, sizes, OptIntList(IntList{dim}), keepdim);
}

SymInt n_reduced(SymIntList sizes, OptIntList dims) {
  SymInt n = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (reduces(dims, d, sizes.size())) n = n * sizes[d];
  return n;
}

Tensor scaled(const Tensor& t, Number factor) {
  bool is_one = !factor.is_symbolic() && factor.to_double() == 1;
  if (is_one) return t;
  if (is_floating(t.dtype()) || is_complex(t.dtype())) return t.mul(factor);
  // As an element, since a number would promote.
  return t.mul(full(SymIntList(), factor, t.dtype(), std::nullopt, t.device()));
}

Tensor scattered(const Tensor& grad, SymIntList sizes, int64_t dim, const Tensor& indices,
                 bool keepdim) {
  Tensor zeros = grad.new_zeros(sizes);
  if (sizes.empty()) return zeros.add(grad);
  bool missing = !keepdim;
  return zeros.scatter(dim, missing ? indices.unsqueeze(dim) : indices,
                       missing ? grad.unsqueeze(dim) : grad);
}

Tensor shared_out(const Tensor& grad, const Tensor& self, const Tensor& result, OptIntList dims,
                  bool keepdim) {
  auto rank = static_cast<size_t>(self.dim());
  Tensor at = with_reduced_dims(result, dims, rank, keepdim);
  Tensor mask = self.eq(at).logical_or(self.isnan().logical_and(at.isnan()));
  Tensor count;
  if (rank == 0)
    count = mask.to(grad.dtype());
  else if (!dims || dims->empty())
    count = mask.to(grad.dtype()).sum();
  else
    count = mask.to(grad.dtype()).sum(*dims, true);
  return mask.mul(with_reduced_dims(grad, dims, rank, keepdim).div(count));
}

Tensor pooled_gather(const Tensor& grad, const Tensor& indices, int64_t n) {
  Tensor flat = grad.flatten(-n, -1), places = indices.flatten(-n, -1);
  return flat.gather(-1, places).view(indices.sizes());
}

namespace {

struct ReducePair {
  Tensor self, src;
};

ReducePair product_vjp(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& src, bool include_self, const Tensor& result) {
  Tensor whole = self.masked_fill(self.eq(0), 1);
  Tensor of_self = g.mul(whole.scatter_reduce(dim, index, src, "prod", include_self)).div(whole);
  Tensor zero = src.eq(0);
  Tensor zeros_there =
      self.zeros_like().scatter_add(dim, index, zero.to(self.dtype())).gather(dim, index);
  Tensor only_zero = zero.logical_and(zeros_there.eq(1));
  Tensor others =
      self.scatter_reduce(dim, index, src.masked_fill(only_zero, 1), "prod", include_self);
  Tensor of_src = where(only_zero, g.mul(others).gather(dim, index),
                        g.mul(result).gather(dim, index).div(src.masked_fill(zero, 1)));
  return {of_self, of_src};
}

ReducePair mean_vjp(const Tensor& g, int64_t dim, const Tensor& index, const Tensor& src,
                    bool include_self) {
  Tensor count = include_self ? g.ones_like() : g.zeros_like();
  count = count.scatter_add(dim, index, src.ones_like());
  count = count.masked_fill(count.eq(0), 1);
  return {g.div(count), g.gather(dim, index).div(count.gather(dim, index))};
}

ReducePair extremum_vjp(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                        const Tensor& src, const Tensor& result) {
  Tensor self_wins = self.eq(result).to(g.dtype());
  Tensor src_wins = src.eq(result.gather(dim, index)).to(g.dtype());
  Tensor share = g.div(self_wins.scatter_add(dim, index, src_wins));
  return {self_wins.mul(share), src_wins.mul(share.gather(dim, index))};
}

}  // namespace

std::tuple<Tensor, Tensor> scatter_reduce_vjp(const Tensor& g, const Tensor& self, int64_t dim,
                                              const Tensor& index, const Tensor& src,
                                              std::string_view reduce, bool include_self,
                                              const Tensor& result) {
  ReducePair out = reduce == "sum"    ? ReducePair{g, g.gather(dim, index)}
                   : reduce == "prod" ? product_vjp(g, self, dim, index, src, include_self, result)
                   : reduce == "mean" ? mean_vjp(g, dim, index, src, include_self)
                                      : extremum_vjp(g, self, dim, index, src, result);
  if (!include_self) out.self = out.self.scatter(dim, index, Number(0));
  return {out.self, out.src};
}

Tensor statistics_vjp(const Tensor& g_mean, const Tensor& g_rstd, const Tensor& x,
                      const Tensor& mean, const Tensor& rstd, SymInt count) {
  Tensor part;
  if (g_mean.defined()) part = g_mean;
  if (g_rstd.defined()) {
    Tensor slope = x.sub(mean).mul(g_rstd.mul(rstd.pow(3)));
    part = part.defined() ? part.sub(slope) : slope.neg();
  }
  return part.defined() ? part.div(Number(count)) : part;
}

Tensor product_of_others(const Tensor& self, int64_t dim) {
  if (self.dim() == 0) return self.ones_like();
  SymInt n = self.size(dim);
  if (guard_or_false(n == 0)) return self;
  Tensor one = self.slice(dim, 0, 1).ones_like();
  Tensor before = cat({one, self.slice(dim, 0, -1)}, dim).cumprod(dim);
  Tensor flipped = self.flip({dim});
  Tensor after = cat({one, flipped.slice(dim, 0, -1)}, dim).cumprod(dim).flip({dim});
  return before.mul(after);
}

Tensor added_by_cell(const Tensor& grad, const Tensor& cells_of_grad, SymInt cells) {
  Tensor at = cells_of_grad.reshape({-1}), values = grad.reshape({-1});
  if (!is_complex(grad.dtype())) return grad.new_zeros({cells}).index_add(0, at, values);
  Tensor pairs = view_as_real(values);  // index_add computes on real numbers
  return view_as_complex(pairs.new_zeros({cells, 2}).index_add(0, at, pairs));
}

Tensor reverse_cumsum(const Tensor& t, int64_t dim) {
  if (t.dim() == 0) return t;
  return t.flip({dim}).cumsum(dim).flip({dim});
}

}  // namespace tenon::ops
