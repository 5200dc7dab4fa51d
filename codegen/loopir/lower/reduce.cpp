// Reductions: sums, extremes, moments, truth.
#include "loopir/lower/reductions.h"

#include <cmath>
#include <limits>

namespace loopir {

using tenon::plugin::node;

Dimensions::Dimensions(size_t ndim, std::span<const int64_t> dims) : folded(ndim, dims.empty()) {
  for (int64_t d : dims)
    if (ndim > 0) folded[dimension(d, ndim)] = true;
}

Ids Dimensions::kept_sizes(const Tensor& t) const {
  Ids out;
  for (size_t d = 0; d < t.ndim(); ++d)
    if (!folded[d]) out.push_back(t.sizes[d]);
  return out;
}
Ids Dimensions::folded_sizes(const Tensor& t) const {
  Ids out;
  for (size_t d = 0; d < t.ndim(); ++d)
    if (folded[d]) out.push_back(t.sizes[d]);
  return out;
}
Ids Dimensions::joined(std::span<const Id> kept, std::span<const Id> inner) const {
  Ids out;
  size_t k = 0, f = 0;
  for (bool is_folded : folded) out.push_back(is_folded ? inner[f++] : kept[k++]);
  return out;
}

Tensor fold_dimensions(Lowering& to, const Tensor& t, const Dimensions& dims, Fold fold,
                       int32_t dtype, const std::string& name, const Element& element) {
  return to.folded(fold, dtype, dims.kept_sizes(t), dims.folded_sizes(t), name.c_str(),
                   [&](std::span<const Id> outer, std::span<const Id> inner) {
                     return element(to.at(t, dims.joined(outer, inner)));
                   });
}

Id count_of(Lowering& to, const Tensor& t, const Dimensions& dims, int32_t dtype) {
  return to.x.cast(to.x.index_value(to.x.product_of(dims.folded_sizes(t))), dtype);
}

namespace {

/// f(element) for every element.
Tensor mapped(Lowering& to, const Tensor& t, int32_t dtype, const Element& f) {
  return to.make(dtype, t.sizes, [&](std::span<const Id> i) { return f(to.at(t, i)); });
}

}  // namespace

Moments moments(Lowering& to, const Tensor& t, const Dimensions& dims, const std::string& name) {
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  Id n = count_of(to, t, dims, dtype);
  auto divided = [&](Id sum) { return x.apply(TN_F_DIV, dtype, sum, n); };
  auto as_is = [&](Id e) { return x.cast(e, dtype); };
  Tensor sum = fold_dimensions(to, t, dims, Fold::sum, dtype, name, as_is);
  Tensor mean = mapped(to, sum, dtype, divided);
  Tensor squares =
      to.folded(Fold::sum, dtype, dims.kept_sizes(t), dims.folded_sizes(t), name.c_str(),
                [&](std::span<const Id> outer, std::span<const Id> inner) {
                  Id e = x.cast(to.at(t, dims.joined(outer, inner)), dtype);
                  Id off = x.apply(TN_F_SUB, dtype, e, to.at(mean, outer));
                  return x.apply(TN_F_MUL, dtype, off, off);
                });
  return {mean, mapped(to, squares, dtype, divided), squares};
}

Tensor mean_of_finite(Lowering& to, const Moments& m, int32_t dtype) {
  Expressions& x = to.x;
  return to.make(dtype, m.mean.sizes, [&](std::span<const Id> i) {
    Id squares = to.at(m.squares, i);
    return x.apply(TN_F_SELECT, dtype, x.apply(TN_F_NE, TN_BOOL, squares, squares), squares,
                   to.at(m.mean, i));
  });
}

namespace {

/// A reduction's dims and the operand, which is kept where folding it is not its only use.
struct Folding {
  Lowering& to;
  const node& n;
  Tensor t;
  Dimensions dims;
  std::string name;

  Folding(Lowering& to, const node& n, std::span<const int64_t> dims)
      : to(to),
        n(n),
        t(to.tensor_arg(n.args[0])),
        dims(t.ndim(), dims),
        name(to.name_of(n.first_result)) {}

  bool is_computing() const {
    return loopir::is_computing(t.dtype) && loopir::is_computing(to.info(n.first_result).dtype);
  }
  /// Result r in its dtype, with folded dimensions of size 1 where the op keeps them.
  void give(uint32_t r, const Tensor& folded, const Element& finish) {
    auto v = to.info(n.first_result + r);
    Ids sizes = to.arguments.indices_of(v.dims());
    bool keeps = sizes.size() == dims.folded.size();
    to.set(n.first_result + r, to.make(v.dtype, sizes, [&](std::span<const Id> indices) {
      Ids kept;
      for (size_t d = 0; d < indices.size(); ++d)
        if (!keeps || !dims.folded[d]) kept.push_back(indices[d]);
      return to.x.cast(finish(to.at(folded, kept)), v.dtype);
    }));
  }
  Tensor fold(Fold kind, int32_t dtype, const Element& element) {
    return fold_dimensions(to, t, dims, kind, dtype, name, element);
  }
};

Id same(Id v) { return v; }

/// Integers are summed in i64, narrow floats in f32.
int32_t sum_type(int32_t result) {
  return is_floating(result) ? compute_type(result) : int32_t{TN_I64};
}

bool fold_numbers(Folding f, Fold kind, bool is_mean) {
  int32_t result = f.to.info(f.n.first_result).dtype;
  if (!f.is_computing()) return false;
  Expressions& x = f.to.x;
  int32_t dtype = sum_type(result);
  // Truths are counted, not the numbers that they are made of.
  auto element = [&](Id e) { return x.cast(result == TN_BOOL ? x.cast(e, TN_BOOL) : e, dtype); };
  Tensor folded = f.fold(kind, dtype, element);
  Id count = count_of(f.to, f.t, f.dims, dtype);
  f.give(0, folded, [&](Id s) { return is_mean ? x.apply(TN_F_DIV, dtype, s, count) : s; });
  return true;
}

bool sum_all(Lowering& to, const node& n) { return fold_numbers({to, n, {}}, Fold::sum, false); }
bool sum(Lowering& to, const node& n) {
  return fold_numbers({to, n, int_list(n.args[1])}, Fold::sum, false);
}
bool mean_all(Lowering& to, const node& n) { return fold_numbers({to, n, {}}, Fold::sum, true); }
bool mean(Lowering& to, const node& n) {
  return fold_numbers({to, n, int_list(n.args[1])}, Fold::sum, true);
}
bool prod_all(Lowering& to, const node& n) {
  return fold_numbers({to, n, {}}, Fold::product, false);
}
bool prod(Lowering& to, const node& n) {
  return fold_numbers({to, n, int_list(n.args[1])}, Fold::product, false);
}

// An extreme of nothing is an error, which the host's kernel tells.
bool has_elements(const Folding& f) {
  for (Id size : f.dims.folded_sizes(f.t))
    if (f.to.x.range(size).lower < 1) return false;
  return true;
}

bool fold_extreme(Folding f, Fold kind) {
  if (!f.is_computing() || !has_elements(f)) return false;
  int32_t dtype = compute_type(f.t.dtype);
  f.give(0, f.fold(kind, dtype, [&](Id e) { return f.to.x.cast(e, dtype); }), same);
  return true;
}
bool amax(Lowering& to, const node& n) {
  return fold_extreme({to, n, int_list(n.args[1])}, Fold::maximum);
}
bool amin(Lowering& to, const node& n) {
  return fold_extreme({to, n, int_list(n.args[1])}, Fold::minimum);
}
bool max_all(Lowering& to, const node& n) { return fold_extreme({to, n, {}}, Fold::maximum); }
bool min_all(Lowering& to, const node& n) { return fold_extreme({to, n, {}}, Fold::minimum); }

bool fold_position(Folding f, Fold kind) {
  if (!f.is_computing() || !has_elements(f)) return false;
  int32_t dtype = compute_type(f.t.dtype);
  f.give(0, f.fold(kind, TN_I64, [&](Id e) { return f.to.x.cast(e, dtype); }), same);
  return true;
}
/// An extreme along one dimension with its position.
bool fold_pair(Lowering& to, const node& n, Fold kind, Fold position) {
  int64_t which[] = {int_arg(n.args[1])};
  Folding f(to, n, which);
  if (f.t.ndim() == 0 || !f.is_computing() || !has_elements(f)) return false;
  int32_t dtype = compute_type(f.t.dtype);
  auto element = [&](Id e) { return to.x.cast(e, dtype); };
  f.give(0, f.fold(kind, dtype, element), same);
  f.give(1, f.fold(position, TN_I64, element), same);
  return true;
}
bool max_dim(Lowering& to, const node& n) { return fold_pair(to, n, Fold::maximum, Fold::arg_max); }
bool min_dim(Lowering& to, const node& n) { return fold_pair(to, n, Fold::minimum, Fold::arg_min); }

/// High powers of ordinary numbers leave the range of f32 (2^128, 2^-149), though their root does
/// not.
int32_t norm_type(double order, int32_t result) {
  constexpr double highest_in_f32 = 4;
  bool is_high = std::isfinite(order) && std::fabs(order) > highest_in_f32;
  return is_high ? int32_t{TN_F64} : compute_type(result);
}

/// (sum of |x|^order)^(1 / order); the extremes of |x| for infinite orders, how many are not 0 for
/// 0.
bool vector_norm(Lowering& to, const node& n) {
  Folding f(to, n, int_list(n.args[2]));
  if (!f.is_computing() || !is_floating(f.t.dtype)) return false;
  Expressions& x = to.x;
  double order = number_arg(n.args[1]);
  int32_t dtype = norm_type(order, to.info(n.first_result).dtype);
  auto op = [&](uint16_t code, Id a, Id b = none) { return x.apply(code, dtype, a, b); };
  auto size_of = [&](Id e) { return op(TN_F_ABS, x.cast(e, dtype)); };
  if (std::isinf(order)) {
    if (!has_elements(f)) return false;
    f.give(0, f.fold(order > 0 ? Fold::maximum : Fold::minimum, dtype, size_of), same);
    return true;
  }
  Tensor sum = f.fold(Fold::sum, dtype, [&](Id e) {
    Id size = size_of(e);
    if (order == 0) return x.cast(x.apply(TN_F_NE, TN_BOOL, size, x.number(0.0, dtype)), dtype);
    if (order == 1) return size;
    return order == 2 ? op(TN_F_MUL, size, size) : op(TN_F_POW, size, x.number(order, dtype));
  });
  f.give(0, sum, [&](Id s) {
    if (order == 0 || order == 1) return s;
    return order == 2 ? op(TN_F_SQRT, s) : op(TN_F_POW, s, x.number(1 / order, dtype));
  });
  return true;
}

bool argmax(Lowering& to, const node& n) {
  return fold_position({to, n, int_list(n.args[1])}, Fold::arg_max);
}
bool argmin(Lowering& to, const node& n) {
  return fold_position({to, n, int_list(n.args[1])}, Fold::arg_min);
}

bool fold_truth(Folding f, Fold kind) {
  if (!f.is_computing()) return false;
  f.give(0, f.fold(kind, TN_BOOL, [&](Id e) { return f.to.x.cast(e, TN_BOOL); }), same);
  return true;
}
/// Here, unlike with the other reductions, an empty list names no dimension.
bool fold_truth_over(Lowering& to, const node& n, Fold kind) {
  std::vector<int64_t> given = int_list(n.args[1]);
  Folding f(to, n, given);
  if (!given.empty() || n.args[1].kind == TN_ARG_NONE) return fold_truth(f, kind);
  if (!f.is_computing()) return false;
  f.dims.folded.assign(f.t.ndim(), false);
  f.give(0, f.t, [&](Id e) { return to.x.cast(e, TN_BOOL); });
  return true;
}
bool any_all(Lowering& to, const node& n) { return fold_truth({to, n, {}}, Fold::any); }
bool any_over(Lowering& to, const node& n) { return fold_truth_over(to, n, Fold::any); }
bool all_all(Lowering& to, const node& n) { return fold_truth({to, n, {}}, Fold::all); }
bool all_over(Lowering& to, const node& n) { return fold_truth_over(to, n, Fold::all); }

/// var and std, alone or with the mean, by `correction`, of which `unbiased` is the number.
bool fold_moments(Lowering& to, const node& n, bool root, bool with_mean) {
  Folding f(to, n, int_list(n.args[1]));
  if (!f.is_computing() || !is_floating(f.t.dtype)) return false;
  const tn_arg& given = n.args[2];
  double correction = given.kind == TN_ARG_NONE ? 1 : number_arg(given);
  Expressions& x = to.x;
  int32_t dtype = compute_type(f.t.dtype);
  f.t = to.cheap(f.t, f.name.c_str());
  Moments m = moments(to, f.t, f.dims, f.name);
  Id count = count_of(to, f.t, f.dims, dtype);
  Id left = x.apply(TN_F_MAX, dtype, x.number(0.0, dtype),
                    x.apply(TN_F_SUB, dtype, count, x.number(correction, dtype)));
  f.give(0, m.squares, [&](Id sum) {
    Id unbiased = x.apply(TN_F_DIV, dtype, sum, left);
    return root ? x.apply(TN_F_SQRT, dtype, unbiased) : unbiased;
  });
  if (with_mean) f.give(1, mean_of_finite(to, m, dtype), same);
  return true;
}
bool var(Lowering& to, const node& n) { return fold_moments(to, n, false, false); }
bool std_of(Lowering& to, const node& n) { return fold_moments(to, n, true, false); }
bool var_mean(Lowering& to, const node& n) { return fold_moments(to, n, false, true); }
bool std_mean(Lowering& to, const node& n) { return fold_moments(to, n, true, true); }

constexpr Rule reduce_table[] = {
    {"aten.sum.default", sum_all},
    {"aten.sum.dim_IntList", sum},
    {"aten.mean.default", mean_all},
    {"aten.mean.dim", mean},
    {"aten.prod.default", prod_all},
    {"aten.prod.dim_int", prod},
    {"aten.amax.default", amax},
    {"aten.amin.default", amin},
    {"aten.max.default", max_all},
    {"aten.min.default", min_all},
    {"aten.argmax.default", argmax},
    {"aten.argmin.default", argmin},
    {"aten.max.dim", max_dim},
    {"aten.min.dim", min_dim},
    {"aten.linalg_vector_norm.default", vector_norm},
    {"aten.any.default", any_all},
    {"aten.any.dim", any_over},
    {"aten.any.dims", any_over},
    {"aten.all.default", all_all},
    {"aten.all.dim", all_over},
    {"aten.all.dims", all_over},
    {"aten.var.correction", var},
    {"aten.var.dim", var},
    {"aten.std.correction", std_of},
    {"aten.var_mean.correction", var_mean},
    {"aten.std_mean.correction", std_mean},
};

}  // namespace

std::span<const Rule> reduce_rules() { return reduce_table; }

}  // namespace loopir
