// Distances between vectors: cosine_similarity, pairwise_distance, dist, and all pairs of two sets
// (cdist) or of one (pdist).
#include "core/kernels/level_table.h"
#include "core/kernels/pointwise_loop.h"
#include "core/scalar/scalar_constant.h"
#include "core/sym/sym_int.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <cmath>

namespace tenon::ops {

namespace {

// Each vector is divided by its own length, of which eps is the least.
Tensor cosine_similarity_decomp(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  Dtype dtype = promote_types(x1.dtype(), x2.dtype());
  std::vector<Tensor> both = broadcast_tensors(std::vector<Tensor>{to(x1, dtype), to(x2, dtype)});
  Tensor left = div(both[0], clamp_min(linalg_vector_norm(both[0], 2, {dim}, true), eps));
  Tensor right = div(both[1], clamp_min(linalg_vector_norm(both[1], 2, {dim}, true), eps));
  return sum(mul(left, right), {dim});
}

Tensor pairwise_distance_decomp(const Tensor& x1, const Tensor& x2, double p, double eps,
                                bool keepdim) {
  return linalg_vector_norm(add(sub(x1, x2), eps), p, {-1}, keepdim);
}

// ---- all pairs

double distance(const double* a, const double* b, int64_t n, double p) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    double d = std::fabs(a[i] - b[i]);
    if (p == 2)
      sum += d * d;
    else if (p == 1)
      sum += d;
    else if (p == 0)
      sum += d != 0;
    else if (std::isinf(p))
      sum = d > sum || d != d ? d : sum;
    else
      sum += std::pow(d, p);
  }
  if (p == 2) return std::sqrt(sum);
  return p == 0 || p == 1 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

// Rounded as the distance was, so that the largest difference is equal to it.
double difference(double a, double b, Dtype dtype) {
  return dtype == Dtype::f64 ? a - b : static_cast<double>(static_cast<float>(a - b));
}

// What the distance `dist` changes by per change of the difference `diff`.
double slope(double diff, double dist, double p) {
  if (dist == 0 || diff == 0 || p == 0) return 0;
  double sign = diff > 0 ? 1 : -1, size = std::fabs(diff);
  if (p == 1) return sign;
  if (std::isinf(p)) return size == dist ? sign : 0;
  if (p == 2) return diff / dist;
  return sign * std::pow(size / dist, p - 1);
}

struct Pairs {
  Tensor x1, x2;  // [batch, n, width], row-major
  int64_t batch, n1, n2, width;
};

// Batch dimensions broadcast to those of the result; in f64 unless said otherwise.
Pairs pairs_of(const Tensor& x1, const Tensor& x2, Dtype dtype = Dtype::f64) {
  Dims batch = broadcast_sizes(sizes_before(x1, 2), sizes_before(x2, 2));
  auto spread = [&](const Tensor& t) {
    Dims sizes = batch;
    sizes.push_back(t.size(-2));
    sizes.push_back(t.size(-1));
    return contiguous_of(converted(expand(t, list_of(sizes)), dtype));
  };
  return {spread(x1), spread(x2), product(list_of(batch)), x1.size(-2), x2.size(-2), x1.size(-1)};
}

// ---- orders 1 and 2, by the vector kernel: one vector against the columns of the others

template <class C>
void distances_from(const C* a, const C* columns, int64_t stride, int64_t width, int64_t n,
                    bool squares, C* out) {
  kernels::row_level<C>().differences(a, columns, stride, width, n, squares, out);
  if (!squares) return;
  const BlockFn root =
      block_kernels()
          .primitive[static_cast<int>(ScalarCode::sqrt)][static_cast<int>(block_type(dtype_of<C>))];
  for (int64_t i = 0; i < n; i += block_size) {
    const void* operands[] = {out + i};
    root(out + i, operands, std::min(block_size, n - i), 0);
  }
}

template <class C>
void cdist_by_columns(Tensor& out, const Tensor& x1, const Tensor& x2, bool squares) {
  Pairs s = pairs_of(x1, x2, dtype_of<C>);
  Tensor columns =
      contiguous_of(transpose(view(s.x2, {SymInt(s.batch), SymInt(s.n2), SymInt(s.width)}), 1, 2));
  bool direct = out.dtype() == dtype_of<C>;
  Tensor found = direct ? out : make_tensor(contiguous_meta(out.sizes(), dtype_of<C>));
  parallel_for(0, s.batch * s.n1, 16, [&](int64_t lo, int64_t hi) {
    for (int64_t r = lo; r < hi; ++r)
      distances_from(data_of<C>(s.x1) + r * s.width,
                     data_of<C>(columns) + r / s.n1 * s.n2 * s.width, s.n2, s.width, s.n2, squares,
                     data_of<C>(found) + r * s.n2);
  });
  if (!direct) copy_elements(out, found);
}

template <class C>
void pdist_by_columns(Tensor& out, const Tensor& self, bool squares) {
  Tensor x = converted(self, dtype_of<C>), columns = contiguous_of(transpose(x, 0, 1));
  Tensor found = make_tensor(contiguous_meta(out.sizes(), dtype_of<C>));
  int64_t n = sizes_of(x)[0], width = sizes_of(x)[1];
  C* to = data_of<C>(found);
  for (int64_t i = 0; i + 1 < n; to += n - 1 - i, ++i)
    distances_from(data_of<C>(x) + i * width, data_of<C>(columns) + i + 1, n, width, n - 1 - i,
                   squares, to);
  copy_elements(out, found);
}

TensorMeta cdist_meta(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>) {
  require(x1.dim() >= 2 && x2.dim() >= 2 && sizes_match(x1.size(-1), x2.size(-1)),
          "cdist: two sets of vectors of one length are expected, found shapes {} and {}",
          x1.sizes(), x2.sizes());
  require(x1.dtype() == x2.dtype() && is_floating(x1.dtype()),
          "cdist: one floating dtype is expected, found {} and {}", x1.dtype(), x2.dtype());
  require(p >= 0, "cdist: p must not be negative, found {}", p);
  Dims sizes = broadcast_sizes(sizes_before(x1, 2), sizes_before(x2, 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return contiguous_meta(list_of(sizes), x1.dtype(), x1.device());
}

void cdist_kernel(Tensor& out, const Tensor& x1, const Tensor& x2, double p,
                  std::optional<int64_t>) {
  if (numel_of(out) == 0) return;
  if (p == 1 || p == 2)
    return (out.dtype() == Dtype::f64 ? cdist_by_columns<double>
                                      : cdist_by_columns<float>)(out, x1, x2, p == 2);
  Pairs s = pairs_of(x1, x2);
  Tensor found = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  parallel_for(0, s.batch * s.n1, 64, [&](int64_t lo, int64_t hi) {
    for (int64_t r = lo; r < hi; ++r)
      for (int64_t j = 0; j < s.n2; ++j)
        data_of<double>(found)[r * s.n2 + j] =
            distance(data_of<double>(s.x1) + r * s.width,
                     data_of<double>(s.x2) + (r / s.n1 * s.n2 + j) * s.width, s.width, p);
  });
  copy_elements(out, found);
}

// As in ATen the result has all batch dimensions, but the shape of x1 where there is nothing.
TensorMeta cdist_backward_meta(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p,
                               const Tensor& cdist) {
  TensorMeta forward = cdist_meta(x1, x2, p, std::nullopt);
  require_shape("_cdist_backward", "grad", grad, list_of(forward.sizes));
  require_shape("_cdist_backward", "cdist", cdist, list_of(forward.sizes));
  if (guard_or_false(grad.numel() == 0))
    return contiguous_meta(x1.sizes(), x1.dtype(), x1.device());
  Dims sizes = dims_of(grad.sizes());
  sizes[sizes.size() - 1] = x1.size(-1);
  return contiguous_meta(list_of(sizes), x1.dtype(), x1.device());
}

// The gradient of order 2: for each vector of x1 the sum over those of x2 of g (a - b) / distance.
void sum_directions(const Pairs& s, const Tensor& g, const Tensor& d, double* sums) {
  parallel_for(0, s.batch * s.n1, 4, [&](int64_t lo, int64_t hi) {
    std::vector<double> weights(static_cast<size_t>(s.n2));
    std::vector<const double*> vectors(weights.size());
    for (int64_t r = lo; r < hi; ++r) {
      double all = 0;
      for (size_t j = 0; j < weights.size(); ++j) {
        size_t at = static_cast<size_t>(r * s.n2) + j;
        double length = data_of<double>(d)[at];
        double weight = length == 0 ? 0 : data_of<double>(g)[at] / length;
        all += weight;
        weights[j] = -weight;
        vectors[j] = data_of<double>(s.x2) + (r / s.n1 * s.n2 + static_cast<int64_t>(j)) * s.width;
      }
      double* to = sums + r * s.width;
      kernels::row_level<double>().weighted_sum(to, s.width, vectors.data(), weights.data(), s.n2,
                                                0);
      for (int64_t k = 0; k < s.width; ++k) to[k] += all * data_of<double>(s.x1)[r * s.width + k];
    }
  });
}

void cdist_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& x1, const Tensor& x2,
                           double p, const Tensor& cdist) {
  if (numel_of(grad) == 0) return fill_elements(out, 0);
  Pairs s = pairs_of(x1, x2);
  Tensor g = contiguous_of(converted(grad, Dtype::f64)),
         d = contiguous_of(converted(cdist, Dtype::f64));
  Tensor sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  // In double the difference of the sums is as good as the sum of the differences of floats.
  if (p == 2 && x1.dtype() != Dtype::f64) sum_directions(s, g, d, data_of<double>(sums));
  bool is_done = p == 2 && x1.dtype() != Dtype::f64;
  for (int64_t r = 0; r < (is_done ? 0 : s.batch * s.n1); ++r)
    for (int64_t j = 0; j < s.n2; ++j) {
      const double* a = data_of<double>(s.x1) + r * s.width;
      const double* b = data_of<double>(s.x2) + (r / s.n1 * s.n2 + j) * s.width;
      int64_t at = r * s.n2 + j;
      for (int64_t k = 0; k < s.width; ++k)
        data_of<double>(sums)[r * s.width + k] +=
            data_of<double>(g)[at] *
            slope(difference(a[k], b[k], x1.dtype()), data_of<double>(d)[at], p);
    }
  copy_elements(out, sums);
}

// ---- pairs within one set, i < j

// Calls f(number of the pair, i, j).
template <class F>
void for_each_pair(int64_t n, const F& f) {
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) f(at++, i, j);
}

TensorMeta pdist_meta(const Tensor& self, double p) {
  require(self.dim() == 2 && is_floating(self.dtype()),
          "pdist: a floating matrix is expected, found {} of shape {}", self.dtype(), self.sizes());
  require(p >= 0, "pdist: p must not be negative, found {}", p);
  SymInt n = self.size(0);
  return contiguous_meta({n * (n - 1) / 2}, self.dtype(), self.device());
}

void pdist_kernel(Tensor& out, const Tensor& self, double p) {
  if (p == 1 || p == 2)
    return (out.dtype() == Dtype::f64 ? pdist_by_columns<double>
                                      : pdist_by_columns<float>)(out, self, p == 2);
  Tensor x = contiguous_of(converted(self, Dtype::f64));
  Tensor found = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  int64_t width = sizes_of(x)[1];
  const double* rows = data_of<double>(x);
  for_each_pair(sizes_of(x)[0], [&](int64_t at, int64_t i, int64_t j) {
    data_of<double>(found)[at] = distance(rows + i * width, rows + j * width, width, p);
  });
  copy_elements(out, found);
}

TensorMeta pdist_backward_meta(const Tensor& grad, const Tensor& self, double p,
                               const Tensor& pdist) {
  TensorMeta pairs = pdist_meta(self, p);
  require_shape("_pdist_backward", "grad", grad, list_of(pairs.sizes));
  require_shape("_pdist_backward", "pdist", pdist, list_of(pairs.sizes));
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

void pdist_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& self, double p,
                           const Tensor& pdist) {
  Tensor x = contiguous_of(converted(self, Dtype::f64)),
         g = contiguous_of(converted(grad, Dtype::f64)),
         d = contiguous_of(converted(pdist, Dtype::f64));
  Tensor sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  int64_t width = sizes_of(x)[1];
  const double* rows = data_of<double>(x);
  double* to = data_of<double>(sums);
  for_each_pair(sizes_of(x)[0], [&](int64_t at, int64_t i, int64_t j) {
    for (int64_t k = 0; k < width; ++k) {
      double apart = difference(rows[i * width + k], rows[j * width + k], self.dtype());
      double change = data_of<double>(g)[at] * slope(apart, data_of<double>(d)[at], p);
      to[i * width + k] += change;
      to[j * width + k] -= change;
    }
  });
  copy_elements(out, sums);
}

// ---- the derivatives as ops that can be differentiated again

// Each difference that has a slope: what the distance changes by per change of it, else 0.
Tensor slope_parts(const Tensor& diff, const Tensor& dist, double p) {
  if (p == 0) return zeros_like(diff);
  Tensor none = eq(dist, 0), direction = sign(diff);
  if (p == 1) return masked_fill(direction, none, 0);
  if (std::isinf(p)) return mul(direction, to(eq(abs(diff), dist), diff.dtype()));
  Tensor length = masked_fill(dist, none, 1);
  if (p == 2) return masked_fill(div(diff, length), none, 0);
  Tensor still = eq(diff, 0), ratio = div(masked_fill(abs(diff), still, 1), length);
  return masked_fill(mul(direction, pow(ratio, p - 1)), logical_or(none, still), 0);
}

Tensor cdist_backward_parts(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p,
                            const Tensor& cdist) {
  if (guard_or_false(grad.numel() == 0)) return x1.new_zeros(x1.sizes());
  Tensor diff = sub(unsqueeze(x1, -2), unsqueeze(x2, -3));
  Tensor slope = slope_parts(diff, unsqueeze(cdist, -1), p);
  return sum(mul(unsqueeze(grad, -1), slope), {-2});
}

// Row 0 the first, row 1 the second of each pair.
Tensor pairs_below(const Tensor& self) {
  int64_t n = self.size(0).guard_int();
  return triu_indices(n, n, 1, Dtype::i64, std::nullopt, self.device());
}

Tensor pdist_backward_parts(const Tensor& grad, const Tensor& self, double p, const Tensor& pdist) {
  Tensor pairs = pairs_below(self), first = select(pairs, 0, 0), second = select(pairs, 0, 1);
  Tensor diff = sub(index_select(self, 0, first), index_select(self, 0, second));
  Tensor change = mul(unsqueeze(grad, -1), slope_parts(diff, unsqueeze(pdist, -1), p));
  Tensor sums = index_add(self.new_zeros(self.sizes()), 0, first, change);
  return index_add(sums, 0, second, change, -1);
}

}  // namespace

static constexpr OpDef linalg_distance_rows[] = {
    {.schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
     .decomp = fn<cosine_similarity_decomp>},
    {.schema =
         "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
         "bool keepdim=False) -> Tensor",
     .decomp = fn<pairwise_distance_decomp>},
    {.schema = "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
     .decomp = [](const Tensor& self, const Tensor& other,
                  Number p) { return linalg_vector_norm(sub(self, other), p); }},
    {.schema = "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
     .core = true,
     .meta = fn<cdist_meta>,
     .eager = fn<cdist_kernel>,
     .vjp = {{"x1", "grad, x1, x2, p, result",
              [](const Tensor& g, const Tensor& a, const Tensor& b, double p, const Tensor& d) {
                return _cdist_backward(g.contiguous(), a, b, p, d);
              }},
             {"x2", "grad, x1, x2, p, result",
              [](const Tensor& g, const Tensor& a, const Tensor& b, double p, const Tensor& d) {
                return _cdist_backward(g.mT().contiguous(), b, a, p, d.mT().contiguous());
              }}}},
    {.schema =
         "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
     .core = true,
     .meta = fn<cdist_backward_meta>,
     .eager = fn<cdist_backward_kernel>,
     .decomp = fn<cdist_backward_parts>},
    {.schema = "cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
     .decomp = [](const Tensor& x1, const Tensor& x2, double p,
                  std::optional<int64_t> mode) { return _cdist_forward(x1, x2, p, mode); },
     .autocast = Autocast::fp32},
    {.schema = "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
     .decomp = [](const Tensor& x1, const Tensor& x2) { return _cdist_forward(x1, x2, 2.0, 0); }},
    {.schema = "_pdist_forward(Tensor self, float p=2.) -> Tensor",
     .core = true,
     .meta = fn<pdist_meta>,
     .eager = fn<pdist_kernel>,
     .vjp = {{"self", "grad, self, p, result",
              [](const Tensor& g, const Tensor& x, double p, const Tensor& d) {
                return _pdist_backward(g, x, p, d);
              }}}},
    {.schema = "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
     .core = true,
     .meta = fn<pdist_backward_meta>,
     .eager = fn<pdist_backward_kernel>,
     .decomp = fn<pdist_backward_parts>},
    {.schema = "pdist(Tensor self, float p=2.) -> Tensor",
     .decomp = [](const Tensor& self, double p) { return _pdist_forward(self, p); }},
};

extern constinit const OpFamily op_family_linalg_distance{linalg_distance_rows};

}  // namespace tenon::ops
