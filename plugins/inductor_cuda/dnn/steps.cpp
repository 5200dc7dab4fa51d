// Copies of images, and whether there is a plan.
#include "steps.h"

namespace inductor_cuda {

using loopir::Attention;
using loopir::AttentionGradient;
using loopir::Convolution;
using loopir::ConvolutionGradient;
using loopir::none;
using loopir::View;

namespace {

constexpr int64_t vector_bytes = 16;  // of an access
/// Less is done by products and a softmax before the library has made its kernel.
constexpr int64_t least_attention_work = int64_t{1} << 24;  // multiplications and additions
constexpr int64_t most_channels = 128;                      // of a head

bool is_same_place(const View& a, const View& b) { return a.buffer == b.buffer; }
bool is_served(int32_t dtype) { return dtype == TN_F32 || dtype == TN_F16 || dtype == TN_BF16; }

}  // namespace

template <class Step>
bool DnnSteps::is_known(std::initializer_list<const View*> views, const Step& step) const {
  if (!is_served(step.dtype)) return false;
  for (const View* v : views)
    for (Id size : v->sizes)
      if (x_.number_of(size).value_or(0) <= 0) return false;
  return true;
}

bool DnnSteps::is_channels_last(const View& v) const {
  Id stride = x_.constant(1);
  for (size_t d : {size_t{1}, size_t{4}, size_t{3}, size_t{2}, size_t{0}}) {
    if (v.strides[d] != stride && !x_.is(v.sizes[d], 1)) return false;
    stride = x_.multiply(stride, v.sizes[d]);
  }
  return true;
}

View DnnSteps::channels_last(int32_t dtype, const Ids& sizes, const std::string& name) {
  View out = l_.temporary(dtype, sizes, name);
  Id stride = x_.constant(1);
  for (size_t d : {size_t{1}, size_t{4}, size_t{3}, size_t{2}, size_t{0}}) {
    out.strides[d] = stride;
    stride = x_.multiply(stride, sizes[d]);
  }
  l_.program.buffers[out.buffer].strides = out.strides;
  return out;
}

// Channels from the image's on are zeros.
View DnnSteps::image(const View& v, int64_t channels, const std::string& name) {
  bool is_filled = !x_.is(v.sizes[1], channels);
  if (!is_filled && is_channels_last(v)) return v;
  Ids sizes = v.sizes;
  sizes[1] = x_.constant(channels);
  View out = channels_last(l_.dtype_of(v), sizes, name);
  Ids i = l_.variables(sizes);
  l_.store(out, i, l_.at(v, i, is_filled ? l_.is_within(i[1], v.sizes[1]) : none), name);
  return out;
}

int64_t DnnSteps::filled_channels(const View& source, int64_t groups) const {
  int64_t channels = *x_.number_of(source.sizes[1]);
  int64_t vector = vector_bytes / loopir::item_size(l_.dtype_of(source));
  bool is_filled = groups == 1 && channels < vector;
  return is_filled ? vector : channels;
}

/// Adds the step with a copy of its result into `to`, or takes back all that was added since.
template <class Step>
bool DnnSteps::keep(Step step, size_t before, const View& to) {
  if (!has_dnn_plan(l_.program, loopir::Item(step), device_, request_)) {
    l_.steps.resize(before);
    return false;
  }
  View made = step.result;
  std::string name = step.name;
  l_.steps.emplace_back(std::move(step));
  if (made.buffer == to.buffer) return true;
  Ids i = l_.variables(to.sizes);
  l_.store(to, i, x_.cast(l_.at(made, i), l_.dtype_of(to)), name);
  return true;
}

/// The channels of a square of 2 x 2 pixels.
struct Square {
  int64_t channels, wide;  // of a pixel; of the square, filled up with zeros
  bool is_dense;           // whether a pixel's channels are neighbours where they are read
};

namespace {

/// A dimension of space with stride 2 as one of half the length with stride 1.
struct Halved {
  int64_t taps;    // of two elements each
  int64_t shift;   // zeros before the first weight
  int64_t zeros;   // before the first element of the source
  int64_t length;  // of the source, in pairs
};

/// Of a channel of the square: its own channel, row and column. What is dense changes fastest.
Ids parts_of(loopir::Expressions& x, const Square& square, Id e) {
  Id two = x.constant(2), own = x.constant(square.channels);
  if (square.is_dense)
    return {x.mod(e, own), x.floordiv(e, x.multiply(own, two)), x.mod(x.floordiv(e, own), two)};
  Id rest = x.floordiv(e, two);
  return {x.mod(rest, own), x.floordiv(rest, own), x.mod(e, two)};
}

/// Weights whose taps of a row are channels, one behind the other: as they lie.
View taps_as_channels(loopir::Expressions& x, View weights, int64_t taps) {
  weights.sizes[1] = x.multiply(weights.sizes[1], x.constant(taps));
  weights.sizes[4] = x.constant(1);
  weights.strides[4] = weights.sizes[1];
  return weights;
}

}  // namespace

/// An image or weights with squares of 2 x 2 pixels as channels, moved by `zeros`.
View DnnSteps::in_squares(const View& v, const Square& square, std::array<int64_t, 2> lengths,
                          std::array<int64_t, 2> zeros, const std::string& name) {
  Ids sizes{v.sizes[0], x_.constant(square.wide), x_.constant(1), x_.constant(lengths[0]),
            x_.constant(lengths[1])};
  View out = channels_last(l_.dtype_of(v), sizes, name);
  Ids i = l_.variables(sizes), parts = parts_of(x_, square, i[1]), from{i[0], parts[0], i[2]};
  Id mask = l_.is_within(i[1], x_.constant(4 * square.channels));
  for (size_t d = 0; d < 2; ++d) {
    Id first = x_.add(x_.multiply(i[3 + d], x_.constant(2)), x_.constant(-zeros[d]));
    from.push_back(x_.add(first, parts[1 + d]));
    mask = l_.both(mask, l_.is_within(from.back(), v.sizes[3 + d]));
  }
  l_.store(out, i, l_.at(v, from, mask), name);
  return out;
}

/// An image whose channels are those of `taps` neighbours in a row, one behind the other.
View DnnSteps::in_rows(const View& v, int64_t taps, const std::string& name) {
  View wide = v;
  wide.sizes[1] = x_.multiply(v.sizes[1], x_.constant(taps));
  wide.sizes[4] = x_.add(v.sizes[4], x_.constant(1 - taps));
  View out = channels_last(l_.dtype_of(v), wide.sizes, name);
  Ids i = l_.variables(wide.sizes);
  l_.store(out, i, l_.at(wide, i), name);
  return out;
}

/// A convolution of few channels with stride 2 as one of four times the channels with stride 1: the
/// pixels of each square of 2 x 2 become channels. The library's engines take whole vectors of
/// channels, which three are not: on an H200 one of 7 x 7 over 64 images of 3 x 224 x 224 takes 239
/// us for 319 in tf32. In 16 bits the squares of a row of taps become channels, too, which makes the
/// image four times as large and fills the tensor cores: 75 to 90 us for 167 in squares and 392
/// without (bf16, cuDNN 9.14).
bool DnnSteps::add_in_squares(const Convolution& given) {
  constexpr int64_t most_channels_of_square = 16, least_taps = 4;
  int64_t channels = *x_.number_of(given.source.sizes[1]);
  int64_t vector = vector_bytes / loopir::item_size(given.dtype);
  bool is_fit = given.groups == 1 && channels < vector && 4 * channels <= most_channels_of_square &&
                x_.is(given.source.sizes[2], 1) && x_.is(given.weights.sizes[2], 1) &&
                given.padding[0] == 0;
  std::array<Halved, 2> halved{};
  for (size_t d = 1; d < 3; ++d) {
    int64_t taps = *x_.number_of(given.weights.sizes[2 + d]), padding = given.padding[d];
    int64_t results = *x_.number_of(given.result.sizes[2 + d]), shift = padding % 2;
    int64_t pairs = (taps - 1 + shift) / 2 + 1;
    is_fit = is_fit && given.stride[d] == 2 && given.dilation[d] == 1 && taps >= least_taps;
    halved[d - 1] = {pairs, shift, padding + shift, results + pairs - 1};
  }
  if (!is_fit) return false;
  size_t before = l_.steps.size();
  // Of f32 too: engines of tensor cores take 16 in 240 us where 12 take them 420.
  Square square{channels, most_channels_of_square, x_.is(given.source.strides[1], 1)};
  Convolution c = given;
  const auto& [h, w] = halved;
  c.source = in_squares(given.source, square, {h.length, w.length}, {h.zeros, w.zeros}, c.name);
  c.weights = in_squares(given.weights, square, {h.taps, w.taps}, {h.shift, w.shift}, c.name);
  for (size_t d = 1; d < 3; ++d) c.stride[d] = 1, c.padding[d] = 0;
  if (loopir::item_size(c.dtype) == 2) {
    c.source = in_rows(c.source, w.taps, c.name);
    c.weights = taps_as_channels(x_, c.weights, w.taps);
  }
  return keep_convolution(std::move(c), before, given.result);
}

bool DnnSteps::add(const Convolution& given) {
  if (!is_known({&given.source, &given.weights, &given.result}, given)) return false;
  if (add_in_squares(given)) return true;
  size_t before = l_.steps.size();
  Convolution c = given;
  int64_t channels = filled_channels(c.source, c.groups);
  c.source = image(c.source, channels, c.name);
  bool is_filled = !x_.is(given.source.sizes[1], channels);
  c.weights = image(c.weights, is_filled ? channels : *x_.number_of(c.weights.sizes[1]), c.name);
  return keep_convolution(std::move(c), before, given.result);
}

/// The same in the dtype of images.
View DnnSteps::rounded(const View& bias, int32_t dtype, const std::string& name) {
  View out = l_.temporary(dtype, bias.sizes, name);
  Ids i = l_.variables(bias.sizes);
  l_.store(out, i, l_.at(bias, i), name);
  return out;
}

// With its bias where the library has an engine for both. In 16 bits it has those that add one of 16
// bits, which a norm's is not: rounding it is no more than what rounding a convolution before its norm
// does in eager ops.
bool DnnSteps::keep_convolution(Convolution c, size_t before, const View& to) {
  bool is_direct = is_channels_last(c.result) && l_.dtype_of(c.result) == c.dtype;
  if (!is_direct) c.result = channels_last(c.dtype, c.result.sizes, c.name);
  auto has_plan = [&](const Convolution& like) {
    return has_dnn_plan(l_.program, loopir::Item(like), device_, request_);
  };
  if (!c.bias || has_plan(c)) return keep(std::move(c), before, to);
  if (request_.options.may_round_bias && l_.dtype_of(*c.bias) != c.dtype) {
    size_t steps = l_.steps.size();
    Convolution narrow = c;
    narrow.bias = rounded(*c.bias, c.dtype, c.name);
    if (has_plan(narrow)) return keep(std::move(narrow), before, to);
    l_.steps.resize(steps);
  }
  return keep_without_bias(std::move(c), before, to);
}

// The bias is added by a loop, which fuses with those behind it.
bool DnnSteps::keep_without_bias(Convolution c, size_t before, const View& to) {
  View bias = *c.bias;
  std::string name = c.name;
  c.bias.reset();
  if (is_same_place(c.result, to)) c.result = channels_last(c.dtype, c.result.sizes, c.name);
  View sums = c.result;
  if (!keep(std::move(c), before, sums)) return false;
  Ids i = l_.variables(to.sizes);
  Id made = x_.apply(TN_F_ADD, TN_F32, x_.cast(l_.at(sums, i), TN_F32),
                     x_.cast(l_.at(bias, {i[1]}), TN_F32));
  l_.store(to, i, x_.cast(made, l_.dtype_of(to)), name);
  return true;
}

/// Whether the source has as many windows as the gradient has pixels. It may have more where a
/// transposed convolution adds to its end, which the library does not know.
bool DnnSteps::is_of_all_windows(const ConvolutionGradient& g) const {
  const View& source = g.of_weights ? g.operand : g.result;
  const View& weights = g.of_weights ? g.result : g.operand;
  for (size_t d = 0; d < 3; ++d) {
    int64_t reach = g.dilation[d] * (*x_.number_of(weights.sizes[2 + d]) - 1) + 1;
    int64_t room = *x_.number_of(source.sizes[2 + d]) + 2 * g.padding[d] - reach;
    if (room / g.stride[d] + 1 != *x_.number_of(g.gradient.sizes[2 + d])) return false;
  }
  return true;
}

bool DnnSteps::add(const ConvolutionGradient& given) {
  if (!is_known({&given.gradient, &given.operand, &given.result}, given) ||
      !is_of_all_windows(given))
    return false;
  size_t before = l_.steps.size();
  ConvolutionGradient g = given;
  auto all = [&](const View& v) { return image(v, *x_.number_of(v.sizes[1]), g.name); };
  g.gradient = all(g.gradient);
  g.operand = all(g.operand);
  bool is_direct = is_channels_last(g.result) && l_.dtype_of(g.result) == g.dtype;
  if (!is_direct) g.result = channels_last(g.dtype, g.result.sizes, g.name);
  return keep(std::move(g), before, given.result);
}

/// Rows of whole vectors, each at a multiple of one.
bool DnnSteps::is_readable(const View& v) const {
  int64_t vector = vector_bytes / loopir::item_size(l_.dtype_of(v));
  auto is_multiple = [&](Id index) {
    auto known = x_.number_of(index);
    return known && *known % vector == 0;
  };
  bool is_whole = x_.is(v.strides[3], 1) && is_multiple(v.sizes[3]) && is_multiple(v.offset);
  for (size_t d = 0; d < 3; ++d)
    is_whole = is_whole && (is_multiple(v.strides[d]) || x_.is(v.sizes[d], 1));
  return is_whole;
}

/// Whether the library may be asked: 16-bit heads of known sizes, rows that it reads as they lie, and
/// enough work.
bool DnnSteps::is_asked(const Attention& a, std::initializer_list<const View*> views) const {
  int32_t dtype = l_.dtype_of(a.query);
  bool is_plain = (dtype == TN_F16 || dtype == TN_BF16) && !a.mask && a.factor == none;
  if (!is_plain) return false;
  int64_t work = 4;
  for (Id factor :
       {a.query.sizes[0], a.query.sizes[1], a.query.sizes[2], a.query.sizes[3], a.key.sizes[2]}) {
    auto known = x_.number_of(factor);
    if (!known || *known <= 0) return false;
    work = work > least_attention_work ? work : work * *known;
  }
  bool has_heads =
      *x_.number_of(a.query.sizes[3]) <= most_channels && a.value.sizes[3] == a.query.sizes[3];
  for (const View* v : views) has_heads = has_heads && is_readable(*v);
  return has_heads && work >= least_attention_work;
}

bool DnnSteps::add(const Attention& given) {
  if (!is_asked(given, {&given.query, &given.key, &given.value, &given.result})) return false;
  return keep(given, l_.steps.size(), given.result);
}

// As the library reads log-sums, rows lie one behind the other.
bool DnnSteps::add(const AttentionGradient& given) {
  const Attention& a = given.of;
  if (!is_asked(a, {&a.query, &a.key, &a.value, &a.result, &given.gradient})) return false;
  AttentionGradient g = given;
  size_t before = l_.steps.size();
  View dense = l_.temporary(TN_F32, a.log_sums->sizes, given.name);
  if (dense.strides != a.log_sums->strides) {
    Ids i = l_.variables(dense.sizes);
    l_.store(dense, i, l_.at(*a.log_sums, i), given.name);
    g.of.log_sums = dense;
  }
  if (!has_dnn_plan(l_.program, loopir::Item(g), device_, request_)) {
    l_.steps.resize(before);
    return false;
  }
  l_.steps.emplace_back(std::move(g));
  return true;
}

}  // namespace inductor_cuda
