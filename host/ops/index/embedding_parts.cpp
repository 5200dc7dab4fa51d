// The derivatives of embedding_bag as ops that can be differentiated again.
//
// Problem: the kernels of the derivatives have none themselves, and second derivatives ask for one.
// Model: index i lies in bag b(i) and names row r(i); its share s(i) of the bag is its scale, by
//   the members of the bag where these are averaged, by the uses of the row where asked for, and 0
//   for the padding row. Then
//       grad row[r(i)] += s(i) grad(b(i)),   grad scale(i) = <grad(b(i)), row[r(i)]>
// Cost: a gather and an addition of [indices, width] elements.
#include "ops/index/embedding_parts.h"

#include "core/sym/sym_int.h"
#include "ops/op.h"

#include <tenon/ops.h>

namespace tenon::ops {

namespace {

Tensor wide(const Tensor& t) { return t.dtype() == Dtype::f64 ? t : to(t, Dtype::f32); }

Tensor rows_of(const BagPlaces& p) { return to(p.indices, Dtype::i64); }

Tensor bags_of_indices(const BagPlaces& p) {
  SymInt n = p.indices.size(0);
  if (guard_or_false(p.bag_of.numel() == n)) return to(p.bag_of, Dtype::i64);
  Tensor numbers = arange(Number(n), std::nullopt, std::nullopt, p.offsets.device());
  Tensor begun = searchsorted(to(p.offsets, Dtype::i64), numbers, false, true);
  return clamp_min(sub(begun, 1), 0);
}

// 1 for each index that counts, 0 for those of the padding row.
Tensor counted(const Tensor& rows, int64_t padding, Dtype dtype) {
  return to(ne(rows, padding), dtype);
}

Tensor spread_to_chosen(const Tensor& grad, const BagFold& fold, SymInt n_rows) {
  Tensor filled = to(gt(fold.sizes, 0), grad.dtype());
  return scatter_add(grad.new_zeros({n_rows, grad.size(1)}), 0, to(fold.chosen, Dtype::i64),
                     mul(grad, unsqueeze(filled, 1)));
}

}  // namespace

Tensor bag_backward_parts(const Tensor& grad, const BagPlaces& places, const BagFold& fold,
                          SymInt n_rows) {
  Tensor g = wide(grad);
  if (fold.mode == 2) return to(spread_to_chosen(g, fold, n_rows), grad.dtype());
  Tensor rows = rows_of(places), bags = bags_of_indices(places);
  Tensor member = counted(rows, places.padding, g.dtype()), share = member;
  if (fold.scales.defined()) share = mul(share, to(fold.scales, g.dtype()));
  if (fold.mode == 1) {
    Tensor members = index_add(g.new_zeros({g.size(0)}), 0, bags, member);
    share = div(share, clamp_min(index_select(members, 0, bags), 1));
  }
  if (fold.scale_by_count) {
    Tensor uses = index_add(g.new_zeros({n_rows}), 0, rows, ones_like(member));
    share = div(share, index_select(uses, 0, rows));
  }
  Tensor changes = mul(index_select(g, 0, bags), unsqueeze(share, 1));
  return to(index_add(g.new_zeros({n_rows, g.size(1)}), 0, rows, changes), grad.dtype());
}

Tensor bag_scales_backward_parts(const Tensor& grad, const Tensor& weight,
                                 const BagPlaces& places) {
  Tensor rows = rows_of(places);
  Tensor dots = sum(mul(index_select(wide(grad), 0, bags_of_indices(places)),
                        index_select(wide(weight), 0, rows)),
                    {1});
  return to(mul(dots, counted(rows, places.padding, dots.dtype())), grad.dtype());
}

Tensor embedding_dense_vjp(const Tensor& g, const Tensor& indices, SymInt padding) {
  Tensor rows = g.index_select(0, indices.reshape({-1}));
  Dims sizes = dims_of(indices.sizes());
  for (size_t d = 1; d < g.sizes().size(); ++d) sizes.push_back(g.sizes()[d]);
  rows = rows.reshape(list_of(sizes));
  if (guard_or_false(padding < 0)) return rows;
  return rows.masked_fill(indices.eq(Number(padding)).unsqueeze(-1), 0);
}

}  // namespace tenon::ops
