// segment_reduce: runs of neighbouring slices, given by lengths or offsets, become one each.
//
// Model: data is [outer, length, inner] around the axis; the lengths (or offsets) are [outer,
//   segments]. A segment folds from `initial`; an empty one without it gives the neutral element
//   (NaN for mean).
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/shapes.h"

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

// ---- the derivative as ops that can be differentiated again

/// Around the axis everything is [outer, length or segments, inner]; `of` names the segment of each
/// element, `inside` is false where it has none.
struct SegmentParts {
  Tensor of, inside;
  SymInt count;

  // A value of each segment at its elements.
  Tensor at_elements(const Tensor& values) const { return where(inside, gather(values, 1, of), 0); }
  Tensor sums(const Tensor& elements) const {
    Tensor none = elements.new_zeros({elements.size(0), count, elements.size(2)});
    return scatter_add(none, 1, of, where(inside, elements, 0));
  }
};

SegmentParts segment_parts(const Tensor& data, const Tensor& lengths, const Tensor& offsets) {
  SymInt outer = data.size(0), length = data.size(1);
  Tensor cuts = reshape(to(given(lengths, offsets), Dtype::i64), {outer, -1});
  Tensor ends = lengths.defined() ? cumsum(cuts, 1) : narrow(cuts, 1, 1, cuts.size(1) - 1);
  Tensor numbers = arange(Number(length), std::nullopt, std::nullopt, data.device());
  Tensor places = contiguous(expand(numbers, {outer, length}));
  Tensor of = searchsorted(contiguous(ends), places, false, true);
  Tensor inside = lt(of, Number(ends.size(1)));
  if (!lengths.defined()) inside = logical_and(inside, ge(places, narrow(cuts, 1, 0, 1)));
  auto spread = [&](const Tensor& t) { return expand(unsqueeze(t, 2), data.sizes()); };
  return {spread(clamp(of, 0, Number(ends.size(1) - 1))), spread(inside), ends.size(1)};
}

// What each element changes its segment by: for products that of the others.
Tensor product_slope(const SegmentParts& s, const Tensor& data, const Tensor& output,
                     double initial) {
  Tensor zero = eq(data, 0), kept = masked_fill(data, zero, 1);
  Tensor alone = eq(s.at_elements(s.sums(to(zero, data.dtype()))), 1);
  Tensor logs = s.sums(log(abs(kept))), flips = s.sums(to(lt(kept, 0), data.dtype()));
  Tensor others = mul(exp(logs), rsub(mul(fmod(flips, 2), 2), 1));
  return where(zero, where(alone, mul(s.at_elements(others), initial), 0),
               div(s.at_elements(output), kept));
}

Tensor segment_slope(const SegmentParts& s, const Tensor& data, const Tensor& output, Fold fold,
                     double initial) {
  if (fold == Fold::sum) return ones_like(data);
  if (fold == Fold::prod) return product_slope(s, data, output, initial);
  Tensor counted = ones_like(data);
  if (fold != Fold::mean)
    counted = to(logical_or(eq(data, s.at_elements(output)), isnan(data)), data.dtype());
  return div(counted, clamp_min(s.at_elements(s.sums(counted)), 1));
}

Tensor segment_backward_parts(const Tensor& grad, const Tensor& output, const Tensor& data,
                              std::string_view reduce, const Tensor& lengths, const Tensor& offsets,
                              int64_t axis, std::optional<Number> initial) {
  if (guard_or_false(data.numel() == 0) || guard_or_false(grad.numel() == 0))
    return data.new_zeros(data.sizes());
  auto at = static_cast<size_t>(wrap_dim(axis, data.dim()));
  SymInt outer = product(SymIntList(data.sizes().data(), at)),
         inner = product(SymIntList(data.sizes().data() + at + 1, data.sizes().size() - at - 1));
  auto around = [&](const Tensor& t) { return reshape(t, {outer, t.sizes()[at], inner}); };
  Tensor in = around(data), g = around(grad);
  SegmentParts s = segment_parts(in, lengths, offsets);
  Tensor slope =
      segment_slope(s, in, around(output), fold_of(reduce), initial ? initial->to_double() : 1.0);
  return reshape(where(s.inside, mul(s.at_elements(g), slope), 0), data.sizes());
}

}  // namespace

static constexpr OpDef reduce_segment_rows[] = {
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
     .core = true,
     .meta = fn<segment_backward_meta>,
     .eager = fn<segment_backward_kernel>,
     .decomp = fn<segment_backward_parts>},
};

extern constinit const OpFamily op_family_reduce_segment{reduce_segment_rows};

}  // namespace tenon::ops
