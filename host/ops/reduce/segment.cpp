// segment_reduce: runs of neighbouring slices, given by lengths or offsets, become one each.
//
// Model: data is [outer, length, inner] around the axis; the lengths (or offsets) are [outer,
//   segments]. A segment folds from `initial`; an empty one without it gives the neutral element
//   (NaN for mean).
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

enum class Fold { sum, mean, max, min, prod };

Fold fold_of(std::string_view name) {
  constexpr std::pair<std::string_view, Fold> names[] = {{"sum", Fold::sum},
                                                         {"mean", Fold::mean},
                                                         {"max", Fold::max},
                                                         {"min", Fold::min},
                                                         {"prod", Fold::prod}};
  for (auto [text, fold] : names)
    if (text == name) return fold;
  fail("segment_reduce: reduce must be sum, mean, max, min or prod, found '{}'", name);
}

struct Segments {
  int64_t outer = 1, length = 1, inner = 1, count = 0;
  std::vector<int64_t> ends;  // [outer, count + 1]: begins and ends within the axis
  int64_t begin(int64_t o, int64_t s) const {
    return ends[static_cast<size_t>(o * (count + 1) + s)];
  }
};

const Tensor& given(const Tensor& lengths, const Tensor& offsets) {
  require(lengths.defined() || offsets.defined(),
          "segment_reduce: lengths or offsets must be given");
  return lengths.defined() ? lengths : offsets;
}

Segments segments_of(const Tensor& data, const Tensor& lengths, const Tensor& offsets,
                     int64_t axis) {
  Segments s;
  auto at = static_cast<size_t>(wrap_dim(axis, data.dim()));
  IntList sizes = sizes_of(data);
  for (size_t d = 0; d < sizes.size(); ++d)
    (d < at ? s.outer : d == at ? s.length : s.inner) *= sizes[d];
  Tensor cuts = contiguous_of(converted(given(lengths, offsets), Dtype::i64));
  const int64_t* from = data_of<int64_t>(cuts);
  s.count = sizes_of(cuts).back() - (lengths.defined() ? 0 : 1);
  for (int64_t o = 0; o < s.outer; ++o) {
    if (lengths.defined()) s.ends.push_back(0);
    int64_t last = 0;
    for (int64_t i = 0; i < sizes_of(cuts).back(); ++i, ++from) {
      bool fits = *from >= (lengths.defined() ? 0 : last) &&
                  *from <= s.length - (lengths.defined() ? last : 0);
      require(fits, "segment_reduce: {} {} does not fit behind {} along an axis of size {}",
              lengths.defined() ? "length" : "offset", *from, last, s.length);
      last = *from + (lengths.defined() ? last : 0);
      s.ends.push_back(last);
    }
  }
  return s;
}

TensorMeta segment_meta(const Tensor& data, std::string_view reduce, const Tensor& lengths,
                        const Tensor&, const Tensor& offsets, int64_t axis, bool,
                        std::optional<Number>) {
  fold_of(reduce);
  require(is_floating(data.dtype()), "segment_reduce: a floating dtype is expected, found {}",
          data.dtype());
  Dims sizes = dims_of(data.sizes());
  auto at = static_cast<size_t>(wrap_dim(axis, data.dim()));
  const Tensor& where = given(lengths, offsets);
  bool fits = data.dim() > 0 && where.sizes().size() == at + 1 &&
              (lengths.defined() || bool(where.size(-1) >= 1));
  for (size_t d = 0; fits && d < at; ++d) fits = sizes_match(where.sizes()[d], sizes[d]);
  require(fits,
          "segment_reduce: lengths or offsets for each position before axis {} of shape {} are "
          "expected, found shape {}",
          axis, data.sizes(), where.sizes());
  SymInt cuts = where.size(-1);
  sizes[at] = lengths.defined() ? cuts : cuts - 1;
  return contiguous_meta(list_of(sizes), data.dtype(), data.device());
}

double neutral(Fold fold) {
  switch (fold) {
    case Fold::max:
      return -std::numeric_limits<double>::infinity();
    case Fold::min:
      return std::numeric_limits<double>::infinity();
    case Fold::prod:
      return 1;
    default:
      return 0;
  }
}

double folded(Fold fold, double state, double x) {
  switch (fold) {
    case Fold::max:
      return x > state || std::isnan(x) ? x : state;
    case Fold::min:
      return x < state || std::isnan(x) ? x : state;
    case Fold::prod:
      return state * x;
    default:
      return state + x;
  }
}

void segment_kernel(Tensor& out, const Tensor& data, std::string_view reduce, const Tensor& lengths,
                    const Tensor&, const Tensor& offsets, int64_t axis, bool,
                    std::optional<Number> initial) {
  Fold fold = fold_of(reduce);
  Segments s = segments_of(data, lengths, offsets, axis);
  Tensor in = contiguous_of(converted(data, Dtype::f64)),
         results = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  double start = initial ? initial->to_double() : neutral(fold);
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.count; ++i)
      for (int64_t c = 0; c < s.inner; ++c) {
        int64_t from = s.begin(o, i), to = s.begin(o, i + 1);
        double state = start;
        for (int64_t k = from; k < to; ++k)
          state = folded(fold, state, data_of<double>(in)[(o * s.length + k) * s.inner + c]);
        if (fold == Fold::mean && from == to && !initial)
          state = std::numeric_limits<double>::quiet_NaN();
        if (fold == Fold::mean && from < to) state /= static_cast<double>(to - from);
        data_of<double>(results)[(o * s.count + i) * s.inner + c] = state;
      }
  copy_elements(out, results);
}

// ---- the derivative

TensorMeta segment_backward_meta(const Tensor& grad, const Tensor& output, const Tensor& data,
                                 std::string_view reduce, const Tensor& lengths,
                                 const Tensor& offsets, int64_t axis,
                                 std::optional<Number> initial) {
  TensorMeta forward = segment_meta(data, reduce, lengths, Tensor(), offsets, axis, false, initial);
  require_shape("_segment_reduce_backward", "grad", grad, list_of(forward.sizes));
  require_shape("_segment_reduce_backward", "output", output, list_of(forward.sizes));
  return contiguous_meta(data.sizes(), data.dtype(), data.device());
}

// One column of a segment: its elements lie `step` apart.
struct Column {
  const double* data;
  double* to;
  int64_t n, step;
  double grad, result, initial;
};

// Elements that are the extreme share the gradient.
void extreme_column(const Column& c) {
  auto is_extreme = [&](double x) { return x == c.result || std::isnan(x); };
  double count = 0;
  for (int64_t k = 0; k < c.n; ++k) count += is_extreme(c.data[k * c.step]);
  for (int64_t k = 0; k < c.n; ++k)
    if (is_extreme(c.data[k * c.step])) c.to[k * c.step] = c.grad / count;
}

// The product of the others.
void product_column(const Column& c) {
  for (int64_t k = 0; k < c.n; ++k) {
    double x = c.data[k * c.step], others = c.initial;
    if (x != 0 && !std::isnan(x)) {
      c.to[k * c.step] = c.grad * c.result / x;
      continue;
    }
    for (int64_t j = 0; j < c.n; ++j)
      if (j != k) others *= c.data[j * c.step];
    c.to[k * c.step] = c.grad * others;
  }
}

void segment_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& output,
                             const Tensor& data, std::string_view reduce, const Tensor& lengths,
                             const Tensor& offsets, int64_t axis, std::optional<Number> initial) {
  Fold fold = fold_of(reduce);
  Segments s = segments_of(data, lengths, offsets, axis);
  auto dense = [](const Tensor& t) { return contiguous_of(converted(t, Dtype::f64)); };
  Tensor g = dense(grad), results = dense(output), in = dense(data),
         sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.count; ++i)
      for (int64_t c = 0; c < s.inner; ++c) {
        int64_t from = s.begin(o, i), n = s.begin(o, i + 1) - from,
                first = (o * s.length + from) * s.inner + c, at = (o * s.count + i) * s.inner + c;
        Column column{data_of<double>(in) + first,
                      data_of<double>(sums) + first,
                      n,
                      s.inner,
                      data_of<double>(g)[at],
                      data_of<double>(results)[at],
                      initial ? initial->to_double() : 1.0};
        if (fold == Fold::max || fold == Fold::min)
          extreme_column(column);
        else if (fold == Fold::prod)
          product_column(column);
        else
          for (int64_t k = 0; k < n; ++k)
            column.to[k * s.inner] =
                fold == Fold::mean ? column.grad / static_cast<double>(n) : column.grad;
      }
  copy_elements(out, sums);
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? "
               "indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? "
               "initial=None) -> Tensor",
     .tags = OpTags::reduction,
     .meta = fn<segment_meta>,
     .eager = fn<segment_kernel>,
     .vjp = {{"data", "grad, result, data, reduce, lengths, offsets, axis, initial",
              [](const Tensor& g, const Tensor& y, const Tensor& data, std::string_view reduce,
                 const Tensor& lengths, const Tensor& offsets, int64_t axis,
                 std::optional<Number> initial) {
                return _segment_reduce_backward(g.contiguous(), y.contiguous(), data.contiguous(),
                                                reduce, lengths, offsets, axis, initial);
              }}}},
    {.schema = "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, "
               "Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> "
               "Tensor",
     .meta = fn<segment_backward_meta>,
     .eager = fn<segment_backward_kernel>},
};

extern constinit const OpFamily op_family_reduce_segment{rows};

}  // namespace tenon::ops
