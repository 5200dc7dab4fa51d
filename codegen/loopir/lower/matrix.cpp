// Products and convolutions for the routines that serve them, and what the host runs.
#include "loopir/lower/convolutions.h"
#include "loopir/storage.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

namespace {

bool is_plain_product(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && is_floating(a.dtype) && a.ndim() == b.ndim();
}

/// The tensor as an operand of a product.
Tensor multiplied(Lowering& to, const Tensor& t) {
  bool is_taken = (t.dtype == TN_BF16 && to.options.multiplies_bf16) ||
                  (t.dtype == TN_F16 && to.options.multiplies_f16);
  return is_taken ? t : widened(to, t);
}

/// left x right as a fold, summed in `dtype`.
Tensor folded_product(Lowering& to, const node& n, const Tensor& left, const Tensor& right,
                      int32_t dtype) {
  Expressions& x = to.x;
  Ids sizes = left.sizes;
  sizes.back() = right.sizes.back();
  std::string name = to.name_of(n.first_result);
  return to.folded(Fold::sum, dtype, sizes, {left.sizes.back()}, name.c_str(),
                   [&](std::span<const Id> i, std::span<const Id> k) {
                     Ids of_left(i.begin(), i.end()), of_right(i.begin(), i.end());
                     of_left.back() = k[0];
                     of_right[i.size() - 2] = k[0];
                     return x.apply(TN_F_MUL, dtype, x.cast(to.at(left, of_left), dtype),
                                    x.cast(to.at(right, of_right), dtype));
                   });
}

/// left x right [+ bias] where one of them is a vector: the other is read once, as it lies. A product
/// would be a vector of columns wide, or would first rearrange what it reads.
Tensor product_with_vector(Lowering& to, const node& n, const Tensor& left, const Tensor& right,
                           const Tensor* bias, double alpha, int32_t dtype) {
  Expressions& x = to.x;
  bool is_column = x.is(right.sizes.back(), 1);
  std::string name = to.name_of(n.first_result);
  // The vector is read again and again.
  Tensor sums =
      folded_product(to, n, is_column ? left : to.cheap(left, name.c_str()),
                     is_column ? to.cheap(right, name.c_str()) : right, compute_type(left.dtype));
  return to.make(dtype, sums.sizes, [&](std::span<const Id> i) {
    Id value = to.at(sums, i);
    if (alpha != 1) value = x.apply(TN_F_MUL, sums.dtype, value, x.number(alpha, sums.dtype));
    if (bias)
      value = x.apply(TN_F_ADD, sums.dtype, value,
                      x.cast(to.broadcast_at(*bias, i, sums.sizes), sums.dtype));
    return x.cast(value, dtype);
  });
}

/// Whether one row meets a matrix that is no parameter, which would be packed once.
bool is_row_by_stream(Lowering& to, const Tensor& left, const Tensor& right) {
  if (!to.x.is(left.sizes[left.ndim() - 2], 1)) return false;
  auto view = to.as_view(right);
  return view && !to.is_parameter(view->buffer);
}

/// left x right [+ bias], in `dtype`; a new buffer where a library makes it.
Tensor product(Lowering& to, const node& n, const Tensor& left, const Tensor& right,
               const Tensor* bias, double alpha, int32_t dtype) {
  if (to.x.is(right.sizes.back(), 1) || is_row_by_stream(to, left, right))
    return product_with_vector(to, n, left, right, bias, alpha, dtype);
  std::string name = to.name_of(n.first_result);
  Ids sizes = to.sizes_of(n.first_result);
  Product p;
  p.name = name;
  p.alpha = alpha;
  p.left = to.view_of(left, name.c_str());
  p.right = to.view_of(right, name.c_str());
  if (bias) p.bias = to.view_of(*bias, name.c_str());
  Id buffer = to.new_buffer(dtype, sizes, to.contiguous(sizes), name.c_str());
  p.result = to.whole(buffer);
  to.program.steps.push_back(std::move(p));
  return to.over(buffer);
}

/// Whether a fold is faster than the host, whose products are cut for the caches: the right side
/// stays in the second-level cache.
bool is_integer_product(Lowering& to, const Tensor& a, const Tensor& b) {
  constexpr int64_t near = 1 << 20;  // bytes
  size_t rank = b.ndim();
  return a.dtype == b.dtype && a.dtype >= TN_U8 && a.dtype <= TN_I64 && a.ndim() == rank &&
         to.x.hint(b.sizes[rank - 2]) * to.x.hint(b.sizes[rank - 1]) * item_size(b.dtype) <= near;
}

/// left x right of integers. Sums wrap around, so those of narrow ones may be in i32.
Tensor integer_product(Lowering& to, const node& n, const Tensor& left, const Tensor& right) {
  return folded_product(to, n, left, right, left.dtype == TN_I64 ? TN_I64 : TN_I32);
}

bool multiply(Lowering& to, const node& n) {
  const Tensor a = to.tensor_arg(n.args[0]), b = to.tensor_arg(n.args[1]);
  if (is_integer_product(to, a, b)) {
    give(to, n.first_result, integer_product(to, n, a, b));
    return true;
  }
  if (!is_plain_product(a, b)) return false;
  if (is_row_by_stream(to, a, b)) {
    give(to, n.first_result, product_with_vector(to, n, a, b, nullptr, 1, compute_type(a.dtype)));
    return true;
  }
  const Tensor left = multiplied(to, a), right = multiplied(to, b);
  give(to, n.first_result, product(to, n, left, right, nullptr, 1, left.dtype));
  return true;
}

// beta * added + alpha * (a x b)
bool multiply_add_integers(Lowering& to, const node& n) {
  const Tensor a = to.tensor_arg(n.args[1]), b = to.tensor_arg(n.args[2]);
  const Tensor added = to.tensor_arg(n.args[0]);
  if (n.args[3].kind == TN_ARG_FLOAT || n.args[4].kind == TN_ARG_FLOAT) return false;
  Expressions& x = to.x;
  Tensor made = integer_product(to, n, a, b);
  int32_t dtype = made.dtype;
  auto times = [&](Id value, int64_t factor) {
    return factor == 1 ? value : x.apply(TN_F_MUL, dtype, value, x.number(factor, dtype));
  };
  int64_t beta = int_arg(n.args[3]), alpha = int_arg(n.args[4]);
  give(to, n.first_result, to.make(dtype, made.sizes, [&](std::span<const Id> i) {
    Id product = times(to.at(made, i), alpha);
    if (beta == 0) return product;
    Id more = times(x.cast(to.broadcast_at(added, i, made.sizes), dtype), beta);
    return x.apply(TN_F_ADD, dtype, product, more);
  }));
  return true;
}

// beta * added + alpha * (a x b)
bool multiply_add(Lowering& to, const node& n) {
  if (is_integer_product(to, to.tensor_arg(n.args[1]), to.tensor_arg(n.args[2])) &&
      to.tensor_arg(n.args[0]).dtype == to.tensor_arg(n.args[1]).dtype)
    return multiply_add_integers(to, n);
  if (!is_plain_product(to.tensor_arg(n.args[1]), to.tensor_arg(n.args[2])) ||
      to.tensor_arg(n.args[0]).dtype != to.tensor_arg(n.args[1]).dtype)
    return false;
  const Tensor added = to.tensor_arg(n.args[0]);
  bool is_stream = is_row_by_stream(to, to.tensor_arg(n.args[1]), to.tensor_arg(n.args[2]));
  auto operand = [&](size_t i) {
    return is_stream ? to.tensor_arg(n.args[i]) : multiplied(to, to.tensor_arg(n.args[i]));
  };
  const Tensor a = operand(1), b = operand(2);
  double beta = number_arg(n.args[3]), alpha = number_arg(n.args[4]);
  bool is_bias =
      added.ndim() == 1 && a.ndim() == 2 && beta == 1 && alpha == 1 && added.sizes[0] == b.sizes[1];
  if (is_bias) {
    const Tensor bias =
        to.options.narrow_bias && added.dtype == a.dtype ? added : widened(to, added);
    give(to, n.first_result, product(to, n, a, b, &bias, 1, a.dtype));
    return true;
  }
  int32_t dtype = compute_type(added.dtype);
  Tensor made = product(to, n, a, b, nullptr, alpha, dtype);
  Expressions& x = to.x;
  give(to, n.first_result, to.make(dtype, made.sizes, [&](std::span<const Id> i) {
    if (beta == 0) return to.at(made, i);
    Id more = x.cast(to.broadcast_at(added, i, made.sizes), dtype);
    if (beta != 1) more = x.apply(TN_F_MUL, dtype, more, x.number(beta, dtype));
    return x.apply(TN_F_ADD, dtype, to.at(made, i), more);
  }));
  return true;
}

/// The pixels of a channels-last tensor as the rows of a matrix.
std::optional<View> pixels(Lowering& to, const View& v) {
  Expressions& x = to.x;
  if (!x.is(v.strides[1], 1) && !x.is(v.sizes[1], 1)) return std::nullopt;
  Id row = none, step = none;  // from pixel to pixel, and what the next slower dimension has to be
  for (size_t d : {4, 3, 2, 0}) {
    if (x.is(v.sizes[d], 1)) continue;
    if (row == none) row = step = v.strides[d];
    if (v.strides[d] != step) return std::nullopt;
    step = x.multiply(step, v.sizes[d]);
  }
  if (row == none) row = v.sizes[1];
  Id count = x.product_of(Ids{v.sizes[0], v.sizes[2], v.sizes[3], v.sizes[4]});
  return View{v.buffer, v.offset, {count, v.sizes[1]}, {row, x.constant(1)}};
}

/// A convolution that reads one pixel for one result: a product of pixels and weights. Of what a
/// transposed one has added to its end none is read.
std::optional<Product> as_product(Lowering& to, const Convolution& c) {
  Expressions& x = to.x;
  bool reads_one = c.dtype == TN_F32 && c.groups == 1;
  for (size_t d = 0; d < 3; ++d)
    reads_one &= x.is(c.weights.sizes[2 + d], 1) && c.stride[d] == 1 && c.padding[d] == 0 &&
                 c.source.sizes[2 + d] == c.result.sizes[2 + d];
  if (!reads_one) return std::nullopt;
  std::optional<View> left = pixels(to, c.source), result = pixels(to, c.result);
  if (!left || !result) return std::nullopt;
  const View& w = c.weights;
  Product out;
  out.left = *left;
  out.right = {w.buffer, w.offset, {w.sizes[1], w.sizes[0]}, {w.strides[1], w.strides[0]}};
  out.result = *result;
  out.bias = c.bias;
  out.name = c.name;
  return out;
}

/// Others than a convolution read its source where that lies, not by computing it again: what comes
/// before it can then be a part of the step before.
void share_source(Lowering& to, const node& n) {
  std::optional<Tensor>& t = to.tensors[n.args[0].u.value];
  if (to.options.shares_images && t && !to.as_view(*t))
    t = to.realised(*t, to.name_of(n.args[0].u.value).c_str());
}

bool convolution(Lowering& to, const node& n) {
  share_source(to, n);
  const Tensor source = to.tensor_arg(n.args[0]), weights = to.tensor_arg(n.args[1]);
  const Tensor* bias = to.is_tensor(n.args[2]) ? &to.tensor_arg(n.args[2]) : nullptr;
  if (!can_convolve(source, weights) || (bias && bias->dtype != source.dtype)) return false;
  if (int_arg(n.args[6])) return transposed_convolution(to, n);
  Convolution c;
  c.name = to.name_of(n.first_result);
  fill_geometry(n, 3, 8, source.ndim(), c);
  c.may_transform = to.options.may_transform;
  Ids sizes = to.sizes_of(n.first_result);
  std::optional<Tensor> made = convolved(to, std::move(c), source, weights, bias, sizes);
  if (made) give(to, n.first_result, *made);
  return made.has_value();
}

constexpr Rule matrix_table[] = {
    {"aten.mm.default", multiply},
    {"aten.bmm.default", multiply},
    {"aten.addmm.default", multiply_add},
    {"aten.baddbmm.default", multiply_add},
    {"aten.convolution.default", convolution},
    {"aten.convolution_backward.default", convolution_backward},
};

}  // namespace

std::span<const Rule> matrix_rules() { return matrix_table; }

View with_space(Expressions& x, View v) {
  while (v.sizes.size() < 5) {
    v.strides.insert(v.strides.begin() + 2, x.multiply(v.strides[2], v.sizes[2]));
    v.sizes.insert(v.sizes.begin() + 2, x.constant(1));
  }
  return v;
}
View future_view(Lowering& to, const Ids& sizes) {
  return with_space(to.x, {none, to.x.constant(0), sizes, to.image_layout(sizes)});
}

bool has_convolutions(const tenon::plugin::graph& graph) {
  for (uint32_t i = 0; i < graph.size(); ++i)
    if (tenon::plugin::sv(graph.at(i).op_name).starts_with("aten.convolution")) return true;
  return false;
}

bool can_convolve(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && is_floating(a.dtype) && a.ndim() == b.ndim() && a.ndim() >= 3 &&
         a.ndim() <= 5;
}

Tensor widened(Lowering& to, const Tensor& t) {
  int32_t dtype = compute_type(t.dtype);
  if (t.dtype == dtype) return t;
  return to.make(dtype, t.sizes,
                 [&](std::span<const Id> i) { return to.x.cast(to.at(t, i), dtype); });
}
void give(Lowering& to, uint32_t value, const Tensor& t) {
  int32_t dtype = to.info(value).dtype;
  if (dtype == t.dtype) return to.set(value, t);
  to.set(value, to.make(dtype, t.sizes,
                        [&](std::span<const Id> i) { return to.x.cast(to.at(t, i), dtype); }));
}

View activation_view(Lowering& to, const Tensor& t, int32_t dtype, const std::string& name) {
  View v = to.view_of(t.dtype == dtype ? t : widened(to, t), name.c_str());
  bool is_fit = dtype != TN_F64 || to.x.is(v.strides[1], 1) || to.x.is(v.sizes[1], 1);
  if (is_fit) return with_space(to.x, v);
  Id buffer = to.new_buffer(dtype, t.sizes, to.channels_last(t.sizes), name.c_str());
  to.stored(t, buffer, name.c_str());
  return with_space(to.x, to.whole(buffer));
}

// Libraries have few convolutions of these with functions behind them; a bias that is a function of
// its own joins those that follow, a pooling among them.
static bool has_bias_apart(Lowering& to, const Convolution& c) {
  constexpr int64_t few_channels = 8;
  if (!to.options.adds_biases_apart) return false;
  auto channels = to.x.number_of(c.source.sizes[1]);
  return is_narrow(c.dtype) || (channels && *channels < few_channels);
}

std::optional<Tensor> convolved(Lowering& to, Convolution c, const Tensor& source,
                                const Tensor& weights, const Tensor* bias, const Ids& sizes) {
  const char* name = c.name.c_str();
  c.source = future_view(to, source.sizes);
  c.weights = future_view(to, weights.sizes);
  c.result = future_view(to, sizes);
  if (bias) c.bias = View{none, to.x.constant(0), bias->sizes, {to.x.constant(1)}};
  std::optional<int32_t> dtype = computed_in(to, c, source.dtype, source.ndim());
  if (!dtype) return std::nullopt;
  auto view = [&](const Tensor& t) {
    return to.view_of(t.dtype == *dtype ? t : widened(to, t), name);
  };
  c.dtype = *dtype;
  c.source = activation_view(to, source, *dtype, c.name);
  c.weights = with_space(to.x, view(weights));
  if (bias) c.bias = view(*bias);
  Id buffer = to.new_buffer(c.dtype, sizes, to.image_layout(sizes), name);
  c.result = with_space(to.x, to.whole(buffer));
  if (std::optional<Product> product = as_product(to, c)) {
    to.program.steps.push_back(std::move(*product));
    return to.over(buffer);
  }
  bool is_apart = bias && has_bias_apart(to, c);
  if (is_apart) c.bias.reset();
  to.program.steps.push_back(std::move(c));
  Tensor sums = to.over(buffer);
  if (!is_apart) return sums;
  int32_t computed = compute_type(*dtype);
  return to.make(*dtype, sizes, [&](std::span<const Id> i) {
    Id plus = to.x.cast(to.at(*bias, Ids{i[1]}), computed);
    return to.x.cast(to.x.apply(TN_F_ADD, computed, to.x.cast(to.at(sums, i), computed), plus),
                     *dtype);
  });
}

namespace {

// Images that lie channels-last here are contiguous to the host's op: it hands their order on to its
// result, which would have to be copied, and its kernels are made for that order.
View view_in_order(Lowering& to, uint32_t v, const char* name) {
  const Tensor& t = *to.tensors[v];
  bool is_image = to.options.optimizes_layout && t.ndim() >= 4;
  Ids promised = is_image ? to.arguments.indices_of(to.info(v).stride_dims()) : Ids();
  if (!is_image || promised != to.contiguous(t.sizes)) return to.view_of(t, name);
  std::optional<View> view = to.as_view(t);
  auto is_given = [&](Id buffer) {
    Buffer::Place place = to.program.buffers[buffer].place;
    return place == Buffer::Place::input || place == Buffer::Place::constant;
  };
  if (view && (view->strides == promised || is_given(view->buffer))) return *view;
  Id buffer = to.new_buffer(t.dtype, t.sizes, promised, name);
  to.stored(t, buffer, name);
  return to.whole(buffer);
}

void add_operand(Lowering& to, Extern& e, uint32_t v) {
  if (v == TN_NO_VALUE) return;
  auto info = to.info(v);
  if (info.is_tensor())
    e.tensors.emplace(v, e.looks_by_place ? promised_view(to, v, e.name.c_str())
                                          : view_in_order(to, v, e.name.c_str()));
  else if (info.kind == TN_VAL_SYMINT)
    e.numbers.emplace(v, to.arguments.index_of({0, info.expr, 0}));
  else
    throw tenon::plugin::declined(e.name + ": an operand is not a tensor");
}

/// The memory that a view may be of, where the host makes it; none: its results are memory of their
/// own.
Id shown_by(const Extern& e, const node& n) {
  bool is_view = (n.tags & (TN_TAG_VIEW | TN_TAG_MAYBE_ALIAS)) != 0;
  bool is_of_first = is_view && n.n_args > 0 && n.args[0].kind == TN_ARG_VALUE;
  auto first = is_of_first ? e.tensors.find(n.args[0].u.value) : e.tensors.end();
  return first == e.tensors.end() ? none : first->second.buffer;
}

}  // namespace

void lower_extern(Lowering& to, const node& n) {
  Extern e;
  e.op = n.op;
  e.name = std::string(sv(n.op_name));
  e.node = std::make_unique<tenon::plugin::owned_node>(n);
  e.looks_by_place = looks_by_place(to.graph, n);
  // What stands behind an opaque argument, a function of the host's, may do anything.
  e.has_effect = (n.tags & TN_TAG_SIDE_EFFECT) != 0 ||
                 std::any_of(n.arguments().begin(), n.arguments().end(),
                             [](const tn_arg& a) { return a.kind == TN_ARG_OPAQUE; });
  e.is_random = (n.tags & TN_TAG_RANDOM) != 0;
  e.is_ordered = e.has_effect || e.is_random;
  for (const tn_arg& a : n.arguments()) {
    if (a.kind == TN_ARG_GRAPH || a.kind > TN_ARG_SYMFLOAT)
      throw tenon::plugin::declined(e.name + ": an argument is of a kind that is not compiled");
    e.symbolic.emplace_back();
    if (auto place = to.arguments.place_of_real(a)) {
      e.reals.emplace(e.symbolic.size() - 1, *place);
      continue;
    }
    if (a.kind == TN_ARG_VALUE) add_operand(to, e, a.u.value);
    if (a.kind == TN_ARG_VALUES)
      for (uint32_t i = 0; i < a.count; ++i) add_operand(to, e, a.u.values[i]);
    if (a.kind == TN_ARG_SYMINT || a.kind == TN_ARG_SYMINTS)
      e.symbolic.back() = to.arguments.index_list(a);
  }
  for (uint32_t r = 0; r < n.n_results; ++r) {
    uint32_t id = n.first_result + r;
    auto v = to.info(id);
    e.results.push_back(none);
    if (!v.is_tensor()) {
      if (v.kind == TN_VAL_SYMINT || v.kind == TN_VAL_NONE) continue;
      throw tenon::plugin::declined(e.name + ": a result is not a tensor");
    }
    Id buffer = to.program.add_buffer(
        {Buffer::Place::foreign, 0, v.dtype, to.arguments.indices_of(v.dims()),
         to.arguments.indices_of(v.stride_dims()), std::string(sv(v.name)), shown_by(e, n)});
    e.results.back() = buffer;
    to.tensors[id] = to.over(buffer);
  }
  to.program.steps.push_back(std::move(e));
}

}  // namespace loopir
