// Copies of images, and whether there is a plan.
#include "steps.h"

namespace inductor_cuda {

using loopir::Attention;
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
  if (!has_dnn_plan(l_.program, loopir::Item(step), device_, options_)) {
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

bool DnnSteps::add(const Convolution& given) {
  if (!is_known({&given.source, &given.weights, &given.result}, given)) return false;
  size_t before = l_.steps.size();
  Convolution c = given;
  int64_t channels = filled_channels(c.source, c.groups);
  c.source = image(c.source, channels, c.name);
  bool is_filled = !x_.is(given.source.sizes[1], channels);
  c.weights = image(c.weights, is_filled ? channels : *x_.number_of(c.weights.sizes[1]), c.name);
  bool is_direct = is_channels_last(c.result) && l_.dtype_of(c.result) == c.dtype;
  if (!is_direct) c.result = channels_last(c.dtype, c.result.sizes, c.name);
  if (!c.bias || has_dnn_plan(l_.program, loopir::Item(c), device_, options_))
    return keep(std::move(c), before, given.result);
  return keep_without_bias(std::move(c), before, given.result);
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

bool DnnSteps::add(const ConvolutionGradient& given) {
  if (!is_known({&given.gradient, &given.operand, &given.result}, given)) return false;
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

bool DnnSteps::add(const Attention& given) {
  int32_t dtype = l_.dtype_of(given.query);
  bool is_plain = (dtype == TN_F16 || dtype == TN_BF16) && !given.mask;
  if (!is_plain) return false;
  int64_t work = 4;
  for (Id factor : {given.query.sizes[0], given.query.sizes[1], given.query.sizes[2],
                    given.query.sizes[3], given.key.sizes[2]}) {
    auto known = x_.number_of(factor);
    if (!known || *known <= 0) return false;
    work = work > least_attention_work ? work : work * *known;
  }
  bool has_heads = *x_.number_of(given.query.sizes[3]) <= most_channels &&
                   given.value.sizes[3] == given.query.sizes[3];
  for (const View* v : {&given.query, &given.key, &given.value, &given.result})
    has_heads = has_heads && is_readable(*v);
  if (!has_heads || work < least_attention_work) return false;
  size_t before = l_.steps.size();
  Attention a = given;
  Ids rows = a.query.sizes;
  rows[3] = x_.constant(1);
  a.log_sums = l_.temporary(TN_F32, rows, a.name);
  return keep(std::move(a), before, given.result);
}

}  // namespace inductor_cuda
