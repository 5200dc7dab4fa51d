// Views to tensors, steps to operations.
#include "problems.h"

#include <limits>

namespace inductor_cuda {

using loopir::Attention;
using loopir::Convolution;
using loopir::ConvolutionGradient;
using loopir::EpilogueOp;
using loopir::View;
using Kind = DnnOperation::Kind;
using Place = DnnTensor::Place;

namespace {

std::optional<dnn::DataType> type_of(int32_t dtype) {
  if (dtype == TN_F32) return dnn::data_f32;
  if (dtype == TN_F16) return dnn::data_f16;
  if (dtype == TN_BF16) return dnn::data_bf16;
  return std::nullopt;
}

/// Makes a problem; what cannot be said of it is remembered.
class Maker {
 public:
  explicit Maker(const loopir::Program& program) : program_(program) {}

  std::optional<DnnProblem> made() && {
    if (!is_possible_) return std::nullopt;
    return std::move(out_);
  }
  DnnGraph& graph() { return out_.graph; }
  void fail() { is_possible_ = false; }

  size_t view(const View& v, bool is_result = false) {
    DnnTensor t;
    for (Id size : v.sizes) t.sizes.push_back(number(size));
    for (Id stride : v.strides) t.strides.push_back(number(stride));
    return bound(v, std::move(t), is_result);
  }
  /// With the first `dropped` dimensions of space left out.
  size_t image(const View& v, size_t dropped, bool is_result = false) {
    View flat = v;
    auto erase = [&](loopir::Ids& list) {
      list.erase(list.begin() + 2, list.begin() + 2 + static_cast<std::ptrdiff_t>(dropped));
    };
    erase(flat.sizes), erase(flat.strides);
    return view(flat, is_result);
  }
  /// Elements of one dimension as those of dimension 1 of `rank`.
  size_t channels(const View& v, size_t rank) {
    DnnTensor t;
    int64_t n = number(v.sizes[0]);
    t.sizes.assign(rank, 1), t.strides.assign(rank, n);
    t.sizes[1] = n, t.strides[1] = number(v.strides[0]);
    return bound(v, std::move(t), false);
  }
  size_t between(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                 dnn::DataType dtype = dnn::data_f32) {
    return add({Place::between, dtype, std::move(sizes), std::move(strides)}, {});
  }
  /// Like tensor `t`, in f32.
  size_t between_like(size_t t) {
    return between(graph().tensors[t].sizes, graph().tensors[t].strides);
  }
  /// A tensor between operations as memory that nobody else reads.
  size_t scratch(size_t t) {
    graph().tensors[t].place = Place::memory;
    out_.bindings[t].is_scratch = true;
    return t;
  }
  size_t constant(float value, size_t rank) {
    std::vector<int64_t> ones(rank, 1);
    return add({Place::number, dnn::data_f32, ones, ones}, {.number = value});
  }

 private:
  int64_t number(Id index) {
    auto known = program_.expressions.number_of(index);
    if (!known) fail();
    return known.value_or(0);
  }
  size_t bound(const View& v, DnnTensor t, bool is_result) {
    int32_t dtype = program_.buffers[v.buffer].dtype;
    auto type = type_of(dtype);
    if (!type) fail();
    t.dtype = type.value_or(dnn::data_f32);
    for (int64_t size : t.sizes)
      if (size <= 0) fail();
    return add(std::move(t), {.buffer = v.buffer,
                              .byte_offset = number(v.offset) * loopir::item_size(dtype),
                              .is_result = is_result});
  }
  size_t add(DnnTensor t, DnnBinding b) {
    out_.bindings.push_back(b);
    return out_.graph.add(std::move(t));
  }

  const loopir::Program& program_;
  DnnProblem out_;
  bool is_possible_ = true;
};

/// Dimensions of space that are nothing, of a step whose views are these; two remain.
size_t dropped_of(const loopir::Program& program, std::initializer_list<const View*> views) {
  bool is_flat = true;
  for (const View* v : views) is_flat = is_flat && program.expressions.is(v->sizes[2], 1);
  return is_flat ? 1 : 0;
}

template <class Step>
DnnOperation operation_of(const Step& step, Kind kind, size_t dropped,
                          std::array<size_t, 4> tensors) {
  DnnOperation out{kind, tensors};
  for (size_t d = dropped; d < 3; ++d) {
    out.strides.push_back(step.stride[d]);
    out.paddings.push_back(step.padding[d]);
    out.dilations.push_back(step.dilation[d]);
  }
  return out;
}

/// What is behind a convolution, as far as the library does it.
struct Behind {
  std::optional<View> added;
  bool is_relu = false;
};
std::optional<Behind> behind(const std::vector<EpilogueOp>& epilogue) {
  Behind out;
  for (const EpilogueOp& op : epilogue) {
    if (out.is_relu) return std::nullopt;
    if (op.kind == EpilogueOp::Kind::relu)
      out.is_relu = true;
    else if (op.kind == EpilogueOp::Kind::add && !out.added)
      out.added = op.operand;
    else
      return std::nullopt;
  }
  return out;
}

}  // namespace

// The sum of residual and bias is the order that the library has fast engines for.
std::optional<DnnProblem> problem_of(const loopir::Program& program, const Convolution& c) {
  Maker make(program);
  auto rest = behind(c.epilogue);
  if (!rest) return std::nullopt;
  size_t dropped = dropped_of(program, {&c.source, &c.weights, &c.result});
  size_t weights = make.image(c.weights, dropped), source = make.image(c.source, dropped);
  size_t result = make.image(c.result, dropped, true);
  size_t rank = c.result.sizes.size() - dropped;
  size_t left =
      size_t{c.bias.has_value()} + size_t{rest->added.has_value()} + size_t{rest->is_relu};
  auto next = [&] { return left-- == 0 ? result : make.between_like(result); };
  size_t sums = next();
  make.graph().operations.push_back(
      operation_of(c, Kind::forward, dropped, {weights, source, sums, DnnOperation::absent}));
  auto point = [&](dnn::PointwiseMode mode, size_t other) {
    size_t to = next();
    make.graph().point(mode, sums, other, to);
    sums = to;
  };
  if (rest->added) {
    View added = c.result;  // in its layout
    added.buffer = rest->added->buffer;
    point(dnn::mode_add, make.image(added, dropped));
  }
  if (c.bias) point(dnn::mode_add, make.channels(*c.bias, rank));
  if (rest->is_relu) point(dnn::mode_relu, DnnOperation::absent);
  return std::move(make).made();
}

std::optional<DnnProblem> problem_of(const loopir::Program& program, const ConvolutionGradient& g) {
  Maker make(program);
  size_t dropped = dropped_of(program, {&g.gradient, &g.operand, &g.result});
  const View& weights = g.of_weights ? g.result : g.operand;
  const View& source = g.of_weights ? g.operand : g.result;
  size_t w = make.image(weights, dropped, g.of_weights);
  size_t s = make.image(source, dropped, !g.of_weights);
  size_t r = make.image(g.gradient, dropped);
  make.graph().operations.push_back(operation_of(g,
                                                 g.of_weights ? Kind::of_weights : Kind::of_source,
                                                 dropped, {w, s, r, DnnOperation::absent}));
  return std::move(make).made();
}

namespace {

View transposed(View v) {
  std::swap(v.sizes[2], v.sizes[3]);
  std::swap(v.strides[2], v.strides[3]);
  return v;
}

/// The operations of attention on tensors of all scores, [batch, heads, queries, keys], and of rows.
struct Scores {
  Scores(Maker& maker, size_t query, size_t key_columns)
      : make(maker), g(maker.graph()), type(g.tensors[query].dtype), sizes(g.tensors[query].sizes) {
    sizes[3] = g.tensors[key_columns].sizes[3];
  }
  size_t scores(dnn::DataType dtype = dnn::data_f32) {
    int64_t row = sizes[3], head = row * sizes[2];
    return make.between(sizes, {head * sizes[1], head, row, 1}, dtype);
  }
  size_t rows() {
    return make.between({sizes[0], sizes[1], sizes[2], 1}, {sizes[1] * sizes[2], sizes[2], 1, 1});
  }
  size_t product(size_t left, size_t right) {
    size_t to = scores();
    g.multiply(left, right, to);
    return to;
  }
  size_t point(dnn::PointwiseMode mode, size_t x, size_t b = DnnOperation::absent) {
    size_t to = scores();
    g.point(mode, x, b, to);
    return to;
  }
  size_t reduced(dnn::ReductionMode mode, size_t from) {
    size_t to = rows();
    g.reduce(mode, from, to);
    return to;
  }
  size_t scaled(size_t from, double scale) {
    return point(dnn::mode_mul, from, make.constant(static_cast<float>(scale), 4));
  }
  /// -infinity where the key is behind the query.
  size_t causal(size_t from) {
    auto index = [&](int64_t axis) {
      size_t to = point(dnn::mode_index, from);
      g.operations.back().axis = axis;
      return to;
    };
    size_t of_query = index(2), of_key = index(3), is_seen = scores(dnn::data_bool);
    g.point(dnn::mode_ge, of_query, of_key, is_seen);
    size_t seen = scores();
    g.point(dnn::mode_select, from, make.constant(-std::numeric_limits<float>::infinity(), 4), seen,
            is_seen);
    return seen;
  }
  /// With keys as rows, in the operands' type.
  size_t turned(size_t from) {
    int64_t row = sizes[3], head = row * sizes[2];
    size_t to = make.between({sizes[0], sizes[1], sizes[3], sizes[2]},
                             {head * sizes[1], head, 1, row}, type);
    g.reshape(from, to);
    return to;
  }

  Maker& make;
  DnnGraph& g;
  dnn::DataType type;
  std::vector<int64_t> sizes;
};

constexpr int64_t few_keys = 128;

}  // namespace

// softmax(scale * query x key^T) x value, and the logarithms of its sums, which the library's
// patterns have even where nobody reads them.
std::optional<DnnProblem> problem_of(const loopir::Program& program, const Attention& a) {
  if (a.mask) return std::nullopt;
  Maker make(program);
  size_t query = make.view(a.query), key = make.view(transposed(a.key));
  size_t value = make.view(a.value), result = make.view(a.result, true);
  Scores s(make, query, key);
  size_t log_sums = a.log_sums ? make.view(*a.log_sums, true) : s.rows();
  size_t scaled = s.scaled(s.product(query, key), a.scale);
  if (a.is_causal) scaled = s.causal(scaled);
  size_t most = s.reduced(dnn::reduction_max, scaled);
  size_t exponentials = s.point(dnn::mode_exp, s.point(dnn::mode_sub, scaled, most));
  size_t total = s.reduced(dnn::reduction_add, exponentials), logarithm = s.rows();
  s.g.point(dnn::mode_log, total, DnnOperation::absent, logarithm);
  s.g.point(dnn::mode_add, most, logarithm, log_sums);
  size_t shares = s.scores(s.type);
  s.g.point(dnn::mode_div, exponentials, total, shares);
  s.g.multiply(shares, value, result);
  s.g.has_few_keys = s.sizes[3] <= few_keys;
  return std::move(make).made();
}

// shares = exp(scores - log-sums); of the scores: shares * (gradient x value^T - level) * scale,
// where the level of a row is the sum of gradient * result. The library knows this order only, with
// the levels in memory and multiplied by what dropout would leave.
std::optional<DnnProblem> problem_of(const loopir::Program& program,
                                     const loopir::AttentionGradient& step) {
  const Attention& a = step.of;
  if (a.mask) return std::nullopt;
  Maker make(program);
  size_t query = make.view(a.query), key = make.view(transposed(a.key));
  size_t value = make.view(transposed(a.value)), gradient = make.view(step.gradient);
  size_t made = make.view(a.result), log_sums = make.view(*a.log_sums);
  size_t of_query = make.view(step.of_query, true), of_key = make.view(step.of_key, true);
  size_t of_value = make.view(step.of_value, true);
  Scores s(make, query, key);
  const std::vector<int64_t>& rows = s.g.tensors[made].sizes;
  size_t both = make.between(rows, s.g.tensors[made].strides);
  s.g.point(dnn::mode_mul, gradient, made, both);
  size_t sums = s.reduced(dnn::reduction_add, both), level = make.scratch(s.rows());
  s.g.point(dnn::mode_mul, sums, make.constant(1, 4), level);
  size_t scaled = s.scaled(s.product(query, key), a.scale);
  if (a.is_causal) scaled = s.causal(scaled);
  size_t shares = s.point(dnn::mode_exp, s.point(dnn::mode_sub, scaled, log_sums));
  s.g.multiply(s.turned(shares), gradient, of_value);
  size_t less = s.point(dnn::mode_sub, s.product(gradient, value), level);
  size_t of_scores = s.scaled(s.point(dnn::mode_mul, less, shares), a.scale);
  s.g.multiply(s.turned(of_scores), query, of_key);
  const DnnTensor& columns = s.g.tensors[key];
  size_t rows_of_key = make.between(
      {columns.sizes[0], columns.sizes[1], columns.sizes[3], columns.sizes[2]},
      {columns.strides[0], columns.strides[1], columns.strides[3], columns.strides[2]}, s.type);
  s.g.reshape(key, rows_of_key);
  s.g.multiply(of_scores, rows_of_key, of_query);
  return std::move(make).made();
}

std::optional<DnnProblem> problem_of(const loopir::Program& program, const loopir::Item& item) {
  if (auto* c = std::get_if<Convolution>(&item)) return problem_of(program, *c);
  if (auto* g = std::get_if<ConvolutionGradient>(&item)) return problem_of(program, *g);
  if (auto* a = std::get_if<Attention>(&item)) return problem_of(program, *a);
  if (auto* g = std::get_if<loopir::AttentionGradient>(&item)) return problem_of(program, *g);
  return std::nullopt;
}

}  // namespace inductor_cuda
