// Gradients of convolutions, and transposed convolutions, which are that of a source.
//
// With (s, w, r) for the source, the weights and the result of a convolution, there are three
// calculations: r of s and w; s of r and w; w of s and r. A transposed convolution has s and r
// change places, and so do its gradients.
#include "loopir/lower/convolutions.h"

namespace loopir {

using tenon::plugin::node;

namespace {

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

/// A gradient with all but the places of its tensors.
struct Wanted {
  ConvolutionGradient step;
  Tensor gradient, operand;
  Ids sizes;

  /// What it is computed in; nothing where the host is faster.
  std::optional<int32_t> dtype(Lowering& to) const {
    ConvolutionGradient future = step;
    future.gradient = future_view(to, gradient.sizes);
    future.operand = future_view(to, operand.sizes);
    future.result = future_view(to, sizes);
    return computed_in(to, future, gradient.dtype, gradient.ndim());
  }
  /// Into a buffer of these strides, in the dtype it is computed in or wider.
  Tensor made(Lowering& to, const Ids& strides, int32_t result) && {
    step.dtype = *dtype(to);
    auto view = [&](const Tensor& t, bool is_activation) {
      if (step.dtype == TN_F64 && is_activation)
        return activation_view(to, t, step.dtype, step.name);
      return with_space(to.x,
                        distinct_view(to, t.dtype == step.dtype ? t : widened(to, t), step.name));
    };
    step.gradient = view(gradient, true);
    step.operand = view(operand, step.of_weights);
    int32_t given = step.dtype == TN_F32 ? int32_t{TN_F32} : result;
    Id buffer = to.new_buffer(given, sizes, strides, step.name.c_str());
    step.result = with_space(to.x, to.whole(buffer));
    to.program.steps.push_back(std::move(step));
    return to.over(buffer);
  }
};

/// As the graph says, so that it lies like the activations that were kept for the backward graph.
Ids promised_strides(Lowering& to, uint32_t value, const Ids& sizes) {
  Ids promised = to.arguments.indices_of(to.info(value).stride_dims());
  bool is_last = sizes.size() > 3 && to.x.is(promised[1], 1) && !to.x.is(promised.back(), 1);
  return is_last ? to.channels_last(sizes) : to.contiguous(sizes);
}

/// The sum over all but the channels.
Tensor sum_of_channels(Lowering& to, const Tensor& gradient, const std::string& name) {
  Ids others{gradient.sizes[0]};
  others.insert(others.end(), gradient.sizes.begin() + 2, gradient.sizes.end());
  int32_t dtype = compute_type(gradient.dtype);
  return to.folded(Fold::sum, dtype, {gradient.sizes[1]}, others, name.c_str(),
                   [&](std::span<const Id> channel, std::span<const Id> rest) {
                     Ids element{rest[0], channel[0]};
                     element.insert(element.end(), rest.begin() + 1, rest.end());
                     return to.x.cast(to.at(gradient, element), dtype);
                   });
}

}  // namespace

// A bias is added before the result is rounded.
bool transposed_convolution(Lowering& to, const node& n) {
  const Tensor source = to.tensor_arg(n.args[0]), weights = to.tensor_arg(n.args[1]);
  bool has_bias = to.is_tensor(n.args[2]);
  Ids sizes = to.sizes_of(n.first_result);
  Wanted wanted{{}, source, weights, sizes};
  wanted.step.name = to.name_of(n.first_result);
  fill_geometry(n, 3, 8, source.ndim(), wanted.step);
  if (!wanted.dtype(to)) return false;
  bool is_last_step = to.is_output[n.first_result] && !to.reads[n.first_result] && !has_bias;
  Ids strides = is_last_step ? promised_strides(to, n.first_result, sizes) : to.image_layout(sizes);
  Tensor made =
      std::move(wanted).made(to, strides, has_bias ? compute_type(source.dtype) : source.dtype);
  if (has_bias) {
    const Tensor bias = to.tensor_arg(n.args[2]), sums = made;
    made = to.make(sums.dtype, sizes, [&](std::span<const Id> i) {
      Id added = to.x.cast(to.at(bias, i.subspan(1, 1)), sums.dtype);
      return to.x.apply(TN_F_ADD, sums.dtype, to.at(sums, i), added);
    });
  }
  give(to, n.first_result, made);
  return true;
}

namespace {

struct Backward {
  Lowering& to;
  const node& n;
  const Tensor gradient, source, weights;
  bool is_transposed;

  bool is_wanted(uint32_t r) const { return to.info(n.first_result + r).is_tensor(); }
  template <class Step>
  Step geometry(uint32_t r) const {
    Step step;
    step.name = to.name_of(n.first_result + r);
    fill_geometry(n, 4, 9, source.ndim(), step);
    return step;
  }
  Wanted of_source() const {
    return {geometry<ConvolutionGradient>(0), gradient, weights, source.sizes};
  }
  Wanted of_weights() const {
    Wanted out{geometry<ConvolutionGradient>(1), is_transposed ? source : gradient,
               is_transposed ? gradient : source, weights.sizes};
    out.step.of_weights = true;
    return out;
  }

  bool lower() {
    bool is_direct = is_wanted(0) && !is_transposed;
    if ((is_direct && !of_source().dtype(to)) || (is_wanted(1) && !of_weights().dtype(to)))
      return false;
    if (is_wanted(0) && is_transposed) {
      std::optional<Tensor> made =
          convolved(to, geometry<Convolution>(0), gradient, weights, nullptr, source.sizes);
      if (!made) return false;
      give(to, n.first_result, *made);
    }
    if (is_direct)
      give(to, n.first_result,
           of_source().made(to, promised_strides(to, n.first_result, source.sizes), source.dtype));
    if (is_wanted(1))
      give(to, n.first_result + 1,
           of_weights().made(to, to.contiguous(weights.sizes), compute_type(weights.dtype)));
    if (is_wanted(2))
      give(to, n.first_result + 2, sum_of_channels(to, gradient, to.name_of(n.first_result + 2)));
    return true;
  }
};

}  // namespace

bool convolution_backward(Lowering& to, const node& n) {
  Backward backward{to,
                    n,
                    to.tensor_arg(n.args[0]),
                    to.tensor_arg(n.args[1]),
                    to.tensor_arg(n.args[2]),
                    int_arg(n.args[7]) != 0};
  bool is_taken = can_convolve(backward.gradient, backward.source) &&
                  can_convolve(backward.source, backward.weights);
  return is_taken && backward.lower();
}

}  // namespace loopir
