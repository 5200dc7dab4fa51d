// Normalisations and softmax: reductions over a row and pointwise ops, which fusion makes one
// kernel again.
#include "loopir/lower/reductions.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::node;

namespace {

/// The tensor argument, or none.
const Tensor* optional_arg(Lowering& to, const tn_arg& a) {
  return to.is_tensor(a) ? &to.tensor_arg(a) : nullptr;
}

/// 1 / sqrt(variance + eps)
Id inverse_deviation(Expressions& x, Id variance, double eps, int32_t dtype) {
  return x.apply(TN_F_RSQRT, dtype, x.apply(TN_F_ADD, dtype, variance, x.number(eps, dtype)));
}

/// (e - mean) * rstd * weight + bias; weight and bias may be none.
Id normalised(Expressions& x, int32_t dtype, Id e, Id mean, Id rstd, Id weight, Id bias) {
  Id out = x.apply(TN_F_MUL, dtype, x.apply(TN_F_SUB, dtype, x.cast(e, dtype), mean), rstd);
  if (weight != none) out = x.apply(TN_F_MUL, dtype, out, x.cast(weight, dtype));
  return bias == none ? out : x.apply(TN_F_ADD, dtype, out, x.cast(bias, dtype));
}

/// A statistic as result r of the node, whose dimensions of size 1 stand for folded ones.
void give_statistic(Lowering& to, const node& n, uint32_t r, const Tensor& statistic,
                    const Element& finish) {
  auto v = to.info(n.first_result + r);
  Ids sizes = to.arguments.indices_of(v.dims());
  to.set(n.first_result + r, to.make(v.dtype, sizes, [&](std::span<const Id> indices) {
    return to.x.cast(finish(to.at(statistic, indices.first(statistic.ndim()))), v.dtype);
  }));
}

bool layer_norm(Lowering& to, const node& n) {
  Tensor t = to.tensor_arg(n.args[0]);
  size_t folded = to.arguments.index_list(n.args[1]).size();
  if (!is_floating(t.dtype)) return false;
  std::string name = to.name_of(n.first_result);
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  std::vector<int64_t> which;
  for (size_t d = t.ndim() - folded; d < t.ndim(); ++d) which.push_back(static_cast<int64_t>(d));
  Dimensions dims(t.ndim(), which);
  t = to.cheap(t, name.c_str());
  Moments m = moments(to, t, dims, name);
  double eps = number_arg(n.args[4]);
  const Tensor *weight = optional_arg(to, n.args[2]), *bias = optional_arg(to, n.args[3]);
  Tensor rstd = to.make(dtype, m.variance.sizes, [&](std::span<const Id> i) {
    return inverse_deviation(x, to.at(m.variance, i), eps, dtype);
  });
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, t.sizes, [&](std::span<const Id> i) {
    std::span<const Id> row = i.first(t.ndim() - folded);
    Id w = weight ? to.broadcast_at(*weight, i, t.sizes) : none;
    Id b = bias ? to.broadcast_at(*bias, i, t.sizes) : none;
    return x.cast(normalised(x, dtype, to.at(t, i), to.at(m.mean, row), to.at(rstd, row), w, b),
                  v.dtype);
  }));
  auto as_is = [](Id value) { return value; };
  give_statistic(to, n, 1, mean_of_finite(to, m, dtype), as_is);
  give_statistic(to, n, 2, rstd, as_is);
  return true;
}

// The channels of a group and their positions are folded.
bool group_norm(Lowering& to, const node& n) {
  Tensor t = to.tensor_arg(n.args[0]);
  if (!is_floating(t.dtype) || t.ndim() < 2) return false;
  std::string name = to.name_of(n.first_result);
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  Id groups = x.constant(int_arg(n.args[6]));
  Id each = x.floordiv(t.sizes[1], groups);
  t = to.cheap(t, name.c_str());
  Ids sizes{t.sizes[0], groups, each};
  sizes.insert(sizes.end(), t.sizes.begin() + 2, t.sizes.end());
  Tensor grouped = to.make(t.dtype, sizes, [&](std::span<const Id> i) {
    Ids inner(i.begin() + 1, i.end());
    inner[0] = i[0];
    inner[1] = x.add(x.multiply(i[1], each), i[2]);
    return to.at(t, inner);
  });
  std::vector<int64_t> which;
  for (size_t d = 2; d < sizes.size(); ++d) which.push_back(static_cast<int64_t>(d));
  Moments m = moments(to, grouped, Dimensions(sizes.size(), which), name);
  double eps = number_arg(n.args[7]);
  const Tensor *weight = optional_arg(to, n.args[1]), *bias = optional_arg(to, n.args[2]);
  Tensor rstd = to.make(dtype, m.variance.sizes, [&](std::span<const Id> i) {
    return inverse_deviation(x, to.at(m.variance, i), eps, dtype);
  });
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, t.sizes, [&](std::span<const Id> i) {
    Ids group{i[0], x.floordiv(i[1], each)}, channel{i[1]};
    Id w = weight ? to.at(*weight, channel) : none, b = bias ? to.at(*bias, channel) : none;
    return x.cast(normalised(x, dtype, to.at(t, i), to.at(m.mean, group), to.at(rstd, group), w, b),
                  v.dtype);
  }));
  auto as_is = [](Id value) { return value; };
  give_statistic(to, n, 1, mean_of_finite(to, m, dtype), as_is);
  give_statistic(to, n, 2, rstd, as_is);
  return true;
}

struct BatchNorm {
  Lowering& to;
  const node& n;
  Tensor t;
  const Tensor *weight, *bias;
  double eps;
  int32_t dtype;

  /// Result 0, with a mean and a variance a channel.
  void give(const Tensor& mean, const Tensor& variance) {
    Expressions& x = to.x;
    auto v = to.info(n.first_result);
    to.set(n.first_result, to.make(v.dtype, t.sizes, [&](std::span<const Id> i) {
      Ids channel{i[1]};
      Id rstd = inverse_deviation(x, x.cast(to.at(variance, channel), dtype), eps, dtype);
      Id w = weight ? to.at(*weight, channel) : none, b = bias ? to.at(*bias, channel) : none;
      Id m = x.cast(to.at(mean, channel), dtype);
      return x.cast(normalised(x, dtype, to.at(t, i), m, rstd, w, b), v.dtype);
    }));
  }
  void give_empty(uint32_t r) {
    auto v = to.info(n.first_result + r);
    to.set(n.first_result + r,
           to.make(v.dtype, to.arguments.indices_of(v.dims()),
                   [&](std::span<const Id>) { return to.x.number(0.0, v.dtype); }));
  }
};

/// A convolution or product, as weights with a dimension of output channels.
struct Layer {
  View *weights = nullptr, *result = nullptr;
  std::optional<View>* bias = nullptr;
  size_t channel = 0;  // dimension of the weights

  explicit Layer(Step& step) {
    if (auto* c = std::get_if<Convolution>(&step)) *this = Layer(c->weights, *c, 0);
    if (auto* p = std::get_if<Product>(&step))
      if (p->right.sizes.size() == 2 && p->alpha == 1) *this = Layer(p->right, *p, 1);
  }
  explicit operator bool() const { return weights; }

 private:
  template <class S>
  Layer(View& weights, S& step, size_t channel)
      : weights(&weights), result(&step.result), bias(&step.bias), channel(channel) {}
};

bool loads(Lowering& to, uint32_t value, Id buffer) {
  bool found = false;
  if (const auto& t = to.tensors[value])
    for_each_load(to.x, t->value, [&](const ValueNode& n) { found |= n.a == buffer; });
  return found;
}

/// Whether one node alone reads a value, and alone what the value is made of the buffer's elements
/// from: by a view, or by any op that lowering found to change nothing.
bool is_for_one_reader(Lowering& to, uint32_t value, Id buffer) {
  if (to.reads[value] != 1 || to.is_output[value]) return false;
  auto v = to.info(value);
  if (v.source != TN_SRC_NODE) return true;
  bool out = true;
  for_each_operand(to.graph.at(v.source_index), [&](uint32_t o) {
    out = out && (!loads(to, o, buffer) || is_for_one_reader(to, o, buffer));
  });
  return out;
}

/// Whether a view has all elements of a layer's result, with the channels in dimension 1.
bool is_whole(const Lowering& to, const View& view, const View& result) {
  return view.buffer == result.buffer && view.offset == result.offset && result.sizes.size() > 1 &&
         view.sizes[1] == result.sizes[1] && view.strides[1] == result.strides[1] &&
         to.x.product_of(view.sizes) == to.x.product_of(result.sizes);
}

/// The step whose whole result is this tensor, taken out, if only this node reads it and everything
/// else about it is parameters.
std::optional<Step> take_layer(Lowering& to, const node& n) {
  auto view = to.as_view(to.tensor_arg(n.args[0]));
  if (!view || !is_for_one_reader(to, n.args[0].u.value, view->buffer)) return std::nullopt;
  for (auto step = to.program.steps.rbegin(); step != to.program.steps.rend(); ++step) {
    Layer layer(*step);
    if (!layer || layer.result->buffer != view->buffer) continue;
    if (!is_whole(to, *view, *layer.result)) return std::nullopt;
    int32_t dtype = to.program.buffers[layer.weights->buffer].dtype;
    bool is_exact = dtype == TN_F32 || (is_narrow(dtype) && !to.options.rounds_narrow);
    if (!is_exact) return std::nullopt;
    bool is_static = to.is_parameter(layer.weights->buffer) &&
                     (!*layer.bias || to.is_parameter((*layer.bias)->buffer));
    for (const tn_arg& a : n.arguments().subspan(1, 4))
      if (to.is_tensor(a)) {
        auto parameter = to.as_view(to.tensor_arg(a));
        is_static &= parameter && to.is_parameter(parameter->buffer);
      }
    if (!is_static) return std::nullopt;
    Step out = std::move(*step);
    to.program.steps.erase(std::next(step).base());
    return out;
  }
  return std::nullopt;
}

Tensor tensor_over(Lowering& to, const View& v) {
  return to.make(TN_F32, v.sizes, [&](std::span<const Id> i) {
    Id offset = v.offset;
    for (size_t d = 0; d < i.size(); ++d)
      offset = to.x.add(offset, to.x.multiply(i[d], v.strides[d]));
    int32_t dtype = to.program.buffers[v.buffer].dtype;
    return to.x.cast(to.x.load(v.buffer, offset, dtype), TN_F32);
  });
}

// The scale goes into the weights, the shift into the bias: made once per version of the
// parameters.
bool fold_into_layer(Lowering& to, const node& n) {
  std::optional<Step> step = take_layer(to, n);
  if (!step) return false;
  Layer layer(*step);
  Expressions& x = to.x;
  std::string name = to.name_of(n.first_result);
  const Tensor *weight = optional_arg(to, n.args[1]), *bias = optional_arg(to, n.args[2]);
  const Tensor &mean = to.tensor_arg(n.args[3]), &variance = to.tensor_arg(n.args[4]);
  double eps = number_arg(n.args[6]);
  auto number = [&](const Tensor& t, Id channel) { return x.cast(to.at(t, Ids{channel}), TN_F32); };
  auto scale_of = [&](Id channel) {
    Id rstd = inverse_deviation(x, number(variance, channel), eps, TN_F32);
    return weight ? x.apply(TN_F_MUL, TN_F32, rstd, number(*weight, channel)) : rstd;
  };
  int32_t dtype = to.program.buffers[layer.weights->buffer].dtype;
  Tensor weights = tensor_over(to, *layer.weights);
  Tensor scaled = to.make(dtype, weights.sizes, [&](std::span<const Id> i) {
    Id product = x.apply(TN_F_MUL, TN_F32, to.at(weights, i), scale_of(i[layer.channel]));
    return x.cast(product, dtype);
  });
  std::optional<Tensor> old_bias;
  if (*layer.bias) old_bias = tensor_over(to, **layer.bias);
  Tensor shift = to.make(TN_F32, mean.sizes, [&](std::span<const Id> i) {
    Id off = old_bias ? x.apply(TN_F_SUB, TN_F32, to.at(*old_bias, i), number(mean, i[0]))
                      : x.apply(TN_F_NEG, TN_F32, number(mean, i[0]));
    Id out = x.apply(TN_F_MUL, TN_F32, off, scale_of(i[0]));
    return bias ? x.apply(TN_F_ADD, TN_F32, out, number(*bias, i[0])) : out;
  });
  *layer.weights = to.view_of(to.realised(scaled, name.c_str()), name.c_str());
  *layer.bias = to.view_of(to.realised(shift, name.c_str()), name.c_str());
  to.program.steps.push_back(std::move(*step));
  to.set(n.first_result, to.tensor_arg(n.args[0]));
  return true;
}

bool batch_norm_inference(Lowering& to, const node& n) {
  const Tensor& t = to.tensor_arg(n.args[0]);
  if (!is_floating(t.dtype) || t.ndim() < 2) return false;
  if (fold_into_layer(to, n)) {
    BatchNorm rest{to, n, {}, nullptr, nullptr, 0, TN_F32};
    rest.give_empty(1);
    rest.give_empty(2);
    return true;
  }
  BatchNorm norm{to,
                 n,
                 t,
                 optional_arg(to, n.args[1]),
                 optional_arg(to, n.args[2]),
                 number_arg(n.args[6]),
                 compute_type(t.dtype)};
  norm.give(to.tensor_arg(n.args[3]), to.tensor_arg(n.args[4]));
  norm.give_empty(1);
  norm.give_empty(2);
  return true;
}

// (1 - momentum) * running + momentum * statistic
void give_running(Lowering& to, const node& n, uint32_t r, const Tensor& running, double momentum,
                  const Tensor& statistic, const Element& finish) {
  Expressions& x = to.x;
  int32_t dtype = compute_type(running.dtype);
  to.set(n.first_result + r, to.make(running.dtype, running.sizes, [&](std::span<const Id> i) {
    Id kept =
        x.apply(TN_F_MUL, dtype, x.cast(to.at(running, i), dtype), x.number(1 - momentum, dtype));
    Id added = x.apply(TN_F_MUL, dtype, x.cast(finish(to.at(statistic, i)), dtype),
                       x.number(momentum, dtype));
    return x.cast(x.apply(TN_F_ADD, dtype, kept, added), running.dtype);
  }));
}

// A batch without elements leaves the running statistics as they are: that is left to the host.
bool batch_norm_training(Lowering& to, const node& n, double momentum, double eps,
                         bool has_running) {
  Tensor t = to.tensor_arg(n.args[0]);
  if (!is_floating(t.dtype) || t.ndim() < 2) return false;
  std::string name = to.name_of(n.first_result);
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  std::vector<int64_t> which{0};
  for (size_t d = 2; d < t.ndim(); ++d) which.push_back(static_cast<int64_t>(d));
  Dimensions dims(t.ndim(), which);
  if (x.range(x.product_of(dims.folded_sizes(t))).lower <= 0) return false;
  t = to.cheap(t, name.c_str());
  Moments m = moments(to, t, dims, name);
  BatchNorm norm{to, n, t, optional_arg(to, n.args[1]), optional_arg(to, n.args[2]), eps, dtype};
  norm.give(m.mean, m.variance);
  auto as_is = [](Id value) { return value; };
  give_statistic(to, n, 1, m.mean, as_is);
  give_statistic(to, n, 2, m.variance, [&](Id v) { return inverse_deviation(x, v, eps, dtype); });
  if (!has_running) return true;
  Id count = count_of(to, t, dims, dtype);
  Id one_less = x.apply(TN_F_SUB, dtype, count, x.number(1.0, dtype));
  give_running(to, n, 3, to.tensor_arg(n.args[3]), momentum, m.mean, as_is);
  give_running(to, n, 4, to.tensor_arg(n.args[4]), momentum, m.variance, [&](Id v) {
    return x.apply(TN_F_MUL, dtype, v, x.apply(TN_F_DIV, dtype, count, one_less));
  });
  return true;
}

bool batch_norm_functional(Lowering& to, const node& n) {
  if (!int_arg(n.args[5])) return false;
  return batch_norm_training(to, n, number_arg(n.args[6]), number_arg(n.args[7]), true);
}
bool batch_norm_no_stats(Lowering& to, const node& n) {
  if (!int_arg(n.args[3])) return false;
  return batch_norm_training(to, n, number_arg(n.args[4]), number_arg(n.args[5]), false);
}

/// exp(x - max) / sum, or its logarithm. Rows of -inf only give NaN, or 0 where `safe`.
bool softmax(Lowering& to, const node& n, bool logarithm, bool safe) {
  Tensor t = to.tensor_arg(n.args[0]);
  auto v = to.info(n.first_result);
  if (!is_floating(t.dtype) || t.ndim() == 0) return false;
  std::string name = to.name_of(n.first_result);
  Expressions& x = to.x;
  int32_t dtype = compute_type(v.dtype);
  int64_t which[] = {int_arg(n.args[1])};
  Dimensions dims(t.ndim(), which);
  size_t dim = dimension(which[0], t.ndim());
  t = to.cheap(t, name.c_str());
  auto as_is = [&](Id e) { return x.cast(e, dtype); };
  Tensor highest = fold_dimensions(to, t, dims, Fold::maximum, dtype, name, as_is);
  auto row_of = [&](std::span<const Id> i) {
    Ids row(i.begin(), i.end());
    row.erase(row.begin() + static_cast<int64_t>(dim));
    return row;
  };
  Tensor shifted = to.make(dtype, t.sizes, [&](std::span<const Id> i) {
    Id top = to.at(highest, row_of(i));
    if (safe) {
      Id lowest = x.number(-std::numeric_limits<double>::infinity(), dtype);
      Id is_empty = x.apply(TN_F_EQ, TN_BOOL, top, lowest);
      top = x.apply(TN_F_SELECT, dtype, is_empty, x.number(0.0, dtype), top);
    }
    return x.apply(TN_F_SUB, dtype, as_is(to.at(t, i)), top);
  });
  Tensor powers = to.make(dtype, t.sizes, [&](std::span<const Id> i) {
    return x.apply(TN_F_EXP, dtype, to.at(shifted, i));
  });
  if (!logarithm) powers = to.realised(powers, name.c_str());
  Tensor sum = fold_dimensions(to, powers, dims, Fold::sum, dtype, name, as_is);
  to.set(n.first_result, to.make(v.dtype, t.sizes, [&](std::span<const Id> i) {
    Id total = to.at(sum, row_of(i));
    if (logarithm)
      return x.cast(x.apply(TN_F_SUB, dtype, to.at(shifted, i), x.apply(TN_F_LOG, dtype, total)),
                    v.dtype);
    if (safe) {
      Id is_empty = x.apply(TN_F_EQ, TN_BOOL, total, x.number(0.0, dtype));
      total = x.apply(TN_F_SELECT, dtype, is_empty, x.number(1.0, dtype), total);
    }
    return x.cast(x.apply(TN_F_DIV, dtype, to.at(powers, i), total), v.dtype);
  }));
  return true;
}

bool plain_softmax(Lowering& to, const node& n) { return softmax(to, n, false, false); }
bool log_softmax(Lowering& to, const node& n) { return softmax(to, n, true, false); }
bool safe_softmax(Lowering& to, const node& n) { return softmax(to, n, false, true); }

constexpr Rule norm_table[] = {
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.native_group_norm.default", group_norm},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm_inference},
    {"aten._native_batch_norm_legit_functional.default", batch_norm_functional},
    {"aten._native_batch_norm_legit.no_stats", batch_norm_no_stats},
    {"aten._softmax.default", plain_softmax},
    {"aten._log_softmax.default", log_softmax},
    {"aten._safe_softmax.default", safe_softmax},
};

}  // namespace

std::span<const Rule> norm_rules() { return norm_table; }

bool has_statistics_of_channels(std::string_view op) {
  auto rule = std::ranges::find(norm_table, op, &Rule::op);
  constexpr decltype(Rule::lower) kinds[] = {group_norm, batch_norm_functional,
                                             batch_norm_no_stats};
  return rule != std::end(norm_table) && std::ranges::find(kinds, rule->lower) != std::end(kinds);
}

}  // namespace loopir
