// Derivatives of factorisations and solves.
//
// Model: A = F(...) and the gradients of the factors are given; the gradient of A follows from the
// differential of the equation that defines them, with the freedom that the structure of a factor
// (triangular, orthogonal) leaves it. A is real; batches lie in front. Sources: Giles, "An
// extended collection of matrix derivative results" (2008); Walter and Lehmann, "Algorithmic
// differentiation of linear algebra functions" (2010); Seeger et al., "Auto-differentiating linear
// algebra" (2017). Cost: some products and triangular solves of the matrix.
#include "ops/linalg/dense_vjp.h"

#include "core/error.h"
#include "core/sym/sym_int.h"

#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// The lower triangle with half of the diagonal.
Tensor half_lower(const Tensor& t) {
  return t.tril().sub(t.diagonal(0, -2, -1).mul(0.5).diag_embed());
}

Tensor triangle(const Tensor& t, bool upper, bool unitriangular) {
  int64_t skipped = unitriangular ? 1 : 0;
  return upper ? t.triu(skipped) : t.tril(-skipped);
}

Tensor solve_upper(const Tensor& a, const Tensor& b, bool left = true, bool unit = false) {
  return linalg_solve_triangular(a, b, true, left, unit);
}
Tensor solve_lower(const Tensor& a, const Tensor& b, bool left = true, bool unit = false) {
  return linalg_solve_triangular(a, b, false, left, unit);
}

bool is_wide(const Tensor& t) { return guard_or_false(t.size(-2) < t.size(-1)); }
bool is_square(const Tensor& t) { return guard_or_false(t.size(-2) == t.size(-1)); }

Tensor plus(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a.add(b);
}

}  // namespace

Tensor cholesky_vjp(const Tensor& grad, const Tensor& factor, bool upper) {
  Tensor l = upper ? factor.mT() : factor, gl = upper ? grad.mT() : grad;
  Tensor phi = half_lower(l.mT().matmul(gl));
  Tensor ga = solve_lower(l, solve_upper(l.mT(), phi), false);
  return ga.add(ga.mT()).mul(0.5);
}

std::tuple<Tensor, Tensor> solve_triangular_vjp(const Tensor& grad, const Tensor& a,
                                                const Tensor& x, bool upper, bool left,
                                                bool unitriangular, BoolList needs) {
  Tensor gb = linalg_solve_triangular(a.mT(), grad, !upper, left, unitriangular);
  Tensor ga;
  if (needs[0]) {
    ga = left ? gb.matmul(x.mT()) : x.mT().matmul(gb);
    ga = triangle(ga.neg(), upper, unitriangular);
  }
  return {ga, gb};
}

std::tuple<Tensor, Tensor> old_triangular_solve_vjp(const Tensor& grad, const Tensor& grad_a,
                                                    const Tensor& a, const Tensor& x, bool upper,
                                                    bool transpose, bool unitriangular,
                                                    BoolList needs) {
  Tensor gb = std::get<0>(triangular_solve(grad, a, upper, !transpose, unitriangular));
  Tensor ga;
  if (needs[1]) {
    ga = transpose ? x.matmul(gb.mT()) : gb.matmul(x.mT());
    ga = plus(triangle(ga.neg(), upper, unitriangular), grad_a);
  }
  return {gb, ga};
}

// exp of the block matrix (A^T G; 0 A^T) has the gradient in its upper right block.
Tensor matrix_exp_vjp(const Tensor& grad, const Tensor& a) {
  Tensor at = a.mT();
  SymInt n = a.size(-1);
  Tensor top = cat({at, grad}, -1), bottom = cat({at.zeros_like(), at}, -1);
  return linalg_matrix_exp(cat({top, bottom}, -2)).narrow(-2, 0, n).narrow(-1, n, n);
}

Tensor lu_factor_vjp(const Tensor& grad, const Tensor& lu, const Tensor& pivots, bool pivot) {
  auto [p, l, u] = lu_unpack(lu, pivots, true, pivot);
  SymInt k = is_wide(lu) ? lu.size(-2) : lu.size(-1);
  Tensor l1 = l.narrow(-2, 0, k), u1 = u.narrow(-1, 0, k);
  Tensor gl1 = grad.narrow(-2, 0, k).narrow(-1, 0, k).tril(-1);
  Tensor gu1 = grad.narrow(-2, 0, k).narrow(-1, 0, k).triu();
  Tensor lower = l1.mT().matmul(gl1), upper = gu1.matmul(u1.mT()), result;
  if (is_square(lu)) {
    Tensor middle = lower.tril(-1).add(upper.triu());
    result = solve_lower(u1.mT(), solve_upper(l1.mT(), middle, true, true), false);
  } else if (is_wide(lu)) {
    SymInt rest = lu.size(-1) - k;
    Tensor u2 = u.narrow(-1, k, rest), gu2 = grad.narrow(-1, k, rest);
    Tensor middle = lower.sub(gu2.matmul(u2.mT())).tril(-1).add(upper.triu());
    Tensor left = solve_lower(u1.mT(), middle, false);
    result = solve_upper(l1.mT(), cat({left, gu2}, -1), true, true);
  } else {
    SymInt rest = lu.size(-2) - k;
    Tensor l2 = l.narrow(-2, k, rest), gl2 = grad.narrow(-2, k, rest);
    Tensor middle = lower.tril(-1).add(upper.sub(l2.mT().matmul(gl2)).triu());
    Tensor top = solve_upper(l1.mT(), middle, true, true);
    result = solve_lower(u1.mT(), cat({top, gl2}, -2), false);
  }
  return pivot ? p.matmul(result) : result;
}

Tensor lu_unpack_vjp(const Tensor& grad_l, const Tensor& grad_u, SymIntList sizes) {
  const Tensor& any = grad_l.defined() ? grad_l : grad_u;
  if (!any.defined()) return {};
  Tensor out = any.new_zeros(sizes);
  SymInt rows = sizes[sizes.size() - 2], columns = sizes[sizes.size() - 1];
  SymInt k = guard_or_false(rows < columns) ? rows : columns;
  if (grad_l.defined()) out = out.add(constant_pad_nd(grad_l.tril(-1), {0, columns - k}));
  if (grad_u.defined()) out = out.add(constant_pad_nd(grad_u.triu(), {0, 0, 0, rows - k}));
  return out;
}

std::tuple<Tensor, Tensor> lu_solve_vjp(const Tensor& grad, const Tensor& x, const Tensor& lu,
                                        const Tensor& pivots, bool left, bool adjoint,
                                        BoolList needs) {
  Tensor gb = linalg_lu_solve(lu, pivots, grad, left, !adjoint), glu;
  if (!needs[0]) return {glu, gb};
  auto [p, l, u] = lu_unpack(lu, pivots);
  if (left != adjoint) {
    Tensor product = left ? grad.matmul(x.mT()) : grad.mT().matmul(x);
    Tensor r = solve_lower(u.mT(), product.neg());
    Tensor gl = solve_upper(l.mT(), r.matmul(u.mT()), true, true).tril(-1);
    glu = gl.add(r.triu());
  } else {
    Tensor product = left ? x.matmul(grad.mT()) : x.mT().matmul(grad);
    Tensor r = solve_upper(l.mT(), p.mT().matmul(product.neg()).matmul(p), false, true);
    Tensor gu = solve_lower(u.mT(), l.mT().matmul(r), false).triu();
    glu = r.tril(-1).add(gu);
  }
  return {glu, gb};
}

std::tuple<Tensor, Tensor> solve_ex_vjp(const Tensor& grad, const Tensor& a, const Tensor& x,
                                        bool left, BoolList needs) {
  bool vector = x.dim() < a.dim();
  Tensor g = vector ? grad.unsqueeze(-1) : grad, xs = vector ? x.unsqueeze(-1) : x;
  Tensor gb = linalg_solve(a.mT(), g, left), ga;
  if (needs[0]) ga = (left ? gb.matmul(xs.mT()) : xs.mT().matmul(gb)).neg();
  return {ga, vector ? gb.squeeze(-1) : gb};
}

namespace {

// What makes pivots that are 0 count, barely: a singular matrix has cofactors, but no inverse to
// make them of.
Tensor lift_of_zeros(const Tensor& lu) {
  Tensor diagonal = lu.diagonal(0, -2, -1), size = lu.triu().norm(2, IntList{-2, -1}, true);
  const bool is_double = lu.dtype() == Dtype::f64;
  const double eps = is_double ? 0x1p-52 : 0x1p-23, least = is_double ? 0x1p-1022 : 0x1p-126;
  Tensor lift = size.mul(eps).clamp_min(least).squeeze(-1).expand(diagonal.sizes());
  return lift.masked_fill(diagonal.ne(0), 0);
}

Tensor product_of_pivots(const Tensor& diagonal, const Tensor& pivots) {
  Tensor own = arange(1, Number(diagonal.size(-1) + 1), pivots.dtype(), {}, pivots.device());
  Tensor exchanges = pivots.ne(own).sum({-1}).remainder(2);
  return diagonal.prod(-1).mul(exchanges.mul(-2).add(1));
}

// The x of a^T x = g 1, where g has a number for each matrix.
Tensor inverse_transposed(const Tensor& lu, const Tensor& pivots, const Tensor& g) {
  Tensor right = g.unsqueeze(-1).expand(lu.diagonal(0, -2, -1).sizes()).diag_embed();
  return linalg_lu_solve(lu, pivots, right, true, true);
}

}  // namespace

Tensor det_vjp(const Tensor& grad, const Tensor& a) {
  auto [lu, pivots] = linalg_lu_factor(a);
  Tensor regular = lu.add(lift_of_zeros(lu).detach().diag_embed());
  Tensor det = product_of_pivots(regular.diagonal(0, -2, -1), pivots);
  return inverse_transposed(regular, pivots, grad.mul(det));
}

Tensor slogdet_vjp(const Tensor& grad, const Tensor& a) {
  if (!grad.defined()) return a.zeros_like();  // the sign is constant around A
  auto [lu, pivots] = linalg_lu_factor(a);
  return inverse_transposed(lu, pivots, grad);
}

namespace {

// A backward pass that is recorded with its forward pass may never run, or on zeros: the error is
// its own.
Tensor refused(const Tensor& grad_q, const Tensor& grad_r, const Tensor& like,
               std::string_view why) {
  auto size = [](const Tensor& g) { return g.defined() ? g.abs().sum() : Tensor(); };
  Tensor both = plus(size(grad_q), size(grad_r));
  require(both.is_fake(), "{}", why);
  _assert_async(both.eq(0), why);
  return both.new_zeros(like.sizes());
}

}  // namespace

Tensor qr_vjp(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r,
              const Tensor& a, std::string_view mode) {
  if (!grad_q.defined() && !grad_r.defined()) return {};
  if (mode == "r")
    return refused(grad_q, grad_r, a,
                   "linalg_qr: mode 'r' has no gradient, since it gives no Q; use 'reduced'");
  if (mode == "complete" && guard_or_false(q.size(-1) > r.size(-1)))
    return refused(grad_q, grad_r, a,
                   "linalg_qr: mode 'complete' has a gradient only where the matrix has no more "
                   "rows than columns; use 'reduced'");
  auto of_tall = [&](const Tensor& gq, const Tensor& gr, const Tensor& square) {
    Tensor m;
    if (gr.defined()) m = square.matmul(gr.mT());
    if (gq.defined()) m = m.defined() ? m.sub(gq.mT().matmul(q)) : gq.mT().matmul(q).neg();
    Tensor symmetric = m.tril().add(m.tril(-1).mT());
    return solve_lower(square.mT(), plus(gq, q.matmul(symmetric)), false);
  };
  if (!is_wide(r)) return of_tall(grad_q, grad_r, r);
  SymInt k = r.size(-2), rest = r.size(-1) - k;
  Tensor square = r.narrow(-1, 0, k), wide = r.narrow(-1, k, rest);
  Tensor gr = grad_r.defined() ? grad_r : r.zeros_like();
  Tensor gr2 = gr.narrow(-1, k, rest);
  Tensor gq = plus(grad_q, q.matmul(wide).matmul(gr2.mT()));
  return cat({of_tall(gq, gr.narrow(-1, 0, k), square), q.matmul(gr2)}, -1);
}

namespace {

struct ReflectionGrads {
  Tensor packed, tau, x;
};

// Reflection k is H = I - tau v v^T with v = (0, 1, column k of `packed` below the diagonal). Of
// H_last ... H_first x, the products so far are kept and walked back.
ReflectionGrads reflections_vjp(const Tensor& grad, const Tensor& packed, const Tensor& tau,
                                const Tensor& x, bool last_first) {
  int64_t n = tau.size(-1);
  auto index = [&](int64_t step) { return last_first ? n - 1 - step : step; };
  Tensor below = packed.narrow(-1, 0, n).tril(-1);
  Tensor vectors =
      below.add(eye(packed.size(-2), SymInt(n), packed.dtype(), std::nullopt, packed.device()));
  auto vector = [&](int64_t step) { return vectors.narrow(-1, index(step), 1); };
  auto size = [&](int64_t step) { return tau.narrow(-1, index(step), 1).unsqueeze(-1); };
  auto reflected = [&](int64_t step, const Tensor& t) {
    return t.sub(size(step).mul(vector(step)).matmul(vector(step).mT().matmul(t)));
  };
  std::vector<Tensor> products = {x};
  for (int64_t i = 0; i + 1 < n; ++i) products.push_back(reflected(i, products.back()));
  std::vector<Tensor> of_vectors(static_cast<size_t>(n)), of_tau(static_cast<size_t>(n));
  Tensor g = grad;
  for (int64_t i = n; i-- > 0;) {
    const Tensor &v = vector(i), &p = products[static_cast<size_t>(i)];
    Tensor from_x = p.mT().matmul(v), from_g = g.mT().matmul(v);
    auto at = static_cast<size_t>(index(i));
    of_tau[at] = from_g.mul(from_x).sum({-2}).neg();
    of_vectors[at] = size(i).mul(g.matmul(from_x).add(p.matmul(from_g))).neg();
    g = reflected(i, g);
  }
  if (n == 0) return {packed.zeros_like(), tau.zeros_like(), g};
  Tensor columns = cat(of_vectors, -1).tril(-1);
  SymInt rest = packed.size(-1) - n;
  return {constant_pad_nd(columns, {0, rest}), cat(of_tau, -1), g};
}

}  // namespace

std::tuple<Tensor, Tensor> householder_product_vjp(const Tensor& grad, const Tensor& packed,
                                                   const Tensor& tau) {
  Tensor unit = eye(packed.size(-2), packed.size(-1), packed.dtype(), std::nullopt, packed.device())
                    .expand(packed.sizes());
  ReflectionGrads grads = reflections_vjp(grad, packed, tau, unit, true);
  return {grads.packed, grads.tau};
}

std::tuple<Tensor, Tensor, Tensor> ormqr_vjp(const Tensor& grad, const Tensor& packed,
                                             const Tensor& tau, const Tensor& other, bool left,
                                             bool transposed) {
  if (left) {
    ReflectionGrads grads = reflections_vjp(grad, packed, tau, other, !transposed);
    return {grads.packed, grads.tau, grads.x};
  }
  ReflectionGrads grads = reflections_vjp(grad.mT(), packed, tau, other.mT(), transposed);
  return {grads.packed, grads.tau, grads.x.mT()};
}

std::tuple<Tensor, Tensor> lstsq_vjp(const Tensor& grad, const Tensor& a, const Tensor& b) {
  bool vector = grad.dim() < a.dim();
  Tensor g = vector ? grad.unsqueeze(-1) : grad, right = vector ? b.unsqueeze(-1) : b;
  Tensor inverse = linalg_pinv(a, std::optional<double>(), std::optional<double>());
  Tensor gb = inverse.mT().matmul(g), ga = pinv_vjp(g.matmul(right.mT()), a, inverse);
  return {ga, vector ? gb.squeeze(-1) : gb};
}

Tensor pinv_vjp(const Tensor& grad, const Tensor& a, const Tensor& inverse) {
  // -(X dA X) and the parts of dA^T outside of the row and of the column space, transposed.
  Tensor adjoint = inverse.mT(), g = grad.mT();
  Tensor rows = g.sub(a.matmul(inverse.matmul(g))), columns = g.sub(g.matmul(inverse).matmul(a));
  Tensor inner = adjoint.matmul(grad).matmul(adjoint);
  return rows.matmul(inverse.matmul(adjoint))
      .add(adjoint.matmul(inverse).matmul(columns))
      .sub(inner);
}

Tensor eigh_vjp(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                const Tensor& vectors, const Tensor& a, std::string_view half, bool compute_v) {
  if (!compute_v) {  // only the values were asked for, but their gradient needs the vectors
    auto [again, made] = _linalg_eigh(a, half, true);
    return eigh_vjp(grad_values, grad_vectors, again, made, a, half, true);
  }
  Tensor middle;
  if (grad_vectors.defined()) {
    Tensor gaps = values.unsqueeze(-2).sub(values.unsqueeze(-1));
    Tensor own = eye(values.size(-1), Dtype::bool_, std::nullopt, values.device());
    middle = vectors.mT().matmul(grad_vectors).div(gaps.masked_fill(own, 1)).masked_fill(own, 0);
  }
  if (grad_values.defined()) middle = plus(middle, grad_values.diag_embed());
  if (!middle.defined()) return {};
  return vectors.matmul(middle).matmul(vectors.mT());
}

// The real part of x in the complex system a x = b, by a real one of twice the size.
static Tensor real_solution(const Tensor& a, const Tensor& b) {
  Tensor re = real(a), im = imag(a);
  Tensor whole = cat({cat({re, im.neg()}, -1), cat({im, re}, -1)}, -2);
  return linalg_solve(whole, cat({real(b), imag(b)}, -2)).narrow(-2, 0, a.size(-1));
}

Tensor eig_vjp(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
               const Tensor& vectors) {
  Tensor adjoint = conj_physical(vectors.mT()), middle;
  if (grad_vectors.defined()) {
    Dtype part = vectors.dtype() == Dtype::c128 ? Dtype::f64 : Dtype::f32;
    Tensor own = eye(values.size(-1), part, std::nullopt, values.device());
    Tensor gaps = conj_physical(values.unsqueeze(-2).sub(values.unsqueeze(-1))).add(own);
    Tensor moved = adjoint.matmul(grad_vectors);
    // Vectors keep the length 1.
    Tensor longer = real(moved.diagonal(0, -2, -1)).unsqueeze(-2);
    middle = moved.sub(adjoint.matmul(vectors).mul(longer)).div(gaps).mul(own.neg().add(1));
  }
  if (grad_values.defined()) middle = plus(middle, grad_values.diag_embed());
  if (!middle.defined()) return {};
  return real_solution(adjoint, middle.matmul(adjoint));
}

Tensor svd_vjp(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh,
               const Tensor& full_u, const Tensor& s, const Tensor& full_vh, const Tensor& a,
               bool full_matrices, bool compute_uv) {
  if (!compute_uv) {  // only the values were asked for, but their gradient needs the vectors
    auto [u, values, vh] = _linalg_svd(a, false, true);
    return svd_vjp(grad_u, grad_s, grad_vh, u, values, vh, a, false, true);
  }
  SymInt k = s.size(-1);
  auto columns = [&](const Tensor& t) {
    return t.defined() && full_matrices ? t.narrow(-1, 0, k) : t;
  };
  auto rows = [&](const Tensor& t) {
    return t.defined() && full_matrices ? t.narrow(-2, 0, k) : t;
  };
  Tensor u = columns(full_u), vh = rows(full_vh), gu = columns(grad_u), gvh = rows(grad_vh);
  Tensor middle, own = eye(k, Dtype::bool_, std::nullopt, s.device());
  Tensor squares = s.mul(s);
  Tensor gaps = squares.unsqueeze(-2).sub(squares.unsqueeze(-1)).masked_fill(own, 1);
  auto skew = [](const Tensor& t) { return t.sub(t.mT()); };
  if (gu.defined()) middle = skew(u.mT().matmul(gu)).div(gaps).mul(s.unsqueeze(-2));
  if (gvh.defined())
    middle = plus(middle, skew(vh.matmul(gvh.mT())).div(gaps).mul(s.unsqueeze(-1)));
  if (grad_s.defined()) middle = plus(middle, grad_s.diag_embed());
  if (!middle.defined()) return {};
  Tensor out = u.matmul(middle).matmul(vh);
  if (gu.defined() && guard_or_false(u.size(-2) > k)) {
    Tensor part = gu.div(s.unsqueeze(-2));
    out = out.add(part.sub(u.matmul(u.mT().matmul(part))).matmul(vh));
  }
  if (gvh.defined() && guard_or_false(vh.size(-1) > k)) {
    Tensor part = gvh.div(s.unsqueeze(-1));
    out = out.add(u.matmul(part.sub(part.matmul(vh.mT()).matmul(vh))));
  }
  return out;
}

}  // namespace tenon::ops
