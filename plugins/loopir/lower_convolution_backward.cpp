// Gradients of convolutions, and transposed convolutions, which are that of a source.
//
// With (s, w, r) for the source, the weights and the result of a convolution, there are three
// calculations: r of s and w; s of r and w; w of s and r. A transposed convolution has s and r
// change places, and so do its gradients.
#include "convolutions.h"

namespace loopir {

using tenon::plugin::node;

namespace {

bool is_plain(const Tensor& t) { return t.dtype == TN_F32 && (t.ndim() == 3 || t.ndim() == 4); }

/// A view in which no element stands for several, which the library does not take.
View distinct_view(Lowering& to, const Tensor& t, const std::string& name) {
  View v = to.view_of(t, name.c_str());
  bool repeats = false;
  for (size_t d = 0; d < v.sizes.size(); ++d)
    repeats |= to.x.is(v.strides[d], 0) && !to.x.is(v.sizes[d], 1);
  if (!repeats) return v;
  Id buffer = to.new_buffer(t.dtype, t.sizes, to.contiguous(t.sizes), name.c_str());
  to.stored(t, buffer, name.c_str());
  return to.whole(buffer);
}

/// The gradient `g` without its operands, into a buffer of these sizes and strides.
Tensor gradient_of(Lowering& to, ConvolutionGradient g, const Tensor& gradient,
                   const Tensor& operand, const Ids& sizes, const Ids& strides) {
  g.gradient = with_height(to, distinct_view(to, gradient, g.name));
  g.operand = with_height(to, distinct_view(to, operand, g.name));
  Id buffer = to.new_buffer(TN_F32, sizes, strides, g.name.c_str());
  g.result = with_height(to, to.whole(buffer));
  to.program.steps.push_back(std::move(g));
  return to.over(buffer);
}

/// As the graph says, so that it lies like the activations that were kept for the backward graph.
Ids promised_strides(Lowering& to, uint32_t value, const Ids& sizes) {
  Ids promised = to.indices_of(to.info(value).stride_dims());
  bool is_last = sizes.size() == 4 && to.x.is(promised[1], 1) && !to.x.is(promised[3], 1);
  return is_last ? to.channels_last(sizes) : to.contiguous(sizes);
}

/// The sum over all but the channels.
Tensor sum_of_channels(Lowering& to, const Tensor& gradient, const std::string& name) {
  Ids others{gradient.sizes[0]};
  others.insert(others.end(), gradient.sizes.begin() + 2, gradient.sizes.end());
  return to.folded(Fold::sum, TN_F32, {gradient.sizes[1]}, others, name.c_str(),
                   [&](std::span<const Id> channel, std::span<const Id> rest) {
                     Ids element{rest[0], channel[0]};
                     element.insert(element.end(), rest.begin() + 1, rest.end());
                     return to.at(gradient, element);
                   });
}

}  // namespace

bool transposed_convolution(Lowering& to, const node& n) {
  const Tensor source = to.tensor_arg(n.args[0]), weights = to.tensor_arg(n.args[1]);
  if (!is_plain(source) || !is_plain(weights)) return false;
  ConvolutionGradient g;
  g.name = to.name_of(n.first_result);
  fill_geometry(to, n, 3, 8, source.ndim(), g);
  Ids sizes = to.sizes_of(n.first_result);
  Tensor made = gradient_of(to, std::move(g), source, weights, sizes, to.channels_last(sizes));
  if (to.is_tensor(n.args[2])) {
    const Tensor bias = to.tensor_arg(n.args[2]), sums = made;
    made = to.make(TN_F32, sizes, [&](std::span<const Id> i) {
      return to.x.apply(TN_F_ADD, TN_F32, to.at(sums, i), to.at(bias, i.subspan(1, 1)));
    });
  }
  to.set(n.first_result, made);
  return true;
}

bool convolution_backward(Lowering& to, const node& n) {
  const Tensor gradient = to.tensor_arg(n.args[0]), source = to.tensor_arg(n.args[1]);
  const Tensor weights = to.tensor_arg(n.args[2]);
  if (!is_plain(gradient) || !is_plain(source) || !is_plain(weights)) return false;
  bool is_transposed = to.int_arg(n.args[7]) != 0;
  std::string name = to.name_of(n.first_result);
  auto is_wanted = [&](uint32_t r) { return to.info(n.first_result + r).is_tensor(); };
  auto geometry = [&](auto step, uint32_t r) {
    step.name = to.name_of(n.first_result + r);
    fill_geometry(to, n, 4, 9, source.ndim(), step);
    return step;
  };
  if (is_wanted(0) && is_transposed)
    to.set(n.first_result,
           convolved(to, geometry(Convolution{}, 0), gradient, weights, nullptr, source.sizes));
  else if (is_wanted(0))
    to.set(n.first_result,
           gradient_of(to, geometry(ConvolutionGradient{}, 0), gradient, weights, source.sizes,
                       promised_strides(to, n.first_result, source.sizes)));
  if (is_wanted(1)) {
    ConvolutionGradient g = geometry(ConvolutionGradient{}, 1);
    g.of_weights = true;
    to.set(n.first_result + 1, gradient_of(to, std::move(g), is_transposed ? source : gradient,
                                           is_transposed ? gradient : source, weights.sizes,
                                           to.contiguous(weights.sizes)));
  }
  if (is_wanted(2))
    to.set(n.first_result + 2, sum_of_channels(to, gradient, to.name_of(n.first_result + 2)));
  return true;
}

}  // namespace loopir
